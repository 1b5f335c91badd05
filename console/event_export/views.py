"""The external destinations of a tenant's events, for compliance and administrators."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.edge.http import TenantRequest, in_tenant
from console.event_export import operations, sending
from console.event_export.forms import StartForm, StopForm
from console.event_export.schemas import read_start
from console.event_export.status import address_of, statuses
from console.notifications.views import notice_tabs

ROLES = ("compliance", "administrator")
KINDS = {"webhook": "Signed webhook", "otlp": "OTLP logs"}
STATES = {"NOT_STARTED": "Not started", "RUNNING": "Running", "FAILING": "Failing"}


@in_tenant(*ROLES)
def page(request: TenantRequest) -> HttpResponse:
    here = reverse("event-export", args=[request.tenant.slug])
    shown = [
        {
            "status": each,
            "kind": KINDS[each.address.kind] if each.address else "No address",
            "state": STATES[each.state],
            "form": StartForm(auto_id=f"{each.name}-%s"),
            "stop_form": StopForm(auto_id=f"{each.name}-%s"),
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


@in_tenant(*ROLES)
@require_POST
def stop(request: TenantRequest, destination_name: str) -> HttpResponse:
    operations.stop(
        tenant_id=request.tenant.id,
        name=destination_name,
        reason=request.POST.get("reason", "").strip()[:1000],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, f"Event export to {destination_name} stopped.")
    return redirect("event-export", request.tenant.slug)


@in_tenant(*ROLES)
@require_POST
def send_test(request: TenantRequest, destination_name: str) -> HttpResponse:
    fault = sending.send_test(request.tenant, address_of(request.tenant, destination_name), at=request.as_of)
    if fault:
        messages.error(request, f"{destination_name} did not accept the test: {fault}.")
    else:
        messages.success(request, f"{destination_name} accepted the test.")
    return redirect("event-export", request.tenant.slug)
