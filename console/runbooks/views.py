"""Runbooks: all of them on one page, and their steps ticked on a case or an incident."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from console.cases.checklist import strategy_rows
from console.edge.http import TenantRequest, in_tenant
from console.incidents.views import incident_tabs
from console.web import labels
from console.web.forms import RunbookStepForm
from reviews.cases.operations import runbooks as work
from reviews.cases.rules.runbooks import RUNBOOKS, Runbook
from reviews.recovery.rules import recovery_table


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    context = {
        "here": "incidents",
        "tabs": incident_tabs(request, "runbooks"),
        "books": [_book(each) for each in RUNBOOKS.values()],
        "strategies": strategy_rows(),
        "preferences": [
            {
                "what": labels.sentence_case(row.get("prefer") or row["never"]),
                "never": "never" in row,
                "when": row["when"],
            }
            for row in recovery_table.TABLE["selection_rules"]
        ],
    }
    return render(request, "runbooks/list.html", context)


@in_tenant("operator")
@require_POST
def case_step(request: TenantRequest, case_id: UUID) -> HttpResponse:
    return _set_step(request, "case", case_id)


@in_tenant("operator")
@require_POST
def incident_step(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    return _set_step(request, "incident", incident_id)


def _set_step(request: TenantRequest, kind: str, subject_id: UUID) -> HttpResponse:
    form = RunbookStepForm(request.POST)
    if form.is_valid():
        work.set_step(
            tenant_id=request.tenant.id,
            kind=kind,
            subject_id=subject_id,
            runbook=form.cleaned_data["runbook"],
            step=form.cleaned_data["step"],
            done=form.cleaned_data["done"] == "yes",
            evidence=form.cleaned_data["evidence"],
            by=request.caller.actor,
            at=request.as_of,
        )
    else:
        messages.error(request, "No step was marked.")
    return redirect(kind, request.tenant.slug, subject_id)


def _book(book: Runbook) -> dict[str, Any]:
    return {
        "book": book,
        "for": [labels.discrepancy_label(code) for code in book.discrepancies],
        "rows": [row.id for row in recovery_table.ROWS if row.trigger in book.triggers],
        "taxonomy": labels.sentence_case(book.taxonomy) if book.taxonomy else "",
        "strategies": strategy_rows(book.strategies),
    }
