"""Executions: an order is claimed under a grant, started once, and held by a lease.

What must be true after a crash (architecture.md, crash table):

- Before the commit of `start`, nothing happened: the grant is unspent, and no payload was handed out.
- After it, the action is EXECUTING whether or not the executor ever hears of it; the lease ends that (`end_lease`).
- The grant is never usable twice: one conditional write spends it, and the attempt names it under a unique constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from approvals import queries
from approvals.models import Approval, Attempt, Due, Executor, Grant
from approvals.operations.votes import approval_block, expire, request_again, void
from approvals.queries import disclosed_contract
from approvals.rules import binding, grants, policy, possession, readings
from approvals.rules.grants import GrantInvalid
from ledger import operations as ledger
from ledger import queries as record
from ledger.rules.canonical import parse
from ledger.rules.contract import Contract
from ledger.rules.envelope import instant
from ledger.rules.lifecycle import Ground
from ledger.rules.refusals import Refused

PAGE = 200
GRANT_KEY_SINCE = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


class UnknownExecutor(Refused):
    """There is no such executor, or it belongs to another key."""

    code = "NOT_FOUND"
    status = 404


class ExecutorTaken(Refused):
    """This executor id belongs to another key."""

    code = "EXECUTOR_TAKEN"


class GrantConsumed(Refused):
    """This grant was already used."""

    code = "GRANT_CONSUMED"


class DuplicateBlocked(Refused):
    """The same operation is still open; it must be settled before it can be repeated."""

    code = "DUPLICATE_BLOCKED"


class NotStartable(Refused):
    """Only a validated action can be started."""

    code = "NOT_STARTABLE"


class LeaseOver(Refused):
    """The lease is over; the effect must not begin any more."""

    code = "LEASE_OVER"


@dataclass(frozen=True, slots=True)
class Order:
    """A claimed order with its grant."""

    action_id: UUID
    tool: str
    version: str
    grant: str
    grant_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order that an executor may not have yet, and what it waits for (empty: it is ready)."""

    action_id: UUID
    tool: str
    version: str
    waiting_for: tuple[str, ...]


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


def register_executor(
    *, tenant_id: UUID, executor_id: str, public_jwk: dict[str, Any], tools: list[str], by: ledger.Actor, at: datetime
) -> Executor:
    """Register or change an executor's key and tools; an id stays with the API key that took it.

    One that an operator registers belongs to no API key: any may use it that proves possession of the private key.
    """
    thumbprint = possession.thumbprint(public_jwk)
    known = queries.executor(tenant_id, executor_id)
    unchanged = known is not None and (known.thumbprint, known.tools) == (thumbprint, tools)
    if known is not None and unchanged and queries.may_use(known, by.id):
        return known
    if known is not None and by.kind == "executor" and known.key_actor != by.id:
        raise ExecutorTaken
    values = {"public_jwk": public_jwk, "thumbprint": thumbprint, "tools": tools}
    if known is None:
        executor_key = ledger.new_id(at)
        known = Executor.objects.create(
            tenant_id=tenant_id,
            id=executor_key,
            executor_id=executor_id,
            key_actor=by.id if by.kind == "executor" else executor_key,
            registered_at=at,
            **values,
        )
        head = ledger.Head(tenant_id=tenant_id, id=known.id, kind="executor")
    else:
        Executor.objects.filter(tenant_id=tenant_id, id=known.id).update(**values)
        head = ledger.lock(tenant_id=tenant_id, subject_id=known.id, kind="executor")
    ledger.append(
        head,
        ledger.Happening(
            kind="executor_registered",
            to="REGISTERED",
            detail={"executor_id": executor_id, "tools": tools, "thumbprint": thumbprint},
        ),
        actor=by,
        at=at,
    )
    known.public_jwk, known.thumbprint, known.tools = public_jwk, thumbprint, tools
    return known


def orders(
    *, tenant_id: UUID, tools: Iterable[str], after: UUID | None = None, limit: int = PAGE, at: datetime
) -> list[Waiting]:
    """The validated actions of these tools, oldest first, each ready or with what it waits for."""
    found = record.actions_to_start(tenant_id, sorted(tools), approved=None, after=after, limit=limit)
    return list(_orders(tenant_id, found, at=at))


