"""The work on open approvals: who looks after which, and what happens when nobody does.

None of this decides anything. A claim and an assignment say who is at it and keep nobody from voting; a reminder and an
escalation tell people; and when nobody has acted in the end, that is on record and nothing else (`rules.deadlines`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from approvals.gate.rules import rate_limits
from approvals.models import Approval, Due
from approvals.requests.operations.clocks import AGAIN
from approvals.requests.operations.requests import locked
from approvals.requests.queries import approvals
from approvals.requests.queries import deadlines as deadlines_queries
from approvals.requests.rules import assignments, deadlines
from approvals.requests.rules.deadlines import Step
from approvals.voting.queries import votes
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant

OPEN = ("PREPARING", "REQUESTED")
STEPS = {str(step): step for step in Step}
_KINDS = {
    Step.REMIND: "approval_reminded",
    Step.ESCALATE: "approval_escalated",
    Step.BREACH: "approval_overdue",
}


def claim(*, tenant_id: UUID, approval_id: UUID, by: ledger.Actor, at: datetime) -> assignments.Claim:
    """Say that you are at it for a while; whoever said so before is on record with it."""
    head, approval = _opened(tenant_id, approval_id)
    before = assignments.of_another(assignments.standing(approval.claimed_by, approval.claimed_until, at=at), me=by.id)
    until = at + assignments.LIFE
    _change(approval, claimed_by=by.id, claimed_until=until)
    detail = {"until": instant(until), "from": str(before.by) if before else None}
    ledger.append(head, ledger.Happening(kind="approval_claimed", detail=detail), actor=by, at=at)
    return assignments.Claim(by.id, until)


def release(*, tenant_id: UUID, approval_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Let go of a claim before it is over."""
    head, approval = _opened(tenant_id, approval_id)
    standing = assignments.standing(approval.claimed_by, approval.claimed_until, at=at)
    if standing is None or standing.by != by.id:
        raise assignments.NotClaimed
    _change(approval, claimed_by=None, claimed_until=None)
    ledger.append(head, ledger.Happening(kind="approval_released"), actor=by, at=at)


def assign(
    *, tenant_id: UUID, approval_id: UUID, to: UUID, among: Collection[UUID], by: ledger.Actor, at: datetime
) -> None:
    """Give an open approval to somebody who may decide it, whom the caller has looked up."""
    head, approval = _opened(tenant_id, approval_id)
    if to not in among:
        raise assignments.NotEligible
    detail = {"to": str(to), "from": str(approval.assigned_to) if approval.assigned_to else None}
    _change(approval, assigned_to=to)
    ledger.append(head, ledger.Happening(kind="approval_assigned", detail=detail), actor=by, at=at)


def suggestion(tenant_id: UUID, eligible: Sequence[UUID], *, at: datetime) -> UUID | None:
    """Who of these has least to do."""
    return assignments.suggested(eligible, approvals.load(tenant_id, at=at))


def check_pace(approval: Approval, voter: UUID, *, at: datetime) -> None:
    """Refuse a vote of somebody who votes faster than the policy believes that anybody reads (B38)."""
    most = deadlines_queries.policy_of(approval).limits.votes_per_minute
    if most:
        given = votes.votes_since(approval.tenant_id, voter, since=at - rate_limits.MINUTE, limit=most)
        rate_limits.check_pace(given, most=most, at=at)


def step(*, tenant_id: UUID, approval_id: UUID, step: Step, at: datetime) -> bool:
    """Take one step towards the deadline if it is due, or look again when it will be; whether it was taken."""
    head = locked(tenant_id, approval_id)
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    wanted, look = deadlines_queries.pace_of(approval), None
    if head.state in OPEN:
        clock = deadlines_queries.clock(approval, at=at)
        if head.state == "REQUESTED" and deadlines.is_due(step, wanted.plan, clock):
            _take(head, approval, step, wanted.escalate_to, instant(clock.ends_at), at=at)
            _forget(approval_id, step)
            return True
        look = deadlines.look_at(step, wanted.plan, clock, at=at, again=AGAIN)
        look = max(look, at + timedelta(seconds=1)) if look is not None else None
    if look is None:
        _forget(approval_id, step)
    else:
        Due.objects.filter(subject_id=approval_id, what=str(step)).update(due_at=look)
    return False


def _take(head: ledger.Head, approval: Approval, step: Step, escalate_to: str, decide_by: str, *, at: datetime) -> None:
    if step is Step.REMIND:
        _change(approval, reminded_at=at)
    elif step is Step.ESCALATE:
        _change(approval, escalated_at=at)
    detail = {"decide_by": decide_by} | ({} if step is Step.REMIND else {"to": escalate_to})
    ledger.append(head, ledger.Happening(kind=_KINDS[step], detail=detail), actor=ledger.SYSTEM, at=at)


def _forget(approval_id: UUID, step: Step) -> None:
    Due.objects.filter(subject_id=approval_id, what=str(step)).delete()


def _opened(tenant_id: UUID, approval_id: UUID) -> tuple[ledger.Head, Approval]:
    head = locked(tenant_id, approval_id)
    if head.state not in OPEN:
        raise assignments.NotOpen
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    return head, approval


def _change(approval: Approval, **changed: object) -> None:
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(**changed)
    for name, value in changed.items():
        setattr(approval, name, value)
