"""The facts about one target: its state as last read, its actions, its freezes and its cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from approvals.requests.operations import target_drift
from approvals.requests.queries import approvals
from approvals.requests.rules import drift
from console.actions.target_drift import target_fields
from ledger.actions.queries import readings
from ledger.record.queries import evidence
from ledger.record.rules.lifecycle import State
from reviews import queries as after
from reviews.verification.rules.verification import VERIFIABLE_IN

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action

LOOKED_THROUGH = 20
"""The newest readings of so many of the newest actions are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetNow:
    """The newest state of a target that a check has read, the action it was read for, and the evidence of it."""

    fields: list[dict[str, str]]
    taken: target_drift.TakenReading
    action_id: UUID


def newest_state(tenant_id: UUID, found: list[Action]) -> TargetNow | None:
    """The newest state of a target read before or after its newest actions; None if there is none, or it was erased."""
    ids = [each.id for each in found[:LOOKED_THROUGH]]
    before = {pointer: action for action, pointer in readings.newest_reading_pointers(tenant_id, ids).items()}
    behind = {run.pointer: run.action_id for run in after.last_runs(tenant_id, ids).values()}
    opened = evidence.open_evidence_many(tenant_id, [*before, *behind], leave_out_lost=True)
    taken = [each for pointer, data in opened.items() if (each := _state_in(pointer, orjson.loads(data)))]
    if not taken:
        return None
    newest = max(taken, key=lambda each: each.state.observed_at)
    about = before.get(newest.pointer) or behind[newest.pointer]
    return TargetNow(fields=target_fields(newest), taken=newest, action_id=about)


def _state_in(pointer: UUID, document: dict[str, Any]) -> target_drift.TakenReading | None:
    """The state in a reading, or in the last reading of a verification run; None if it shows none."""
    of_run = document.get("readings")
    reading = of_run[-1] if of_run else document
    if not reading.get("observed_at"):
        return None
    state = drift.state_of(reading)
    shown = target_drift.TakenReading(pointer=pointer, at=state.observed_at, state=state, shown={}, foreign=False)
    return shown if state.leaves else None


def waiting_approval(tenant_id: UUID, found: Iterable[Action]) -> Approval | None:
    """The newest approval about a target that still waits for people."""
    ids = [each.approval_id for each in found if each.approval_id and State(each.state) is State.VALIDATED]
    waiting = [each for each in approvals.approvals_by_id(tenant_id, ids) if each.state == "REQUESTED"] if ids else []
    return max(waiting, key=lambda each: each.id, default=None)


def unsettled_action(found: Iterable[Action]) -> Action | None:
    """The newest action on a target whose effect may still be read back."""
    return next((each for each in found if State(each.state) in VERIFIABLE_IN and not each.settled), None)
