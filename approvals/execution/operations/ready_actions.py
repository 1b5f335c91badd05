"""Actions that are ready to start, and their claims: each is granted to one executor (D8)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from approvals.execution import queries as execution_queries
from approvals.execution.operations import grant_keys
from approvals.execution.operations.executors import owned_executor
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
from approvals.models import Executor, Grant
from approvals.policy.operations.policy_evaluation import reevaluate_policy
from approvals.policy.rules import allowed_hours
from approvals.requests.operations import clocks
from approvals.requests.operations.preflight import drift_refusal
from approvals.requests.operations.requests import lock_with_action, request_again, reserve_key
from approvals.requests.rules import drift
from approvals.voting.operations.decision import VotesFallen, revalidation_refusal
from approvals.voting.operations.eligibility import load_context as load_eligibility
from approvals.voting.rules import quorum
from ledger.actions.queries import actions
from ledger.actions.queries import readings as readings_read
from ledger.catalogue.rules.effects import Reversibility
from ledger.db import insert
from ledger.log.queries import log
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.envelope import instant

if TYPE_CHECKING:
    from ledger.models import Idempotency

PAGE = 200


@dataclass(frozen=True, slots=True)
class ClaimedAction:
    """A claimed order with its grant."""

    action_id: UUID
    tool: str
    version: str
    grant: str
    grant_expires_at: datetime
    approval_id: UUID | None


@dataclass(frozen=True, slots=True)
class ReadyAction:
    """An order that an executor may not have yet, and what it waits for (empty: it is ready)."""

    action_id: UUID
    tool: str
    version: str
    waiting_for: tuple[str, ...]


def ready_actions(
    *,
    tenant_id: UUID,
    tools: Iterable[str],
    after: UUID | None = None,
    limit: int = PAGE,
    unverifiable: Collection[str] = (),
    at: datetime,
) -> list[ReadyAction]:
    """The validated actions of these tools, oldest first, each ready or with what it waits for.

    `unverifiable` names the systems to which nothing irreversible is released now.
    """
    found = actions.ids_to_start(tenant_id, sorted(tools), after=after, limit=limit)
    held = [basis for basis in (load_context(tenant_id, action_id, at=at) for action_id in found) if basis is not None]
    is_late = _lateness(tenant_id)
    return [_waiting(basis, unverifiable, is_late, at=at) for basis in held]


def _waiting(
    basis: ReleaseContext, unverifiable: Collection[str], is_late: Callable[[], bool], *, at: datetime
) -> ReadyAction:
    action = basis.action
    waits = [*_waits_for(basis, unverifiable, is_late, at=at), *(["claim"] if basis.reserved else [])]
    if not waits:
        entry = events.entry(action.tenant_id, action.id, action.seq) or {}
        waits = ["reading"] if _wants_reading(basis, entry, at=at) else []
    return ReadyAction(action.id, action.tool, action.tool_version, tuple(waits))


def _startable(tenant_id: UUID, tools: list[str], *, only: Collection[UUID] | None) -> Iterator[UUID]:
    """What waits for nobody's vote and is nobody's yet, page by page: nothing that waits hides what is behind it."""
    after, more = None, True
    while more:
        page = execution_queries.startable_actions(tenant_id, tools, only=only, after=after, limit=PAGE)
        yield from (action_id for action_id, reserved in page if not reserved)
        after, more = (page[-1][0] if page else None), len(page) == PAGE


def _lateness(tenant_id: UUID) -> Callable[[], bool]:
    """Whether the log of a tenant is late, asked once where anybody wants to know."""
    return cache(lambda: log.lag(tenant_id).is_late)


def _waits_for(
    basis: ReleaseContext, unverifiable: Collection[str], is_late: Callable[[], bool], *, at: datetime
) -> Iterator[str]:
    """Everything that keeps an order back, but other claims and readings."""
    action, held, approval = basis.action, basis.record, basis.approval
    if approval is not None and approval.state != "APPROVED":
        yield "approval"
    elif basis.waits_for_seal and held.decided is None:
        # Nothing runs on a vote that could still be unmade.
        yield "seal"
    elif not allowed_hours.are_open(quorum.read_terms(approval.terms).hours if approval is not None else (), at=at):
        yield "hours"
    stops = {
        # A version that was rolled back starts nothing more.
        "contract": held.contract_digest is None,
        "freeze": held.frozen,
        "unwinding": held.unwinding,
        "open_repeat": held.repeated,
        "back_off": action.blocks_until is not None and action.blocks_until > at,
        "verification": is_unverifiable(action, unverifiable),
        "log": action.reversibility == Reversibility.IRREVERSIBLE and is_late(),
    }
    yield from (word for word, holds in stops.items() if holds)


def _wants_reading(basis: ReleaseContext, entry: Any, *, at: datetime) -> bool:
    if not drift.wants_baseline(basis.contract, entry["intended_outcome"]["expected_predicates"]):
        return False
    known = readings_read.readings(basis.action.tenant_id, basis.action.id)
    taken = [taken_at for kind, taken_at, _ in known if kind == "reading_taken"]
    decided_at = basis.approval.decided_at if basis.approval is not None else None
    return not drift.is_fresh(taken[-1] if taken else None, since=decided_at, at=at)


def _want_reading(head: ledger.SubjectHead, *, by: ledger.Actor, at: datetime) -> None:
    """Ask for the state before; the order goes on from the event that brings it."""
    asked = readings_read.readings(head.tenant_id, head.id)
    if asked and asked[-1][0] == "reading_wanted":
        return
    reserve_key(head, at=at)
    ledger.append(head, ledger.NewEvent(kind="reading_wanted", detail={"for": "baseline"}), actor=by, at=at)


def claim_actions(
    *,
    tenant_id: UUID,
    executor_id: str,
    tools: Iterable[str] | None,
    limit: int,
    only: Collection[UUID] | None = None,
    unverifiable: Collection[str] = (),
    by: ledger.Actor,
    at: datetime,
) -> list[ClaimedAction]:
    """Reserve up to `limit` ready orders for an executor, each under a grant of its own (D8); of `only` these actions,
    where they are given.
    """
    executor = owned_executor(tenant_id, executor_id, by)
    wanted = set(executor.tools) & set(tools if tools is not None else executor.tools)
    is_late = _lateness(tenant_id)
    claimed: list[ClaimedAction] = []
    for action_id in _startable(tenant_id, sorted(wanted), only=only):
        if len(claimed) == limit:
            break
        basis = load_context(tenant_id, action_id, at=at)
        # Somebody may have been between the page of free actions and the gathering: a claim reserves.
        if basis is None or basis.reserved or any(_waits_for(basis, unverifiable, is_late, at=at)):
            continue
        minted = _claimed(executor, basis, by=by, at=at)
        if minted is not None:
            claimed.append(minted)
    return claimed


def _claimed(executor: Executor, basis: ReleaseContext, *, by: ledger.Actor, at: datetime) -> ClaimedAction | None:
    """The order under its lock: minted, asked about again, or not ours."""
    action, approval = basis.action, basis.approval
    if approval is not None:
        head, locked = lock_with_action(executor.tenant_id, approval.id)
    else:
        head, locked = ledger.lock_subject(tenant_id=executor.tenant_id, subject_id=action.id, kind="action"), None
    # A grant is an event of its action: if nothing happened to the action since we gathered, nobody else was faster.
    if head.state != "VALIDATED" or head.seq != action.seq or head.entry is None:
        return None
    if basis.approval is not None and locked is not None:
        clocks.settle_clock_if_late(locked, basis.approval, at=at)
        if locked.state != "APPROVED" or state_refusal(basis.approval, at=at) is not None:
            return None
    if _wants_reading(basis, head.entry, at=at):
        _want_reading(head, by=by, at=at)
        return None
    refusal = None
    if basis.approval is not None:
        in_force = basis.record.policies["approval"].digest
        on = load_eligibility(basis.approval, at=at, parties=basis.parties, cast=basis.cast)
        refusal = revalidation_refusal(basis.approval, at=at, on=on, in_force=in_force)
    if _is_outdated(basis, head.entry, at=at):
        request_again(head=head, action=action, at=at)
        return None
    if isinstance(refusal, VotesFallen):
        request_again(head=head, action=action, why=refusal.detail, at=at)
    if refusal is not None or drift_refusal(basis.approval, at=at) is not None:
        return None
    return _mint(executor, head, basis, by=by, at=at)


def _mint(
    executor: Executor, head: ledger.SubjectHead, basis: ReleaseContext, *, by: ledger.Actor, at: datetime
) -> ClaimedAction | None:
    action, entry = basis.action, head.entry
    assert entry is not None
    # The clock of the database, by which the grant will be judged; ours may be wrong.
    begun = basis.record.now.replace(microsecond=0)
    release_by = basis.approval.release_by if basis.approval is not None else None
    expires = basis.rules.grant_expiry(minted_at=begun, release_by=release_by).replace(microsecond=0)
    if expires <= begun:
        return None
    basis, key = _with_key(basis)
    grant = grants.GrantClaims(
        issuer=settings.COUNTERFOIL_PUBLIC_URL,
        jti=str(ledger.new_id(at)),
        issued_at=begun,
        expires_at=expires,
        terms=grant_terms(
            basis,
            executor,
            stored_payload(basis),
            attempt=entry["execution"]["attempt_count"] + 1,
            epoch=current_epoch(),
        ),
    )
    token = grants.mint_token(grant, key=grant_keys.signing_key(basis.record.now))
    insert(
        *key,
        Grant(
            tenant_id=executor.tenant_id,
            jti=UUID(grant.jti),
            action_id=action.id,
            executor_id=executor.executor_id,
            token_hash=grants.token_hash(token),
            attempt=grant.terms.attempt,
            minted_at=basis.record.now,
            expires_at=expires,
        ),
    )
    ledger.append(head, _minted(grant, grants.token_hash(token)), actor=by, at=at)
    return ClaimedAction(action.id, action.tool, action.tool_version, token, expires, action.approval_id)


def _minted(grant: grants.GrantClaims, token_hash: str) -> ledger.NewEvent:
    return ledger.NewEvent(
        kind="grant_minted",
        detail={
            "jti": grant.jti,
            "executor_id": grant.terms.executor,
            "expires_at": instant(grant.expires_at),
            "attempt": grant.terms.attempt,
            "token_hash": token_hash,
            "epoch": grant.terms.epoch,
        },
    )


def _with_key(basis: ReleaseContext) -> tuple[ReleaseContext, list[Idempotency]]:
    """The same, with the idempotency key that the mutation will be sent with, and its row where it is a fresh one: the
    grant names the key by its hash.
    """
    action = basis.action
    if not action.mutating or basis.record.key_hash is not None:
        return basis, []
    kept = ledger.make_idempotency(tenant_id=action.tenant_id, action_id=action.id, request_hash=action.payload_hash)
    return replace(basis, record=basis.record._replace(key=kept.key, key_hash=kept.key_hash)), [kept]


def _is_outdated(basis: ReleaseContext, entry: Any, *, at: datetime) -> bool:
    """Whether people must be asked again: the policy is another than the one that was asked (RT-20, R-AP-09), or the
    votes stand in a log from before a restore, after which nobody knows whether they were used (B16).
    """
    if basis.approval is None:
        return _is_asked_now(basis, entry, at=at)
    decided = basis.record.decided
    return basis.approval.policy_digest != basis.rules.digest or (decided is not None and not decided.current)


def _is_asked_now(basis: ReleaseContext, entry: Any, *, at: datetime) -> bool:
    """Whether a policy that came after the call wants people to be asked, or the call refused, that went unasked."""
    if entry["policy_context"]["approval_policy_version"] == basis.rules.version:
        return False
    demand, _ = reevaluate_policy(basis.action, rules=basis.rules, at=at)
    return demand.outcome != "auto"
