"""Loads everything a release depends on: when an action is claimed, and again under the gate's lock when it starts.

Both sides build the same `GrantTerms` from what holds at that moment. So a grant is compared with the present field by
field, and whatever changed in between is a refusal (B1).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from approvals.execution.rules import grants
from approvals.models import Agent, Approval, Executor, Session, Vote
from approvals.policy.rules.policy import ApprovalPolicy
from approvals.requests.queries import deadlines
from approvals.requests.queries.approvals import Parties
from approvals.sessions import queries as sessions_queries
from approvals.voting.queries import votes
from approvals.voting.rules import binding
from ledger.actions.queries.release import DecisionPosition, ReleaseFacts, read_release, release_statement
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import Reversibility
from ledger.db import columns, execute, take
from ledger.log.signer_state import read_epoch
from ledger.record.queries import evidence
from ledger.record.rules.canonical import canonical, digest, parse
from ledger.record.rules.refusals import Refused

REVISION = 1
"""A changed payload is another action, so an action has one revision (R-AP-16)."""


@dataclass(frozen=True, slots=True)
class ReleaseContext:
    """What holds now: the record's side, the approval with the votes that were cast, and who is behind the action.

    `reserved` says whether a live grant held the action, by the clock of the database.
    """

    record: ReleaseFacts
    approval: Approval | None
    session: Session | None
    agent: Agent | None
    reserved: bool
    cast: tuple[Vote, ...]

    @property
    def parties(self) -> Parties:
        """The action, its session and its agent."""
        return Parties(self.action, self.session, self.agent)

    @property
    def agent_version(self) -> str:
        """The version of the agent behind the session."""
        return self.session.agent_version if self.session is not None else ""

    @property
    def votes(self) -> tuple[str, ...]:
        """The hashes of the statements that approve, oldest first."""
        return tuple(vote.statement_hash for vote in self.cast if vote.verdict in binding.AUTHORISING)

    @property
    def action(self) -> Any:
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
        """Whether nothing runs before the votes are in a signed checkpoint; the irreversible always waits (B40)."""
        if self.approval is None:
            return False
        irreversible = self.action.reversibility == Reversibility.IRREVERSIBLE
        return irreversible or self.approval.terms.get("wait_for_seal", True) is not False


_RELEASE = release_statement(
    f"""{columns(Approval, "w")}, {columns(Session, "s")}, {columns(Agent, "m")},
    EXISTS (SELECT FROM approvals_grant h WHERE h.tenant_id = $1 AND h.action_id = a.id
        AND h.consumed_at IS NULL AND h.voided_at IS NULL AND h.expires_at > clock_timestamp())""",
    """LEFT JOIN approvals_approval w ON w.tenant_id = $1 AND w.id = a.approval_id
LEFT JOIN approvals_session s ON s.tenant_id = $1 AND s.id = a.session_id
LEFT JOIN approvals_agent m ON m.tenant_id = $1 AND m.agent_id = s.agent_id""",
)


def load_context(tenant_id: UUID, action_id: UUID, *, at: datetime) -> ReleaseContext | None:
    """What a release of this action rests on; None where there is no such action."""
    rows = execute(_RELEASE, tenant_id, action_id, at)
    if not rows:
        return None
    facts, beside = read_release(rows[0])
    (approval, session, agent), (reserved,) = take(beside, Approval, Session, Agent)
    cast = tuple(votes.votes_of(tenant_id, approval.id)) if approval is not None else ()
    return ReleaseContext(facts, approval, session, agent, reserved, cast)


def current_epoch() -> int:
    """The epoch of this installation; `EpochUnknown` where nobody told it."""
    return read_epoch(settings.COUNTERFOIL_EPOCH)


def stored_payload(basis: ReleaseContext) -> bytes:
    """The stored payload, which is the one that executes (D9); one that was altered at rest is refused."""
    data = evidence.open_evidence(basis.action.tenant_id, basis.action.payload_pointer) or b""
    if digest(data) != basis.action.payload_hash:
        raise binding.PayloadChanged
    return data


def grant_terms(
    basis: ReleaseContext, executor: Executor, payload: bytes, *, attempt: int, epoch: int
) -> grants.GrantTerms:
    """What a grant for this attempt is bound to, as it holds now."""
    action, held = basis.action, basis.record
    if held.contract_digest is None or held.contract_digest != action.contract_digest:
        raise binding.ContractChanged
    return grants.GrantTerms(
        tenant=str(action.tenant_id),
        environment=settings.COUNTERFOIL_ENVIRONMENT,
        epoch=epoch,
        action_id=str(action.id),
        revision=REVISION,
        attempt=attempt,
        payload_hash=action.payload_hash,
        payload_length=len(payload),
        tool=action.tool,
        tool_version=action.tool_version,
        contract_digest=held.contract_digest,
        target=action.target,
        precondition=basis.approval.baseline_digest if basis.approval is not None else "",
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        limits=grants.amount_limits(parse(payload), basis.contract.arguments_schema.get("properties", {})),
        agent=action.agent,
        agent_version=basis.agent_version,
        run_id=action.run_id,
        policy_digests=held.digests,
        approval=_approved(basis),
        idempotency=held.key_hash or "",
        executor=executor.executor_id,
        thumbprint=executor.thumbprint,
    )


def _approved(basis: ReleaseContext) -> grants.ApprovalReference | None:
    approval = basis.approval
    if approval is None:
        return None
    return grants.ApprovalReference(
        approval_id=str(approval.id),
        rule=approval.policy_row,
        terms_digest=digest(canonical(approval.terms)),
        votes=basis.votes,
        logged=_logged(basis.record.decided),
    )


def _logged(place: DecisionPosition | None) -> grants.LogReference | None:
    return grants.LogReference(origin=place.origin, index=place.index, size=place.size) if place is not None else None


def state_refusal(approval: Approval, *, at: datetime) -> Refused | None:
    """Why an approval authorises nothing now, or None where it does."""
    if approval.state == "EXPIRED" or (approval.release_by is not None and approval.release_by <= at):
        return binding.ApprovalExpired()
    return None if approval.state == "APPROVED" else binding.ApprovalRequired()
