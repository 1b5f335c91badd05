"""Time-boxed passes: one person lets calls of the shape of a waiting request through for a while.

What must be true after a crash: the row and its event are one transaction. The database refuses one that lasts longer,
or allows more, than the approval policy in force lets one person give (`sql/standing.sql`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError

from approvals.gate import queries as gate_queries
from approvals.models import Approval, StandingApproval
from approvals.policy.operations.policy_evaluation import reevaluate_policy, rules_of
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from approvals.standing import queries
from approvals.standing.operations.agreement import draft_standing, end, write_terms
from approvals.standing.operations.offers import policy_digests
from approvals.standing.operations.passing import current_basis, reason_for_a_person
from approvals.standing.rules import shapes, standing
from approvals.standing.rules.shapes import Shape
from approvals.standing.rules.standing import (
    OfferChanged,
    StandingState,
    TimeBoxNotAllowed,
    TimeBoxPolicy,
)
from approvals.voting.operations import eligibility
from approvals.voting.operations.eligibility import EligibleVoter
from approvals.voting.rules import binding, quorum
from approvals.voting.rules.quorum import ApprovalTerms
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.db import insert, savepoint
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from ledger.record.rules.outcomes import is_as_strong
from ledger.record.rules.refusals import NotFound, ProofNeeded


@dataclass(frozen=True, kw_only=True)
class TimeBoxOffer:
    """The pass that one person may give from a request: which calls, and the limits of the policy in force."""

    approval: Approval
    shape: Shape
    terms: ApprovalTerms
    voter: EligibleVoter
    limits: TimeBoxPolicy
    policies: Mapping[str, str]


def find_offer(approval: Approval, giver: UUID, *, at: datetime) -> TimeBoxOffer:
    """Return the pass that this person may give from a request now; refuse where there is none (rule 8).

    The giver must be somebody whose vote on the request would count, and would be enough.
    """
    tenant_id = approval.tenant_id
    policies = catalogue_queries.active_policies(tenant_id)
    rules = rules_of(policies["approval"])
    limits = rules.standing.time_boxes if rules.standing is not None else None
    if limits is None:
        raise TimeBoxNotAllowed("The approval policy has no time-boxed passes.")
    reviewer = frozenset({binding.REVIEWER})
    if refusal := binding.voter_refusal(state=approval.state, decide_by=approval.decide_by, roles=reviewer, at=at):
        raise refusal
    if policies["approval"].digest != approval.policy_digest:
        raise OfferChanged(standing.PAUSE_SENTENCES[standing.PauseReason.POLICY])
    voter = eligibility.eligible_voter(approval, giver, at=at)
    action = actions.action(tenant_id, approval.action_id)
    assert action is not None
    session = sessions_queries.session(tenant_id, action.session_id)
    assert session is not None
    if action.relation or action.supersedes or approval.editor:
        raise TimeBoxNotAllowed("A recovery action, an edit or a replacement is decided each time.")
    demand, payload = reevaluate_policy(action, rules=rules, at=at)
    terms, arguments = quorum.read_terms(approval.terms), parse(payload)
    call = gate_queries.call_of(tenant_id, action.session_id, action.id)
    if why := reason_for_a_person(
        session,
        tool=action.tool,
        arguments=arguments,
        goals=(session.goal, call.restated_goal if call is not None else ""),
        demand=replace(demand, terms=terms),
        rules=rules,
    ):
        raise TimeBoxNotAllowed(why)
    if quorum.tally_votes(terms, [voter.ballot(terms)]).state != "approved":
        raise TimeBoxNotAllowed("Your vote alone would not approve such a call, so you cannot let others through.")
    scope = shapes.scope_of(
        agent=session.agent_id,
        agent_version=session.agent_version,
        tool=action.tool,
        contract_digest=action.contract_digest,
        target=action.target,
        arguments=arguments,
    )
    template = sessions_queries.disclosed_contract(tenant_id, action.contract_digest).target_template
    shape = shapes.learn_shape(scope, template, [arguments])
    if shape is None:
        raise TimeBoxNotAllowed("There is no shape in its arguments that other calls could have.")
    if (scope.agent, scope.tool, scope.target_kind, scope.currency) in queries.live_scopes(tenant_id):
        raise TimeBoxNotAllowed(_SCOPE_TAKEN)
    return TimeBoxOffer(
        approval=approval,
        shape=shape,
        terms=terms,
        voter=voter,
        limits=limits,
        policies=policy_digests(policies),
    )


_SCOPE_TAKEN = "A standing approval or a time-boxed pass for such calls is there already. End it first."


def give(
    *,
    tenant_id: UUID,
    approval_id: UUID,
    minutes: int,
    count: int,
    reason: str,
    evidence_class: str,
    by: ledger.Actor,
    at: datetime,
) -> StandingApproval:
    """Let calls of the shape of this request through, alone, for so many minutes; the request itself still waits."""
    approval = approvals.approval(tenant_id, approval_id)
    if approval is None:
        raise NotFound("Approval")
    offer = find_offer(approval, by.id, at=at)
    if not is_as_strong(evidence_class, offer.terms.step_up):
        raise ProofNeeded
    standing.check_time_box(minutes=minutes, count=count, policy=offer.limits)
    most = offer.shape.most_minor
    budget = standing.StandingBudget(
        count=count, sum_minor=None if most is None else count * most, ends_at=at + timedelta(minutes=minutes)
    )
    row = draft_standing(
        tenant_id,
        offer.shape,
        budget,
        state=StandingState.ACTIVE,
        evidence=[approval.action_id],
        approvers=0,
        policies=offer.policies,
        reason=reason,
        by=by,
        person=offer.voter.person,
        at=at,
        is_time_boxed=True,
    )
    if found := standing.reason_to_pause(offer.shape, row.policies, current_basis(row)):
        raise TimeBoxNotAllowed(standing.PAUSE_SENTENCES[found.reason])
    try:
        with savepoint():
            insert(row)
    except IntegrityError as error:
        if "standing_one_live_per_scope" in str(error):
            raise TimeBoxNotAllowed(_SCOPE_TAKEN) from None
        raise
    more = {"approval_id": str(approval.id)}
    write_terms("time_boxed_pass_given", row, evidence_class=evidence_class, by=by, at=at, **more)
    return row


def revoke(*, tenant_id: UUID, standing_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> StandingApproval:
    """End a time-boxed pass at once: nothing passes under it any more, and what has not started is asked about."""
    row = queries.standing_approval(tenant_id, standing_id)
    if row is None or not row.is_time_boxed:
        raise NotFound("Time-boxed pass")
    kind = "time_boxed_pass_revoked"
    return end(tenant_id=tenant_id, standing_id=standing_id, reason=reason, by=by, at=at, kind=kind)
