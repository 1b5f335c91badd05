"""Freezes: what is and was frozen, by whom, why, and which actions wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from console.cases.containment import (
    freeze_choices,
    freezes_asked_for,
    freezes_placed_message,
    open_work_panels,
)
from console.edge.http import TenantRequest, in_tenant, redirect_back
from console.freezes import verbs
from console.freezes.lists import FREEZES
from console.incidents.views import incident_tabs
from console.verbs.verb import page_of
from console.web.forms import FreezeForm
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import freezes
from ledger.catalogue.operations import registration
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Freeze

PAST = 30


@in_tenant()
def list_freezes(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _page(request: TenantRequest, form: FreezeForm | None = None, status: int = 200) -> HttpResponse:
    tenant = request.tenant.id
    may_freeze = bool({"operator", "administrator"} & request.caller.roles)
    form = form or FreezeForm()
    form.offered = freeze_choices(tenant) if may_freeze else {}
    past, frame = FREEZES.read_page(request, PAST, lifted=True)
    context = {
        "here": "incidents",
        "tabs": incident_tabs(request, "freezes"),
        "in_force": _rows(request, FREEZES.find(request, MOST_EXPORTED)),
        "past": _rows(request, past),
        **frame,
        "may_freeze": may_freeze,
        "form": form,
        "empty": "No active freeze",
    }
    name = "freezes/_list.html" if request.htmx else "freezes/list.html"
    return render(request, name, context, status=status)


@in_tenant("operator", "administrator")
@require_POST
def place(request: TenantRequest) -> HttpResponse:
    form = FreezeForm(request.POST)
    wanted = freezes_asked_for(request.tenant.id, form) if form.is_valid() else []
    if form.errors:
        return _page(request, form, status=422)
    for each in wanted:
        registration.place_freeze(tenant_id=request.tenant.id, actor=request.caller.actor, at=request.as_of, **each)
    messages.success(request, freezes_placed_message(form, wanted))
    return redirect_back(request, reverse("freezes", args=[request.tenant.slug]))


lift = page_of(verbs.LIFT, home=lambda request, ids, result: reverse("freezes", args=[request.tenant.slug]))


def _rows(request: TenantRequest, found: Sequence[Freeze]) -> list[dict[str, Any]]:
    tenant, ids = request.tenant, [each.id for each in found]
    in_force = [each for each in found if each.lifted_at is None]
    incidents, waiting = after.incidents_by_freeze(tenant.id, ids), freezes.count_frozen_actions(in_force)
    panels = open_work_panels(tenant, in_force)
    return [
        shown
        | {
            "waiting": f"{waiting[each.id]}+" if waiting[each.id] == 100 else waiting[each.id],
            "waiting_href": _waiting_actions_href(each, tenant.slug) if waiting[each.id] else "",
            "incidents": [
                {"row": row, "href": reverse("incident", args=[tenant.slug, row.id])} for row in incidents[each.id]
            ],
            "open": panels.get(each.id),
        }
        for each, shown in zip(found, FREEZES.rows_of(request, found), strict=True)
    ]


def _waiting_actions_href(freeze: Freeze, slug: str) -> str:
    """The address of the list of actions that a freeze delays."""
    narrowed = {"agent": "agent", "tool": "tool", "target": "q"}.get(freeze.scope)
    wanted = {"state": "VALIDATED"} | ({narrowed: freeze.value} if narrowed else {})
    return f"{reverse('actions', args=[slug])}?{urlencode(wanted)}"
