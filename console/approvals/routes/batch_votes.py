"""Votes on several approvals at once, over HTTP."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.voting.operations import batch_votes
from approvals.voting.rules import binding
from console.accounts.step_up import proof_class
from console.approvals import schemas
from console.approvals.displays import record_displays
from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy

router = Router(tags=["Approvals"])


@router.post(
    "/votes",
    summary="Decide several low-risk approvals of one kind, each with its own statement",
    response=schemas.VotesTaken,
)
@admits("person")
@in_tenancy
def vote_on_several(request: HttpRequest, body: schemas.VotesBody) -> schemas.VotesTaken:
    caller = caller_of(request)
    evidence_class = proof_class(request, caller.user, body.password, body.otp)
    record_displays(caller, [each.approval_id for each in body.items])
    outcomes = batch_votes.vote_batch(
        tenant_id=caller.tenant_id,
        shown=[_displayed_item(each) for each in body.items],
        verdict=binding.VoteChoice(body.verdict),
        voter=binding.Voter(actor=str(caller.actor.id), roles=caller.roles, evidence_class=evidence_class),
        reason=body.reason,
        at=timezone.now(),
    )
    counts = {name: sum(each.result == name.upper() for each in outcomes) for name in ("voted", "decided", "refused")}
    return schemas.VotesTaken(items=[schemas.ItemVoted.of(each) for each in outcomes], **counts)


def _displayed_item(item: schemas.ShownItem) -> batch_votes.DisplayedItem:
    seen = binding.DisplayedDigests(
        payload_hash=item.payload_hash,
        rendering_digest=item.rendering_digest,
        covers=item.covers,
        without_reading=item.without_reading,
    )
    return batch_votes.DisplayedItem(item.approval_id, seen)
