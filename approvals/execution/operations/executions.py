"""Starts and cancels executions: a claimed action starts once, before any effect, or not at all.

What must be true after a crash (docs/architecture.md, "After a crash"):

- Before the commit of `start`, nothing happened: the grant is unspent, and no payload was handed out.
- After it, the action is EXECUTING whether or not the executor ever hears of it; the end of the lease ends that.
- The grant is never usable twice: one conditional write spends it, and the attempt names it under a unique constraint.

A start passes the tenant's gate before it reads anything (`behind_tenant`): a policy, a freeze, an executor
or a right to decide changes before all of it or after all of it (B17, B18, B22). The clock of the database decides what
is over, at the statement that asks, however long the transaction has run and whatever the clock of the web host says
(B14).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Model

from approvals.execution import queries as execution_queries
from approvals.execution.operations import grant_keys, ready_actions
from approvals.execution.operations.executors import check_may_start, owned_executor
from approvals.execution.operations.ready_actions import ClaimedAction
from approvals.execution.operations.release_check import (
    ReleaseContext,
    decision_state,
    grant_terms,
    known_heads,
    lock_release,
    release_state,
    stored_payload,
)
from approvals.execution.rules import grants
from approvals.execution.rules.conditions import (
    AT_START,
    Condition,
    DuplicateBlocked,
    ReleaseState,
    refusal_at_start,
)
from approvals.execution.rules.grants import GrantInvalid
from approvals.models import Attempt, Deadline, Grant
from approvals.requests.operations.preflight import drift_refusal
from approvals.requests.operations.requests import LIVE, approval_block, request_again, void_approval, void_grants
from approvals.requests.queries import approvals
from approvals.sessions.queries import disclosed_contract
from approvals.voting.operations.decision import VotesFallen
from approvals.voting.rules import binding
from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.db import execute, insert, insert_call, pipeline
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from ledger.record.rules.entry import Entry
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import Ground
from ledger.record.rules.refusals import NotFound, Refused, leave_on_record

if TYPE_CHECKING:
    from ledger.models import Action


class LeaseOver(Refused):
    """The lease has expired; the effect must not start."""

    code = "LEASE_OVER"


@lru_cache(maxsize=1024)
def lease_duration(tenant_id: UUID, policy: str) -> timedelta:
    """The time that an executor may hold an attempt without reporting, from the verification policy with this digest.

    A lease is never longer than the attempt's own timeout. When it ends, the outcome is unknown.
    """
    row = catalogue_queries.policy_by_digest(tenant_id, "verification", policy)
    assert row is not None
    return timedelta(seconds=parse(bytes(row.document)).get("lease_s", 60))


def effect_horizon(attempt: Attempt, contract: Contract) -> datetime:
    """The time after which an unreported attempt cannot take effect: lease end + timeout + settling time ("Late
    effects").
    """
    settle = contract.verification.settle_s if contract.verification else 0
    return attempt.lease_expires_at + timedelta(seconds=attempt.timeout_s + settle)


def extend_lease(
    *, tenant_id: UUID, action_id: UUID, number: int, executor_id: str, by: ledger.Actor, at: datetime
) -> datetime:
    """Extend the lease, never beyond the attempt's own timeout; an expired lease stays expired."""
    owned_executor(tenant_id, executor_id, by)
    ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempt = execution_queries.attempt(tenant_id, action_id, number)
    if attempt is None or attempt.executor_id != executor_id:
        raise NotFound(detail="This executor has no attempt with this number.")
    if attempt.ended_at is not None or attempt.lease_expires_at <= at:
        raise LeaseOver
    lease = lease_duration(tenant_id, catalogue_queries.active_policies(tenant_id)["verification"].digest)
    until = min(at + lease, attempt.ends_at)
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number).update(lease_expires_at=until)
    Deadline.objects.filter(tenant_id=tenant_id, subject_id=action_id, what="lease").update(due_at=until)
    return until


_FINISH_ATTEMPT = """
WITH lease AS (DELETE FROM approvals_due WHERE tenant_id = $1 AND subject_id = $2 AND what = 'lease')
UPDATE approvals_attempt SET ended_at = $4 WHERE tenant_id = $1 AND action_id = $2 AND number = $3 AND ended_at IS NULL
"""


def finish_attempt_call(*, tenant_id: UUID, action_id: UUID, number: int, at: datetime) -> tuple[Any, ...]:
    """The call for `pipeline` that ends an attempt which its executor has reported, and its lease."""
    return _FINISH_ATTEMPT, tenant_id, action_id, number, at


