"""Orders: what may be started now, claimed under a grant for one executor (D8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.conf import settings

from approvals import queries
from approvals.models import Approval, Executor, Grant
from approvals.operations import clocks
from approvals.operations.executors import owned
from approvals.operations.preparing import moved_on
from approvals.operations.requests import request_again, reserve_key
from approvals.queries import disclosed_contract, is_untellable
from approvals.rules import binding, grants, policy, readings
from ledger.operations import record as ledger
from ledger.queries import log, record
from ledger.rules.canonical import parse
from ledger.rules.envelope import instant
from ledger.rules.refusals import Refused

PAGE = 200
GRANT_KEY_SINCE = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


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


def orders(
    *,
    tenant_id: UUID,
    tools: Iterable[str],
    after: UUID | None = None,
    limit: int = PAGE,
    unverifiable: Collection[str] = (),
    at: datetime,
) -> list[Waiting]:
    """The validated actions of these tools, oldest first, each ready or with what it waits for.

    `unverifiable` names the systems to which nothing irreversible is released now.
    """
    found = record.actions_to_start(tenant_id, sorted(tools), approved=None, after=after, limit=limit)
    return list(_orders(tenant_id, found, unverifiable, at=at))


def _startable(tenant_id: UUID, tools: list[str], unverifiable: Collection[str], *, at: datetime) -> Iterator[Waiting]:
    """The same without what waits for people, page by page: nothing that waits hides what is ready behind it."""
    approved = queries.approved_actions(tenant_id)
    after, more = None, True
    while more:
        page = record.actions_to_start(tenant_id, tools, approved=approved, after=after, limit=PAGE)
        yield from _orders(tenant_id, page, unverifiable, at=at)
        after, more = (page[-1].id if page else None), len(page) == PAGE


def _orders(tenant_id: UUID, actions: list[Any], unverifiable: Collection[str], *, at: datetime) -> Iterator[Waiting]:
    taken = queries.reserved(tenant_id, [action.id for action in actions], at=at)
    for action in actions:
        waits = _waits_for(tenant_id, action, taken, unverifiable, at=at)
        yield Waiting(action.id, action.tool, action.tool_version, waits)


def _waits_for(
    tenant_id: UUID, action: Any, taken: set[UUID], unverifiable: Collection[str], *, at: datetime
) -> tuple[str, ...]:
    waits = _waits_for_people(tenant_id, action)
    repeated = action.mutating and record.open_repeat(tenant_id, action.operation_key, at=at, but=action.id)
    stops = {
        "freeze": record.freezes_on(tenant_id, agent=action.agent, tool=action.tool, target=action.target),
        "unwinding": not action.relation and record.is_unwinding(tenant_id, action.run_id),
        "open_repeat": repeated,
        "back_off": action.blocks_until is not None and action.blocks_until > at,
        "verification": is_untellable(action, unverifiable),
        "claim": action.id in taken,
        "log": action.reversibility == "IRREVERSIBLE" and log.lag(tenant_id).is_late,
    }
    waits += [word for word, holds in stops.items() if holds]
    if not waits and _wants_reading(tenant_id, action, at=at):
        waits.append("reading")
    return tuple(waits)


def _waits_for_people(tenant_id: UUID, action: Any) -> list[str]:
    """The approval, and then the seal over the votes that carry it: nothing runs on a vote that could be unmade."""
    if action.approval_id is None:
        return []
    approval = queries.approval(tenant_id, action.approval_id)
    if approval is None or approval.state != "APPROVED":
        return ["approval"]
    return [] if log.is_sealed(tenant_id, approval.id) else ["seal"]


def _wants_reading(tenant_id: UUID, action: Any, *, at: datetime) -> bool:
    entry = record.entry(tenant_id, action.id, action.seq) or {}
    contract = disclosed_contract(tenant_id, action.contract_digest)
    if not readings.wants_baseline(contract, entry["intended_outcome"]["expected_predicates"]):
        return False
    taken = [taken_at for kind, taken_at, _ in record.readings(tenant_id, action.id) if kind == "reading_taken"]
    approval = queries.approval(tenant_id, action.approval_id) if action.approval_id else None
    decided_at = approval.decided_at if approval is not None else None
    return not readings.is_fresh(taken[-1] if taken else None, since=decided_at, at=at)


def _want_reading(tenant_id: UUID, action_id: UUID, *, by: ledger.Actor, at: datetime) -> None:
    """Ask for the state before; the order goes on from the event that brings it."""
    asked = record.readings(tenant_id, action_id)
    if asked and asked[-1][0] == "reading_wanted":
        return
    head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != "VALIDATED" or head.entry is None:
        return
    reserve_key(head, at=at)
    ledger.append(head, ledger.Happening(kind="reading_wanted", detail={"for": "baseline"}), actor=by, at=at)


def claim(
    *,
    tenant_id: UUID,
    executor_id: str,
    tools: Iterable[str] | None,
    limit: int,
    unverifiable: Collection[str] = (),
    by: ledger.Actor,
    at: datetime,
) -> list[Order]:
    """Reserve up to `limit` ready orders for an executor, each under a grant of its own (D8)."""
    executor = owned(tenant_id, executor_id, by)
    wanted = set(executor.tools) & set(tools if tools is not None else executor.tools)
    claimed: list[Order] = []
    for order in _startable(tenant_id, sorted(wanted), unverifiable, at=at):
        if len(claimed) == limit:
            break
        if order.waiting_for == ("reading",):
            _want_reading(tenant_id, order.action_id, by=by, at=at)
        minted = None if order.waiting_for else _mint(executor, order, by=by, at=at)
        if minted is not None:
            claimed.append(minted)
    return claimed


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
    if approval is not None:
        locked = ledger.lock(tenant_id=tenant_id, subject_id=approval.id, kind="approval")
        clocks.settle_if_late(locked, approval, at=at)
        if released(approval, at=at) is not None:
            return None
    policies = record.active_policies(tenant_id)
    rules = policy.parse(parse(bytes(policies["approval"].document)))
    if _is_outdated(action, approval, rules):
        request_again(head=head, action=action, at=at)
        return None
    if moved_on(approval, at=at) is not None:
        return None
    terms = terms_of(action, executor, head.entry["execution"]["attempt_count"] + 1, policies)
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
    return policy.requirement(disclosed_contract(action.tenant_id, action.contract_digest), rules) != ()


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def terms_of(action: Any, executor: Executor, attempt: int, policies: dict[str, Any]) -> grants.Terms:
    """What a grant for this attempt is bound to, as it holds now."""
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


def released(approval: Approval, *, at: datetime) -> Refused | None:
    """Why an approval authorises nothing now, or None where it does."""
    if approval.state == "EXPIRED" or (approval.release_by is not None and approval.release_by <= at):
        return binding.ApprovalExpired()
    return None if approval.state == "APPROVED" else binding.ApprovalRequired()


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
