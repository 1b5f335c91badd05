"""Executions: a claimed order is started once, before any effect, or not at all.

What must be true after a crash (architecture.md, crash table):

- Before the commit of `start`, nothing happened: the grant is unspent, and no payload was handed out.
- After it, the action is EXECUTING whether or not the executor ever hears of it; the end of the lease ends that.
- The grant is never usable twice: one conditional write spends it, and the attempt names it under a unique constraint.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from approvals import queries
from approvals.models import Approval, Attempt, Due, Grant
from approvals.operations.executors import owned
from approvals.operations.leases import horizon, lease_of
from approvals.operations.orders import grant_public_key, released, terms_of
from approvals.operations.preparing import moved_on
from approvals.operations.requests import LIVE, approval_block, request_again, void, void_grants
from approvals.queries import disclosed_contract, is_untellable
from approvals.rules import binding, grants
from approvals.rules.grants import GrantInvalid
from ledger.operations import record as ledger
from ledger.queries import record
from ledger.rules.contract import Contract
from ledger.rules.envelope import instant
from ledger.rules.lifecycle import Ground
from ledger.rules.refusals import Refused


class GrantConsumed(Refused):
    """This grant was already used."""

    code = "GRANT_CONSUMED"


class DuplicateBlocked(Refused):
    """The same operation is still open; it must be settled before it can be repeated."""

    code = "DUPLICATE_BLOCKED"


class RunTakenBack(Refused):
    """This run is being taken back; nothing new starts in it."""

    code = "RUN_TAKEN_BACK"


class NotStartable(Refused):
    """Only a validated action can be started."""

    code = "NOT_STARTABLE"


class SystemUnverifiable(Refused):
    """The system that would have to tell the outcome is away, and the action could not be taken back; it waits."""

    code = "SYSTEM_UNVERIFIABLE"


@dataclass(frozen=True, slots=True)
class Started:
    """What an executor needs to carry out exactly what was approved."""

    attempt: int
    payload: bytes
    payload_hash: str
    idempotency_key: str | None
    lease_expires_at: datetime
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """An executor's request to start; `thumbprint` is that of the key whose proof the edge has verified."""

    action_id: UUID
    token: str
    executor_id: str
    thumbprint: str
    wrapper_version: str
    timeout_s: int
    payload_hash: str | None


def start(
    *, tenant_id: UUID, request: StartRequest, unverifiable: Collection[str] = (), by: ledger.Actor, at: datetime
) -> Started | Refused:
    """Spend a grant and start an attempt, in one transaction, before any effect (R-EX-01, R-AP-24).

    A refusal is raised and leaves nothing behind, except where the rules want it on record: then it is returned, and
    what it led to (the action failed closed, the approval was set aside) commits with it.
    """
    executor = owned(tenant_id, request.executor_id, by)
    # We read the key of the executor that presents the grant, not of the one that claimed it.
    grant = grants.verify(request.token, keys=[grant_public_key()], issuer=settings.COUNTERFOIL_PUBLIC_URL, at=at)
    if grant.terms.action_id != str(request.action_id) or grant.terms.tenant != str(tenant_id):
        raise GrantInvalid
    if executor.thumbprint != request.thumbprint:
        raise grants.GrantWrongExecutor
    head = ledger.lock(tenant_id=tenant_id, subject_id=request.action_id, kind="action")
    action = record.action(tenant_id, request.action_id)
    assert action is not None
    assert head.entry is not None
    _spend(tenant_id, grant, request, at=at)
    if head.state != "VALIDATED":
        raise NotStartable
    policies = record.active_policies(tenant_id)
    try:
        grants.check(grant, terms_of(action, executor, head.entry["execution"]["attempt_count"] + 1, policies))
    except binding.PolicyChanged as changed:
        return _revalidate(head, action, changed, at=at)
    if request.payload_hash is not None and request.payload_hash != action.payload_hash:
        return _fail_closed(head, action, request, by=by, at=at)
    approval = queries.approval(tenant_id, action.approval_id) if action.approval_id else None
    _check_release(action, approval, unverifiable, at=at)
    drifted = moved_on(approval, at=at)
    if drifted is not None:
        return drifted
    return _begin(head, action, approval, grant, request, by=by, at=at)