def end_lease(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """End a lease that ran out: the outcome is unknown, neither failure nor success (R-EX-07, R-EX-11)."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempts = execution_queries.attempts_of(tenant_id, action_id)
    if head.state != "EXECUTING" or not attempts:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=action_id, what="lease").delete()
        return
    attempt = attempts[-1]
    if attempt.lease_expires_at > at:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=action_id, what="lease").update(
            due_at=attempt.lease_expires_at
        )
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
    execute(*finish_attempt_call(tenant_id=tenant_id, action_id=action_id, number=attempt.number, at=at))


class GrantConsumed(Refused):
    """This grant has already been used."""

    code = "GRANT_CONSUMED"


class NotStartable(Refused):
    """Only a validated action can be started."""

    code = "NOT_STARTABLE"


@dataclass(frozen=True, slots=True)
class StartedExecution:
    """The data that an executor needs to carry out exactly what was approved."""

    attempt: int
    payload: bytes
    payload_hash: str
    idempotency_key: str | None
    lease_expires_at: datetime
    trace_id: str
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """An executor's request to start; `thumbprint` is that of the key whose proof the edge has verified.

    `seen` is the latest head of the log that the executor has seen.
    """

    action_id: UUID
    token: str
    executor_id: str
    thumbprint: str
    wrapper_version: str
    timeout_s: int
    payload_hash: str | None
    seen: CheckpointBody | None = None


@dataclass(frozen=True, slots=True)
class _VerifiedGrant:
    """A verified grant that is not spent yet; `minted` is it before it is written, if it is new."""

    grant: grants.GrantClaims
    context: ReleaseContext
    payload: bytes
    minted: ready_actions.MintedGrant | None = None


def start_execution(
    *, tenant_id: UUID, request: StartRequest, unverifiable: Collection[str] = (), by: ledger.Actor, at: datetime
) -> StartedExecution | Refused:
    """Spend a grant and start an attempt, in one transaction, before any effect (R-EX-01, R-AP-24).

    A refusal is raised and rolls everything back; the edge records afterwards that the start was refused. Where the
    rules require more (the action failed closed, the approval was voided) the refusal is returned, and that commits.
    """
    with leave_on_record(lambda refusal: refused_start(request, refusal, by=by, at=at)):
        return _start(tenant_id, request, unverifiable, by=by, at=at)


def claim_and_start(
    *, tenant_id: UUID, request: StartRequest, unverifiable: Collection[str] = (), by: ledger.Actor, at: datetime
) -> tuple[ClaimedAction, StartedExecution] | None:
    """Claim one action for the executor and start it in this transaction; return None if anything prevents it.

    `request.token` is ignored: the grant is the one that the claim mints. The caller has taken the tenant's gate lock
    before any other, so that nothing can come between claim and start: the start rests on what the claim has just read
    behind that lock and those of the action and its approval. Only what the executor presents is left to be checked.
    """
    known = known_heads(tenant_id, request.seen)
    judge = ready_actions.waiting_judge(tenant_id, known, unverifiable, at=at)
    found = lock_release(tenant_id, request.action_id, executor_id=request.executor_id, at=at)
    minted = ready_actions.mint_grant(found, judge, by=by, at=at)
    if not isinstance(minted, ready_actions.MintedGrant):
        return None
    return minted.claimed, _start_minted(minted, request, by=by, at=at)


def claim_and_start_ready(
    *,
    tenant_id: UUID,
    request: StartRequest,
    tools: Iterable[str] | None,
    limit: int,
    only: Collection[UUID] | None = None,
    unverifiable: Collection[str] = (),
    by: ledger.Actor,
    at: datetime,
) -> list[tuple[ClaimedAction, StartedExecution]]:
    """Claim up to `limit` ready actions for an executor and start each in this transaction.

    The action and the token of the `request` are ignored. Nothing else may be locked before; a start that is refused is
    raised, and then nothing was claimed or started.
    """
    minted = ready_actions.mint_grants(
        tenant_id=tenant_id,
        executor_id=request.executor_id,
        tools=tools,
        only=only,
        unverifiable=unverifiable,
        seen=request.seen,
        behind_tenant=True,
        by=by,
        at=at,
    )
    return [(each.claimed, _start_minted(each, request, by=by, at=at)) for each in islice(minted, limit)]


def _start_minted(
    minted: ready_actions.MintedGrant, request: StartRequest, *, by: ledger.Actor, at: datetime
) -> StartedExecution:
    """Start an action under a grant that was minted behind the locks that are still held."""
    request = replace(request, action_id=minted.claimed.action_id, token=minted.claimed.grant)
    executor = minted.context.behind_lock.executor
    assert executor is not None
    with leave_on_record(lambda refusal: refused_start(request, refusal, by=by, at=at)):
        if executor.thumbprint != request.thumbprint:
            raise grants.GrantWrongExecutor
        verified = _VerifiedGrant(minted.claims, minted.context, minted.payload, minted)
        return _begin_execution(minted.event.head, verified, request, minted.approval_head, by=by, at=at)


def refused_start(request: StartRequest, refusal: Refused, *, by: ledger.Actor, at: datetime) -> ledger.RefusedEvent:
    """The event of a start that was refused, for the action's record."""
    detail = {"code": refusal.code, "reason": refusal.detail, "executor_id": request.executor_id}
    detail |= {"grant": grants.token_hash(request.token), "key": request.thumbprint}
    return ledger.RefusedEvent(
        subject_kind="action",
        subject_id=request.action_id,
        event=ledger.NewEvent(kind="start_refused", detail=detail),
        actor=by,
        at=at,
    )


def _start(
    tenant_id: UUID, request: StartRequest, unverifiable: Collection[str], *, by: ledger.Actor, at: datetime
) -> StartedExecution | Refused:
    known = known_heads(tenant_id, request.seen)
    head, approval_head, context = lock_release(
        tenant_id,
        request.action_id,
        executor_id=request.executor_id,
        token=request.token,
        behind_tenant=True,
        at=at,
    )
    presented = context.behind_lock.grant
    executor = check_may_start(context.behind_lock.executor, by)
    state = release_state(context, known, unverifiable, at=at)
    _check_conditions(context, state, [Condition.RECORD])
    grant = _verify_grant(tenant_id, request, context)
    if executor.thumbprint != request.thumbprint:
        raise grants.GrantWrongExecutor
    if presented is None or presented.consumed_at is None:
        _check_conditions(context, state, [Condition.AGENT])
    _check_unspent(presented, grant, context.record.now)
    if head.state != "VALIDATED" or head.entry is None:
        raise NotStartable
    attempt = head.entry["execution"]["attempt_count"] + 1
    payload = stored_payload(context)
    try:
        grants.check_terms(grant, grant_terms(context, executor, payload, attempt=attempt))
    except binding.PolicyChanged as changed:
        # The policy has changed: void grant and approval and ask people again (RT-20, R-AP-09).
        void_grants(tenant_id=tenant_id, action_id=head.id, at=at)
        request_again(head=head, action=context.action, at=at)
        return changed
    if request.payload_hash is not None and request.payload_hash != context.action.payload_hash:
        return _fail_closed(head, context, grant, request, by=by, at=at)
    fallen = _check_release(head, context, state)
    if fallen is not None:
        void_grants(tenant_id=tenant_id, action_id=head.id, at=at)
        return fallen
    return _begin_execution(head, _VerifiedGrant(grant, context, payload), request, approval_head, by=by, at=at)


def _check_release(head: ledger.SubjectHead, context: ReleaseContext, state: ReleaseState) -> Refused | None:
    """Check again, in this transaction, everything that was checked at the claim (R-AP-24).

    The refusal is raised, or returned where people are asked again: the votes no longer count (B18), or the target has
    changed.
    """
    try:
        _check_conditions(context, replace(state, decision=decision_state(context, at=state.at)), AT_START)
    except VotesFallen as fallen:
        request_again(head=head, action=context.action, why=fallen.detail, at=state.at)
        return fallen
    return drift_refusal(context.approval, at=state.at)


def _verify_grant(tenant_id: UUID, request: StartRequest, context: ReleaseContext) -> grants.GrantClaims:
    # We read the key of the executor that presents the grant, not of the one that claimed it.
    grant = grants.verify_token(
        request.token,
        keys=grant_keys.accepted_keys(context.key_change),
        issuer=settings.COUNTERFOIL_PUBLIC_URL,
        at=context.record.now,
    )
    if grant.terms.action_id != str(request.action_id) or grant.terms.tenant != str(tenant_id):
        raise GrantInvalid
    if grant.terms.executor != request.executor_id:
        raise grants.GrantWrongExecutor
    return grant


def _check_unspent(row: Grant | None, grant: grants.GrantClaims, now: datetime) -> None:
    """Refuse a grant that cannot be spent; the lock on its action keeps this true until it is.

    The row was found by its action and the hash of the token.
    """
    if row is None or row.jti != UUID(grant.jti):
        # Signed with our key, but not on record: we did not mint it (B29).
        raise GrantInvalid
    if row.consumed_at is not None:
        raise GrantConsumed
    if row.voided_at is not None:
        raise GrantInvalid("The grant was set aside; claim the order again.")
    if row.expires_at <= now:
        raise grants.GrantExpired


_SPEND_GRANT = """
UPDATE approvals_grant SET consumed_at = clock_timestamp()
WHERE tenant_id = {0} AND jti = {1} AND action_id = {2} AND executor_id = {3} AND token_hash = {4}
    AND consumed_at IS NULL AND voided_at IS NULL AND expires_at > clock_timestamp()
RETURNING jti
"""
# The same of a grant whose row is inserted by the same statement, spent already: it is good until the time {4}.
_SPEND_NEW_GRANT = "SELECT {1}::uuid AS jti WHERE {4}::timestamptz > clock_timestamp()"
# Spends the grant, inserts its attempt and lease, and consumes its approval, all in one statement.
_REDEEM_GRANT = """\
WITH spent AS (%s), attempt AS (
    INSERT INTO approvals_attempt (tenant_id, action_id, number, jti, executor_id, wrapper_version, started_at,
        timeout_s, lease_expires_at, ends_at)
    SELECT {0}, {2}, {5}, jti, {3}, {6}, {7}, {8}, {9}, {10} FROM spent
), lease AS (
    INSERT INTO approvals_due (tenant_id, subject_id, what, due_at) SELECT {0}, {2}, 'lease', {9} FROM spent
    ON CONFLICT (tenant_id, subject_id, what) DO UPDATE SET due_at = excluded.due_at
), due AS (
    DELETE FROM approvals_due WHERE tenant_id = {0} AND subject_id = {11} AND what = 'approval'
), used AS (
    UPDATE approvals_approval SET state = 'CONSUMED'
    WHERE tenant_id = {0} AND id = {11} AND state = 'APPROVED' AND release_by > clock_timestamp() RETURNING id
)
SELECT (SELECT jti FROM spent), (SELECT id FROM used)
"""
_REDEEM_OLD_GRANT, _REDEEM_NEW_GRANT = _REDEEM_GRANT % _SPEND_GRANT.strip(), _REDEEM_GRANT % _SPEND_NEW_GRANT


def _spend_grant(tenant_id: UUID, grant: grants.GrantClaims, request: StartRequest) -> None:
    """Spend the grant by one conditional write (R-AP-07), by the database's clock at that moment (B14)."""
    token_hash = grants.token_hash(request.token)
    spent = (_SPEND_GRANT, tenant_id, UUID(grant.jti), request.action_id, request.executor_id, token_hash)
    if not insert(then=spent):
        raise grants.GrantExpired


def _check_conditions(context: ReleaseContext, state: ReleaseState, among: Collection[Condition]) -> None:
    """Raise the refusal of the first of these conditions that does not hold."""
    refusal = refusal_at_start(state, among)
    if isinstance(refusal, DuplicateBlocked):
        raise DuplicateBlocked(_repeat_refusal(context.action, at=state.at))
    if refusal is not None:
        raise refusal


def _repeat_refusal(action: Action, *, at: datetime) -> str:
    """Name the other action of the same operation that blocks this one, and when the block ends."""
    blocks = actions.blocking_actions(action.tenant_id, action.operation_key, at=at)
    other = next((each for each in blocks if each.action_id != action.id), None)
    if other is None:
        return DuplicateBlocked().detail
    if other.until is not None:
        return f"The action {other.action_id} of the same operation may still take effect until {instant(other.until)}."
    ends = "an operator has settled it" if other.waits_for_a_person else "it has been verified"
    return f"The action {other.action_id} of the same operation is {other.state}; this one waits until {ends}."


def _begin_execution(
    head: ledger.SubjectHead,
    verified: _VerifiedGrant,
    request: StartRequest,
    locked: ledger.SubjectHead | None = None,
    *,
    by: ledger.Actor,
    at: datetime,
) -> StartedExecution:
    """Spend the grant and record the attempt; `locked` is the head of the action's approval, if it has one."""
    grant, context = verified.grant, verified.context
    action, approval = context.action, context.approval
    attempt = _new_attempt(context, grant, request, at=at)
    changes: dict[str, Any] = {
        "execution": {"status": "EXECUTING", "attempt_count": attempt.number},
        "timestamps": {"executed_at": instant(at)},
    }
    key = None
    if action.mutating:
        key = context.record.key
        assert key is not None
        changes["idempotency"] = {"key_hash": context.record.key_hash, "status": "PENDING"}
    new = verified.minted
    drafts = [new.event] if new is not None else []
    if approval is not None and locked is not None:
        used = ledger.NewEvent(kind="approval_consumed", to="CONSUMED", detail={"action_id": str(head.id)})
        drafts.append(ledger.draft_event(locked, used, actor=ledger.SYSTEM, at=at))
        block = approval_block(approval)
        # `approver_id` is set already.
        changes["approval"] = {name: value for name, value in block.items() if name != "approver_id"}
    drafts.append(ledger.draft_event(head, _started_event(attempt, context, request, changes), actor=by, at=at))
    try:
        [(spent, used)], _ = pipeline(_redeem_call(verified, attempt, request), ledger.events_call(*drafts))
    except IntegrityError as error:
        if "action_one_open_mutation" in str(error):
            raise DuplicateBlocked from None
        raise
    if spent is None:
        raise grants.GrantExpired
    if approval is not None and used is None:
        raise binding.ApprovalExpired
    entry = drafts[-1].head.entry
    assert entry is not None
    return StartedExecution(
        attempt=attempt.number,
        payload=verified.payload,
        payload_hash=action.payload_hash,
        idempotency_key=key,
        lease_expires_at=attempt.lease_expires_at,
        trace_id=action.trace_id,
        entry=entry,
    )


def _started_event(
    attempt: Attempt, context: ReleaseContext, request: StartRequest, changes: dict[str, Any]
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
        view={"horizon_at": instant(effect_horizon(attempt, context.contract))},
    )


def _new_attempt(context: ReleaseContext, grant: grants.GrantClaims, request: StartRequest, *, at: datetime) -> Attempt:
    """The attempt of a grant, of which there can be only one."""
    tenant_id, ends_at = context.action.tenant_id, at + timedelta(seconds=request.timeout_s)
    lease = lease_duration(tenant_id, context.record.policies["verification"].digest)
    return Attempt(
        tenant_id=tenant_id,
        action_id=context.action.id,
        number=grant.terms.attempt,
        jti=UUID(grant.jti),
        executor_id=request.executor_id,
        wrapper_version=request.wrapper_version,
        started_at=at,
        timeout_s=request.timeout_s,
        lease_expires_at=min(at + lease, ends_at),
        ends_at=ends_at,
    )


def _redeem_call(verified: _VerifiedGrant, attempt: Attempt, request: StartRequest) -> tuple[Any, ...]:
    """The call that redeems the grant (and inserts it, if it was just minted), and inserts the attempt and its lease.

    The write is conditional (R-AP-07), by the database's clock at that moment (B14).
    """
    approval, new = verified.context.approval, verified.minted
    redeem, rows = _REDEEM_OLD_GRANT, list[Model]()
    good: str | datetime = grants.token_hash(request.token)
    if new is not None:
        redeem, good = _REDEEM_NEW_GRANT, new.grant.expires_at
        new.grant.consumed_at = verified.context.record.now
        rows = [*new.key, new.grant]
    then = (
        *(redeem, attempt.tenant_id, attempt.jti, attempt.action_id, attempt.executor_id, good),
        *(attempt.number, attempt.wrapper_version, attempt.started_at, attempt.timeout_s),
        *(attempt.lease_expires_at, attempt.ends_at, approval.id if approval is not None else None),
    )
    return insert_call(*rows, then=then)


def _fail_closed(
    head: ledger.SubjectHead,
    context: ReleaseContext,
    grant: grants.GrantClaims,
    request: StartRequest,
    *,
    by: ledger.Actor,
    at: datetime,
) -> Refused:
    """Refuse a payload that was not approved: nothing runs, grant and approval end, a person must look (RT-21)."""
    _spend_grant(head.tenant_id, grant, request)
    if context.approval is not None:
        void_approval(approval=context.approval, reason="Another payload was presented at the start.", at=at)
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
    """Cancel an action that has not started, with its approval and any live grant. A refusal is recorded."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != "VALIDATED":
        event = ledger.NewEvent(kind="cancel_refused", detail={"code": NotStartable.code, "reason": reason})
        refused = ledger.RefusedEvent(subject_kind="action", subject_id=action_id, event=event, actor=by, at=at)
        raise NotStartable("Only an action that has not started can be cancelled.", records=(refused,))
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
