"""Batches over cases: chosen in the queue, worked off by the workers, watched here."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.actions.action_record import event_rows
from console.cases import verbs
from console.cases.views.cases import TABS, case_filter, found_cases, queue_tabs
from console.edge.http import TenantRequest, in_tenant
from console.edge.transaction import after_commit
from console.tasks import work_batches
from console.verbs.verb import page_of
from console.web import labels
from console.web.forms import BatchForm
from ledger.catalogue.rules.targets import target_text
from ledger.record.queries import events
from reviews import queries
from reviews.cases.operations import batches
from reviews.cases.rules.batches import MOST, BatchKind


@in_tenant("operator")
@require_http_methods(["GET", "POST"])
def start_batch(request: TenantRequest) -> HttpResponse:
    if request.method != "POST":
        return _all(request)
    owners = directory.operators(request.tenant.id)
    form = BatchForm(request.POST, owners=[(str(actor), name) for actor, name in owners.items()])
    if not form.is_valid():
        messages.error(request, f"Not started. {form.missing()}")
        return redirect("cases", request.tenant.slug)
    row = batches.start(
        tenant_id=request.tenant.id,
        kind=BatchKind(form.cleaned_data["kind"]),
        wanted=form.wanted(as_of=request.as_of),
        selected=_selected_cases(request, form),
        by=request.caller.actor,
        at=request.as_of,
    )
    after_commit(work_batches)
    return redirect("batch", request.tenant.slug, row.id)


def _selected_cases(request: TenantRequest, form: BatchForm) -> list[UUID]:
    """Return the ticked cases, or all that match the filter of the page on which they were ticked."""
    if form.cleaned_data["scope"] != "all":
        return form.cases()
    seen = QueryDict(form.cleaned_data["filter"])
    tab = seen.get("tab", "")
    if tab not in TABS:
        raise Http404
    return [each.id for each in found_cases(request, tab, case_filter(request, seen), limit=MOST + 1)]


def _all(request: TenantRequest) -> HttpResponse:
    found = queries.batches(request.tenant.id)
    progress = queries.batch_progress(request.tenant.id, [each.id for each in found])
    called = actor_names(request.tenant.id)
    context = {
        "here": "cases",
        "tabs": queue_tabs(request, "batches"),
        "batches": [_row(request, each, progress[each.id], called) for each in found],
        "running": sum(each.ended_at is None for each in found),
        "empty": "No batch yet",
    }
    return render(request, "batches/_list.html" if request.htmx else "batches/list.html", context)


@in_tenant("operator")
def show_batch(request: TenantRequest, batch_id: UUID) -> HttpResponse:
    found = queries.batch(request.tenant.id, batch_id)
    if found is None:
        raise Http404
    called = actor_names(request.tenant.id)
    progress = queries.batch_progress(request.tenant.id, [found.id])[found.id]
    context = {
        "here": "cases",
        "batches_href": reverse("batches", args=[request.tenant.slug]),
        "batch": _row(request, found, progress, called),
        "items": _items(request, found),
        "told": _parameter_words(found, called),
        "timeline": event_rows(events.history(request.tenant.id, found.id), called),
    }
    return render(request, "batches/_detail.html" if request.htmx else "batches/detail.html", context)


change_batch = page_of(
    {"pause": verbs.PAUSE_BATCH, "resume": verbs.RESUME_BATCH, "cancel": verbs.CANCEL_BATCH},
    home=lambda request, ids, result: reverse("batch", args=[request.tenant.slug, ids["batch_id"]]),
)


def _row(request: TenantRequest, row: Any, progress: Any, names: dict[UUID, str]) -> dict[str, Any]:
    return {
        "row": row,
        "word": labels.BATCHES[row.kind],
        "state": labels.BATCH_STATES[row.state],
        "by": names.get(row.started_by, "somebody"),
        "progress": progress,
        "href": reverse("batch", args=[request.tenant.slug, row.id]),
        "turn": reverse("batch-turn", args=[request.tenant.slug, row.id]),
    }


def _items(request: TenantRequest, row: Any) -> list[dict[str, Any]]:
    items = queries.batch_items(request.tenant.id, row.id)
    cases = queries.cases_by_id(request.tenant.id, [each.case_id for each in items])
    return [
        {
            "row": each,
            "icon": _ICONS[each.state],
            "word": labels.ITEM_STATES[each.state],
            "title": _title(cases.get(each.case_id)),
            "href": reverse("case", args=[request.tenant.slug, each.case_id]),
        }
        for each in items
    ]


def _title(case: Any) -> str:
    return f"{case.tool} on {target_text(case.target)}" if case is not None else ""


_ICONS = {"WAITING": "clock", "DONE": "tick", "REFUSED": "stop", "LEFT": "minus"}


def _parameter_words(row: Any, names: dict[UUID, str]) -> list[tuple[str, str]]:
    """The batch's parameters, in words."""
    told = dict(row.wanted)
    if "to" in told:
        told["to"] = names.get(UUID(told["to"]), "somebody")
    if "until" in told:
        told["until"] = f"{told['until'][:16].replace('T', ' ')} UTC"
    return [(labels.sentence_case(name), value) for name, value in told.items()]