def _startable(tenant_id: UUID, tools: list[str], *, at: datetime) -> Iterator[Waiting]:
    """The same without what waits for people, page by page: nothing that waits hides what is ready behind it."""
    approved = queries.approved_actions(tenant_id)
    after, more = None, True
    while more:
        page = record.actions_to_start(tenant_id, tools, approved=approved, after=after, limit=PAGE)
        yield from _orders(tenant_id, page, at=at)
        after, more = (page[-1].id if page else None), len(page) == PAGE


def _orders(tenant_id: UUID, actions: list[Any], *, at: datetime) -> Iterator[Waiting]:
    taken = queries.reserved(tenant_id, [action.id for action in actions], at=at)
    for action in actions:
        yield Waiting(action.id, action.tool, action.tool_version, _waits_for(tenant_id, action, taken, at=at))


def _waits_for(tenant_id: UUID, action: Any, taken: set[UUID], *, at: datetime) -> tuple[str, ...]:
    waits = []
    if action.approval_id is not None:
        approval = queries.approval(tenant_id, action.approval_id)
        if approval is None or approval.state != "APPROVED":
            waits.append("approval")
    if record.freezes_on(tenant_id, agent=action.agent, tool=action.tool, target=action.target):
        waits.append("freeze")
    if action.mutating and record.open_repeat(tenant_id, action.operation_key, at=at, but=action.id):
        waits.append("open_repeat")
    if action.id in taken:
        waits.append("claim")
    if not waits and _wants_reading(tenant_id, action, at=at):
        waits.append("reading")
    return tuple(waits)


def _wants_reading(tenant_id: UUID, action: Any, *, at: datetime) -> bool:
    entry = record.entry(tenant_id, action.id, action.seq) or {}
    contract = disclosed_contract(tenant_id, action.contract_digest)
    if not readings.wants_baseline(contract, entry["intended_outcome"]["expected_predicates"]):
        return False
    taken = [taken_at for kind, taken_at, _ in record.readings(tenant_id, action.id) if kind == "reading_taken"]
    return not readings.is_fresh(taken[-1] if taken else None, at=at)


def _want_reading(tenant_id: UUID, action_id: UUID, *, by: ledger.Actor, at: datetime) -> None:
    """Ask for the state before; the order goes on from the event that brings it."""
    asked = record.readings(tenant_id, action_id)
    if asked and asked[-1][0] == "reading_wanted":
        return
    head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != "VALIDATED" or head.entry is None:
        return
    if "idempotency" in head.entry and record.idempotency(tenant_id, action_id) is None:
        # What is looked up before must be looked up the same way after, and lookups may name the key.
        request_hash = head.entry["idempotency"]["request_hash"]
        ledger.reserve_idempotency(tenant_id=tenant_id, action_id=action_id, request_hash=request_hash, at=at)
    ledger.append(head, ledger.Happening(kind="reading_wanted", detail={"for": "baseline"}), actor=by, at=at)


def claim(
    *, tenant_id: UUID, executor_id: str, tools: Iterable[str] | None, limit: int, by: ledger.Actor, at: datetime
) -> list[Order]:
    """Reserve up to `limit` ready orders for an executor, each under a grant of its own (D8)."""
    executor = _executor(tenant_id, executor_id, by)
    wanted = set(executor.tools) & set(tools if tools is not None else executor.tools)
    claimed: list[Order] = []
    for order in _startable(tenant_id, sorted(wanted), at=at):
        if len(claimed) == limit:
            break
        if order.waiting_for == ("reading",):
            _want_reading(tenant_id, order.action_id, by=by, at=at)
        minted = None if order.waiting_for else _mint(executor, order, by=by, at=at)
        if minted is not None:
            claimed.append(minted)
    return claimed


def _executor(tenant_id: UUID, executor_id: str, by: ledger.Actor) -> Executor:
    executor = queries.executor(tenant_id, executor_id)
    if executor is None or not queries.may_use(executor, by.id):
        raise UnknownExecutor
    return executor


