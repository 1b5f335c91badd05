"""Target drift: compares the baseline of an approval with the newest reading (B31).

The readings are made by reviews and come here through events of the action: `reading_wanted` asks, `reading_taken`
brings the sealed reading. An approval names the reading that it was asked on; nothing of that is ever changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from approvals.models import Approval
from approvals.requests.rules import drift, readings
from approvals.sessions.queries import disclosed_contract
from ledger.actions.queries import actions
from ledger.actions.queries import readings as readings_read
from ledger.catalogue.rules.contract import Contract
from ledger.record import operations as ledger
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen

# A page that is opened again within so short a time shows the reading that it asked for before.
SEEN_FOR = timedelta(seconds=20)


@dataclass(frozen=True, kw_only=True)
class TakenReading:
    """A reading of an action's target: its place in the record, the state that it shows, and `pre` as it is seen."""

    pointer: UUID
    at: datetime
    state: drift.TargetState
    shown: Mapping[str, Any]
    foreign: bool


def newest_reading(tenant_id: UUID, action_id: UUID) -> TakenReading | None:
    """The newest reading of an action's target; None where none was taken, or it was erased."""
    taken = readings_read.readings(tenant_id, action_id)
    found = [(at, detail) for kind, at, detail in taken if kind == "reading_taken"]
    return _opened(tenant_id, UUID(found[-1][1]["pointer"]), found[-1][0]) if found else None


def baseline_of(approval: Approval) -> TakenReading | None:
    """The reading that an approval was asked on."""
    if approval.baseline_pointer is None:
        return None
    return _opened(approval.tenant_id, approval.baseline_pointer, approval.requested_at)


def _opened(tenant_id: UUID, pointer: UUID, at: datetime) -> TakenReading | None:
    try:
        data = evidence.open_evidence(tenant_id, pointer)
    except CannotOpen:
        return None
    if data is None:
        return None
    document = orjson.loads(data)
    return TakenReading(
        pointer=pointer,
        at=at,
        state=drift.state_of(document),
        shown=document.get("shown", {}),
        foreign="wrong_tenant" in document.get("indicators", ()),
    )


def drift_since_request(approval: Approval) -> drift.Drift | None:
    """What changed since people were asked, by the newest reading; None where there is nothing to compare.

    Only a strong reading tells anything: a replica that lags behind has not moved.
    """
    if approval.baseline_pointer is None:
        return None
    now = newest_reading(approval.tenant_id, approval.action_id)
    if now is None or now.pointer == approval.baseline_pointer or not now.state.strong:
        return None
    then = baseline_of(approval)
    if then is None:
        return None
    return drift.compare(then.state, now.state, volatile=_contract(approval).preparation.volatile)


def request_reading(*, approval: Approval, by: ledger.Actor, at: datetime) -> bool:
    """Ask for a reading, because somebody looks at the approval; whether one was asked for."""
    if approval.state != "REQUESTED" or not needs_reading(approval):
        return False
    asked = readings_read.readings(approval.tenant_id, approval.action_id)
    if asked and (asked[-1][0] == "reading_wanted" or at - asked[-1][1] < SEEN_FOR):
        return False
    head = ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action")
    if head.state != "VALIDATED":
        return False
    detail = {"for": "drift", "approval_id": str(approval.id)}
    ledger.append(head, ledger.NewEvent(kind="reading_wanted", detail=detail), actor=by, at=at)
    return True


def needs_reading(approval: Approval) -> bool:
    """Whether the state of the target matters to an approval at all."""
    if approval.baseline_pointer is not None:
        return True
    return readings.wants_baseline(_contract(approval), _predicates(approval))


def _predicates(approval: Approval) -> list[str]:
    action = actions.action(approval.tenant_id, approval.action_id)
    entry = events.entry(approval.tenant_id, action.id, action.seq) if action else None
    return list(entry["intended_outcome"]["expected_predicates"]) if entry else []


def _contract(approval: Approval) -> Contract:
    return disclosed_contract(approval.tenant_id, approval.contract_digest)
