"""Claims: `POST /verify`, how a claim stands, and its receipt."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import orjson
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from console.actions.schemas import EffectReceipt
from console.claims import schemas, verbs
from console.claims.answers import claim_answer
from console.claims.lists import CLAIMS
from console.claims.receipts import claim_receipt
from console.edge import waiting
from console.edge.auth import Caller, NotAllowed, admits, caller_of
from console.edge.transaction import after_commit, in_tenancy, json_response, record_read, run_once
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.db import tenancy
from ledger.record.rules.refusals import NotFound
from reviews.claims import operations, queries
from reviews.claims.rules.claims import ClaimState
from reviews.tasks import verify_due

if TYPE_CHECKING:
    from reviews.models import UngatedClaim

router = Router(tags=["Claims"])


@router.post(
    "/verify",
    summary="Verify something that was done outside of the gate: is it safe to claim that it was?",
    response=schemas.Claim,
)
@admits("agent", "oper", "operator")
def verify(request: HttpRequest, body: schemas.VerifyBody) -> HttpResponse:
    caller = caller_of(request)
    if body.lookup is not None and caller.kind == "agent":
        raise NotAllowed("An agent names an operation or a target; only an operator may give a lookup.")
    before = waiting.earlier_wait(request)
    if before is None:
        made = run_once(request, lambda: _make(caller, body))
        assert made is not None
        claim_id = UUID(orjson.loads(made.content)["claim_id"])
    else:
        claim_id = before.kept
    until = waiting.end_of_wait(request, body.wait_s)
    with tenancy(caller.tenant_id, reads_only=True):
        row = queries.claim(caller.tenant_id, claim_id)
        assert row is not None
        if row.state != ClaimState.OPEN or time.monotonic() >= until:
            return json_response(_answer_with_receipt(caller, row))
    return waiting.StillWaiting(waiting.Wait(until, partial(_is_settled, caller.tenant_id, claim_id), claim_id))


def _is_settled(tenant_id: UUID, claim_id: UUID) -> bool:
    with tenancy(tenant_id, reads_only=True):
        row = queries.claim(tenant_id, claim_id)
    return row is None or row.state != ClaimState.OPEN


def _make(caller: Caller, body: schemas.VerifyBody) -> schemas.Claim:
    row = operations.make_claim(tenant_id=caller.tenant_id, claim=body.request(), by=caller.actor, at=timezone.now())
    after_commit(verify_due)
    return claim_answer(row)


def _answer_with_receipt(caller: Caller, row: UngatedClaim) -> schemas.Claim:
    """The claim with its receipt, for those who may show one to others."""
    answer = claim_answer(row)
    if caller.kind == "agent" or row.pointer is None:
        return answer
    return answer.model_copy(update={"receipt": claim_receipt(row, at=timezone.now())})


add_lists(router, __name__, CLAIMS)


@router.get("/claims/{claim_id}", summary="How a claim stands", response=schemas.Claim)
@admits("agent", "oper", "audit", "person")
@in_tenancy
def get_claim(request: HttpRequest, claim_id: UUID) -> schemas.Claim:
    row = _visible_claim(request, claim_id)
    record_read(request, "claim", row.id)
    return claim_answer(row)


@router.get(
    "/claims/{claim_id}/receipt",
    summary="A claim for outsiders: an in-toto statement in a DSSE envelope, signed with a key of the JWKS",
    response=EffectReceipt,
)
@admits("oper", "audit", "person")
@in_tenancy
def get_claim_receipt(request: HttpRequest, claim_id: UUID) -> EffectReceipt:
    row = _visible_claim(request, claim_id)
    record_read(request, "claim", row.id)
    return claim_receipt(row, at=timezone.now())


def _visible_claim(request: HttpRequest, claim_id: UUID) -> UngatedClaim:
    """The claim; an agent sees its own."""
    caller = caller_of(request)
    row = queries.claim(caller.tenant_id, claim_id)
    if row is None or (caller.kind == "agent" and row.made_by != caller.actor.id):
        raise NotFound("Claim")
    return row


add_verbs(router, __name__, [verbs.READ_AGAIN])
