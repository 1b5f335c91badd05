"""Page for an erased subject: who decided, and the bare events."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.accounts.queries import actor_names
from console.actions.action_record import event_rows
from console.edge.http import TenantRequest
from console.web import labels
from ledger.record.queries import events
from ledger.retention import queries

HERE = {"action": "actions", "approval": "approvals", "case": "cases", "session": "actions", "recording": "agents"}


def erased_page(request: TenantRequest, kind: str, subject_id: UUID) -> HttpResponse | None:
    """The page that replaces the usual one if the subject was erased; 410, as in the API."""
    gone = queries.erased_subject(request.tenant.id, subject_id)
    if gone is None:
        return None
    called = actor_names(request.tenant.id)
    request_row = queries.erasure(request.tenant.id, gone.erasure_id)
    history = events.history(request.tenant.id, subject_id)
    told = event_rows(history, called)
    if kind == "action":
        for (event, _, _), line in zip(history, told, strict=True):
            line["href"] = reverse("action-entry", args=[request.tenant.slug, subject_id, event.seq])
            line["seq"] = event.seq
            reached = labels.step_label("action", event.kind, event.state)
            line["state"] = "" if reached == line["word"] else reached
    context = {
        "here": HERE.get(kind, "actions"),
        "kind": kind,
        "gone": gone,
        "decided": _decision(request_row, called),
        "timeline": told,
    }
    if request.htmx:
        # A fragment that is not a success is not shown.
        return render(request, "erased/_detail.html", context)
    return render(request, "erased/detail.html", context, status=410)


def _decision(row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    """The people who requested and confirmed an erasure, and the reason, as far as the request is on record."""
    if row is None:
        return {}
    return {
        "basis": row.legal_basis,
        "asked": names.get(row.requested_by, "somebody"),
        "asked_at": row.requested_at,
        "confirmed": names.get(row.confirmed_by, "") if row.confirmed_by else "",
        "confirmed_at": row.confirmed_at,
        "by_policy": row.retention_id is not None,
    }
