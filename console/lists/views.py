"""Every list of the console by its name: its rows as a CSV, and its filters, columns and order as named views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID, uuid5

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.accounts import operations as accounts_operations
from console.actions import views as actions
from console.agents import lists as agents
from console.approvals.views import queue
from console.audit import views as audit
from console.break_glass import lists as break_glass
from console.calls import views as calls
from console.cases.views import cases
from console.claims import lists as claims
from console.contracts import lists as contracts
from console.costs import lists as costs
from console.edge.auth import NotAllowed
from console.edge.http import TenantRequest, in_tenant, record_page_view, redirect_back
from console.execution import lists as executors
from console.exports import lists as exports
from console.freezes import lists as freezes
from console.incidents import lists as incidents
from console.metrics import views as metrics
from console.notifications import lists as notices
from console.people import lists as people
from console.recordings import lists as recordings
from console.releases import lists as releases
from console.retention import lists as retention
from console.standing_approvals import lists as standing_approvals
from console.systems import lists as systems
from console.targets import views as targets
from console.web.list_page import ListPage
from console.web.spreadsheets import csv_answer

_DECLARED = (
    people.API_KEYS,
    people.DELEGATIONS,
    people.PASSKEYS,
    people.PEOPLE,
    notices.NOTICES,
    agents.AGENTS,
    claims.CLAIMS,
    costs.COSTS,
    costs.PRICES,
    costs.BUDGETS,
    executors.EXECUTORS,
    systems.SYSTEMS,
    break_glass.BREAK_GLASS,
    recordings.RECORDINGS,
    standing_approvals.STANDING_APPROVALS,
    freezes.FREEZES,
    contracts.CONTRACTS,
    releases.RELEASES,
    exports.EXPORTS,
    incidents.INCIDENTS,
    retention.ERASURES,
    retention.HOLDS,
)
LISTS: dict[str, tuple[ListPage, Callable[[TenantRequest], Iterable[Any]]]] = {
    page.name: (page, rows)
    for page, rows in (
        *((each, each.all_rows) for each in _DECLARED),
        # These read for themselves: page and API differ, and BY_HAND in tests/web/lists/test_every_list.py says how.
        (actions.ACTIONS_LIST, actions.exported_rows),
        (queue.APPROVALS_LIST, queue.exported_rows),
        (audit.AUDIT_LIST, audit.exported_events),
        (audit.SIGHTINGS_LIST, audit.exported_sightings),
        (calls.CALLS_LIST, calls.exported_rows),
        (calls.HALLUCINATIONS_LIST, calls.exported_rates),
        (cases.CASES_LIST, cases.exported_rows),
        (metrics.FIGURE_LIST, metrics.exported_actions),
        (targets.TARGET_LIST, targets.exported_rows),
    )
}
"""Each list, and what reads the rows of its CSV: those that its page shows for the same address, at most 5,000."""


class SaveViewForm(forms.Form):
    """A name for the filters of a list."""

    name = forms.CharField(max_length=60, error_messages={"required": "Give the view a name."})
    query = forms.CharField(required=False, max_length=1000)
    shared = forms.BooleanField(required=False)


@in_tenant()
def export_list(request: TenantRequest, list_name: str) -> HttpResponse:
    """Export the displayed list as a CSV and record the person."""
    page = _page(request, list_name)
    record_page_view(request, page.name, uuid5(request.tenant.id, page.name))
    return csv_answer(page.name, *page.table(request.GET, LISTS[page.name][1](request)))


@in_tenant()
@require_POST
def save_view(request: TenantRequest, list_name: str) -> HttpResponse:
    page, form = _page(request, list_name), SaveViewForm(request.POST)
    here, query = page.path(request), page.view_query(QueryDict(request.POST.get("query")))
    if not form.is_valid():
        messages.error(request, "Not saved: give the view a name of at most 60 characters.")
        return redirect(f"{here}?{query}" if query else here)
    accounts_operations.save_view(
        tenant_id=request.tenant.id,
        by=request.caller.actor,
        page=page.name,
        name=form.cleaned_data["name"],
        query=query,
        shared=form.cleaned_data["shared"],
        at=request.as_of,
    )
    messages.success(request, f"Saved as {form.cleaned_data['name']}.")
    return redirect(f"{here}?{query}" if query else here)


@in_tenant()
@require_POST
def remove_view(request: TenantRequest, list_name: str, view_id: UUID) -> HttpResponse:
    page = _page(request, list_name)
    accounts_operations.delete_view(
        tenant_id=request.tenant.id, by=request.caller.actor, view_id=view_id, at=request.as_of
    )
    return redirect_back(request, page.path(request))


def _page(request: TenantRequest, name: str) -> ListPage:
    """Return the list of this name, if the person may see it."""
    if name not in LISTS:
        raise Http404
    page = LISTS[name][0]
    if page.roles and not request.caller.roles & page.roles:
        raise NotAllowed("This list is not for your role.")
    return page