def _spend(tenant_id: UUID, grant: grants.Grant, request: StartRequest, *, at: datetime) -> None:
    # The database's own clock at this statement decides, not ours: two processes may disagree about the time.
    spent = Grant.objects.filter(
        tenant_id=tenant_id,
        jti=UUID(grant.jti),
        action_id=request.action_id,
        executor_id=request.executor_id,
        token_hash=grants.token_hash(request.token),
        consumed_at__isnull=True,
        voided_at__isnull=True,
        expires_at__gt=Now(),
    ).update(consumed_at=at)
    if spent == 1:
        return
    row = queries.grant(tenant_id, UUID(grant.jti))
    if row is None or row.executor_id != request.executor_id:
        raise grants.GrantWrongExecutor if row is not None else GrantInvalid
    if row.consumed_at is not None:
        raise GrantConsumed
    raise grants.GrantExpired if row.voided_at is None else GrantInvalid


def _check_release(action: Any, approval: Approval | None, unverifiable: Collection[str], *, at: datetime) -> None:
    """Everything that was true at the claim must still be true in this transaction (R-AP-24)."""
    tenant_id = action.tenant_id
    if approval is not None:
        _check_approval(action, approval, at=at)
    if record.freezes_on(tenant_id, agent=action.agent, tool=action.tool, target=action.target):
        raise binding.TargetFrozen
    if not action.relation and record.is_unwinding(tenant_id, action.run_id):
        raise RunTakenBack
    if action.mutating and record.open_repeat(tenant_id, action.operation_key, at=at, but=action.id):
        raise DuplicateBlocked
    if is_untellable(action, unverifiable):
        raise SystemUnverifiable


def _check_approval(action: Any, approval: Approval, *, at: datetime) -> None:
    refusal = released(approval, at=at)
    if refusal is not None:
        raise refusal
    if approval.payload_hash != action.payload_hash:
        raise binding.PayloadChanged
    if approval.contract_digest != action.contract_digest:
        raise binding.ContractChanged


def _begin(
    head: ledger.Head,
    action: Any,
    approval: Approval | None,
    grant: grants.Grant,
    request: StartRequest,
    *,
    by: ledger.Actor,
    at: datetime,
) -> Started:
    contract = disclosed_contract(action.tenant_id, action.contract_digest)
    attempt = _attempt(action, contract, grant, request, at=at)
    changes: dict[str, Any] = {
        "execution": {"status": "EXECUTING", "attempt_count": attempt.number},
        "timestamps": {"executed_at": instant(at)},
    }
    key = None
    if action.mutating:
        kept = record.idempotency(action.tenant_id, action.id) or ledger.reserve_idempotency(
            tenant_id=action.tenant_id, action_id=action.id, request_hash=action.payload_hash, at=at
        )
        key = kept.key
        changes["idempotency"] = {"key_hash": kept.key_hash, "status": "PENDING"}
    if approval is not None:
        _consume(approval, head.id, at=at)
        changes["approval"] = approval_block(approval, approver=approver_of(approval))
    happening = _happening(attempt, contract, grant, request, changes)
    try:
        with transaction.atomic():
            ledger.append(head, happening, actor=by, at=at)
    except IntegrityError as error:
        if "action_one_open_mutation" in str(error):
            raise DuplicateBlocked from None
        raise
    payload = record.opened(action.tenant_id, action.payload_pointer)
    assert payload is not None
    return Started(attempt.number, payload, action.payload_hash, key, attempt.lease_expires_at, action.trace_id)


def _happening(
    attempt: Attempt, contract: Contract, grant: grants.Grant, request: StartRequest, changes: dict[str, Any]
) -> ledger.Happening:
    return ledger.Happening(
        kind="execution_started",
        to="EXECUTING",
        grounds=frozenset({Ground.RELEASED}),
        changes=changes,
        detail={
            "attempt": attempt.number,
            "jti": grant.jti,
            "executor_id": request.executor_id,
            "wrapper_version": request.wrapper_version,
            "timeout_s": request.timeout_s,
        },
        view={"horizon_at": instant(horizon(attempt, contract))},
    )


