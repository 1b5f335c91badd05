"""Reports: what may be told about an action, made from the record alone, and kept once told (R-RI-14, R-RI-15)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.operations import record as ledger
from ledger.queries import log, record
from ledger.rules.lifecycle import State
from reviews import queries
from reviews.models import Report as Told
from reviews.rules import report as rules
from reviews.rules.report import Report
from reviews.rules.trust import Trust, trust

RECONCILED = 3
"""The level from which only the ledger is missing."""


def trust_of(action: Any, entry: dict[str, Any]) -> Trust:
    """The action's place on the trust ladder; whether it is sealed is asked only where that would lift it."""
    ladder = trust(entry, sealed=False, contradicted=action.contradicted)
    if ladder.level < RECONCILED or not log.is_sealed(action.tenant_id, action.id):
        return ladder
    return trust(entry, sealed=True, contradicted=action.contradicted)


def report_on(action: Any, entry: dict[str, Any], *, level: int | None = None) -> Report:
    """What may be told about an action now; `level` is its place on the trust ladder, where that is known already."""
    done, still_open = _parts(action)
    return rules.report(
        State(action.state),
        entry,
        trust_level=trust_of(action, entry).level if level is None else level,
        contradicted=action.contradicted,
        attested=action.recovery_decision == "HUMAN_ATTESTATION",
        done=done,
        still_open=still_open,
    )


def report_on_new(state: State, entry: dict[str, Any]) -> Report:
    """What may be told about an action that was written just now: nothing has come of it yet."""
    return rules.report(state, entry, trust_level=trust(entry, sealed=False).level)


def _parts(action: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if action.state != State.PARTIALLY_COMMITTED:
        return (), ()
    run = queries.last_run(action.tenant_id, action.id)
    effects = queries.findings(run)["verdict"]["effects"] if run else []
    done = tuple(each["name"] for each in effects if each["found"] == "PRESENT")
    return done, tuple(each["name"] for each in effects if each["found"] != "PRESENT")


def tell(*, action: Any, entry: dict[str, Any], to: UUID, at: datetime) -> Report:
    """The report, remembered as told to `to` on this state of the record; asked again, it is the same fact."""
    told = report_on(action, entry)
    # The event that this state is of: by now the action may have a newer one.
    event = record.event(action.tenant_id, action.id, action.seq)
    Told.objects.bulk_create(
        [
            Told(
                tenant_id=action.tenant_id,
                id=ledger.new_id(at),
                action_id=action.id,
                event_id=event.id,
                code=str(told.code),
                text=told.text,
                completed=told.completed,
                told_to=to,
                at=at,
            )
        ],
        ignore_conflicts=True,
    )
    return told
