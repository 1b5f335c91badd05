"""Starts and cancels executions: a claimed action starts once, before any effect, or not at all.

What must be true after a crash (architecture.md, crash table):

- Before the commit of `start`, nothing happened: the grant is unspent, and no payload was handed out.
- After it, the action is EXECUTING whether or not the executor ever hears of it; the end of the lease ends that.
- The grant is never usable twice: one conditional write spends it, and the attempt names it under a unique constraint.

A start passes the tenant's gate before it reads anything (`ledger.lock_behind_tenant`): a policy, a freeze, an
executor or a right
to decide changes before all of it or behind all of it (B17, B18, B22). The clock of the database decides what is over,
at the statement that asks, however long the transaction has run and whatever the clock of the web host says (B14).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from approvals.execution import queries as execution_queries
from approvals.execution.operations import grant_keys, ready_actions
from approvals.execution.operations.executors import UnknownExecutor, owned_executor
from approvals.execution.operations.ready_actions import ClaimedAction
from approvals.execution.operations.release_check import (
    ReleaseContext,
    current_epoch,
    grant_terms,
    load_context,
    state_refusal,
    stored_payload,
)
from approvals.execution.queries import is_unverifiable
from approvals.execution.rules import grants
from approvals.execution.rules.grants import GrantInvalid
from approvals.models import Approval, Attempt, Deadline
from approvals.requests.operations.preflight import drift_refusal
from approvals.requests.operations.requests import LIVE, approval_block, request_again, void_approval, void_grants
from approvals.requests.queries import approvals
from approvals.sessions.queries import disclosed_contract
from approvals.voting.operations.decision import VotesFallen, revalidation_refusal
from approvals.voting.operations.eligibility import load_context as load_eligibility
from approvals.voting.rules import binding
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.db import execute
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import Ground
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from ledger.models import Action

# Leases: how long an executor may hold an attempt silently, and what silence means.
#
# A lease is never longer than the attempt's own timeout. Its end says nothing about the effect: the outcome is unknown.


class LeaseOver(Refused):
    """The lease is over; the effect must not begin any more."""

    code = "LEASE_OVER"


@lru_cache(maxsize=1024)
def lease_duration(tenant_id: UUID, policy: str) -> timedelta:
    """How long an executor may hold an attempt silently, as the verification policy of this digest has it."""
    row = catalogue_queries.policy_by_digest(tenant_id, "verification", policy)
    assert row is not None
    return timedelta(seconds=parse(bytes(row.document)).get("lease_s", 60))


def effect_horizon(attempt: Attempt, contract: Contract) -> datetime:
    """When a silent attempt can no longer take effect: lease end + timeout + settling time ("Late effects")."""
    settle = contract.verification.settle_s if contract.verification else 0
    return attempt.lease_expires_at + timedelta(seconds=attempt.timeout_s + settle)


def extend_lease(
    *, tenant_id: UUID, action_id: UUID, number: int, executor_id: str, by: ledger.Actor, at: datetime
) -> datetime:
    """Extend the lease, never beyond the attempt's own timeout; a lease that is over stays over."""
    owned_executor(tenant_id, executor_id, by)
    ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempt = execution_queries.attempt(tenant_id, action_id, number)
    if attempt is None or attempt.executor_id != executor_id:
        raise UnknownExecutor("There is no such attempt here.")
    if attempt.ended_at is not None or attempt.lease_expires_at <= at:
        raise LeaseOver
    lease = lease_duration(tenant_id, catalogue_queries.active_policies(tenant_id)["verification"].digest)
    until = min(at + lease, attempt.ends_at)
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number).update(lease_expires_at=until)
    Deadline.objects.filter(subject_id=action_id, what="lease").update(due_at=until)
    return until


def finish_attempt(*, tenant_id: UUID, action_id: UUID, number: int, at: datetime) -> None:
    """The executor has reported: its lease needs no watching any more."""
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number, ended_at__isnull=True).update(
        ended_at=at
    )
    Deadline.objects.filter(subject_id=action_id, what="lease").delete()