def _mint(executor: Executor, order: Waiting, *, by: ledger.Actor, at: datetime) -> Order | None:
    tenant_id = executor.tenant_id
    head = ledger.lock(tenant_id=tenant_id, subject_id=order.action_id, kind="action")
    # Another claim may have won while we waited for the lock.
    if head.state != "VALIDATED" or queries.reserved(tenant_id, [order.action_id], at=at):
        return None
    action = record.action(tenant_id, order.action_id)
    assert action is not None
    assert head.entry is not None
    approval = queries.approval(tenant_id, action.approval_id) if action.approval_id else None
    if approval is not None and _released(approval, at=at) is not None:
        return None
    policies = record.active_policies(tenant_id)
    rules = policy.parse(parse(bytes(policies["approval"].document)))
    if _is_outdated(action, approval, rules):
        request_again(head=head, action=action, at=at)
        return None
    terms = _terms(action, executor, head.entry["execution"]["attempt_count"] + 1, policies)
    grant = _grant(terms, rules, approval, at=at)
    token = grants.mint(grant, key=grant_key())
    Grant.objects.create(
        tenant_id=tenant_id,
        jti=UUID(grant.jti),
        action_id=action.id,
        executor_id=executor.executor_id,
        token_hash=grants.token_hash(token),
        attempt=grant.terms.attempt,
        minted_at=at,
        expires_at=grant.expires_at,
    )
    ledger.append(
        head,
        ledger.Happening(
            kind="grant_minted",
            detail={"jti": grant.jti, "executor_id": executor.executor_id, "expires_at": instant(grant.expires_at)},
        ),
        actor=by,
        at=at,
    )
    return Order(action.id, action.tool, action.tool_version, token, grant.expires_at)


def _grant(
    terms: grants.Terms, rules: policy.ApprovalPolicy, approval: Approval | None, *, at: datetime
) -> grants.Grant:
    begun = _whole(at)
    return grants.Grant(
        issuer=settings.COUNTERFOIL_PUBLIC_URL,
        jti=str(ledger.new_id(at)),
        issued_at=begun,
        expires_at=_whole(rules.grant_expiry(minted_at=begun, release_by=approval.release_by if approval else None)),
        terms=terms,
    )


def _is_outdated(action: Any, approval: Approval | None, rules: policy.ApprovalPolicy) -> bool:
    """Whether the approval policy in force is another than the one that was asked (RT-20, R-AP-09)."""
    if approval is not None:
        return approval.policy_digest != rules.digest
    return policy.requirement(disclosed_contract(action.tenant_id, action.contract_digest), rules).required


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def _terms(action: Any, executor: Executor, attempt: int, policies: dict[str, Any]) -> grants.Terms:
    return grants.Terms(
        tenant=str(action.tenant_id),
        action_id=str(action.id),
        revision=1,
        attempt=attempt,
        payload_hash=action.payload_hash,
        contract_digest=action.contract_digest,
        policy_digests={kind: each.digest for kind, each in policies.items()},
        executor=executor.executor_id,
        thumbprint=executor.thumbprint,
    )


def start(*, tenant_id: UUID, request: StartRequest, by: ledger.Actor, at: datetime) -> Started | Refused:
    """Spend a grant and start an attempt, in one transaction, before any effect (R-EX-01, R-AP-24).

    A refusal is raised and leaves nothing behind, except where the rules want it on record: then it is returned, and
    what it led to (the action failed closed, the approval was set aside) commits with it.
    """
    executor = _executor(tenant_id, request.executor_id, by)
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
        grants.check(grant, _terms(action, executor, head.entry["execution"]["attempt_count"] + 1, policies))
    except binding.PolicyChanged as changed:
        return _revalidate(head, action, changed, at=at)
    if request.payload_hash is not None and request.payload_hash != action.payload_hash:
        return _fail_closed(head, action, request, by=by, at=at)
    approval = queries.approval(tenant_id, action.approval_id) if action.approval_id else None
    _check_release(action, approval, policies, at=at)
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


def _check_release(action: Any, approval: Approval | None, policies: dict[str, Any], *, at: datetime) -> None:
    """Everything that was true at the claim must still be true in this transaction (R-AP-24)."""
    tenant_id = action.tenant_id
    if approval is not None:
        refusal = _released(approval, at=at)
        if refusal is not None:
            raise refusal
        if approval.payload_hash != action.payload_hash:
            raise binding.PayloadChanged
        if approval.contract_digest != action.contract_digest:
            raise binding.ContractChanged
    if record.freezes_on(tenant_id, agent=action.agent, tool=action.tool, target=action.target):
        raise binding.TargetFrozen
    if action.mutating and record.open_repeat(tenant_id, action.operation_key, at=at, but=action.id):
        raise DuplicateBlocked


