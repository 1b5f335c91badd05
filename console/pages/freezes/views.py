"""Freezes: what is stopped and was stopped, by whom, why, and what it keeps waiting."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from console.pages.actions.action_record import names
from console.pages.cases.containment import check_stop, still_open, tell_freeze, tell_open_work
from console.pages.incidents.views import trouble_tabs
from console.web.forms import Lift, Stop
from console.web.http import Request, back_to, in_tenant
from ledger.actions.queries import freezes
from ledger.catalogue.operations import registration
from ledger.record.queries import events
from reviews import queries as after

PAST = 30


@in_tenant()
def page(request: Request) -> HttpResponse:
    return _page(request)


def _page(request: Request, form: Stop | None = None, status: int = 200) -> HttpResponse:
    tenant = request.tenant.id
    in_force, past = freezes.freezes_in_force(tenant), freezes.freezes_lifted(tenant, limit=PAST)
    context = {
        "here": "incidents",
        "tabs": trouble_tabs(request, "freezes"),
        "in_force": _rows(request, in_force),
        "past": _rows(request, past),
        "may_freeze": bool({"operator", "administrator"} & request.caller.roles),
        "form": form or Stop(),
        "empty": "Nothing is frozen",
    }
    name = "freezes/_list.html" if request.htmx else "freezes/list.html"
    return render(request, name, context, status=status)


@in_tenant("operator", "administrator")
@require_POST
def place(request: Request) -> HttpResponse:
    form = Stop(request.POST)
    is_unknown = form.is_valid() and check_stop(request.tenant.id, form)
    if form.errors:
        return _page(request, form, status=422)
    registration.freeze(
        tenant_id=request.tenant.id,
        actor=request.caller.actor,
        at=request.as_of,
        is_unknown=is_unknown,
        **form.asked(),
    )
    messages.success(request, tell_freeze(form, is_unknown))
    return back_to(request, reverse("freezes", args=[request.tenant.slug]))


@in_tenant("operator", "administrator")
@require_POST
def lift(request: Request, freeze_id: UUID) -> HttpResponse:
    form = Lift(request.POST)
    if form.is_valid():
        registration.lift_freeze(
            tenant_id=request.tenant.id,
            freeze_id=freeze_id,
            reason=form.cleaned_data["reason"],
            actor=request.caller.actor,
            at=request.as_of,
        )
        row = freezes.freezes_by_id(request.tenant.id, [freeze_id])[freeze_id]
        messages.success(request, f"Lifted. New work is released to it again. {tell_open_work(request.tenant, row)}")
    else:
        messages.error(request, "Nothing was lifted: say why it may be released again.")
    return back_to(request, reverse("freezes", args=[request.tenant.slug]))


def _rows(request: Request, found: list[Any]) -> list[dict[str, Any]]:
    called, slug = names(request.tenant.id), request.tenant.slug
    told = events.histories(request.tenant.id, [each.id for each in found])
    return [
        _row(each, told[each.id], called, slug) | {"open": None if each.lifted_at else still_open(request.tenant, each)}
        for each in found
    ]


def _row(freeze: Any, history: list[Any], called: dict[UUID, str], slug: str) -> dict[str, Any]:
    by = {event.kind: (called.get(event.actor_id, event.actor_kind), detail or {}) for event, _, detail in history}
    lifted_by, lifted = by.get("freeze_lifted", ("", {}))
    waiting = 0 if freeze.lifted_at else freezes.stopped_by(freeze)
    return {
        "freeze": freeze,
        "placed_by": by.get("freeze_placed", ("", {}))[0],
        "lifted_by": lifted_by,
        "lifted_because": lifted.get("reason", ""),
        "waiting": f"{waiting}+" if waiting == 100 else waiting,
        "waiting_href": _stopped(freeze, slug) if waiting else "",
        "incidents": [
            {"row": each, "href": reverse("incident", args=[slug, each.id])}
            for each in after.incidents_of(freeze.tenant_id, freeze.id)
        ],
    }


def _stopped(freeze: Any, slug: str) -> str:
    """The list of what a freeze keeps waiting."""
    narrowed = {"agent": "agent", "tool": "tool", "target": "q"}.get(freeze.scope)
    wanted = {"state": "VALIDATED"} | ({narrowed: freeze.value} if narrowed else {})
    return f"{reverse('actions', args=[slug])}?{urlencode(wanted)}"
