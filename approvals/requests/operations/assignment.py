"""Claims, assignment, reminders and escalation of open approvals.

None of this decides anything. A claim or an assignment shows who is working on an approval and keeps nobody from
voting; a reminder or an escalation notifies people; if nobody acts in the end, that is recorded (`rules.clocks`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from approvals.gate.rules import proposals
from approvals.models import Approval, Deadline
from approvals.requests.operations.clocks import AGAIN
from approvals.requests.operations.requests import lock_approval
from approvals.requests.queries import approvals
from approvals.requests.queries import deadlines as deadlines_queries
from approvals.requests.rules import assignments, clocks
from approvals.requests.rules.clocks import DeadlineStep
from approvals.voting.queries import votes
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant

OPEN = ("PREPARING", "REQUESTED")
STEPS = {str(step): step for step in DeadlineStep}
_STEP_EVENTS = {
    DeadlineStep.REMIND: "approval_reminded",
    DeadlineStep.ESCALATE: "approval_escalated",
    DeadlineStep.BREACH: "approval_overdue",
}


def claim_approval(*, tenant_id: UUID, approval_id: UUID, by: ledger.Actor, at: datetime) -> assignments.Claim:
    """Claim an approval for a while; the event names who had claimed it before."""
    head, approval = lock_open_approval(tenant_id, approval_id)
    before = assignments.claim_of_another(
        assignments.active_claim(approval.claimed_by, approval.claimed_until, at=at), me=by.id
    )
    until = at + assignments.LIFE
    _update_approval(approval, claimed_by=by.id, claimed_until=until)
    detail = {"until": instant(until), "from": str(before.by) if before else None}
    ledger.append(head, ledger.NewEvent(kind="approval_claimed", detail=detail), actor=by, at=at)
    return assignments.Claim(by.id, until)


def release_claim(*, tenant_id: UUID, approval_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Release a claim before it ends."""
    head, approval = lock_open_approval(tenant_id, approval_id)
    standing = assignments.active_claim(approval.claimed_by, approval.claimed_until, at=at)
    if standing is None or standing.by != by.id:
        raise assignments.NotClaimed
    _update_approval(approval, claimed_by=None, claimed_until=None)
    ledger.append(head, ledger.NewEvent(kind="approval_released"), actor=by, at=at)


def assign_approval(
    *, tenant_id: UUID, approval_id: UUID, to: UUID, among: Collection[UUID], by: ledger.Actor, at: datetime
) -> None:
    """Assign an open approval to an eligible person; the caller has determined `among`."""
    head, approval = lock_open_approval(tenant_id, approval_id)
    if to not in among:
        raise assignments.AssigneeNotEligible
    detail = {"to": str(to), "from": str(approval.assigned_to) if approval.assigned_to else None}
    _update_approval(approval, assigned_to=to)
    ledger.append(head, ledger.NewEvent(kind="approval_assigned", detail=detail), actor=by, at=at)


def suggest_assignee(tenant_id: UUID, eligible: Sequence[UUID], *, at: datetime) -> UUID | None:
    """Return the one of these people with the fewest open approvals."""
    return assignments.least_loaded(eligible, approvals.workload(tenant_id, at=at))


def check_voting_rate(approval: Approval, voter: UUID, *, at: datetime) -> None:
    """Refuse a vote by a person who votes faster than the policy allows (B38)."""
    most = deadlines_queries.policy_of(approval).limits.votes_per_minute
    if most:
        given = votes.vote_times(approval.tenant_id, voter, since=at - proposals.MINUTE, limit=most)
        proposals.check_voting_rate(given, most=most, at=at)


def take_step(*, tenant_id: UUID, approval_id: UUID, step: DeadlineStep, at: datetime) -> bool:
    """Take one step of the schedule if it is due, else reschedule the check; return True if it was taken."""
    head = lock_approval(tenant_id, approval_id)
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    wanted, look = deadlines_queries.schedule_of(approval), None
    if head.state in OPEN:
        clock = deadlines_queries.clock_of(approval, at=at)
        if head.state == "REQUESTED" and clocks.is_due(step, wanted.plan, clock):
            _record_step(head, approval, step, wanted.escalate_to, instant(clock.ends_at), at=at)
            _drop_deadline(tenant_id, approval_id, step)
            return True
        look = clocks.next_check(step, wanted.plan, clock, at=at, again=AGAIN)
        look = max(look, at + timedelta(seconds=1)) if look is not None else None
    if look is None:
        _drop_deadline(tenant_id, approval_id, step)
    else:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what=str(step)).update(due_at=look)
    return False


def _record_step(
    head: ledger.SubjectHead, approval: Approval, step: DeadlineStep, escalate_to: str, decide_by: str, *, at: datetime
) -> None:
    if step is DeadlineStep.REMIND:
        _update_approval(approval, reminded_at=at)
    elif step is DeadlineStep.ESCALATE:
        _update_approval(approval, escalated_at=at)
    detail = {"decide_by": decide_by} | ({} if step is DeadlineStep.REMIND else {"to": escalate_to})
    ledger.append(head, ledger.NewEvent(kind=_STEP_EVENTS[step], detail=detail), actor=ledger.SYSTEM, at=at)


def _drop_deadline(tenant_id: UUID, approval_id: UUID, step: DeadlineStep) -> None:
    Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what=str(step)).delete()


def lock_open_approval(tenant_id: UUID, approval_id: UUID) -> tuple[ledger.SubjectHead, Approval]:
    """Lock an approval that is not decided yet; refuses any other."""
    head = lock_approval(tenant_id, approval_id)
    if head.state not in OPEN:
        raise assignments.NotOpen
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    return head, approval


def _update_approval(approval: Approval, **changed: object) -> None:
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(**changed)
    for name, value in changed.items():
        setattr(approval, name, value)