def _released(approval: Approval, *, at: datetime) -> Refused | None:
    if approval.state == "EXPIRED" or (approval.release_by is not None and approval.release_by <= at):
        return binding.ApprovalExpired()
    return None if approval.state == "APPROVED" else binding.ApprovalRequired()


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
    happening = ledger.Happening(
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


def lease_of(tenant_id: UUID) -> timedelta:
    """How long an executor may hold an attempt silently."""
    document = parse(bytes(record.active_policies(tenant_id)["verification"].document))
    return timedelta(seconds=document.get("lease_s", 60))


def horizon(attempt: Attempt, contract: Contract) -> datetime:
    """When a silent attempt can no longer take effect: lease end + timeout + settling time ("Late effects")."""
    settle = contract.verification.settle_s if contract.verification else 0
    return attempt.lease_expires_at + timedelta(seconds=attempt.timeout_s + settle)


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
    return next((vote.voter for vote in votes if vote.verdict == "approve"), None)


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


def heartbeat(
    *, tenant_id: UUID, action_id: UUID, number: int, executor_id: str, by: ledger.Actor, at: datetime
) -> datetime:
    """Extend the lease, never beyond the attempt's own timeout; a lease that is over stays over."""
    _executor(tenant_id, executor_id, by)
    ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempt = queries.attempt(tenant_id, action_id, number)
    if attempt is None or attempt.executor_id != executor_id:
        raise UnknownExecutor("There is no such attempt here.")
    if attempt.ended_at is not None or attempt.lease_expires_at <= at:
        raise LeaseOver
    until = min(at + lease_of(tenant_id), attempt.ends_at)
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number).update(lease_expires_at=until)
    Due.objects.filter(subject_id=action_id, what="lease").update(due_at=until)
    return until


def finish_attempt(*, tenant_id: UUID, action_id: UUID, number: int, at: datetime) -> None:
    """The executor has reported: its lease needs no watching any more."""
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number, ended_at__isnull=True).update(
        ended_at=at
    )
    Due.objects.filter(subject_id=action_id, what="lease").delete()


def end_lease(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """The lease ran out in silence: the outcome is unknown, which is neither failure nor success (R-EX-07, R-EX-11)."""
    head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempts = queries.attempts_of(tenant_id, action_id)
    if head.state != "EXECUTING" or not attempts:
        Due.objects.filter(subject_id=action_id, what="lease").delete()
        return
    attempt = attempts[-1]
    if attempt.lease_expires_at > at:
        Due.objects.filter(subject_id=action_id, what="lease").update(due_at=attempt.lease_expires_at)
        return
    action = record.action(tenant_id, action_id)
    assert action is not None
    contract = disclosed_contract(tenant_id, action.contract_digest)
    ledger.append(
        head,
        ledger.Happening(
            kind="lease_ended",
            to="UNKNOWN",
            changes={"execution": {"status": "UNKNOWN"}, "reconciliation": {"status": "UNKNOWN"}},
            detail={"attempt": attempt.number, "lease_expires_at": instant(attempt.lease_expires_at)},
            view={"horizon_at": instant(horizon(attempt, contract))},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
    finish_attempt(tenant_id=tenant_id, action_id=action_id, number=attempt.number, at=at)


def cancel(*, tenant_id: UUID, action_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """End an action that has not started; its approval and any live grant end with it."""
    head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != "VALIDATED":
        raise NotStartable("Only an action that has not started can be cancelled.")
    action = record.action(tenant_id, action_id)
    assert action is not None
    approval = queries.approval(tenant_id, action.approval_id) if action.approval_id else None
    if approval is not None and approval.state in ("REQUESTED", "APPROVED"):
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


def void_grants(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """End every unspent grant of an action."""
    Grant.objects.filter(
        tenant_id=tenant_id, action_id=action_id, consumed_at__isnull=True, voided_at__isnull=True
    ).update(voided_at=at)


def lapse_approval(*, tenant_id: UUID, approval_id: UUID, at: datetime) -> None:
    """An approval whose time is up authorises nothing; its action fails without having run (R-AP-08)."""
    expire(tenant_id=tenant_id, approval_id=approval_id, at=at)


@lru_cache(maxsize=1)
def grant_key() -> Ed25519PrivateKey:
    """The key that signs grants: a file outside the database."""
    key = load_pem_private_key((settings.COUNTERFOIL_SECRETS_DIR / "grant_key.pem").read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("grant_key.pem must hold an Ed25519 key")
    return key


def grant_public_key() -> grants.GrantKey:
    """The public half of the grant key, as published in the JWKS."""
    return grants.GrantKey(grant_key().public_key(), since=GRANT_KEY_SINCE)
