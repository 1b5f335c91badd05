"""What a vote leads to: the approval is granted, or ends with its action unrun."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from approvals.models import Approval, Due, Vote
from approvals.operations import emergencies
from approvals.operations.requests import approval_block, fail_unrun
from approvals.rules import binding, policy
from ledger.operations import record as ledger
from ledger.queries import record
from ledger.rules.canonical import parse


def decide(
    head: ledger.Head,
    approval: Approval,
    row: Vote,
    *,
    evidence: tuple[ledger.Sealed, ...],
    detail: Mapping[str, Any],
    at: datetime,
) -> None:
    """Put a vote on record, with its statement and what proves it, and do what it leads to; one vote decides."""
    if row.verdict == binding.Verdict.BREAK_GLASS:
        emergencies.use(head, approval, row, evidence=evidence, detail=detail, at=at)
        return
    rules = policy.parse(parse(bytes(record.active_policies(approval.tenant_id)["approval"].document)))
    approved = row.verdict == binding.Verdict.APPROVE
    state = "APPROVED" if approved else "REJECTED"
    actor = ledger.Actor("person", row.voter)
    ledger.append(
        head,
        ledger.Happening(
            kind={"approve": "approved", "reject": "rejected"}.get(row.verdict, "changes_requested"),
            to=state,
            detail=detail,
            evidence=evidence,
        ),
        actor=actor,
        at=at,
    )
    approval.release_by = rules.release_by(decided_at=at) if approved else None
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(
        state=state, decided_at=at, release_by=approval.release_by
    )
    if approved:
        Due.objects.filter(subject_id=approval.id, what="approval").update(due_at=approval.release_by)
        _note_on_action(approval, row, actor, at=at)
    else:
        Due.objects.filter(subject_id=approval.id, what="approval").delete()
        code = "REJECTED" if row.verdict == binding.Verdict.REJECT else "CHANGES_REQUESTED"
        fail_unrun(approval, code=code, reason=row.reason, actor=actor, at=at)


def _note_on_action(approval: Approval, row: Vote, actor: ledger.Actor, *, at: datetime) -> None:
    ledger.append(
        ledger.lock(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action"),
        ledger.Happening(
            kind="approval_granted",
            changes={"approval": approval_block(approval, approver=row.voter)},
            detail={"approval_id": str(approval.id), "statement_hash": row.statement_hash},
        ),
        actor=actor,
        at=at,
    )
