"""Batches over HTTP: one thing done to many cases, with how far it is and what was refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.cases import schemas
from console.edge.auth import admits, caller_of
from console.edge.transaction import after_commit, in_tenancy
from console.tasks import work_batches
from ledger.record.rules.refusals import NotFound
from reviews import queries as after
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
    return _whole(row)


@router.get("/batches/{batch_id}", summary="Progress of a batch, case by case", response=schemas.Batch)
@admits("operator")
@in_tenancy
def get_batch(request: HttpRequest, batch_id: UUID) -> schemas.Batch:
    return _whole(_get_batch(request, batch_id))


@router.post("/batches/{batch_id}/pause", summary="Pause a batch after the current item", response=schemas.Batch)
@admits("operator")
@in_tenancy
def pause(request: HttpRequest, batch_id: UUID) -> schemas.Batch:
    return _change_batch(request, batch_id, batches.pause)


@router.post("/batches/{batch_id}/resume", summary="Resume a paused batch", response=schemas.Batch)
@admits("operator")
@in_tenancy
def resume(request: HttpRequest, batch_id: UUID) -> schemas.Batch:
    after_commit(work_batches)
    return _change_batch(request, batch_id, batches.resume)


@router.post("/batches/{batch_id}/cancel", summary="Cancel the rest of a batch", response=schemas.Batch)
@admits("operator")
@in_tenancy
def cancel(request: HttpRequest, batch_id: UUID) -> schemas.Batch:
    return _change_batch(request, batch_id, batches.cancel)


def _change_batch(request: HttpRequest, batch_id: UUID, way: Any) -> schemas.Batch:
    caller = caller_of(request)
    way(tenant_id=caller.tenant_id, batch_id=batch_id, by=caller.actor, at=timezone.now())
    return _whole(_get_batch(request, batch_id))


def _get_batch(request: HttpRequest, batch_id: UUID) -> Any:
    row = after.batch(caller_of(request).tenant_id, batch_id)
    if row is None:
        raise NotFound
    return row


def _whole(row: Any) -> schemas.Batch:
    progress = after.batch_progress(row.tenant_id, [row.id])[row.id]
    return schemas.Batch.of(
        row,
        done=progress.done,
        refused=progress.refused,
        left=progress.left,
        items=list(after.batch_items(row.tenant_id, row.id)),
    )