def end_lease(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """The lease ran out in silence: the outcome is unknown, which is neither failure nor success (R-EX-07, R-EX-11)."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempts = execution_queries.attempts_of(tenant_id, action_id)
    if head.state != "EXECUTING" or not attempts:
        Deadline.objects.filter(subject_id=action_id, what="lease").delete()
        return
    attempt = attempts[-1]
    if attempt.lease_expires_at > at:
        Deadline.objects.filter(subject_id=action_id, what="lease").update(due_at=attempt.lease_expires_at)
        return
    action = actions.action(tenant_id, action_id)
    assert action is not None
    contract = disclosed_contract(tenant_id, action.contract_digest)
    ledger.append(
        head,
        ledger.NewEvent(
            kind="lease_ended",
            to="UNKNOWN",
            changes={"execution": {"status": "UNKNOWN"}, "reconciliation": {"status": "UNKNOWN"}},
            detail={"attempt": attempt.number, "lease_expires_at": instant(attempt.lease_expires_at)},
            view={"horizon_at": instant(effect_horizon(attempt, contract))},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
    finish_attempt(tenant_id=tenant_id, action_id=action_id, number=attempt.number, at=at)


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
class StartedExecution:
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


@dataclass(frozen=True, slots=True)
class _Redeemed:
    """A grant that holds against everything that holds now, not spent yet."""

    grant: grants.GrantClaims
    basis: ReleaseContext
    payload: bytes


def start_execution(
    *, tenant_id: UUID, request: StartRequest, unverifiable: Collection[str] = (), by: ledger.Actor, at: datetime
) -> StartedExecution | Refused:
    """Spend a grant and start an attempt, in one transaction, before any effect (R-EX-01, R-AP-24).

    A refusal is raised and leaves nothing behind but the fact that it was refused, which the edge puts on record after
    the rollback. Where the rules want more (the action failed closed, the approval was set aside) it is returned, and
    what it led to commits with it.
    """
    try:
        return _started(tenant_id, request, unverifiable, by=by, at=at)
    except Refused as refusal:
        refusal.records = (refused_start(request, refusal, by=by, at=at),)
        raise


def claim_and_start(
    *, tenant_id: UUID, request: StartRequest, unverifiable: Collection[str] = (), by: ledger.Actor, at: datetime
) -> tuple[ClaimedAction, StartedExecution] | None:
    """Claim one action for the executor and start it, both in this transaction; None where anything holds it back.

    `request.token` is not read: the grant is the one that the claim mints. The caller has passed the tenant's gate
    before it locked anything else, so that nothing can come between the two.
    """
    claimed = ready_actions.claim_actions(
        tenant_id=tenant_id,
        executor_id=request.executor_id,
        tools=None,
        limit=1,
        only=[request.action_id],
        unverifiable=unverifiable,
        by=by,
        at=at,
    )
    if not claimed:
        return None
    order = claimed[0]
    started = start_execution(
        tenant_id=tenant_id, request=replace(request, token=order.grant), unverifiable=unverifiable, by=by, at=at
    )
    return None if isinstance(started, Refused) else (order, started)


def refused_start(request: StartRequest, refusal: Refused, *, by: ledger.Actor, at: datetime) -> ledger.RefusedEvent:
    """The event of a start that was refused, for the action's record."""
    said = {"code": refusal.code, "reason": refusal.detail, "executor_id": request.executor_id}
    said |= {"grant": grants.token_hash(request.token), "key": request.thumbprint}
    return ledger.RefusedEvent(
        subject_kind="action",
        subject_id=request.action_id,
        event=ledger.NewEvent(kind="start_refused", detail=said),
        actor=by,
        at=at,
    )


def _started(
    tenant_id: UUID, request: StartRequest, unverifiable: Collection[str], *, by: ledger.Actor, at: datetime
) -> StartedExecution | Refused:
    head = ledger.lock_behind_tenant(tenant_id=tenant_id, subject_id=request.action_id, kind="action")
    basis = load_context(tenant_id, request.action_id, at=at)
    assert basis is not None
    executor = owned_executor(tenant_id, request.executor_id, by)
    grant = _verified(tenant_id, request, basis.record.now)
    if executor.thumbprint != request.thumbprint:
        raise grants.GrantWrongExecutor
    _check_unspent(tenant_id, grant, request, basis.record.now)
    if head.state != "VALIDATED" or head.entry is None:
        raise NotStartable
    attempt = head.entry["execution"]["attempt_count"] + 1
    payload = stored_payload(basis)
    try:
        grants.check_terms(grant, grant_terms(basis, executor, payload, attempt=attempt, epoch=current_epoch()))
    except binding.PolicyChanged as changed:
        # The policy changed since: grant and approval are set aside and people are asked again (RT-20, R-AP-09).
        void_grants(tenant_id=tenant_id, action_id=head.id, at=at)
        request_again(head=head, action=basis.action, at=at)
        return changed
    if request.payload_hash is not None and request.payload_hash != basis.action.payload_hash:
        return _fail_closed(head, basis, grant, request, by=by, at=at)
    _check_release(basis, unverifiable, at=at)
    ended = _ended(head, basis, at=at)
    if ended is not None:
        void_grants(tenant_id=tenant_id, action_id=head.id, at=at)
        return ended
    return _begin(head, _Redeemed(grant, basis, payload), request, by=by, at=at)


def _ended(head: ledger.SubjectHead, basis: ReleaseContext, *, at: datetime) -> Refused | None:
    """What ended the approval since it was given: its target moved on, or votes that it rests on fell (B18)."""
    drifted = drift_refusal(basis.approval, at=at)
    if drifted is not None or basis.approval is None:
        return drifted
    in_force = basis.record.policies["approval"].digest
    on = load_eligibility(basis.approval, at=at, parties=basis.parties, cast=basis.cast)
    refusal = revalidation_refusal(basis.approval, at=at, on=on, in_force=in_force)
    if isinstance(refusal, VotesFallen):
        request_again(head=head, action=basis.action, why=refusal.detail, at=at)
    elif refusal is not None:
        raise refusal
    return refusal


def _verified(tenant_id: UUID, request: StartRequest, now: datetime) -> grants.GrantClaims:
    # We read the key of the executor that presents the grant, not of the one that claimed it.
    grant = grants.verify_token(
        request.token, keys=grant_keys.accepted_keys(), issuer=settings.COUNTERFOIL_PUBLIC_URL, at=now
    )
    if grant.terms.action_id != str(request.action_id) or grant.terms.tenant != str(tenant_id):
        raise GrantInvalid
    if grant.terms.executor != request.executor_id:
        raise grants.GrantWrongExecutor
    return grant


def _check_unspent(tenant_id: UUID, grant: grants.GrantClaims, request: StartRequest, now: datetime) -> None:
    """Why the grant cannot be spent, where that is so; the lock of its action keeps the answer true until we do."""
    row = execution_queries.grant(tenant_id, UUID(grant.jti))
    if row is None or row.action_id != request.action_id or row.token_hash != grants.token_hash(request.token):
        # Signed by our key and not by us: nothing is on record of it (B29).
        raise GrantInvalid
    if row.consumed_at is not None:
        raise GrantConsumed
    if row.voided_at is not None:
        raise GrantInvalid("The grant was set aside; claim the order again.")
    if row.expires_at <= now:
        raise grants.GrantExpired


_SPEND = """
UPDATE approvals_grant SET consumed_at = clock_timestamp()
WHERE tenant_id = $1 AND jti = $2 AND action_id = $3 AND executor_id = $4 AND token_hash = $5
    AND consumed_at IS NULL AND voided_at IS NULL AND expires_at > clock_timestamp()
RETURNING jti
"""
# With the grant the attempt that it is for, with its lease, and the approval that is used up by it and by nothing else.
_REDEEM = f"""
WITH spent AS ({_SPEND}), attempt AS (
    INSERT INTO approvals_attempt (tenant_id, action_id, number, jti, executor_id, wrapper_version, started_at,
        timeout_s, lease_expires_at, ends_at)
    SELECT $1, $3, $6, jti, $4, $7, $8, $9, $10, $11 FROM spent
), lease AS (
    INSERT INTO approvals_due (tenant_id, subject_id, what, due_at) SELECT $1, $3, 'lease', $10 FROM spent
    ON CONFLICT (subject_id, what) DO UPDATE SET due_at = excluded.due_at
), due AS (DELETE FROM approvals_due WHERE subject_id = $12 AND what = 'approval'), used AS (
    UPDATE approvals_approval SET state = 'CONSUMED'
    WHERE tenant_id = $1 AND id = $12 AND state = 'APPROVED' AND release_by > clock_timestamp() RETURNING id
)
SELECT (SELECT jti FROM spent), (SELECT id FROM used)
"""


def _spend(tenant_id: UUID, grant: grants.GrantClaims, request: StartRequest) -> None:
    """The one conditional write (R-AP-07). Its own clock decides: minutes may have passed since we looked (B14)."""
    token_hash = grants.token_hash(request.token)
    if not execute(_SPEND, tenant_id, UUID(grant.jti), request.action_id, request.executor_id, token_hash):
        raise grants.GrantExpired


def _check_release(basis: ReleaseContext, unverifiable: Collection[str], *, at: datetime) -> None:
    """Everything that was true at the claim must still be true in this transaction (R-AP-24)."""
    if basis.approval is not None:
        _check_approval(basis.action, basis.approval, at=at)
    if basis.record.frozen:
        raise binding.TargetFrozen
    if basis.record.unwinding:
        raise RunTakenBack
    if basis.record.repeated:
        raise DuplicateBlocked
    if is_unverifiable(basis.action, unverifiable):
        raise SystemUnverifiable


def _check_approval(action: Action, approval: Approval, *, at: datetime) -> None:
    refusal = state_refusal(approval, at=at)
    if refusal is not None:
        raise refusal
    if approval.payload_hash != action.payload_hash:
        raise binding.PayloadChanged
    if approval.contract_digest != action.contract_digest:
        raise binding.ContractChanged


def _begin(
    head: ledger.SubjectHead, redeemed: _Redeemed, request: StartRequest, *, by: ledger.Actor, at: datetime
) -> StartedExecution:
    grant, basis = redeemed.grant, redeemed.basis
    action, approval = basis.action, basis.approval
    locked = None
    if approval is not None:
        locked = ledger.lock_subject(tenant_id=action.tenant_id, subject_id=approval.id, kind="approval")
    attempt = _redeem(basis, grant, request, at=at)
    changes: dict[str, Any] = {
        "execution": {"status": "EXECUTING", "attempt_count": attempt.number},
        "timestamps": {"executed_at": instant(at)},
    }
    key = None
    if action.mutating:
        key = basis.record.key
        assert key is not None
        changes["idempotency"] = {"key_hash": basis.record.key_hash, "status": "PENDING"}
    drafts = []
    if approval is not None and locked is not None:
        used = ledger.NewEvent(kind="approval_consumed", to="CONSUMED", detail={"action_id": str(head.id)})
        drafts.append(ledger.draft_event(locked, used, actor=ledger.SYSTEM, at=at))
        block = approval_block(approval)
        # Who approved stands there already.
        changes["approval"] = {name: said for name, said in block.items() if name != "approver_id"}
    drafts.append(ledger.draft_event(head, _happening(attempt, basis, request, changes), actor=by, at=at))
    try:
        ledger.write_events(*drafts)
    except IntegrityError as error:
        if "action_one_open_mutation" in str(error):
            raise DuplicateBlocked from None
        raise
    return StartedExecution(
        attempt.number, redeemed.payload, action.payload_hash, key, attempt.lease_expires_at, action.trace_id
    )


def _happening(
    attempt: Attempt, basis: ReleaseContext, request: StartRequest, changes: dict[str, Any]
) -> ledger.NewEvent:
    return ledger.NewEvent(
        kind="execution_started",
        to="EXECUTING",
        grounds=frozenset({Ground.RELEASED}),
        changes=changes,
        detail={
            "attempt": attempt.number,
            "jti": str(attempt.jti),
            "executor_id": request.executor_id,
            "wrapper_version": request.wrapper_version,
            "timeout_s": request.timeout_s,
        },
        view={"horizon_at": instant(effect_horizon(attempt, basis.contract))},
    )


def _redeem(basis: ReleaseContext, grant: grants.GrantClaims, request: StartRequest, *, at: datetime) -> Attempt:
    """The redemption of the grant: a row that there can be one of, with its lease.

    What it spends is written under a condition (R-AP-07), by the clock of the database as it writes (B14).
    """
    approval = basis.approval
    tenant_id, ends_at = basis.action.tenant_id, at + timedelta(seconds=request.timeout_s)
    lease = lease_duration(tenant_id, basis.record.policies["verification"].digest)
    made = Attempt(
        tenant_id=tenant_id,
        action_id=basis.action.id,
        number=grant.terms.attempt,
        jti=UUID(grant.jti),
        executor_id=request.executor_id,
        wrapper_version=request.wrapper_version,
        started_at=at,
        timeout_s=request.timeout_s,
        lease_expires_at=min(at + lease, ends_at),
        ends_at=ends_at,
    )
    [(spent, used)] = execute(
        _REDEEM,
        *(tenant_id, made.jti, made.action_id, made.executor_id, grants.token_hash(request.token)),
        *(made.number, made.wrapper_version, at, made.timeout_s, made.lease_expires_at, ends_at),
        approval.id if approval is not None else None,
    )
    if spent is None:
        raise grants.GrantExpired
    if approval is not None and used is None:
        raise binding.ApprovalExpired
    return made


def _fail_closed(
    head: ledger.SubjectHead,
    basis: ReleaseContext,
    grant: grants.GrantClaims,
    request: StartRequest,
    *,
    by: ledger.Actor,
    at: datetime,
) -> Refused:
    """Another payload than the approved one: nothing runs, grant and approval end, a person must look (RT-21)."""
    _spend(head.tenant_id, grant, request)
    if basis.approval is not None:
        void_approval(approval=basis.approval, reason="Another payload was presented at the start.", at=at)
    ledger.append(
        head,
        ledger.NewEvent(
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


def cancel_action(*, tenant_id: UUID, action_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """End an action that has not started; its approval and any live grant end with it. A refusal is put on record."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != "VALIDATED":
        refusal = NotStartable("Only an action that has not started can be cancelled.")
        said = ledger.NewEvent(kind="cancel_refused", detail={"code": refusal.code, "reason": reason})
        refused = ledger.RefusedEvent(subject_kind="action", subject_id=action_id, event=said, actor=by, at=at)
        refusal.records = (refused,)
        raise refusal
    action = actions.action(tenant_id, action_id)
    assert action is not None
    approval = approvals.approval(tenant_id, action.approval_id) if action.approval_id else None
    if approval is not None and approval.state in LIVE:
        void_approval(approval=approval, reason="The action was cancelled.", at=at)
    void_grants(tenant_id=tenant_id, action_id=action_id, at=at)
    ledger.append(
        head,
        ledger.NewEvent(
            kind="cancelled",
            to="FAILED",
            changes={"verification": {"status": "NOT_REQUIRED"}},
            detail={"code": "CANCELLED", "reason": reason},
        ),
        actor=by,
        at=at,
    )
