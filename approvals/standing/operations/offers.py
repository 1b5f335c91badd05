"""Offers: shapes of calls for which a standing approval is earned now, each with its evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.agents import queries as agents_queries
from approvals.models import Approval
from approvals.policy.operations.policy_evaluation import reevaluate_policy, rules_of
from approvals.policy.rules.policy import PolicyDecision
from approvals.requests.queries import approvals
from approvals.sessions.queries import disclosed_contract
from approvals.standing import queries
from approvals.standing.queries import DecidedCall
from approvals.standing.rules import shapes, standing
from approvals.standing.rules.shapes import CallScope, Shape
from approvals.standing.rules.standing import StandingPolicy
from approvals.voting.queries import votes
from approvals.voting.rules.quorum import APPROVE
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.record.queries import evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.encryption import CannotOpen, EvidenceErased


@dataclass(frozen=True, kw_only=True)
class StandingOffer:
    """A standing approval that people may propose: its shape, and the actions by which it was earned, newest first."""

    shape: Shape
    contract: Contract
    evidence: tuple[UUID, ...]
    approvers: int
    newest: Approval
    demand: PolicyDecision
    policy: StandingPolicy
    policies: Mapping[str, str]

    @property
    def system(self) -> str:
        """The system of record in which every one of them was confirmed."""
        return self.contract.verification.system if self.contract.verification else ""


def policy_digests(policies: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the policies in force, by kind."""
    return {kind: row.digest for kind, row in policies.items()}


def standing_policy(tenant_id: UUID) -> StandingPolicy | None:
    """The standing-approval rules of the approval policy in force."""
    return rules_of(catalogue_queries.active_policies(tenant_id)["approval"]).standing


def standing_offers(tenant_id: UUID, *, at: datetime) -> list[StandingOffer]:
    """All standing approvals offered now; none if the approval policy has no rules for them."""
    policies = catalogue_queries.active_policies(tenant_id)
    policy = rules_of(policies["approval"]).standing
    if policy is None:
        return []
    live = queries.live_scopes(tenant_id)
    groups: dict[tuple[str, ...], list[DecidedCall]] = defaultdict(list)
    for call in queries.decided_calls(tenant_id):
        kind = call.target.partition("/")[0]
        groups[call.agent, call.agent_version, call.tool, call.contract_digest, kind].append(call)
    found: list[StandingOffer] = []
    for calls in groups.values():
        if len(standing.earned_row(each.decided for each in calls)) < 3 or not is_current(tenant_id, calls[0]):
            continue
        for scope, row in _earned_scopes(tenant_id, calls):
            if (scope.agent, scope.tool, scope.target_kind, scope.currency) not in live:
                found += _offer(tenant_id, scope, row, policies, policy, at=at)
    return sorted(found, key=lambda offer: (-len(offer.evidence), offer.shape.digest))


def is_current(tenant_id: UUID, call: DecidedCall) -> bool:
    """Return True if the agent version and the contract of a call are still the present ones."""
    version, contract = current_versions(tenant_id, agent=call.agent, tool=call.tool)
    return version == call.agent_version and contract == call.contract_digest


def current_versions(tenant_id: UUID, *, agent: str, tool: str) -> tuple[str | None, str | None]:
    """The version of an agent that is in force, and the digest of the contract of a tool that it would be given."""
    known = agents_queries.agent(tenant_id, agent)
    if known is None or known.revoked_at is not None:
        return None, None
    version = agents_queries.agent_version(tenant_id, agent, known.version)
    newest = catalogue_queries.newest_contracts(tenant_id, [tool], versions=version.versions if version else None)
    return known.version, newest[tool].digest if tool in newest else None


def _earned_scopes(
    tenant_id: UUID, calls: Sequence[DecidedCall]
) -> Iterator[tuple[CallScope, list[tuple[DecidedCall, Any]]]]:
    """The calls of each scope that are a row of verified approvals, with their arguments; newest first."""
    pointers = [call.payload_pointer for call in calls if call.payload_pointer is not None]
    try:
        payloads = evidence.open_evidence_many(tenant_id, pointers)
    except (EvidenceErased, CannotOpen):
        # What was erased is evidence of nothing any more, and neither is what stood beside it.
        return
    scopes: dict[CallScope, list[tuple[DecidedCall, Any]]] = defaultdict(list)
    for call in calls:
        arguments = parse(payloads[call.payload_pointer]) if call.payload_pointer in payloads else {}
        scopes[call_scope(call, arguments)].append((call, arguments))
    for scope, pairs in scopes.items():
        earned = {each.action_id for each in standing.earned_row(call.decided for call, _ in pairs)}
        yield scope, [(call, arguments) for call, arguments in pairs if str(call.action_id) in earned]


def call_scope(call: DecidedCall, arguments: Mapping[str, Any]) -> CallScope:
    """The scope of a decided call."""
    return shapes.scope_of(
        agent=call.agent,
        agent_version=call.agent_version,
        tool=call.tool,
        contract_digest=call.contract_digest,
        target=call.target,
        arguments=arguments,
    )


def _offer(
    tenant_id: UUID,
    scope: CallScope,
    row: list[tuple[DecidedCall, Any]],
    policies: Mapping[str, Any],
    policy: StandingPolicy,
    *,
    at: datetime,
) -> Iterator[StandingOffer]:
    if len(row) < policy.after:
        return
    contract = disclosed_contract(tenant_id, scope.contract_digest)
    shape = shapes.learn_shape(scope, contract.target_template, [arguments for _, arguments in row])
    action = actions.action(tenant_id, row[0][0].action_id)
    newest = approvals.approval(tenant_id, row[0][0].approval_id)
    if shape is None or action is None or newest is None:
        return
    demand, _ = reevaluate_policy(action, rules=rules_of(policies["approval"]), at=at)
    if demand.outcome != "hold" or standing.reason_for_a_person(
        policy, tool=scope.tool, reasons=demand.reasons, terms=demand.terms
    ):
        return
    cast = votes.votes_by_approval(tenant_id, [call.approval_id for call, _ in row])
    people = {vote.person_id or vote.voter for each in cast.values() for vote in each if vote.verdict == APPROVE}
    yield StandingOffer(
        shape=shape,
        contract=contract,
        evidence=tuple(call.action_id for call, _ in row),
        approvers=len(people),
        newest=newest,
        demand=demand,
        policy=policy,
        policies=policy_digests(policies),
    )
