"""Batches over HTTP: one thing done to many cases, with how far it is and what was refused."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.cases import schemas, verbs
from console.edge.auth import admits, caller_of
from console.edge.transaction import after_commit, in_tenancy
from console.tasks import work_batches
from console.verbs.verb import add_verbs
from ledger.record.rules.refusals import NotFound
from reviews import queries
from reviews.cases.operations import batches
from reviews.cases.rules.batches import BatchKind

router = Router(tags=["Cases and incidents"])


@router.post("/batches", summary="Apply to several cases", response={201: schemas.Batch})
@admits("operator")
@in_tenancy
def start(request: HttpRequest, body: schemas.BatchBody) -> schemas.Batch:
    caller = caller_of(request)
    wanted = {
        "to": str(body.to) if body.to else None,
        "until": body.until.isoformat() if body.until else None,
        "reason": body.reason,
        "text": body.text,
    }
    row = batches.start(
        tenant_id=caller.tenant_id,
        kind=BatchKind(body.kind),
        wanted=wanted,
        selected=body.cases,
        by=caller.actor,
        at=timezone.now(),
    )
    after_commit(work_batches)
    return verbs.batch_answer(row)


@router.get("/batches/{batch_id}", summary="Progress of a batch, case by case", response=schemas.Batch)
@admits("operator")
@in_tenancy
def get_batch(request: HttpRequest, batch_id: UUID) -> schemas.Batch:
    row = queries.batch(caller_of(request).tenant_id, batch_id)
    if row is None:
        raise NotFound
    return verbs.batch_answer(row)


add_verbs(router, __name__, (verbs.PAUSE_BATCH, verbs.RESUME_BATCH, verbs.CANCEL_BATCH))
