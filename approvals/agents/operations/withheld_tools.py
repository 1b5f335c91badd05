"""What a gateway holds back of a server's tools, on the record of its session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from approvals.agents.rules import withheld_tools
from approvals.agents.rules.withheld_tools import Withheld
from approvals.gate.operations.calls import NoSuchSession
from approvals.models import Session
from approvals.sessions import queries as sessions_queries
from ledger.record import operations as ledger
from ledger.record.queries import events

_KIND = "surface_withheld"


@dataclass(frozen=True, slots=True)
class Surface:
    """The newest report of a session: what is held back, and since when."""

    at: datetime
    withheld: tuple[Withheld, ...]


def report(
    *, tenant_id: UUID, session_id: UUID, key_actor: UUID, withheld: Iterable[Withheld], at: datetime
) -> Surface | None:
    """Write down what is held back now, unless the record says just that; None while nothing ever was."""
    session = sessions_queries.session_locked(tenant_id, session_id)
    if session is None or session.key_actor != key_actor:
        raise NoSuchSession
    said, before = withheld_tools.told(withheld), newest(session)
    if (before.withheld if before else ()) == said:
        return before
    head = ledger.lock(tenant_id=tenant_id, subject_id=session_id, kind="session")
    happening = ledger.Happening(kind=_KIND, detail={"withheld": [one.document() for one in said]})
    ledger.append(head, happening, actor=ledger.Actor("agent", session.actor_id), at=at)
    return newest(session)


def newest(session: Session) -> Surface | None:
    """The newest report of a session; None where no gateway made one."""
    kept = events.newest_of_kind(session.tenant_id, session.id, _KIND)
    return Surface(kept[0], withheld_tools.read(kept[1].get("withheld") or ())) if kept else None
