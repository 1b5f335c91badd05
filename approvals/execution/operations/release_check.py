"""Loads everything a release depends on: when an action is claimed, and again under the gate's lock when it starts.

Claim and start both build `GrantTerms` from the current state. A grant is compared with it field by field, and any
change in between is a refusal (B1).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.conf import settings

from approvals.agents.operations.registry_entry import refusal_to_act
from approvals.execution.operations.grant_keys import NEWEST_CHANGE
from approvals.execution.queries import STARTABLE, is_unverifiable
from approvals.execution.rules import grants
from approvals.execution.rules.conditions import ApprovalState, DecisionState, ReleaseState
from approvals.models import Agent, AgentVersion, Approval, Executor, Grant, Session, Vote
from approvals.policy.rules.policy import ApprovalPolicy
from approvals.requests.queries import deadlines
from approvals.requests.queries.approvals import VOTES_OF_ACTION, Parties, roster_columns
from approvals.sessions import queries as sessions_queries
from approvals.voting.operations.decision import votes_refusal
from approvals.voting.operations.eligibility import EligibilityContext, Roster, make_context
from approvals.voting.rules import binding
from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.actions.queries.release import (
    RecordStanding,
    ReleaseFacts,
    read_release,
    record_standing,
    release_statement,
)
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import Reversibility
from ledger.db import RawCall, columns, execute, instances, load_models, pipeline
from ledger.log import newest_heads
from ledger.log.epochs import read_public_keys
from ledger.log.newest_heads import KnownHeads
from ledger.log.rules.epoch import check_epoch
from ledger.log.rules.recency import LogStopped, RecordBehind, check_not_behind
from ledger.record import operations as ledger
from ledger.record.queries import evidence
from ledger.record.rules.canonical import canonical, digest, parse
from ledger.record.rules.refusals import NotFound, Refused

if TYPE_CHECKING:
    from ledger.models import Action

REVISION = 1
"""A changed payload is another action, so an action has one revision (R-AP-16)."""


class LockedParts(NamedTuple):
    """The parts that a claim or start reads behind its locks only: the votes, the roster, the executor and the grant
    that it presents, and the stored payload (whose it is, sealed, and the id of the key).
    """

    cast: tuple[Vote, ...]
    people: Roster
    executor: Executor | None
    grant: Grant | None
    payload_row: tuple[UUID | None, bytes | None, UUID | None]


@dataclass(frozen=True, slots=True)
class ReleaseContext:
    """The current state that a release depends on: facts on record, the approval and its votes, session and agent.

    `registered` is the agent's registration in force. `reserved` is whether a live grant holds the action, by the clock
    of the database; `override_id` names a person's decision that its tool starts although the record has gone back;
    `key_change` is the newest change of the grant keys.
    `locked` is what is read behind the locks only, None where none are held.
    """

    record: ReleaseFacts
    approval: Approval | None
    session: Session | None
    agent: Agent | None
    registered: AgentVersion | None
    reserved: bool
    override_id: str | None
    key_change: UUID
    locked: LockedParts | None = None

    @property
    def behind_lock(self) -> LockedParts:
        """The parts that are read behind the locks only, which are held."""
        assert self.locked is not None
        return self.locked

    @property
    def eligibility(self) -> EligibilityContext:
        """Return the context in which the votes are judged; the action has an approval, and its lock is held."""
        assert self.approval is not None
        locked = self.behind_lock
        return make_context(self.approval, self.parties, locked.people, locked.cast)

    @property
    def parties(self) -> Parties:
        """The action, its session and its agent."""
        return Parties(self.action, self.session, self.agent)

    @property
    def agent_refusal(self) -> Refused | None:
        """Return the reason why the agent may no longer have the action executed, or None."""
        action = self.action
        return refusal_to_act(self.session, self.agent, self.registered, tool=action.tool, version=action.tool_version)

    @property
    def agent_version(self) -> str:
        """The version of the agent behind the session."""
        return self.session.agent_version if self.session is not None else ""

    @property
    def votes(self) -> tuple[str, ...]:
        """The hashes of the statements that approve, oldest first."""
        return tuple(vote.statement_hash for vote in self.behind_lock.cast if vote.verdict in binding.AUTHORISING)

    @property
    def action(self) -> Action:
        """The action's present view."""
        return self.record.action

    @property
    def contract(self) -> Contract:
        """The contract that the action was validated against."""
        return sessions_queries.disclosed_contract(self.action.tenant_id, self.action.contract_digest)

    @property
    def rules(self) -> ApprovalPolicy:
        """The approval policy in force."""
        return deadlines.approval_policy(self.action.tenant_id, self.record.policies["approval"].digest)

    @property
    def waits_for_seal(self) -> bool:
        """Return whether the action waits until its votes are in a signed checkpoint; irreversible ones always do
        (B40).
        """
        if self.approval is None:
            return False
        irreversible = self.action.reversibility == Reversibility.IRREVERSIBLE
        return irreversible or self.approval.terms.get("wait_for_seal", True) is not False


