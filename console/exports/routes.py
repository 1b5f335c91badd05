"""Exports over HTTP: asked for, watched, and fetched as one bundle. Each of these is on record."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Router

from console.edge.auth import admits, caller_of
from console.edge.openapi import response_content
from console.edge.transaction import after_commit, in_tenancy, note_access
from console.exports import bundle_information, schemas
from console.exports.lists import API_READERS, EXPORTS
from console.tasks import work_exports
from console.web.list_page import add_lists
from ledger.exports import queries as stored
from ledger.exports.operations import exports
from ledger.record.rules.refusals import NotFound

router = Router(tags=["Ledger"])


@router.post("/exports", summary="Create an export bundle", response={202: schemas.Export})
@admits(*API_READERS)
@in_tenancy
def start(request: HttpRequest, body: schemas.ExportBody) -> schemas.Export:
    caller = caller_of(request)
    row = exports.request_export(tenant_id=caller.tenant_id, wanted=body.wanted(), by=caller.actor, at=timezone.now())
    after_commit(work_exports)
    return schemas.Export.of(row)


add_lists(router, __name__, EXPORTS)


@router.get("/exports/{export_id}", summary="One export and its progress", response=schemas.Export)
@admits(*API_READERS)
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
@admits(*API_READERS)
@in_tenancy
def get_bundle(request: HttpRequest, export_id: UUID) -> HttpResponseBase:
    caller = caller_of(request)
    of: dict[str, Any] = {"tenant_id": caller.tenant_id, "export_id": export_id, "at": timezone.now()}
    file = exports.finished_bundle(**of)
    note_access(request, exports.record_fetch, by=caller.actor, **of)
    name = bundle_information.bundle_file_name(tenant_id=caller.tenant_id, export_id=export_id)
    return FileResponse(file, as_attachment=True, filename=name, content_type="application/zip")
