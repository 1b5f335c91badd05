"""Approvals: asked for with the action, decided by people, bound to exactly these bytes.

A vote and what it decides are one transaction. An approval is permission and no more (R-AP-19): nothing here changes
what is believed about the action, except that a rejected or lapsed one fails without having run.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from approvals import queries
from approvals.models import Approval, Due, Grant, Session, Vote
from approvals.queries import disclosed_contract, is_untellable
from approvals.rules import binding, policy, rendering
from ledger.operations import record as ledger
from ledger.queries import record
from ledger.rules.canonical import digest, parse
from ledger.rules.contract import Contract
from ledger.rules.envelope import commitment, instant
from ledger.rules.refusals import Refused
from ledger.tenancy import insert

STATEMENT_LIFE = timedelta(minutes=5)
DEFERRED = "RT-18 DEFER_OR_FAIL_CLEANLY"


class NoSuchApproval(Refused):
    """There is no such approval here."""

    code = "NOT_FOUND"
    status = 404


def request_approval(
    *,
    tenant_id: UUID,
    action_id: UUID,
    requester: UUID,
    contract: Contract,
    version: Any,
    payload: bytes,
    at: datetime,
) -> tuple[Approval, ledger.Draft]:
    """Ask people about an action that was just validated; what they will be shown is fixed here.

    The event of the request is the caller's to write, with its own.
    """
    rules = policy.parse(parse(bytes(version.document)))
    reasons = policy.requirement(contract, rules).reasons or ("POLICY_CHANGED",)
    within = contract.decide_within_s or rules.decide_within_s
    approval = Approval(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        action_id=action_id,
        state="REQUESTED",
        payload_hash=digest(payload),
        rendering_digest=rendering.rendering_digest(rendering.render_payload(parse(payload))),
        contract_digest=contract.digest,
        policy_digest=version.digest,
        policy_version=version.version,
        policy_row=", ".join(reasons)[:200],
        step_up=rules.step_up,
        requester=requester,
        requested_at=at,
        decide_by=at + timedelta(seconds=within),
    )
    insert(approval, Due(tenant_id=tenant_id, subject_id=approval.id, what="approval", due_at=approval.decide_by))
    return approval, _requested(approval, reasons, at=at)


def _requested(approval: Approval, reasons: tuple[str, ...], *, at: datetime) -> ledger.Draft:
    return ledger.draft(
        ledger.Head(tenant_id=approval.tenant_id, id=approval.id, kind="approval"),
        ledger.Happening(
            kind="approval_requested",
            to="REQUESTED",
            detail={
                "action_id": str(approval.action_id),
                "payload_hash": approval.payload_hash,
                "rendering_digest": approval.rendering_digest,
                "decide_by": instant(approval.decide_by),
                "rules": list(reasons),
            },
            digests={"contract": approval.contract_digest, "approval": approval.policy_digest},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )


def approval_block(approval: Approval, *, approver: UUID | None = None) -> dict[str, Any]:
    """The approval block of an entry (R-AP-13)."""
    return {
        "required": True,
        "approval_id": str(approval.id),
        "approver_id": str(approver) if approver else None,
        "payload_hash": approval.payload_hash,
        "expires_at": instant(approval.release_by or approval.decide_by),
    }


def coverage(approval: Approval) -> binding.Coverage:
    """Everything that a vote on this approval covers, from the stored bytes (never from the page)."""
    action = record.action(approval.tenant_id, approval.action_id)
    assert action is not None
    assert action.payload_pointer is not None
    session = Session.objects.get(tenant_id=approval.tenant_id, id=action.session_id)
    payload = record.opened(approval.tenant_id, action.payload_pointer) or b""
    return binding.Coverage(
        installation=settings.COUNTERFOIL_PUBLIC_URL,
        tenant=str(approval.tenant_id),
        approval_id=str(approval.id),
        action_id=str(action.id),
        revision=1,
        payload_hash=action.payload_hash,
        payload_length=len(payload),
        tool=action.tool,
        tool_version=action.tool_version,
        contract_digest=action.contract_digest,
        target_resource=action.target,
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        agent=session.agent_id,
        agent_version=session.agent_version,
        run_id=session.run_id,
        session_pin=session.pin_hash,
        policy_version=approval.policy_version,
        policy_digest=approval.policy_digest,
        policy_row=approval.policy_row,
        step_up=approval.step_up,
        rendering_digest=rendering.rendering_digest(rendering.render_payload(parse(payload))),
        renderer=rendering.RENDERER,
    )


def vote(
    *,
    tenant_id: UUID,
    approval_id: UUID,
    verdict: binding.Verdict,
    voter: binding.Voter,
    seen: binding.Seen,
    reason: str,
    at: datetime,
) -> Vote:
    """Take one person's vote, with the statement they stand for, and decide the approval by it (R-AP-17).

    A refused vote leaves nothing but the fact that it was refused, which the edge puts on record after the rollback.
    """
    head = _locked(tenant_id, approval_id)
    approval = queries.approval(tenant_id, approval_id)
    assert approval is not None
    covers = coverage(approval)
    try:
        _check(head, approval, covers, verdict, voter, seen, reason, at=at)
    except Refused as refusal:
        refusal.afterwards = partial(
            note_refused, tenant_id=tenant_id, approval_id=approval_id, voter=UUID(voter.actor), refusal=refusal, at=at
        )
        raise
    row = _signed(approval, covers, verdict, voter, reason, at=at)
    _decide(head, approval, row, at=at)
    return row


def note_refused(*, tenant_id: UUID, approval_id: UUID, voter: UUID, refusal: Refused, at: datetime) -> None:
    """Put a vote that did not count on the approval's record."""
    ledger.append(
        _locked(tenant_id, approval_id),
        ledger.Happening(kind="vote_refused", detail={"code": refusal.code}),
        actor=ledger.Actor("person", voter),
        at=at,
    )