_COLUMNS = f"""{columns(Approval, "w")}, {columns(Session, "s")}, {columns(Agent, "m")}, {columns(AgentVersion, "b")},
    EXISTS (SELECT FROM approvals_grant h WHERE h.tenant_id = $1 AND h.action_id = a.id
        AND h.consumed_at IS NULL AND h.voided_at IS NULL AND h.expires_at > clock_timestamp()),
    (SELECT max(v.id::text) FROM approvals_startoverride v WHERE v.tenant_id = $1 AND v.ended_at IS NULL
        AND v.ends_at > clock_timestamp() AND v.tools ? a.tool),
    {NEWEST_CHANGE}"""
_JOINS = """LEFT JOIN approvals_approval w ON w.tenant_id = $1 AND w.id = a.approval_id
LEFT JOIN approvals_session s ON s.tenant_id = $1 AND s.id = a.session_id
LEFT JOIN approvals_agent m ON m.tenant_id = $1 AND m.agent_id = s.agent_id
LEFT JOIN approvals_agentversion b ON b.tenant_id = $1 AND b.agent_id = m.agent_id AND b.version = m.version"""
_RELEASE_QUERY = release_statement(_COLUMNS, _JOINS)
_LOCKED_QUERY = release_statement(
    f"""{_COLUMNS}, {columns(Executor, "x")}, {columns(Grant, "g")}, v.subject_id, v.sealed, k.key_id,
    {VOTES_OF_ACTION}, {roster_columns("$3")}""",
    f"""{_JOINS}
LEFT JOIN ledger_evidence v ON v.tenant_id = $1 AND v.id = a.payload_pointer
LEFT JOIN ledger_subjectkey k ON k.tenant_id = $1 AND k.subject_id = v.subject_id
LEFT JOIN approvals_executor x ON x.tenant_id = $1 AND x.executor_id = $2
LEFT JOIN approvals_grant g ON g.tenant_id = $1 AND g.action_id = a.id AND g.token_hash = $4""",
    # The action that the statement before it, in the same message, has locked.
    action="nullif(current_setting('app.released', true), '')::uuid",
)
_LOCK = b"""SELECT l.id, l.kind, l.state, l.seq, l.head, l.entry
FROM set_config('app.released', $2::uuid::text, true), approvals_lock_release($1, $2, $3) l"""
# Both parts are materialized, so that nothing is locked but what is there alone.
_LOCK_ALONE = f"""
WITH startable AS MATERIALIZED ({STARTABLE}), alone AS MATERIALIZED (
    SELECT s.id FROM startable s WHERE NOT s.reserved AND (SELECT count(*) FROM startable) = 1
)
SELECT s.id, s.reserved, l.id, l.kind, l.state, l.seq, l.head, l.entry FROM startable s LEFT JOIN (
    SELECT k.* FROM alone a, LATERAL set_config('app.released', a.id::text, true),
        LATERAL approvals_lock_release($1, a.id, $7) k
) l ON true ORDER BY s.id, l.kind
"""


def load_context(tenant_id: UUID, action_id: UUID, *, at: datetime) -> ReleaseContext | None:
    """Load the context of an action's release, without a lock; return None if there is no such action."""
    rows = execute(_RELEASE_QUERY, tenant_id, action_id, at)
    return _read_context(rows[0])[0] if rows else None


class LockedRelease(NamedTuple):
    """An action and its approval, if it has one, both locked, and what the release depends on."""

    head: ledger.SubjectHead
    approval_head: ledger.SubjectHead | None
    context: ReleaseContext


def lock_release(
    tenant_id: UUID, action_id: UUID, *, executor_id: str, token: str = "", behind_tenant: bool = False, at: datetime
) -> LockedRelease:
    """Lock an action and its approval, and load behind the locks what its release to an executor depends on, all in one
    message; with the executor's grant, if it presents the `token` of one.

    With `behind_tenant` the tenant's gate is locked first, in shared mode (docs/decisions/0021): no policy, freeze,
    executor or approver changes until the transaction ends. Lock nothing else before it. A change of one of those waits
    for this transaction, or this one for it.
    """
    heads, [rows] = ledger.lock_subjects(
        (_LOCKED_QUERY, tenant_id, executor_id, at, grants.token_hash(token) if token else ""),
        tenant_id=tenant_id,
        locks=[RawCall(_LOCK, (action_id.bytes, bytes([behind_tenant])))],
    )
    if not heads:
        raise NotFound
    return _read_locked(heads, rows[0])


