"""Actions that are ready to start, and their claims: each is granted to one executor (D8)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from approvals.execution.operations import grant_keys, read_first
from approvals.execution.operations.executors import check_may_start, starting_executor
from approvals.execution.operations.release_check import (
    LockedRelease,
    ReleaseContext,
    decision_state,
    grant_terms,
    known_heads,
    load_context,
    lock_if_alone,
    lock_release,
    release_state,
    stored_payload,
)
from approvals.execution.queries import STARTABLE
from approvals.execution.rules import grants
from approvals.execution.rules.conditions import (
    ASKED_AGAIN,
    WAITED_FOR,
    Condition,
    ReleaseState,
    unmet_conditions,
)
from approvals.models import Executor, Grant
from approvals.policy.operations.policy_evaluation import reevaluate_policy
from approvals.requests.operations import clocks
from approvals.requests.operations.preflight import drift_refusal
from approvals.requests.operations.requests import end_unreadable_action, request_again, reserve_key
from approvals.requests.rules import drift
from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.actions.queries import actions
from ledger.actions.queries import readings as readings_read
from ledger.catalogue.rules.effects import Reversibility
from ledger.db import defer, execute, insert_call
from ledger.log.newest_heads import KnownHeads
from ledger.log.queries import log
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from ledger.models import Idempotency

PAGE = 200


@dataclass(frozen=True, slots=True)
class ClaimedAction:
    """An action that an executor has claimed, with its grant; `override_id` names a person's decision to start it
    although the record is older than a head seen before.
    """

    action_id: UUID
    tool: str
    version: str
    grant: str
    grant_expires_at: datetime
    approval_id: UUID | None
    override_id: str | None


@dataclass(frozen=True, slots=True)
class MintedGrant:
    """A new grant, before its rows and its event are written; `context` has the idempotency key that it names, `key`
    its row if it is new, and `approval_head` is that of the action's locked approval, if it has one.
    """

    approval_head: ledger.SubjectHead | None
    claims: grants.GrantClaims
    claimed: ClaimedAction
    context: ReleaseContext
    payload: bytes
    key: list[Idempotency]
    grant: Grant
    event: ledger.EventDraft

    @property
    def calls(self) -> tuple[Any, ...]:
        """The calls for `pipeline` that write it."""
        return insert_call(*self.key, self.grant), ledger.events_call(self.event)


@dataclass(frozen=True, slots=True)
class ReadyAction:
    """A validated action and what it waits for; `waits` is empty if an executor may claim it."""

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
    """The validated actions of these tools, oldest first, each with what it waits for.

    `unverifiable` names the systems to which nothing irreversible is released now.
    """
    judge = waiting_judge(tenant_id, known_heads(tenant_id), unverifiable, at=at)
    ids = actions.ids_to_start(tenant_id, sorted(tools), after=after, limit=limit)
    contexts = (load_context(tenant_id, action_id, at=at) for action_id in ids)
    return [_ready_action(context, judge(context), at=at) for context in contexts if context is not None]


def ready_action(
    *, tenant_id: UUID, action_id: UUID, unverifiable: Collection[str] = (), at: datetime
) -> ReadyAction | None:
    """One validated action, as `ready_actions` lists it."""
    judge = waiting_judge(tenant_id, known_heads(tenant_id), unverifiable, at=at)
    context = load_context(tenant_id, action_id, at=at)
    return _ready_action(context, judge(context), at=at) if context is not None else None


def _ready_action(context: ReleaseContext, state: ReleaseState, *, at: datetime) -> ReadyAction:
    action = context.action
    unmet = list(unmet_conditions(state, WAITED_FOR))
    if not unmet:
        entry = events.entry(action.tenant_id, action.id, action.seq) or {}
        must_read = _needs_baseline_reading(context, entry, at=at) or read_first.waits_for_reading(context, at=at)
        unmet = list(unmet_conditions(replace(state, needs_reading=must_read), [Condition.READING]))
    return ReadyAction(action.id, action.tool, action.tool_version, tuple(each.word for each in unmet))


def _lock_startable(
    tenant_id: UUID,
    executor_id: str,
    tools: Iterable[str] | None,
    judge: Callable[[ReleaseContext], ReleaseState],
    *,
    only: Collection[UUID] | None,
    behind_tenant: bool,
    at: datetime,
) -> Iterator[LockedRelease]:
    """Lock the unclaimed actions that need no vote, page by page, so that waiting ones hide none.

    One alone is locked at once; of several only what waits for nothing, so that a look locks few.
    """
    wanted = sorted(set(tools)) if tools is not None else None
    after, more = None, True
    while more:
        page, alone = lock_if_alone(
            tenant_id,
            executor_id,
            tools=wanted,
            only=only,
            after=after,
            limit=PAGE,
            behind_tenant=behind_tenant,
            at=at,
        )
        if alone is not None:
            yield alone
            return
        for action_id, reserved in page:
            if not reserved and _may_be_claimed(tenant_id, action_id, judge, at=at):
                yield lock_release(tenant_id, action_id, executor_id=executor_id, behind_tenant=behind_tenant, at=at)
        after, more = (page[-1][0] if page else None), len(page) == PAGE


def waiting_judge(
    tenant_id: UUID, known: KnownHeads, unverifiable: Collection[str], *, at: datetime
) -> Callable[[ReleaseContext], ReleaseState]:
    """A function that gives the values by which the conditions are judged that actions wait for.

    `known` was read before the actions. The log is asked once, on first use, whether it is late.
    """
    is_late = cache(lambda: log.lag(tenant_id).is_late)

    def judge(context: ReleaseContext) -> ReleaseState:
        log_late = context.action.reversibility == Reversibility.IRREVERSIBLE and is_late()
        return release_state(context, known, unverifiable, log_late=log_late, at=at)

    return judge


def _needs_baseline_reading(context: ReleaseContext, entry: Any, *, at: datetime) -> bool:
    if not drift.wants_baseline(context.contract, entry["intended_outcome"]["expected_predicates"]):
        return False
    known = readings_read.readings(context.action.tenant_id, context.action.id)
    taken = [taken_at for kind, taken_at, _ in known if kind == "reading_taken"]
    decided_at = context.approval.decided_at if context.approval is not None else None
    return not drift.is_fresh(taken[-1] if taken else None, since=decided_at, at=at)


def _request_reading(head: ledger.SubjectHead, *, by: ledger.Actor, at: datetime) -> None:
    """Request a reading of the state before the action; the claim can proceed once it is recorded."""
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
    seen: CheckpointBody | None = None,
    by: ledger.Actor,
    at: datetime,
) -> list[ClaimedAction]:
    """Reserve up to `limit` ready actions for an executor, each under its own grant (D8); see `mint_grants`."""
    claimed = []
    minted = mint_grants(
        tenant_id=tenant_id,
        executor_id=executor_id,
        tools=tools,
        only=only,
        unverifiable=unverifiable,
        seen=seen,
        by=by,
        at=at,
    )
    for each in islice(minted, limit):
        defer(*each.calls)
        claimed.append(each.claimed)
    return claimed


_ANY_STARTABLE = f"SELECT EXISTS (SELECT FROM ({STARTABLE}) s WHERE NOT s.reserved)"


def has_startable(
    tenant_id: UUID, executor_id: str, *, tools: Iterable[str] | None, only: Collection[UUID] | None
) -> bool:
    """Return whether a claim would find an action that it may lock; one statement, which writes nothing."""
    wanted = (sorted(set(tools)) if tools is not None else None, None, None if only is None else list(only), None)
    [(is_there,)] = execute(_ANY_STARTABLE, tenant_id, *wanted, executor_id)
    return bool(is_there)


def mint_grants(
    *,
    tenant_id: UUID,
    executor_id: str,
    tools: Iterable[str] | None,
    only: Collection[UUID] | None,
    unverifiable: Collection[str],
    seen: CheckpointBody | None,
    behind_tenant: bool = False,
    by: ledger.Actor,
    at: datetime,
) -> Iterator[MintedGrant]:
    """Lock the ready actions of an executor one by one, oldest first, and mint the grant of each, which the caller
    writes; `only` limits the choice. With `behind_tenant` the tenant's gate is locked first.

    `RecordBehind` after the last, where none was ready and some were but for the record, which has gone back, also
    behind the head that the caller has `seen`.
    """
    known = known_heads(tenant_id, seen)
    judge = waiting_judge(tenant_id, known, unverifiable, at=at)
    behind: Refused | None = None
    is_known = is_minted = False
    startable = _lock_startable(tenant_id, executor_id, tools, judge, only=only, behind_tenant=behind_tenant, at=at)
    for release in startable:
        is_known = True
        minted = mint_grant(release, judge, by=by, at=at)
        if isinstance(minted, MintedGrant):
            is_minted = True
            yield minted
        elif minted is not None:
            behind = minted
    if not is_known:
        starting_executor(tenant_id, executor_id, by)
    if behind is not None and not is_minted:
        raise behind


def _may_be_claimed(
    tenant_id: UUID, action_id: UUID, judge: Callable[[ReleaseContext], ReleaseState], *, at: datetime
) -> bool:
    """Return whether an action that was approved when it was listed seems to wait for nothing, or only for the record.

    Whether it still is approved shows behind its lock, once its clock is settled.
    """
    context = load_context(tenant_id, action_id, at=at)
    looked_at = set(WAITED_FOR) - {Condition.APPROVAL, Condition.RECORD}
    return context is not None and not any(unmet_conditions(judge(context), looked_at))


def mint_grant(
    release: LockedRelease,
    judge: Callable[[ReleaseContext], ReleaseState],
    *,
    by: ledger.Actor,
    at: datetime,
) -> MintedGrant | Refused | None:
    """Mint the grant of a locked action for the executor that was read with it; the caller writes it.

    None if the action waits for something, or needs a reading or another approval first, which is then requested; the
    refusal if only the record keeps it from starting. `judge` comes from `waiting_judge`.
    """
    executor = check_may_start(release.context.behind_lock.executor, by)
    release = _settle_clock(release, at=at)
    head, _, context = release
    if head.state != "VALIDATED" or head.entry is None or context.action.tool not in executor.tools:
        return None
    state = judge(context)
    unmet = list(unmet_conditions(state, WAITED_FOR))
    if unmet:
        return state.record if unmet == [Condition.RECORD] else None
    try:
        payload = stored_payload(context)
    except CannotOpen:
        end_unreadable_action(head, context.action, context.approval, at=at)
        return None
    return _grant_locked(executor, release, state, payload, by=by, at=at)


def _settle_clock(release: LockedRelease, *, at: datetime) -> LockedRelease:
    """The release with the clock of its approval settled, if it was approved."""
    approval, locked = release.context.approval, release.approval_head
    if approval is None or locked is None or locked.state != "APPROVED":
        return release
    return release._replace(approval_head=clocks.settle_clock_if_late(locked, approval, at=at))


def _grant_locked(
    executor: Executor,
    release: LockedRelease,
    state: ReleaseState,
    payload: bytes,
    *,
    by: ledger.Actor,
    at: datetime,
) -> MintedGrant | None:
    """Mint the grant of a locked action that waits for nothing; return None after requesting a reading or a new
    approval that it needs first.
    """
    head, _, context = release
    assert head.entry is not None
    if not read_first.settle_first(head, context, by=by, at=at):
        return None
    if _needs_baseline_reading(context, head.entry, at=at):
        _request_reading(head, by=by, at=at)
        return None
    asks_now = context.approval is None and _policy_now_asks(context, head.entry, at=at)
    decision = decision_state(context, asks_now=asks_now, at=at)
    unmet = next(unmet_conditions(replace(state, decision=decision), ASKED_AGAIN), None)
    if unmet is Condition.POLICY:
        request_again(head=head, action=context.action, at=at)
    elif decision.refusal is not None:
        request_again(head=head, action=context.action, why=decision.refusal.detail, at=at)
    if unmet is not None or drift_refusal(context.approval, at=at) is not None:
        return None
    return _write_grant(executor, release, payload, by=by, at=at)


def _write_grant(
    executor: Executor, release: LockedRelease, payload: bytes, *, by: ledger.Actor, at: datetime
) -> MintedGrant | None:
    head, approval_head, context = release
    action, entry = context.action, head.entry
    assert entry is not None
    # The grant will be checked against the clock of the database; ours may be wrong.
    begun = context.record.now.replace(microsecond=0)
    release_by = context.approval.release_by if context.approval is not None else None
    expires = context.rules.grant_expiry(minted_at=begun, release_by=release_by).replace(microsecond=0)
    if expires <= begun:
        return None
    context, key = _ensure_idempotency_key(context)
    grant = grants.GrantClaims(
        issuer=settings.COUNTERFOIL_PUBLIC_URL,
        jti=str(ledger.new_id(at)),
        issued_at=begun,
        expires_at=expires,
        terms=grant_terms(
            context,
            executor,
            payload,
            attempt=entry["execution"]["attempt_count"] + 1,
        ),
    )
    token = grants.mint_token(grant, key=grant_keys.signing_key(context.record.now, context.key_change))
    row = Grant(
        tenant_id=executor.tenant_id,
        jti=UUID(grant.jti),
        action_id=action.id,
        executor_id=executor.executor_id,
        token_hash=grants.token_hash(token),
        attempt=grant.terms.attempt,
        minted_at=context.record.now,
        expires_at=expires,
    )
    return MintedGrant(
        claims=grant,
        claimed=ClaimedAction(
            action.id, action.tool, action.tool_version, token, expires, action.approval_id, context.override_id
        ),
        approval_head=approval_head,
        context=context,
        payload=payload,
        key=key,
        grant=row,
        event=ledger.draft_event(head, _grant_event(grant, row.token_hash, context.override_id), actor=by, at=at),
    )


def _grant_event(grant: grants.GrantClaims, token_hash: str, override_id: str | None) -> ledger.NewEvent:
    return ledger.NewEvent(
        kind="grant_minted",
        detail={
            "jti": grant.jti,
            "executor_id": grant.terms.executor,
            "expires_at": instant(grant.expires_at),
            "attempt": grant.terms.attempt,
            "token_hash": token_hash,
            "epoch": grant.terms.epoch,
        }
        | ({"override_id": override_id} if override_id else {}),
    )


def _ensure_idempotency_key(context: ReleaseContext) -> tuple[ReleaseContext, list[Idempotency]]:
    """The context with the mutation's idempotency key, which the grant names by its hash; also the row of a new key."""
    action = context.action
    if not action.mutating or context.record.key_hash is not None:
        return context, []
    kept = ledger.make_idempotency(tenant_id=action.tenant_id, action_id=action.id, request_hash=action.payload_hash)
    return replace(context, record=context.record._replace(key=kept.key, key_hash=kept.key_hash)), [kept]


def _policy_now_asks(context: ReleaseContext, entry: Any, *, at: datetime) -> bool:
    """Return True if a policy newer than the call would hold or refuse it although no approval was requested then."""
    if entry["policy_context"]["approval_policy_version"] == context.rules.version:
        return False
    demand, _ = reevaluate_policy(context.action, rules=context.rules, at=at)
    return demand.outcome != "auto"
