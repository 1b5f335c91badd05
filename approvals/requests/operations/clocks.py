"""Deadlines of approvals, paused by freezes and open questions.

The state of a clock follows from the record alone (`rules.clocks`). This module stores it: the current deadline, since
when it is stopped, and an event for each change. Code that relies on a deadline settles it first, under the approval's
lock, so a missed tick makes no difference.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from approvals.models import Approval, Deadline
from approvals.requests.queries import approvals
from approvals.requests.queries import deadlines as deadlines_queries
from approvals.requests.rules import clocks as rules
from approvals.requests.rules.clocks import Clock
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant

AGAIN = timedelta(seconds=30)
_DEADLINE_COLUMNS = {"PREPARING": "decide_by", "REQUESTED": "decide_by", "APPROVED": "release_by"}


def due_rows(approval: Approval, wanted: rules.Schedule, *, at: datetime) -> list[Deadline]:
    """The deadline rows of a new request: its end, and the steps of its schedule."""
    clock = rules.compute_clock(began=approval.requested_at, allowed=approval.decide_by - approval.requested_at, at=at)
    looks = {str(step): rules.next_check(step, wanted.plan, clock, at=at, again=AGAIN) for step in rules.DeadlineStep}
    looks["approval"] = approval.decide_by
    return [
        Deadline(tenant_id=approval.tenant_id, subject_id=approval.id, what=what, due_at=look)
        for what, look in looks.items()
        if look is not None
    ]


def settle_clock(
    head: ledger.SubjectHead, approval: Approval, *, at: datetime
) -> tuple[ledger.SubjectHead, Clock | None]:
    """Update the deadline of a locked approval and return its clock; None if no deadline runs any more."""
    column = _DEADLINE_COLUMNS.get(head.state)
    if column is None:
        return head, None
    clock = deadlines_queries.clock_of(approval, at=at)
    stored = (getattr(approval, column), approval.paused_at)
    if stored == (clock.latest, clock.stopped_at):
        return head, clock
    head = _record_turn(head, approval, column, clock, at=at)
    setattr(approval, column, clock.latest)
    approval.paused_at = clock.stopped_at
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(
        **{column: clock.latest, "paused_at": clock.stopped_at}
    )
    looked_at = clock.latest if clock.stopped_at is None else min(clock.latest, at + AGAIN)
    Deadline.objects.filter(tenant_id=approval.tenant_id, subject_id=approval.id, what="approval").update(
        due_at=looked_at
    )
    return head, clock


def settle_clock_if_late(head: ledger.SubjectHead, approval: Approval, *, at: datetime) -> ledger.SubjectHead:
    """Settle the clock only if needed: the stored deadline has passed, or the clock is stopped.

    A freeze can only extend a deadline, and an answer settles the clock itself.
    """
    ends_at = approval.release_by if head.state == "APPROVED" else approval.decide_by
    if approval.paused_at is None and (ends_at is None or ends_at > at):
        return head
    return settle_clock(head, approval, at=at)[0]


def _record_turn(
    head: ledger.SubjectHead, approval: Approval, column: str, clock: Clock, *, at: datetime
) -> ledger.SubjectHead:
    detail = {column: instant(clock.latest), "left_s": int(clock.left.total_seconds())}
    if clock.stopped_at is not None:
        detail |= {"since": instant(clock.stopped_at), "because": str(clock.why)}
    kind = "clock_resumed" if clock.stopped_at is None else "clock_stopped"
    return ledger.append(head, ledger.NewEvent(kind=kind, detail=detail), actor=ledger.SYSTEM, at=at)


def refresh_clock(*, tenant_id: UUID, approval_id: UUID, at: datetime) -> bool:
    """Update one approval's clock on a tick; return True if it is stopped now."""
    approval = approvals.approval(tenant_id, approval_id)
    if approval is None:
        return False
    ledger.lock_subject(tenant_id=tenant_id, subject_id=approval.action_id, kind="action")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=approval_id, kind="approval")
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    _, clock = settle_clock(head, approval, at=at)
    return clock is not None and clock.stopped_at is not None
