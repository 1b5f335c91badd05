"""Agreements to standing approvals: two persons agree to one, and any eligible person pauses or ends it.

What must be true after a crash: the row and the event behind it are one transaction, so that what is in force is on
record with both persons. The database refuses a row in force without two different persons (`sql/standing.sql`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.models import Approval, StandingApproval
from approvals.policy.operations.policy_evaluation import reevaluate_policy, rules_of
from approvals.policy.rules.policy import PolicyDecision
from approvals.requests.queries import approvals
from approvals.standing import queries
from approvals.standing.operations import offers
from approvals.standing.operations.passing import current_basis, pause_standing
from approvals.standing.rules import shapes, standing
from approvals.standing.rules.standing import (
    EndReason,
    NotInThisState,
    NotOffered,
    OfferChanged,
    PauseReason,
    StandingBudget,
    StandingState,
)
from approvals.voting.operations import eligibility
from approvals.voting.queries import approvers
from approvals.voting.rules.binding import NotEligible
from approvals.voting.rules.quorum import APPROVE, Ballot
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.db import insert
from ledger.people.rules.confirmation import Answer, check_answer
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.outcomes import is_as_strong
from ledger.record.rules.refusals import NotFound, ProofNeeded


def propose(
    *,
    tenant_id: UUID,
    shape_digest: str,
    budget: StandingBudget,
    reason: str,
    evidence_class: str,
    by: ledger.Actor,
    at: datetime,
) -> StandingApproval:
    """Propose an offered standing approval; no action passes before a second person agrees."""
    offer = next((each for each in offers.standing_offers(tenant_id, at=at) if each.shape.digest == shape_digest), None)
    if offer is None:
        raise NotOffered
    ballot = _ballot(offer.newest, offer.demand, evidence_class, by, at=at)
    standing.check_budget(budget, offer.shape, offer.policy, at=at)
    row = draft_standing(
        tenant_id,
        offer.shape,
        budget,
        state=StandingState.PROPOSED,
        evidence=offer.evidence,
        approvers=offer.approvers,
        policies=offer.policies,
        reason=reason,
        by=by,
        person=ballot.person,
        at=at,
    )
    insert(row)
    write_terms("standing_approval_proposed", row, evidence_class=evidence_class, by=by, at=at)
    return row


def draft_standing(
    tenant_id: UUID,
    shape: shapes.Shape,
    budget: standing.StandingBudget,
    *,
    state: StandingState,
    evidence: Iterable[UUID],
    approvers: int,
    policies: Mapping[str, str],
    reason: str,
    by: ledger.Actor,
    person: str,
    at: datetime,
    is_time_boxed: bool = False,
) -> StandingApproval:
    """A standing approval of this shape within this budget, before it is written."""
    scope = shape.scope
    return StandingApproval(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        state=state,
        agent=scope.agent,
        tool=scope.tool,
        target_kind=scope.target_kind,
        currency=scope.currency,
        shape=shape.document(),
        shape_digest=shape.digest,
        max_count=budget.count,
        max_minor=budget.sum_minor,
        ends_at=budget.ends_at,
        evidence=[str(each) for each in evidence],
        approvers=approvers,
        policies=dict(policies),
        reason=reason,
        proposed_by=by.id,
        proposed_person=UUID(person),
        proposed_at=at,
        is_time_boxed=is_time_boxed,
    )


def write_terms(
    kind: str, row: StandingApproval, *, evidence_class: str, by: ledger.Actor, at: datetime, **more: Any
) -> None:
    """Write the first event of a standing approval, which has everything that it allows."""
    told = {
        "shape": row.shape,
        "shape_digest": row.shape_digest,
        "max_count": row.max_count,
        "max_minor": row.max_minor,
        "ends_at": instant(row.ends_at),
        "evidence": row.evidence,
        "approvers": row.approvers,
        "person": str(row.proposed_person),
        "evidence_class": evidence_class,
        "reason": row.reason,
        "policies": dict(row.policies),
    }
    digests = {"contract": row.shape["contract_digest"], **row.policies}
    happening = ledger.NewEvent(kind=kind, to=row.state, detail=told | more, digests=digests)
    head = ledger.SubjectHead(tenant_id=row.tenant_id, id=row.id, kind="standing_approval")
    ledger.append(head, happening, actor=by, at=at)


def answer(
    *,
    tenant_id: UUID,
    standing_id: UUID,
    agrees: bool,
    reason: str,
    evidence_class: str,
    by: ledger.Actor,
    at: datetime,
) -> StandingApproval:
    """Agree or decline as the second person: it takes effect now, or is declined for good."""
    head, row = lock_standing(tenant_id, standing_id, StandingState.PROPOSED)
    newest, demand = _weigh(row, at=at)
    second = _ballot(newest, demand, evidence_class if agrees else "", by, at=at)
    check_answer(
        "standing",
        Answer.CONFIRM if agrees else Answer.DECLINE,
        by_kind=by.kind,
        is_proposer=second.person == str(row.proposed_person) or by.id == row.proposed_by,
        is_proven=bool(evidence_class),
        reason=reason,
        proposed_at=row.proposed_at,
        at=at,
    )
    if agrees:
        if row.ends_at <= at:
            raise OfferChanged("Its end date is over.")
        first = _place(row.proposed_by, newest, demand.terms.step_up, at=at)
        standing.check_two_persons(demand.terms, first, second)
    to = StandingState.ACTIVE if agrees else StandingState.DECLINED
    kind = "standing_approval_agreed" if agrees else "standing_approval_declined"
    _move(row, state=to, answered_by=by.id, answered_person=UUID(second.person), answered_at=at)
    happening = ledger.NewEvent(kind=kind, to=to, detail=_ballot_detail(second, reason, row.policies))
    ledger.append(head, happening, actor=by, at=at)
    return row


def propose_resume(
    *, tenant_id: UUID, standing_id: UUID, reason: str, evidence_class: str, by: ledger.Actor, at: datetime
) -> StandingApproval:
    """Propose to resume a paused standing approval under the policies now in force."""
    head, row = lock_standing(tenant_id, standing_id, StandingState.PAUSED)
    if row.is_time_boxed:
        raise NotInThisState(
            "A time-boxed pass is not resumed. End it; another can be given from a request that waits."
        )
    if row.pause_reason not in standing.RESUMABLE or row.ends_at <= at:
        raise NotInThisState("It must be earned anew: it was paused because of an action, its contract or its agent.")
    row.policies = offers.policy_digests(catalogue_queries.active_policies(tenant_id))
    newest, demand = _weigh(row, at=at)
    ballot = _ballot(newest, demand, evidence_class, by, at=at)
    _move(
        row,
        state=StandingState.PROPOSED,
        policies=row.policies,
        reason=reason,
        proposed_by=by.id,
        proposed_person=UUID(ballot.person),
        answered_by=None,
        answered_person=None,
        answered_at=None,
        paused_at=None,
        pause_reason="",
        pause_action=None,
        case_id=None,
    )
    happening = ledger.NewEvent(
        kind="standing_approval_resume_proposed",
        to=StandingState.PROPOSED,
        detail=_ballot_detail(ballot, reason, row.policies),
        digests=row.policies,
    )
    ledger.append(head, happening, actor=by, at=at)
    return row


def pause(*, tenant_id: UUID, standing_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> StandingApproval:
    """Pause a standing approval; one person suffices."""
    head, row = lock_standing(tenant_id, standing_id, StandingState.ACTIVE)
    pause_standing(head, row, standing.Pause(reason=PauseReason.BY_HAND), words=reason, by=by, at=at)
    return row


def end(
    *,
    tenant_id: UUID,
    standing_id: UUID,
    reason: str,
    by: ledger.Actor,
    at: datetime,
    kind: str = "standing_approval_ended",
) -> StandingApproval:
    """End a standing approval, or withdraw a proposal: no further action passes or starts under it."""
    head, row = lock_standing(
        tenant_id, standing_id, StandingState.PROPOSED, StandingState.ACTIVE, StandingState.PAUSED
    )
    _move(row, state=StandingState.ENDED, ended_at=at, ended_because=EndReason.BY_HAND)
    detail = {"because": EndReason.BY_HAND, "reason": reason}
    ledger.append(
        head,
        ledger.NewEvent(kind=kind, to=StandingState.ENDED, detail=detail),
        actor=by,
        at=at,
    )
    return row


def lock_standing(
    tenant_id: UUID, standing_id: UUID, *states: StandingState
) -> tuple[ledger.SubjectHead, StandingApproval]:
    """A standing approval under its lock, in one of these states."""
    if queries.standing_approval(tenant_id, standing_id) is None:
        raise NotFound("Standing approval")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=standing_id, kind="standing_approval")
    row = queries.standing_approval(tenant_id, standing_id)
    assert row is not None
    if row.state not in states:
        raise NotInThisState(f"It is {row.state.lower()}.")
    return head, row


def _weigh(row: StandingApproval, *, at: datetime) -> tuple[Approval, PolicyDecision]:
    """The newest approval that earned it and the requirements of the policy in force, if all conditions still hold."""
    shape, policies = shapes.read_shape(row.shape), catalogue_queries.active_policies(row.tenant_id)
    if found := standing.reason_to_pause(shape, row.policies, current_basis(row)):
        raise OfferChanged(standing.PAUSE_SENTENCES[found.reason])
    action = actions.action(row.tenant_id, UUID(row.evidence[0]))
    assert action is not None
    newest = approvals.approval_of(row.tenant_id, action.id)
    assert newest is not None
    rules = rules_of(policies["approval"])
    demand, _ = reevaluate_policy(action, rules=rules, at=at)
    decided = queries.decided_calls_of(row.tenant_id, agent=row.agent, tool=row.tool)
    earlier = {str(each) for each in row.evidence}
    if any(standing.failure_of(each.decided) for each in decided if each.decided.action_id in earlier):
        raise OfferChanged("An action by which it was earned no longer counts.")
    if why := standing.reason_for_a_person(rules.standing, tool=row.tool, reasons=demand.reasons, terms=demand.terms):
        raise OfferChanged(why)
    return newest, demand


def _ballot(newest: Approval, demand: PolicyDecision, evidence_class: str, by: ledger.Actor, *, at: datetime) -> Ballot:
    """Return this person's vote on one such action, if they may give it and their proof of identity is
    strong enough.
    """
    eligibility.refuse_stakeholder(newest, by.id, at=at)
    if evidence_class and not is_as_strong(evidence_class, demand.terms.step_up):
        raise ProofNeeded
    return _place(by.id, newest, evidence_class, at=at)


def _place(actor: UUID, newest: Approval, evidence_class: str, *, at: datetime) -> Ballot:
    place = approvers.approver(newest.tenant_id, actor)
    if place is None or not place.active:
        raise NotEligible("Only somebody who may decide approvals agrees to a standing one.")
    eligibility.refuse_stakeholder(newest, actor, at=at)
    return Ballot(
        voter=str(actor),
        person=str(place.person_id),
        groups=frozenset(place.groups),
        verdict=APPROVE,
        evidence_class=evidence_class,
    )


def _ballot_detail(ballot: Ballot, reason: str, policies: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "person": ballot.person,
        "evidence_class": ballot.evidence_class,
        "reason": reason,
        "policies": dict(policies),
    }


def _move(row: StandingApproval, **changes: Any) -> None:
    StandingApproval.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**changes)
    for name, value in changes.items():
        setattr(row, name, value)
