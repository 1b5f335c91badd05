"""Systems: how each authoritative system answers, what it owes, and whether anything irreversible is released to it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console import upstream
from console.forms import Lift
from console.http import Request, back_to, in_tenant
from ledger.queries import registered
from reviews import queries as after
from reviews.operations import systems as operations

FAMILIES = {"CLOSED": "true", "HALF_OPEN": "verifying", "OPEN": "false"}
WORDS = {"CLOSED": "Answers", "HALF_OPEN": "Being probed", "OPEN": "Does not answer", "NEVER": "Never asked"}
STOPS = {
    "BY_PERSON": "Stopped by a person",
    "CIRCUIT_OPEN": "Not while it does not answer",
    "TOO_MANY_WAIT": "Too many wait for their verdict",
    "WAITED_TOO_LONG": "One has waited too long for its verdict",
}


@in_tenant()
def page(request: Request) -> HttpResponse:
    tenant = request.tenant
    context = {
        "here": "systems",
        "systems": [_shown(request, each) for each in upstream.every(tenant.id, at=request.as_of)],
        "spending": upstream.spending(tenant.id, at=request.as_of),
        "may_stop": "operator" in request.caller.roles,
    }
    return render(request, "systems/_list.html" if request.htmx else "systems/list.html", context)


@in_tenant("operator")
@require_POST
def stop(request: Request, system_id: UUID) -> HttpResponse:
    name, form = _name(request, system_id), Lift(request.POST)
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        operations.stop_releasing(
            tenant_id=request.tenant.id, name=name, reason=reason, by=request.caller.actor, at=request.as_of
        )
        messages.success(request, f"Nothing irreversible is released to {name} from now on.")
    else:
        messages.error(request, "Nothing was stopped: say why.")
    return back_to(request, reverse("systems", args=[request.tenant.slug]))


@in_tenant("operator")
@require_POST
def resume(request: Request, system_id: UUID) -> HttpResponse:
    name, form = _name(request, system_id), Lift(request.POST)
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        operations.resume_releasing(
            tenant_id=request.tenant.id, name=name, reason=reason, by=request.caller.actor, at=request.as_of
        )
        messages.success(request, f"Actions are released to {name} again, as far as it answers.")
    else:
        messages.error(request, "Nothing was resumed: say why it may be released again.")
    return back_to(request, reverse("systems", args=[request.tenant.slug]))


def _name(request: Request, system_id: UUID) -> str:
    row = registered.system_by_id(request.tenant.id, system_id)
    if row is None:
        raise Http404
    return row.name


def _shown(request: Request, seen: upstream.System) -> dict[str, Any]:
    tenant = request.tenant
    hooks = after.hooks_of(tenant.id, seen.id)
    taken = after.last_deliveries(tenant.id, [each.id for each in hooks])
    incident = after.incident_about(tenant.id, f"system:{seen.name}")
    stands = "NEVER" if seen.health.last_read_at is None else str(seen.standing)
    return {
        "seen": seen,
        "badge": {"family": FAMILIES.get(stands, "waiting"), "word": WORDS[stands]},
        "stop": STOPS.get(str(seen.stop), "") if seen.stop is not None else "",
        "limits": [{"word": _said(name), "value": value} for name, value in seen.limits.items()],
        "hooks": [{"row": each, "taken_at": taken.get(each.id)} for each in hooks],
        "incident": {"title": incident.title, "href": reverse("incident", args=[tenant.slug, incident.id])}
        if incident is not None
        else None,
        "stop_href": reverse("system-stop", args=[tenant.slug, seen.id]),
        "resume_href": reverse("system-resume", args=[tenant.slug, seen.id]),
    }


def _said(name: str) -> str:
    return {
        "concurrency": "Readers at once",
        "reads_per_minute": "Readings a minute",
        "failures": "Failures that open the circuit",
        "cooldown_s": "First wait, seconds",
        "longest_cooldown_s": "Longest wait, seconds",
        "incident_after_s": "Incident after, seconds",
        "incident_actions": "Incident when so many wait",
    }[name]
