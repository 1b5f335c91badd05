"""Records which of a server's tools a gateway withholds from a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from approvals.agents.rules import relevance
from approvals.agents.rules.relevance import WithheldTool
from approvals.models import Session
from approvals.sessions import queries as sessions_queries
from approvals.sessions.operations.sessions import note_use
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound

_KIND = "surface_withheld"


@dataclass(frozen=True, slots=True)
class WithheldReport:
    """The newest report of a session: the withheld tools, and since when."""

    at: datetime
    withheld: tuple[WithheldTool, ...]


def record_report(
    *, tenant_id: UUID, session_id: UUID, key_actor: UUID, withheld: Iterable[WithheldTool], at: datetime
) -> WithheldReport | None:
    """Record the withheld tools if they differ from the last report; return None if there has never been one."""
    session = sessions_queries.lock_session(tenant_id, session_id)
    if session is None or session.key_actor != key_actor:
        raise NotFound("Session")
    note_use(session=session, at=at)
    said, before = relevance.normalise_report(withheld), newest_report(session)
    if (before.withheld if before else ()) == said:
        return before
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=session_id, kind="session")
    happening = ledger.NewEvent(kind=_KIND, detail={"withheld": [one.document() for one in said]})
    ledger.append(head, happening, actor=ledger.Actor("agent", session.actor_id), at=at)
    return newest_report(session)


def newest_report(session: Session) -> WithheldReport | None:
    """Return the newest report of a session, or None if no gateway made one."""
    kept = events.newest_event_of_kind(session.tenant_id, session.id, _KIND)
    return WithheldReport(kept[0], relevance.read_report(kept[1].get("withheld") or ())) if kept else None
