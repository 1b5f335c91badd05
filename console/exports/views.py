"""Exports: asked for here, made piece by piece by the workers, fetched as one bundle; all of it on record."""

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
from console.audit.views import MAY, audit_tabs
from console.edge.http import TenantRequest, in_tenant
from console.edge.transaction import after_commit, note_access
from console.exports import bundle_information
from console.tasks import work_exports
from console.web import labels
from console.web.forms import ExportForm
from console.web.list_page import Column, ListPage, list_context, pager_context, place_in, sortable
from console.web.spreadsheets import MOST_EXPORTED
from ledger.exports import queries as exports_queries
from ledger.exports.operations import exports as operations
from ledger.record.queries import events

SHOWN = 20
EXPORTS_LIST = ListPage(
    "exports",
    columns=(
        sortable("state", "State", lambda row: labels.EXPORTS.get(row["row"].state, row["row"].state)),
        Column("asked", "Content", lambda row: _contents_text(row["row"].wanted)),
        Column("by", "Requested by", lambda row: row["by"]),
        sortable("requested_at", "Requested", lambda row: row["row"].requested_at),
        Column("finished", "Finished", lambda row: row["row"].finished_at),
        Column("expires", "Expires", lambda row: row["row"].expires_at),
        Column("log", "Log", lambda row: row["row"].log or ""),
        Column("start", "First entry", lambda row: row["row"].start if row["row"].log else ""),
        Column("end", "End", lambda row: row["row"].end if row["row"].log else ""),
        Column("withheld", "Withheld", lambda row: row["row"].withheld),
        Column("size", "Size, bytes", lambda row: row["row"].size),
        Column("sha256", "SHA-256", lambda row: row["row"].sha256),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(MAY),
)


@in_tenant(*MAY)
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
    return FileResponse(file.open("rb"), as_attachment=True, filename=name, content_type="application/zip")


def _page(request: TenantRequest, form: ExportForm, status: int = 200) -> HttpResponse:
    found = _find_exports(request, before=place_in(request), limit=SHOWN + 1)
    rows = found[:SHOWN]
    called = actor_names(request.tenant.id)
    histories = events.histories(request.tenant.id, [each.id for each in rows])
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "exports"),
        "form": form,
        "exports": [_export_row(request, each, histories[each.id], called) for each in rows],
        **pager_context(request, EXPORTS_LIST, found, SHOWN),
        **list_context(request, EXPORTS_LIST),
        "may_export": "compliance" in request.caller.roles,
        "action": reverse("export-start", args=[request.tenant.slug]),
    }
    return render(request, "exports/_list.html" if request.htmx else "exports/list.html", context, status=status)


def _find_exports(request: TenantRequest, *, before: UUID | None = None, limit: int) -> list[Any]:
    order = EXPORTS_LIST.sort(request.GET) or "-id"
    return exports_queries.exports(request.tenant.id, order=order, before=before, limit=limit)


def exported_rows(request: TenantRequest) -> list[dict[str, Any]]:
    """The exports, with who asked for each."""
    called = actor_names(request.tenant.id)
    found = _find_exports(request, limit=MOST_EXPORTED)
    return [{"row": each, "by": called.get(each.requested_by, "somebody")} for each in found]


def _export_row(request: TenantRequest, row: Any, history: list[Any], names: dict[UUID, str]) -> dict[str, Any]:
    slug = request.tenant.slug
    finished = row.state == "FINISHED" and (row.expires_at is None or row.expires_at > request.as_of)
    may_fetch = finished and "compliance" in request.caller.roles
    return {
        "row": row,
        "word": labels.EXPORTS.get(row.state, labels.sentence_case(row.state)),
        "icon": _ICONS.get(row.state, "dot"),
        "by": names.get(row.requested_by, "somebody"),
        "asked": _contents_text(row.wanted),
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


FORMATS = {"jsonl": "JSON lines", "csv": "JSON lines and CSV", "parquet": "JSON lines and Parquet"}
_ICONS = {"REQUESTED": "clock", "FINISHED": "tick", "FAILED": "cross", "EXPIRED": "minus"}


def _contents_text(wanted: dict[str, Any]) -> str:
    """The contents of an export, in one line."""
    said = [
        f"{labels.sentence_case(name).lower()} {value}" for name, value in sorted(wanted.get("filters", {}).items())
    ]
    if wanted.get("from") is not None:
        said.append(f"from {wanted['from']}")
    if wanted.get("to") is not None:
        said.append(f"to {wanted['to']}")
    what = ", ".join(said) if said else "everything"
    with_what = "with payloads and evidence" if wanted.get("payloads") else "without payloads and evidence"
    return f"{what}; {with_what}; {FORMATS[wanted.get('format', 'jsonl')]}"
