"""Exports: requested here, made in pieces by the workers, downloaded as one bundle; every step is recorded."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import FileResponse, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.audit.views import audit_tabs
from console.edge.http import TenantRequest, in_tenant
from console.edge.transaction import after_commit, note_access
from console.exports import bundle_information
from console.exports.lists import EXPORTS, PAGE_READERS
from console.tasks import work_exports
from console.web import labels
from console.web.forms import ExportForm
from ledger.exports.operations import exports as operations
from ledger.record.queries import events

SHOWN = 20


@in_tenant(*PAGE_READERS)
def list_exports(request: TenantRequest) -> HttpResponse:
    return _page(request, ExportForm(initial={"action": request.GET.get("action", ""), "payloads": True}))


@in_tenant("compliance")
@require_POST
def start_export(request: TenantRequest) -> HttpResponse:
    form = ExportForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    operations.request_export(
        tenant_id=request.tenant.id, wanted=form.wanted(), by=request.caller.actor, at=request.as_of
    )
    after_commit(work_exports)
    messages.success(request, "Export started; progress is shown below.")
    return redirect("exports", request.tenant.slug)


@in_tenant("compliance")
def download_bundle(request: TenantRequest, export_id: UUID) -> HttpResponseBase:
    """The finished bundle; fetching it is on record."""
    of: dict[str, Any] = {"tenant_id": request.tenant.id, "export_id": export_id, "at": request.as_of}
    file = operations.finished_bundle(**of)
    note_access(request, operations.record_fetch, by=request.caller.actor, **of)
    name = bundle_information.bundle_file_name(tenant_id=request.tenant.id, export_id=export_id)
    return FileResponse(file, as_attachment=True, filename=name, content_type="application/zip")


def _page(request: TenantRequest, form: ExportForm, status: int = 200) -> HttpResponse:
    found, frame = EXPORTS.read_page(request, SHOWN)
    called, histories = actor_names(request.tenant.id), events.histories(request.tenant.id, [each.id for each in found])
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "exports"),
        "form": form,
        "exports": [
            shown | _export_row(request, shown["row"], histories[shown["row"].id], called)
            for shown in EXPORTS.rows_of(request, found)
        ],
        **frame,
        "running": sum(each.state == "REQUESTED" for each in found),
        "may_export": "compliance" in request.caller.roles,
        "action": reverse("export-start", args=[request.tenant.slug]),
    }
    return render(request, "exports/_list.html" if request.htmx else "exports/list.html", context, status=status)


def _export_row(request: TenantRequest, row: Any, history: list[Any], names: dict[UUID, str]) -> dict[str, Any]:
    slug = request.tenant.slug
    finished = row.state == "FINISHED" and (row.expires_at is None or row.expires_at > request.as_of)
    may_fetch = finished and "compliance" in request.caller.roles
    return {
        "word": labels.EXPORTS.get(row.state, labels.sentence_case(row.state)),
        "icon": _ICONS.get(row.state, "dot"),
        "whole": max(row.end - row.start, 1),
        "done": row.done - row.start,
        "fetched": [
            {"by": names.get(event.actor_id, event.actor_kind), "at": event.at}
            for event, _, _ in history
            if event.kind == "export_fetched"
        ],
        "href": reverse("export-bundle", args=[slug, row.id]) if may_fetch else "",
        "record": reverse("event", args=[slug, row.id, 1]),
    }


_ICONS = {"REQUESTED": "clock", "FINISHED": "tick", "FAILED": "cross", "EXPIRED": "minus"}
