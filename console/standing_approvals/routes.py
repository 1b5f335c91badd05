"""Standing approvals: what is offered, what two persons agreed to, and what passed under it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.standing import queries
from approvals.standing.operations import agreement, offers
from approvals.standing.rules.standing import StandingBudget
from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.standing_approvals import schemas, verbs
from console.standing_approvals.lists import STANDING_APPROVALS
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    pass

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
        evidence_class=verbs.proof_of_word(request, body.password, body.otp),
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.StandingApproval.of(row)


add_verbs(router, __name__, (verbs.ANSWER, verbs.RESUME, verbs.PAUSE, verbs.END, verbs.GIVE, verbs.REVOKE))