def _check(
    head: ledger.Head,
    approval: Approval,
    covers: binding.Coverage,
    verdict: binding.Verdict,
    voter: binding.Voter,
    seen: binding.Seen,
    reason: str,
    *,
    at: datetime,
) -> None:
    action = record.action(approval.tenant_id, approval.action_id)
    assert action is not None
    session = queries.session(approval.tenant_id, action.session_id)
    assert session is not None
    freezes = record.freezes_on(approval.tenant_id, agent=action.agent, tool=action.tool, target=action.target)
    binding.check_vote(
        covers,
        verdict=verdict,
        voter=voter,
        requesters=frozenset({str(approval.requester), str(session.key_actor)}),
        undecided=head.state == "REQUESTED",
        decide_by=approval.decide_by,
        seen=seen,
        frozen=bool(freezes),
        reason=reason,
        at=at,
    )
    # What was asked for must still be what is stored: a payload altered at rest is nobody's to approve.
    if (covers.payload_hash, covers.rendering_digest) != (approval.payload_hash, approval.rendering_digest):
        raise binding.PayloadChanged


def _locked(tenant_id: UUID, approval_id: UUID) -> ledger.Head:
    # The action comes first: every operation that touches both locks them in this order.
    approval = queries.approval(tenant_id, approval_id)
    if approval is None:
        raise NoSuchApproval
    ledger.lock(tenant_id=tenant_id, subject_id=approval.action_id, kind="action")
    return ledger.lock(tenant_id=tenant_id, subject_id=approval_id, kind="approval")


