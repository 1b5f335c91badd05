"""Standing approvals: what is offered, what two persons agreed to, and what passed under it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.standing import queries
from approvals.standing.operations import agreement, offers
from approvals.standing.rules.standing import StandingBudget
from console.accounts.step_up import proof_class
from console.edge.auth import admits, caller_of
from console.edge.schemas import ReasonBody
from console.edge.transaction import in_tenancy
from console.standing_approvals import schemas
from console.standing_approvals.lists import STANDING_APPROVALS
from console.web.list_page import add_lists
from ledger.record.rules.refusals import NotFound, ProofNeeded

if TYPE_CHECKING:
    from approvals.models import StandingApproval

router = Router(tags=["Approvals"])


@router.get(
    "/standing-approvals/offers",
    summary="Standing approvals that may be proposed",
    response=schemas.StandingOffers,
)
@admits("person", "audit")
@in_tenancy
def list_offers(request: HttpRequest) -> schemas.StandingOffers:
    found = offers.standing_offers(caller_of(request).tenant_id, at=timezone.now())
    return schemas.StandingOffers(items=[schemas.StandingOffer.of(each) for each in found])


add_lists(router, __name__, STANDING_APPROVALS)


@router.get(
    "/standing-approvals/{standing_approval_id}",
    summary="One standing approval and the actions that passed under it",
    response=schemas.StandingApprovalDetail,
)
@admits("person", "audit")
@in_tenancy
def get_standing_approval(request: HttpRequest, standing_approval_id: UUID) -> schemas.StandingApprovalDetail:
    tenant_id = caller_of(request).tenant_id
    row = queries.standing_approval(tenant_id, standing_approval_id)
    if row is None:
        raise NotFound
    passed = [schemas.StandingPass.of(each) for each in queries.passes(tenant_id, standing_approval_id)]
    return schemas.StandingApprovalDetail.of(row, passes=passed)


@router.post(
    "/standing-approvals",
    summary="Propose an offered standing approval with a budget and an end date; another person must agree",
    response={201: schemas.StandingApproval},
)
@admits("reviewer")
@in_tenancy
def propose(request: HttpRequest, body: schemas.StandingProposalBody) -> schemas.StandingApproval:
    caller = caller_of(request)
    row = agreement.propose(
        tenant_id=caller.tenant_id,
        shape_digest=body.shape_digest,
        budget=StandingBudget(count=body.count, sum_minor=body.sum_minor, ends_at=body.ends_at),
        reason=body.reason,
        evidence_class=_proof(request, body),
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.StandingApproval.of(row)


@router.post(
    "/standing-approvals/{standing_approval_id}/answer",
    summary="Agree to or decline a standing approval as the second person",
    response=schemas.StandingApproval,
)
@admits("reviewer")
@in_tenancy
def answer(
    request: HttpRequest, standing_approval_id: UUID, body: schemas.StandingAnswerBody
) -> schemas.StandingApproval:
    return _say(request, standing_approval_id, body, partial(agreement.answer, agrees=body.agree))


@router.post(
    "/standing-approvals/{standing_approval_id}/resume",
    summary="Propose resuming a paused standing approval; another person must agree",
    response=schemas.StandingApproval,
)
@admits("reviewer")
@in_tenancy
def resume(
    request: HttpRequest, standing_approval_id: UUID, body: schemas.StandingWordBody
) -> schemas.StandingApproval:
    return _say(request, standing_approval_id, body, agreement.propose_resume)


@router.post(
    "/standing-approvals/{standing_approval_id}/pause",
    summary="Pause a standing approval; passed actions that have not started need a vote again",
    response=schemas.StandingApproval,
)
@admits("reviewer", "operator")
@in_tenancy
def pause(request: HttpRequest, standing_approval_id: UUID, body: ReasonBody) -> schemas.StandingApproval:
    return _stop(request, standing_approval_id, body, agreement.pause)


@router.post(
    "/standing-approvals/{standing_approval_id}/end",
    summary="End a standing approval, or withdraw a proposal",
    response=schemas.StandingApproval,
)
@admits("reviewer", "operator")
@in_tenancy
def end(request: HttpRequest, standing_approval_id: UUID, body: ReasonBody) -> schemas.StandingApproval:
    return _stop(request, standing_approval_id, body, agreement.end)


def _say(
    request: HttpRequest, standing_id: UUID, body: schemas.StandingWordBody, say: Callable[..., StandingApproval]
) -> schemas.StandingApproval:
    """Carry out a person's decision, with fresh proof of identity."""
    caller = caller_of(request)
    row = say(
        tenant_id=caller.tenant_id,
        standing_id=standing_id,
        reason=body.reason,
        evidence_class=_proof(request, body),
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.StandingApproval.of(row)


def _stop(
    request: HttpRequest, standing_id: UUID, body: ReasonBody, stop: Callable[..., StandingApproval]
) -> schemas.StandingApproval:
    caller = caller_of(request)
    row = stop(
        tenant_id=caller.tenant_id, standing_id=standing_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return schemas.StandingApproval.of(row)


def _proof(request: HttpRequest, body: schemas.StandingWordBody) -> str:
    proof = proof_class(request, caller_of(request).user, body.password, body.otp)
    if not proof:
        raise ProofNeeded
    return proof