def lock_if_alone(
    tenant_id: UUID,
    executor_id: str,
    *,
    tools: list[str] | None,
    only: Collection[UUID] | None,
    after: UUID | None,
    limit: int,
    behind_tenant: bool,
    at: datetime,
) -> tuple[list[tuple[UUID, bool]], LockedRelease | None]:
    """Return a page of `STARTABLE` actions, each with whether a grant reserves it, in one message with the locked
    release of the first if it is the only one and no grant does; see `lock_release`.
    """
    wanted = (tenant_id, tools, after, None if only is None else list(only), limit, executor_id, behind_tenant)
    listed, released = pipeline((_LOCK_ALONE, *wanted), (_LOCKED_QUERY, tenant_id, executor_id, at, ""))
    heads = [ledger.read_head(tenant_id, head) for _, _, *head in listed if head[0] is not None]
    page = {action_id: reserved for action_id, reserved, *_ in listed}
    return list(page.items()), _read_locked(heads, released[0]) if heads else None


def _read_locked(heads: list[ledger.SubjectHead], row: tuple[Any, ...]) -> LockedRelease:
    context, rest = _read_context(row)
    (executor, grant), (owner, sealed, key_id, cast, *people) = load_models(rest, Executor, Grant)
    locked = LockedParts(tuple(instances(Vote, cast)), Roster.of(*people), executor, grant, (owner, sealed, key_id))
    return LockedRelease(heads[0], heads[1] if len(heads) > 1 else None, replace(context, locked=locked))


def _read_context(row: tuple[Any, ...]) -> tuple[ReleaseContext, tuple[Any, ...]]:
    facts, extra = read_release(row)
    (approval, session, agent, registered), (reserved, override_id, key_change, *rest) = load_models(
        extra, Approval, Session, Agent, AgentVersion
    )
    return ReleaseContext(facts, approval, session, agent, registered, reserved, override_id, key_change), tuple(rest)


def known_heads(tenant_id: UUID, seen: CheckpointBody | None = None) -> KnownHeads:
    """Return the heads that the record must not be older than; call it before reading the record."""
    return newest_heads.known_heads(tenant_id, seen)


def release_epoch(standing: RecordStanding) -> int:
    """Return the epoch of the installation; `EpochUnknown` unless it was signed for this database as it runs now."""
    return check_epoch(standing.signed_epoch, read_public_keys(settings.COUNTERFOIL_LOG_PUBLIC_KEY))


def _record_refusal(context: ReleaseContext, known: KnownHeads) -> RecordBehind | None:
    """The reason why an action does not start on this record, unless a person has let its tool start all the same."""
    refusal = standing_refusal(context.action.tenant_id, context.record.standing, known)
    return refusal if context.override_id is None else None


def standing_refusal(tenant_id: UUID, standing: RecordStanding, known: KnownHeads) -> RecordBehind | None:
    """Return the reason why nothing starts on this record (its log is stopped, or older than `known`), or None.

    `known` was read before the record. `EpochUnknown` if the epoch was not signed for this database.
    """
    stored = newest_heads.note_checkpoint(tenant_id, standing.note)
    if standing.stopped:
        return LogStopped(f"The log of this record is stopped ({standing.stopped}), so nothing starts.")
    epoch = release_epoch(standing)
    if standing.epoch is not None and standing.epoch != epoch:
        return RecordBehind(
            f"This record is of epoch {standing.epoch} and the installation of epoch {epoch}: it was restored, or"
            " is being restored."
        )
    try:
        newest_heads.note_epoch(tenant_id, epoch)
        for seen in known:
            check_not_behind(standing.origin, stored, seen)
    except RecordBehind as behind:
        return behind
    return None


def stop_of_starts(tenant_id: UUID) -> RecordBehind | None:
    """Return the reason why nothing of a tenant starts now, or None; `EpochUnknown` if that cannot be determined."""
    known = known_heads(tenant_id)
    return standing_refusal(tenant_id, record_standing(tenant_id), known)


