"""Exports over HTTP: asked for, watched, and fetched as one bundle. Each of these is on record."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router

from console.api import answers, paging
from console.api.auth import admits, caller_of
from console.api.openapi import response_content
from console.api.schemas import ExportBody, Paged
from console.api.transaction import NotFound, after_commit, in_tenancy, json_response
from console.tasks import work_exports
from ledger.exports import queries as stored
from ledger.exports.operations import exports
from ledger.record.rules.envelope import instant

router = Router(tags=["Ledger"])
READERS = ("audit", "compliance")


@router.post("/exports", summary="Ask for a bundle of the record", response={202: answers.Export})
@admits(*READERS)
@in_tenancy
def start(request: HttpRequest, body: ExportBody) -> HttpResponse:
    caller = caller_of(request)
    row = exports.request_export(tenant_id=caller.tenant_id, wanted=body.wanted(), by=caller.actor, at=timezone.now())
    after_commit(work_exports)
    return json_response(export_document(row), 202)


@router.get("/exports", summary="The exports of the tenant, newest first", response=answers.Page[answers.Export])
@admits(*READERS)
@in_tenancy
def list_exports(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    rows = stored.exports(
        caller_of(request).tenant_id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_response(rows, wanted.limit, export_document)


@router.get("/exports/{export_id}", summary="How far an export is", response=answers.Export)
@admits(*READERS)
@in_tenancy
def get_export(request: HttpRequest, export_id: UUID) -> HttpResponse:
    row = stored.export(caller_of(request).tenant_id, export_id)
    if row is None:
        raise NotFound
    return json_response(export_document(row))


@router.get(
    "/exports/{export_id}/bundle",
    summary="The finished bundle, a zip file",
    openapi_extra=response_content("application/zip"),
    response=str,
)
@admits(*READERS)
@in_tenancy
def get_bundle(request: HttpRequest, export_id: UUID) -> HttpResponseBase:
    caller = caller_of(request)
    file = exports.fetch_bundle(tenant_id=caller.tenant_id, export_id=export_id, by=caller.actor, at=timezone.now())
    return FileResponse(file.open("rb"), as_attachment=True, filename=file.name, content_type="application/zip")


def export_document(row: Any) -> dict[str, Any]:
    """An export as people and programs see it."""
    return {
        "export_id": str(row.id),
        "state": row.state,
        "requested_at": instant(row.requested_at),
        "wanted": row.wanted,
        "log": row.log or None,
        "start": row.start if row.log else None,
        "end": row.end if row.log else None,
        "done": row.done - row.start,
        "total": row.end - row.start,
        "withheld": row.withheld,
        "size": row.size,
        "sha256": row.sha256 or None,
        "reason": row.reason or None,
        "finished_at": instant(row.finished_at) if row.finished_at else None,
        "expires_at": instant(row.expires_at) if row.expires_at else None,
    }
