"""Takes in the starts that executors kept of the lost part of a record: effects that would otherwise have no record.

An executor tells its starts of the last day when it registers. Those that the record has are nothing new. Each other
one is put on record once, on the subject of the log, and an alarm is raised for people; where the record has the
action, it is put on record there, too, and the action does not run again without a person (`read_first`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from approvals.execution.operations.executors import owned_executor
from approvals.execution.queries import has_attempt
from ledger.actions.queries import readings
from ledger.log.operations.logs import raise_alarm
from ledger.log.queries import log
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound

ALARM = "EFFECT_WITHOUT_RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStart:
    """A start as an executor kept it; `status` is what its tool said, empty if it never did."""

    action_id: UUID
    attempt: int
    tool: str
    target: str
    payload_hash: str
    started_at: datetime
    status: str


def take_in_starts(
    *, tenant_id: UUID, executor_id: str, starts: Iterable[KeptStart], by: ledger.Actor, at: datetime
) -> int:
    """Record those of these starts that are not on record; return the number of new ones."""
    owned_executor(tenant_id, executor_id, by)
    current = log.current_log(tenant_id)
    unknown = [each for each in starts if not has_attempt(tenant_id, each.action_id, each.attempt)]
    if current is None or not unknown:
        return 0
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=current.id, kind="log")
    told = {(each["action_id"], each["attempt"], each["executor_id"]) for each in readings.unrecorded_starts(tenant_id)}
    new = [each for each in unknown if (str(each.action_id), each.attempt, executor_id) not in told]
    for each in new:
        event = _start_event(each, executor_id)
        head = ledger.append(head, event, actor=by, at=at)
        # The record may have lost the action, too.
        with suppress(NotFound):
            action = ledger.lock_subject(tenant_id=tenant_id, subject_id=each.action_id, kind="action")
            ledger.append(action, event, actor=by, at=at)
    if new:
        detail = f"Executors started {len(new)} actions that this record does not have; see the Ledger page."
        raise_alarm(tenant_id=tenant_id, kind=ALARM, detail=detail, at=at)
    return len(new)


def _start_event(start: KeptStart, executor_id: str) -> ledger.NewEvent:
    return ledger.NewEvent(
        kind="start_without_record",
        detail={
            "executor_id": executor_id,
            "action_id": str(start.action_id),
            "attempt": start.attempt,
            "tool": start.tool,
            "target": start.target,
            "payload_hash": start.payload_hash,
            "started_at": instant(start.started_at),
            "status": start.status,
        },
    )
