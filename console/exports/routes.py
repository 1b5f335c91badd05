"""Exports over HTTP: asked for, watched, and fetched as one bundle. Each of these is on record."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.openapi import response_content
from console.edge.schemas import Page, Paged
from console.edge.transaction import after_commit, in_tenancy, note_access
from console.exports import bundle_information, schemas
from console.tasks import work_exports
from ledger.exports import queries as stored
from ledger.exports.operations import exports
from ledger.record.rules.refusals import NotFound

router = Router(tags=["Ledger"])
READERS = ("audit", "compliance")


@router.post("/exports", summary="Create an export bundle", response={202: schemas.Export})
@admits(*READERS)
@in_tenancy
def start(request: HttpRequest, body: schemas.ExportBody) -> schemas.Export:
    caller = caller_of(request)
    row = exports.request_export(tenant_id=caller.tenant_id, wanted=body.wanted(), by=caller.actor, at=timezone.now())
    after_commit(work_exports)
    return schemas.Export.of(row)


@router.get("/exports", summary="Exports, newest first", response=Page[schemas.Export])
@admits(*READERS)
@in_tenancy
def list_exports(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.Export]:
    rows = stored.exports(
        caller_of(request).tenant_id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_of(schemas.Export.of, rows, wanted.limit)


@router.get("/exports/{export_id}", summary="One export and its progress", response=schemas.Export)
@admits(*READERS)
@in_tenancy
def get_export(request: HttpRequest, export_id: UUID) -> schemas.Export:
    row = stored.export(caller_of(request).tenant_id, export_id)
    if row is None:
        raise NotFound
    return schemas.Export.of(row)


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
    of: dict[str, Any] = {"tenant_id": caller.tenant_id, "export_id": export_id, "at": timezone.now()}
    file = exports.finished_bundle(**of)
    note_access(request, exports.record_fetch, by=caller.actor, **of)
    name = bundle_information.bundle_file_name(tenant_id=caller.tenant_id, export_id=export_id)
    return FileResponse(file.open("rb"), as_attachment=True, filename=name, content_type="application/zip")