def stored_payload(context: ReleaseContext) -> bytes:
    """Return the stored payload, the one that is executed (D9); refuse one that was altered at rest."""
    tenant_id, pointer = context.action.tenant_id, context.action.payload_pointer
    data = None
    if pointer is not None:
        subject_id, sealed, key_id = context.behind_lock.payload_row
        data = evidence.open_sealed(tenant_id, pointer, subject_id, sealed, key_id) if subject_id else None
    if data is None or digest(data) != context.action.payload_hash:
        raise binding.PayloadChanged
    return data


def grant_terms(context: ReleaseContext, executor: Executor, payload: bytes, *, attempt: int) -> grants.GrantTerms:
    """The terms of a grant for this attempt, from the current state."""
    action, facts = context.action, context.record
    return grants.GrantTerms(
        tenant=str(action.tenant_id),
        environment=settings.COUNTERFOIL_ENVIRONMENT,
        epoch=release_epoch(facts.standing),
        action_id=str(action.id),
        revision=REVISION,
        attempt=attempt,
        payload_hash=action.payload_hash,
        payload_length=len(payload),
        tool=action.tool,
        tool_version=action.tool_version,
        contract_digest=facts.contract_digest or "",
        target=action.target,
        precondition=context.approval.baseline_digest if context.approval is not None else "",
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        limits=grants.amount_limits(parse(payload), context.contract.arguments_schema.get("properties", {})),
        agent=action.agent,
        agent_version=context.agent_version,
        run_id=action.run_id,
        policy_digests=facts.digests,
        approval=_approval_reference(context),
        idempotency=facts.key_hash or "",
        executor=executor.executor_id,
        thumbprint=executor.thumbprint,
    )


def _approval_reference(context: ReleaseContext) -> grants.ApprovalReference | None:
    approval, position = context.approval, context.record.decided
    if approval is None:
        return None
    return grants.ApprovalReference(
        approval_id=str(approval.id),
        rule=approval.policy_row,
        terms_digest=digest(canonical(approval.terms)),
        votes=context.votes,
        logged=grants.LogReference(origin=position.origin, index=position.index, size=position.size)
        if position
        else None,
    )


def release_state(
    context: ReleaseContext,
    known: KnownHeads,
    unverifiable: Collection[str],
    *,
    log_late: bool | None = None,
    decision: DecisionState | None = None,
    at: datetime,
) -> ReleaseState:
    """The values by which the conditions of an action's release are judged; `unverifiable` names the systems to which
    nothing irreversible is released now, `known` was read before the context.
    """
    action, facts = context.action, context.record
    return ReleaseState(
        at=at,
        maintenance=facts.maintenance,
        record=_record_refusal(context, known),
        agent=context.agent_refusal,
        contract_in_force=facts.contract_digest is not None and facts.contract_digest == action.contract_digest,
        approval=_approval_state(context, context.approval, at=at) if context.approval is not None else None,
        frozen=facts.frozen,
        unwinding=facts.unwinding,
        repeated=facts.repeated,
        blocks_until=action.blocks_until,
        unverifiable=is_unverifiable(action, unverifiable),
        reserved=context.reserved,
        log_late=log_late,
        decision=decision,
    )


def decision_state(context: ReleaseContext, *, asks_now: bool = False, at: datetime) -> DecisionState:
    """The state of the decision behind an action, whose locks are held; `asks_now` is whether the policy in force would
    have people asked about one that nobody was asked about.
    """
    approval, decided = context.approval, context.record.decided
    if approval is None:
        return DecisionState(policy_changed=asks_now, refusal=None)
    return DecisionState(
        # After a restore nobody knows whether votes in the log before it were used (B16).
        policy_changed=approval.policy_digest != context.rules.digest or (decided is not None and not decided.current),
        refusal=votes_refusal(approval, at=at, context=context.eligibility),
    )


def _approval_state(context: ReleaseContext, approval: Approval, *, at: datetime) -> ApprovalState:
    refusal: Refused | None = None
    if approval.state == "EXPIRED" or (approval.release_by is not None and approval.release_by <= at):
        refusal = binding.ApprovalExpired()
    elif approval.state != "APPROVED":
        refusal = binding.ApprovalRequired()
    elif approval.payload_hash != context.action.payload_hash:
        refusal = binding.PayloadChanged()
    elif approval.contract_digest != context.action.contract_digest:
        refusal = binding.ContractChanged()
    return ApprovalState(
        refusal=refusal,
        # Nothing runs on a vote that could still be unmade.
        is_sealed=not context.waits_for_seal or context.record.decided is not None,
        terms=approval.terms,
    )
