"""The external destinations of a tenant's events, for compliance and administrators."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.edge.http import TenantRequest, in_tenant
from console.event_export import operations, sending, verbs
from console.event_export.schemas import read_start
from console.event_export.status import address_of, statuses
from console.notifications.views import notice_tabs
from console.verbs.verb import page_of
from console.web.forms import PlainSelect

ROLES = ("compliance", "administrator")
STARTS = (("now", "Now"), ("beginning", "Beginning of the record"), ("place", "An entry or a time"))
KINDS = {"webhook": "Signed webhook", "otlp": "OTLP logs"}
STATES = {"NOT_STARTED": "Not started", "RUNNING": "Running", "FAILING": "Failing"}


class StartForm(forms.Form):
    """The starting point of an export."""

    start = forms.ChoiceField(choices=STARTS, widget=PlainSelect, label="From")
    place = forms.CharField(required=False, max_length=40, label="Entry, or time with its zone")


@in_tenant(*ROLES)
def page(request: TenantRequest) -> HttpResponse:
    here = reverse("event-export", args=[request.tenant.slug])
    shown = [
        {
            "status": each,
            "kind": KINDS[each.address.kind] if each.address else "No address",
            "state": STATES[each.state],
            "form": StartForm(auto_id=f"{each.name}-%s"),
            "stop_form": verbs.STOP.form(auto_id=f"{each.name}-%s"),
            **{step: reverse(f"event-export-{step}", args=[request.tenant.slug, each.name]) for step in _STEPS},
        }
        for each in statuses(request.tenant)
    ]
    context = {"here": "notices", "tabs": notice_tabs(request, here), "shown": shown}
    return render(request, "event_export/_page.html" if request.htmx else "event_export/page.html", context)


_STEPS = ("start", "stop", "test")


@in_tenant(*ROLES)
@require_POST
def start(request: TenantRequest, destination_name: str) -> HttpResponse:
    address_of(request.tenant, destination_name)
    chosen = request.POST.get("start", "now")
    start_at = read_start(request.POST.get("place", "").strip() if chosen == "place" else chosen)
    operations.start(
        tenant_id=request.tenant.id, name=destination_name, start_at=start_at, by=request.caller.actor, at=request.as_of
    )
    messages.success(request, f"Event export to {destination_name} started.")
    return redirect("event-export", request.tenant.slug)


stop = page_of(verbs.STOP, home=lambda request, ids, result: reverse("event-export", args=[request.tenant.slug]))


@in_tenant(*ROLES)
@require_POST
def send_test(request: TenantRequest, destination_name: str) -> HttpResponse:
    fault = sending.send_test(request.tenant, address_of(request.tenant, destination_name), at=request.as_of)
    if fault:
        messages.error(request, f"{destination_name} did not accept the test: {fault}.")
    else:
        messages.success(request, f"{destination_name} accepted the test.")
    return redirect("event-export", request.tenant.slug)
