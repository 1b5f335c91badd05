"""Batches over HTTP: one thing done to many cases, with how far it is and what was refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from console.api import answers
from console.api.auth import admits, caller_of
from console.api.schemas import BatchBody
from console.api.transaction import NotFound, after_commit, in_tenancy, json_response
from console.tasks import work_batches
from ledger.record.rules.envelope import instant
from reviews import queries as after
from reviews.cases.operations import batches
from reviews.cases.rules.batches import BatchKind

router = Router(tags=["People's work"])


@router.post("/batches", summary="Do one thing to many cases", response={201: answers.Batch})
@admits("operator")
@in_tenancy
def start(request: HttpRequest, body: BatchBody) -> HttpResponse:
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
    return json_response(_whole(row), 201)


@router.get("/batches/{batch_id}", summary="How far a batch is, case by case", response=answers.Batch)
@admits("operator")
@in_tenancy
def get_batch(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    return json_response(_whole(_known(request, batch_id)))


@router.post("/batches/{batch_id}/pause", summary="Stop after the item under way", response=answers.Batch)
@admits("operator")
@in_tenancy
def pause(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    return _turned(request, batch_id, batches.pause)


@router.post("/batches/{batch_id}/resume", summary="Go on where it stopped", response=answers.Batch)
@admits("operator")
@in_tenancy
def resume(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    after_commit(work_batches)
    return _turned(request, batch_id, batches.resume)


@router.post("/batches/{batch_id}/cancel", summary="Leave the rest as it is", response=answers.Batch)
@admits("operator")
@in_tenancy
def cancel(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    return _turned(request, batch_id, batches.cancel)


def _turned(request: HttpRequest, batch_id: UUID, way: Any) -> HttpResponse:
    caller = caller_of(request)
    way(tenant_id=caller.tenant_id, batch_id=batch_id, by=caller.actor, at=timezone.now())
    return json_response(_whole(_known(request, batch_id)))


def _known(request: HttpRequest, batch_id: UUID) -> Any:
    row = after.batch(caller_of(request).tenant_id, batch_id)
    if row is None:
        raise NotFound
    return row


def _whole(row: Any) -> dict[str, Any]:
    progress = after.batch_progress(row.tenant_id, [row.id])[row.id]
    return {
        "batch_id": str(row.id),
        "kind": row.kind,
        "state": row.state,
        "total": row.total,
        "done": progress.done,
        "refused": progress.refused,
        "left": progress.left,
        "started_at": instant(row.started_at),
        "ended_at": instant(row.ended_at) if row.ended_at else None,
        "items": [
            {
                "case_id": str(each.case_id),
                "state": each.state,
                "code": each.code or None,
                "detail": each.detail or None,
            }
            for each in after.batch_items(row.tenant_id, row.id)
        ],
    }