def _signed(
    approval: Approval,
    covers: binding.Coverage,
    verdict: binding.Verdict,
    voter: binding.Voter,
    reason: str,
    *,
    at: datetime,
) -> Vote:
    salt = secrets.token_bytes(32)
    statement = binding.statement(
        covers,
        binding.Vote(
            statement_id=str(ledger.new_id(at)),
            voter=voter.actor,
            role=binding.REVIEWER,
            verdict=verdict,
            reason_commitment=commitment("reason", salt, reason.encode()),
            evidence_class=voter.evidence_class,
            issued_at=at,
            expires_at=at + STATEMENT_LIFE,
        ),
    )
    try:
        with transaction.atomic():
            return Vote.objects.create(
                tenant_id=approval.tenant_id,
                id=ledger.new_id(at),
                approval_id=approval.id,
                voter=UUID(voter.actor),
                verdict=str(verdict),
                evidence_class=voter.evidence_class,
                statement=statement,
                statement_hash=binding.statement_hash(statement),
                reason=reason,
                at=at,
            )
    except IntegrityError:
        raise binding.AlreadyDecided from None


def _decide(head: ledger.Head, approval: Approval, row: Vote, *, at: datetime) -> None:
    """One vote decides here; a quorum is a later policy."""
    rules = policy.parse(parse(bytes(record.active_policies(approval.tenant_id)["approval"].document)))
    approved = row.verdict == binding.Verdict.APPROVE
    state = "APPROVED" if approved else "REJECTED"
    actor = ledger.Actor("person", row.voter)
    ledger.append(
        head,
        ledger.Happening(
            kind={"approve": "approved", "reject": "rejected"}.get(row.verdict, "changes_requested"),
            to=state,
            detail={"statement_hash": row.statement_hash, "evidence_class": row.evidence_class, "reason": row.reason},
            evidence=(_kept(approval, row, at=at),),
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


def _kept(approval: Approval, row: Vote, *, at: datetime) -> ledger.Sealed:
    return ledger.seal(
        tenant_id=approval.tenant_id,
        subject_id=approval.id,
        purpose="statement",
        data=bytes(row.statement),
        media_type="application/json",
        source="voter",
        at=at,
    )


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


def fail_unrun(
    approval: Approval, *, code: str, reason: str, actor: ledger.Actor, at: datetime, decision: str = ""
) -> None:
    """The action ends without having run (R-AP-10); `decision` names the recovery row that ends it, if one does."""
    head = ledger.lock(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action")
    if head.state != "VALIDATED":
        return
    Grant.objects.filter(
        tenant_id=approval.tenant_id, action_id=head.id, consumed_at__isnull=True, voided_at__isnull=True
    ).update(voided_at=at)
    ledger.append(
        head,
        ledger.Happening(
            kind={"REJECTED": "rejected", "APPROVAL_EXPIRED": "approval_expired"}.get(code, code.lower()),
            to="FAILED",
            changes={
                "verification": {"status": "NOT_REQUIRED"},
                **({"reconciliation": {"recovery_decision": decision}} if decision else {}),
            },
            detail={"code": code, "reason": reason, "approval_id": str(approval.id)},
            view={"recovery_row": decision.partition(" ")[0]} if decision else {},
        ),
        actor=actor,
        at=at,
    )


def expire(*, tenant_id: UUID, approval_id: UUID, unverifiable: Collection[str] = (), at: datetime) -> None:
    """End an approval whose time is up, and its action with it; one that was extended is looked at again later.

    What was approved and waited for a system that could not be verified fails cleanly: nothing was executed (RT-18).
    """
    head = _locked(tenant_id, approval_id)
    approval = queries.approval(tenant_id, approval_id)
    assert approval is not None
    if head.state not in ("REQUESTED", "APPROVED"):
        Due.objects.filter(subject_id=approval_id, what="approval").delete()
        return
    ends_at = approval.release_by or approval.decide_by
    if ends_at > at:
        Due.objects.filter(subject_id=approval_id, what="approval").update(due_at=ends_at)
        return
    ledger.append(head, ledger.Happening(kind="approval_expired", to="EXPIRED"), actor=ledger.SYSTEM, at=at)
    Approval.objects.filter(tenant_id=tenant_id, id=approval_id).update(state="EXPIRED")
    Due.objects.filter(subject_id=approval_id, what="approval").delete()
    action = record.action(tenant_id, approval.action_id)
    if head.state == "APPROVED" and action is not None and is_untellable(action, unverifiable):
        what = "It was approved, but the system that would have to tell its outcome did not answer in time."
        fail_unrun(approval, code="PROVIDER_OUTAGE", reason=what, decision=DEFERRED, actor=ledger.SYSTEM, at=at)
        return
    what = "Nobody decided in time." if head.state == "REQUESTED" else "It was approved, but not started in time."
    fail_unrun(approval, code="APPROVAL_EXPIRED", reason=what, actor=ledger.SYSTEM, at=at)


def void(*, approval: Approval, reason: str, at: datetime) -> None:
    """Set an approval aside; it authorises nothing any more."""
    head = ledger.lock(tenant_id=approval.tenant_id, subject_id=approval.id, kind="approval")
    if head.state not in ("REQUESTED", "APPROVED"):
        return
    ledger.append(
        head,
        ledger.Happening(kind="approval_voided", to="VOIDED", detail={"reason": reason}),
        actor=ledger.SYSTEM,
        at=at,
    )
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(state="VOIDED")
    Due.objects.filter(subject_id=approval.id, what="approval").delete()


def renew(*, tenant_id: UUID, action_id: UUID, at: datetime) -> bool:
    """Ask again about an action that may be tried once more: its approval was spent by the attempt before (D8).

    If we crash before the commit, the approval is still the spent one, and the next tick asks.
    """
    head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    action = record.action(tenant_id, action_id)
    approval = queries.approval(tenant_id, action.approval_id) if action and action.approval_id else None
    if approval is None or head.state != "VALIDATED" or approval.state != "CONSUMED":
        return False
    request_again(head=head, action=action, at=at, row="RT-33", said="REFRESH_AND_RETRY")
    return True


def request_again(
    *, head: ledger.Head, action: Any, at: datetime, row: str = "RT-20", said: str = "REVALIDATE_APPROVAL"
) -> None:
    """Set the old approval aside, if it still stands, and request another where the policy in force asks (RT-20)."""
    policies = record.active_policies(action.tenant_id)
    contract = disclosed_contract(action.tenant_id, action.contract_digest)
    rules = policy.parse(parse(bytes(policies["approval"].document)))
    before = queries.approval(action.tenant_id, action.approval_id) if action.approval_id else None
    if before is not None and before.state != "CONSUMED":
        void(approval=before, reason="The policy changed.", at=at)
    fresh = None
    if before is not None or policy.requirement(contract, rules).required:
        payload = record.opened(action.tenant_id, action.payload_pointer) or b""
        fresh, requested = request_approval(
            tenant_id=action.tenant_id,
            action_id=action.id,
            requester=before.requester if before else _requester(action),
            contract=contract,
            version=policies["approval"],
            payload=payload,
            at=at,
        )
        ledger.write(requested)
    versions = {f"{kind}_policy_version": each.version for kind, each in policies.items() if kind != "autonomy"}
    ledger.append(
        head,
        ledger.Happening(
            kind="approval_revalidated",
            changes={
                "policy_context": versions,
                "reconciliation": {"recovery_decision": f"{row} {said}"},
                **({"approval": approval_block(fresh)} if fresh else {}),
            },
            detail={"recovery_row": row},
            digests={kind: each.digest for kind, each in policies.items()},
            view={"recovery_row": row, **({"approval_id": str(fresh.id)} if fresh else {})},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )


def _requester(action: Any) -> UUID:
    """Who is behind an action: its agent, or whoever ordered it where it is a recovery action."""
    if action.ordered_by is None:
        return UUID(str(action.agent_actor))
    return UUID(record.ordered(action.tenant_id, action.parent_id)[action.ordered_by]["requester"])