def _attempt(action: Any, contract: Contract, grant: grants.Grant, request: StartRequest, *, at: datetime) -> Attempt:
    ends_at = at + timedelta(seconds=request.timeout_s)
    attempt = Attempt.objects.create(
        tenant_id=action.tenant_id,
        action_id=action.id,
        number=grant.terms.attempt,
        jti=UUID(grant.jti),
        executor_id=request.executor_id,
        wrapper_version=request.wrapper_version,
        started_at=at,
        timeout_s=request.timeout_s,
        lease_expires_at=min(at + lease_of(action.tenant_id), ends_at),
        ends_at=ends_at,
    )
    Due.objects.update_or_create(
        subject_id=action.id,
        what="lease",
        defaults={"tenant_id": action.tenant_id, "due_at": attempt.lease_expires_at},
    )
    return attempt


def _consume(approval: Approval, action_id: UUID, *, at: datetime) -> None:
    ledger.append(
        ledger.lock(tenant_id=approval.tenant_id, subject_id=approval.id, kind="approval"),
        ledger.Happening(kind="approval_consumed", to="CONSUMED", detail={"action_id": str(action_id)}),
        actor=ledger.SYSTEM,
        at=at,
    )
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(state="CONSUMED")
    Due.objects.filter(subject_id=approval.id, what="approval").delete()


def approver_of(approval: Approval) -> UUID | None:
    """Who approved, for the entry's approval block."""
    votes = queries.votes_of(approval.tenant_id, approval.id)
    return next((vote.voter for vote in votes if vote.verdict in binding.AUTHORISING), None)


def _fail_closed(head: ledger.Head, action: Any, request: StartRequest, *, by: ledger.Actor, at: datetime) -> Refused:
    """Another payload than the approved one: nothing runs, grant and approval end, a person must look (RT-21)."""
    if action.approval_id is not None:
        approval = queries.approval(action.tenant_id, action.approval_id)
        if approval is not None:
            void(approval=approval, reason="Another payload was presented at the start.", at=at)
    ledger.append(
        head,
        ledger.Happening(
            kind="payload_mismatch",
            to="REVIEW_REQUIRED",
            changes={
                "verification": {"status": "NOT_REQUIRED"},
                "reconciliation": {"status": "REVIEW_REQUIRED", "recovery_decision": "RT-21 FAIL_CLOSED"},
                "recovery": {},
            },
            detail={
                "security": True,
                "trigger": "APPROVAL_TOKEN_MISMATCH",
                "recovery_row": "RT-21",
                "presented": request.payload_hash,
                "executor_id": request.executor_id,
            },
            view={"recovery_row": "RT-21"},
        ),
        actor=by,
        at=at,
    )
    return binding.PayloadHashMismatch()


def _revalidate(head: ledger.Head, action: Any, changed: Refused, *, at: datetime) -> Refused:
    """The policy changed since: the approval is set aside and people are asked again (RT-20, R-AP-09)."""
    request_again(head=head, action=action, at=at)
    return changed


def cancel(*, tenant_id: UUID, action_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """End an action that has not started; its approval and any live grant end with it."""
    head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != "VALIDATED":
        raise NotStartable("Only an action that has not started can be cancelled.")
    action = record.action(tenant_id, action_id)
    assert action is not None
    approval = queries.approval(tenant_id, action.approval_id) if action.approval_id else None
    if approval is not None and approval.state in LIVE:
        void(approval=approval, reason="The action was cancelled.", at=at)
    void_grants(tenant_id=tenant_id, action_id=action_id, at=at)
    ledger.append(
        head,
        ledger.Happening(
            kind="cancelled",
            to="FAILED",
            changes={"verification": {"status": "NOT_REQUIRED"}},
            detail={"code": "CANCELLED", "reason": reason},
        ),
        actor=by,
        at=at,
    )
