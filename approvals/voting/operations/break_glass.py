"""Break-glass: one operator approves alone, and others review it afterwards (C-21, R-AP-14).

The grant of the approval and the review that waits for others are one transaction, so that no crash can leave a use of
break-glass without a review.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.models import Approval, BreakGlassUse, Deadline, Vote
from approvals.policy.rules import policy
from approvals.requests.operations.requests import approval_block
from approvals.voting.operations import eligibility
from approvals.voting.queries import approvers
from approvals.voting.rules import binding, break_glass
from ledger.catalogue import queries as catalogue_queries
from ledger.db import insert
from ledger.people.queries import person_behind
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.envelope import instant
from ledger.record.rules.outcomes import is_as_strong
from ledger.record.rules.refusals import NotFound, ProofNeeded


def active_rule(tenant_id: UUID) -> break_glass.BreakGlassRule:
    """The break-glass rule of the approval policy in force."""
    return _active_policy(tenant_id).break_glass


def _active_policy(tenant_id: UUID) -> policy.ApprovalPolicy:
    return policy.load_stored(bytes(catalogue_queries.active_policies(tenant_id)["approval"].document))


def check_allowed(approval: Approval, voter: binding.Voter, *, at: datetime) -> None:
    """Refuse a person who may not use break-glass here, or whose proof is too weak."""
    actor = UUID(voter.actor)
    rule, place = active_rule(approval.tenant_id), approvers.approver(approval.tenant_id, actor)
    break_glass.check_use(rule, roles=voter.roles, groups=place.groups if place is not None and place.active else ())
    if not is_as_strong(voter.evidence_class, rule.step_up):
        raise ProofNeeded
    eligibility.refuse_stakeholder(approval, actor, at=at)


def use_break_glass(
    head: ledger.SubjectHead,
    approval: Approval,
    row: Vote,
    *,
    evidence: tuple[ledger.SealedEvidence, ...],
    detail: Mapping[str, Any],
    at: datetime,
) -> None:
    """Grant the approval for minutes on one operator's signature, and open its review."""
    rules, actor = _active_policy(approval.tenant_id), ledger.Actor("person", row.voter)
    used = _record_use(approval, row, rules.break_glass, at=at)
    approval.release_by = break_glass.release_deadline(policy_says=rules.release_by(decided_at=at), used_at=at)
    ledger.append(
        head,
        ledger.NewEvent(
            kind="break_glass_used",
            to="APPROVED",
            detail={
                **detail,
                "verdict": row.verdict,
                "groups": list(row.groups),
                "emergency_id": str(used.id),
                "release_by": instant(approval.release_by),
            },
            evidence=evidence,
        ),
        actor=actor,
        at=at,
    )
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(
        state="APPROVED", decided_at=at, release_by=approval.release_by, emergency=True
    )
    Deadline.objects.filter(tenant_id=approval.tenant_id, subject_id=approval.id, what="approval").update(
        due_at=approval.release_by
    )
    _open_review(used, rules.break_glass, actor, at=at)
    ledger.append(
        ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action"),
        ledger.NewEvent(
            kind="approval_granted",
            changes={"approval": approval_block(approval, approver=row.voter)},
            detail={"approval_id": str(approval.id), "emergency_id": str(used.id)},
        ),
        actor=actor,
        at=at,
    )


def _record_use(approval: Approval, row: Vote, rule: break_glass.BreakGlassRule, *, at: datetime) -> BreakGlassUse:
    used = BreakGlassUse(
        tenant_id=approval.tenant_id,
        id=ledger.new_id(at),
        action_id=approval.action_id,
        approval_id=approval.id,
        used_by=row.voter,
        reason=row.reason,
        used_at=at,
        review_by=rule.review_by(used_at=at),
    )
    insert(used, Deadline(tenant_id=used.tenant_id, subject_id=used.id, what="review", due_at=used.review_by))
    return used


def _open_review(used: BreakGlassUse, rule: break_glass.BreakGlassRule, actor: ledger.Actor, *, at: datetime) -> None:
    ledger.append(
        ledger.SubjectHead(tenant_id=used.tenant_id, id=used.id, kind="emergency"),
        ledger.NewEvent(
            kind="break_glass_used",
            to="USED",
            detail={
                "approval_id": str(used.approval_id),
                "action_id": str(used.action_id),
                "reason": used.reason,
                "reviewers": rule.reviewers,
                "review_by": instant(used.review_by),
            },
        ),
        actor=actor,
        at=at,
    )


def review_use(
    *, tenant_id: UUID, use_id: UUID, finding: break_glass.Finding, reason: str, by: ledger.Actor, at: datetime
) -> str:
    """Record the finding of one reviewer; returns the state after it."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=use_id, kind="emergency")
    used = approvers.break_glass_use(tenant_id, use_id)
    if used is None:
        raise NotFound("Break-glass use")
    wanted = _reviewers_required(used)
    before = [str(person_behind(tenant_id, UUID(each["actor"]))) for each in used.reviews]
    person = str(person_behind(tenant_id, by.id))
    break_glass.check_review(
        reviewer=person,
        used_by=str(person_behind(tenant_id, used.used_by)),
        reviewed_by=before,
        wanted=wanted,
    )
    done = break_glass.is_reviewed([*before, person], wanted=wanted)
    ledger.append(
        head,
        ledger.NewEvent(
            kind="break_glass_reviewed",
            to="REVIEWED" if done else None,
            detail={"finding": finding, "reason": reason, "person": person},
        ),
        actor=by,
        at=at,
    )
    review = {"person": person, "actor": str(by.id), "finding": finding, "reason": reason, "at": instant(at)}
    BreakGlassUse.objects.filter(tenant_id=tenant_id, id=use_id).update(
        reviews=[*used.reviews, review], reviewed_at=at if done else None
    )
    if done:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=use_id, what="review").delete()
    return "REVIEWED" if done else "USED"


def _reviewers_required(used: BreakGlassUse) -> int:
    """The number of reviewers required, from the event that opened the review."""
    _, _, opened = events.history(used.tenant_id, used.id)[0]
    assert opened is not None
    return int(opened["reviewers"])


def note_overdue_review(*, tenant_id: UUID, use_id: UUID, at: datetime) -> BreakGlassUse | None:
    """Record once that a review is overdue; the caller raises the alarm. The review can still be given."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=use_id, kind="emergency")
    used = approvers.break_glass_use(tenant_id, use_id)
    Deadline.objects.filter(tenant_id=tenant_id, subject_id=use_id, what="review").delete()
    if used is None or used.reviewed_at is not None:
        return None
    ledger.append(head, ledger.NewEvent(kind="break_glass_review_overdue"), actor=ledger.SYSTEM, at=at)
    return used
