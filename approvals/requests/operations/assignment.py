"""Claims, assignment, reminders and escalation of open approvals.

None of this decides anything. A claim and an assignment say who is at it and keep nobody from voting; a reminder and an
escalation tell people; and when nobody has acted in the end, that is on record and nothing else (`rules.deadlines`).
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
_KINDS = {
    DeadlineStep.REMIND: "approval_reminded",
    DeadlineStep.ESCALATE: "approval_escalated",
    DeadlineStep.BREACH: "approval_overdue",
}


def claim_approval(*, tenant_id: UUID, approval_id: UUID, by: ledger.Actor, at: datetime) -> assignments.Claim:
    """Say that you are at it for a while; whoever said so before is on record with it."""
    head, approval = _opened(tenant_id, approval_id)
    before = assignments.claim_of_another(
        assignments.active_claim(approval.claimed_by, approval.claimed_until, at=at), me=by.id
    )
    until = at + assignments.LIFE
    _change(approval, claimed_by=by.id, claimed_until=until)
    detail = {"until": instant(until), "from": str(before.by) if before else None}
    ledger.append(head, ledger.NewEvent(kind="approval_claimed", detail=detail), actor=by, at=at)
    return assignments.Claim(by.id, until)


def release_claim(*, tenant_id: UUID, approval_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Let go of a claim before it is over."""
    head, approval = _opened(tenant_id, approval_id)
    standing = assignments.active_claim(approval.claimed_by, approval.claimed_until, at=at)
    if standing is None or standing.by != by.id:
        raise assignments.NotClaimed
    _change(approval, claimed_by=None, claimed_until=None)
    ledger.append(head, ledger.NewEvent(kind="approval_released"), actor=by, at=at)


def assign_approval(
    *, tenant_id: UUID, approval_id: UUID, to: UUID, among: Collection[UUID], by: ledger.Actor, at: datetime
) -> None:
    """Give an open approval to somebody who may decide it, whom the caller has looked up."""
    head, approval = _opened(tenant_id, approval_id)
    if to not in among:
        raise assignments.AssigneeNotEligible
    detail = {"to": str(to), "from": str(approval.assigned_to) if approval.assigned_to else None}
    _change(approval, assigned_to=to)
    ledger.append(head, ledger.NewEvent(kind="approval_assigned", detail=detail), actor=by, at=at)


def suggest_assignee(tenant_id: UUID, eligible: Sequence[UUID], *, at: datetime) -> UUID | None:
    """Who of these has least to do."""
    return assignments.least_loaded(eligible, approvals.workload(tenant_id, at=at))


def check_voting_rate(approval: Approval, voter: UUID, *, at: datetime) -> None:
    """Refuse a vote of somebody who votes faster than the policy believes that anybody reads (B38)."""
    most = deadlines_queries.policy_of(approval).limits.votes_per_minute
    if most:
        given = votes.vote_times(approval.tenant_id, voter, since=at - proposals.MINUTE, limit=most)
        proposals.check_voting_rate(given, most=most, at=at)


def take_step(*, tenant_id: UUID, approval_id: UUID, step: DeadlineStep, at: datetime) -> bool:
    """Take one step towards the deadline if it is due, or look again when it will be; whether it was taken."""
    head = lock_approval(tenant_id, approval_id)
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    wanted, look = deadlines_queries.schedule_of(approval), None
    if head.state in OPEN:
        clock = deadlines_queries.clock_of(approval, at=at)
        if head.state == "REQUESTED" and clocks.is_due(step, wanted.plan, clock):
            _take(head, approval, step, wanted.escalate_to, instant(clock.ends_at), at=at)
            _forget(approval_id, step)
            return True
        look = clocks.next_check(step, wanted.plan, clock, at=at, again=AGAIN)
        look = max(look, at + timedelta(seconds=1)) if look is not None else None
    if look is None:
        _forget(approval_id, step)
    else:
        Deadline.objects.filter(subject_id=approval_id, what=str(step)).update(due_at=look)
    return False


def _take(
    head: ledger.SubjectHead, approval: Approval, step: DeadlineStep, escalate_to: str, decide_by: str, *, at: datetime
) -> None:
    if step is DeadlineStep.REMIND:
        _change(approval, reminded_at=at)
    elif step is DeadlineStep.ESCALATE:
        _change(approval, escalated_at=at)
    detail = {"decide_by": decide_by} | ({} if step is DeadlineStep.REMIND else {"to": escalate_to})
    ledger.append(head, ledger.NewEvent(kind=_KINDS[step], detail=detail), actor=ledger.SYSTEM, at=at)


def _forget(approval_id: UUID, step: DeadlineStep) -> None:
    Deadline.objects.filter(subject_id=approval_id, what=str(step)).delete()


def _opened(tenant_id: UUID, approval_id: UUID) -> tuple[ledger.SubjectHead, Approval]:
    head = lock_approval(tenant_id, approval_id)
    if head.state not in OPEN:
        raise assignments.NotOpen
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    return head, approval


def _change(approval: Approval, **changed: object) -> None:
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(**changed)
    for name, value in changed.items():
        setattr(approval, name, value)
