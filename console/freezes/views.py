"""Freezes: what is stopped and was stopped, by whom, why, and what it keeps waiting."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.cases.containment import (
    freeze_choices,
    freezes_asked_for,
    freezes_placed_message,
    open_work_message,
    open_work_panels,
)
from console.edge.http import TenantRequest, in_tenant, redirect_back
from console.incidents.views import incident_tabs
from console.web import labels
from console.web.forms import FreezeForm, LiftFreezeForm
from console.web.list_page import Column, ListPage, list_context, pager_context, place_in, sortable
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import freezes
from ledger.catalogue.operations import registration
from ledger.record.queries import events
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Freeze

PAST = 30
FREEZES_LIST = ListPage(
    "freezes",
    columns=(
        sortable("scope", "Scope", lambda row: labels.sentence_case(row["freeze"].scope)),
        sortable("value", "Value", lambda row: row["freeze"].value or "everything"),
        Column("reason", "Reason", lambda row: row["freeze"].reason),
        sortable("placed_at", "Placed", lambda row: row["freeze"].placed_at),
        Column("placed_by", "Placed by", lambda row: row["placed_by"]),
        Column("lifted", "Lifted", lambda row: row["freeze"].lifted_at),
        Column("lifted_by", "Lifted by", lambda row: row["lifted_by"]),
        Column("lifted_because", "Reason for lifting", lambda row: row["lifted_because"]),
        Column("id", "Id", lambda row: row["freeze"].id),
    ),
)


@in_tenant()
def list_freezes(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _page(request: TenantRequest, form: FreezeForm | None = None, status: int = 200) -> HttpResponse:
    tenant = request.tenant.id
    may_freeze = bool({"operator", "administrator"} & request.caller.roles)
    form = form or FreezeForm()
    form.offered = freeze_choices(tenant) if may_freeze else {}
    in_force, past = _in_force(request), _lifted_freezes(request, after=place_in(request), limit=PAST + 1)
    context = {
        "here": "incidents",
        "tabs": incident_tabs(request, "freezes"),
        "in_force": _rows(request, in_force),
        "past": _rows(request, past[:PAST]),
        **pager_context(request, FREEZES_LIST, past, PAST),
        **list_context(request, FREEZES_LIST),
        "may_freeze": may_freeze,
        "form": form,
        "empty": "No active freeze",
    }
    name = "freezes/_list.html" if request.htmx else "freezes/list.html"
    return render(request, name, context, status=status)


def _in_force(request: TenantRequest) -> list[Freeze]:
    found, sort = freezes.freezes_in_force(request.tenant.id), FREEZES_LIST.sort(request.GET)
    column = attrgetter(sort.removeprefix("-")) if sort else attrgetter("id")
    return sorted(found, key=column, reverse=sort.startswith("-"))


def _lifted_freezes(request: TenantRequest, *, after: UUID | None = None, limit: int) -> list[Freeze]:
    order = FREEZES_LIST.sort(request.GET) or "-id"
    return freezes.lifted_freezes(request.tenant.id, order=order, after=after, limit=limit)


def exported_rows(request: TenantRequest) -> list[dict[str, Any]]:
    """The freezes in force, then the lifted ones."""
    found = [*_in_force(request), *_lifted_freezes(request, limit=MOST_EXPORTED)]
    called, histories = actor_names(request.tenant.id), events.histories(request.tenant.id, [each.id for each in found])
    return [_who_and_why(each, histories[each.id], called) for each in found]


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


@in_tenant("operator", "administrator")
@require_POST
def lift(request: TenantRequest, freeze_id: UUID) -> HttpResponse:
    form = LiftFreezeForm(request.POST)
    if form.is_valid():
        registration.lift_freeze(
            tenant_id=request.tenant.id,
            freeze_id=freeze_id,
            reason=form.cleaned_data["reason"],
            actor=request.caller.actor,
            at=request.as_of,
        )
        row = freezes.freezes_by_id(request.tenant.id, [freeze_id])[freeze_id]
        messages.success(request, f"Lifted. New actions can start again. {open_work_message(request.tenant, row)}")
    else:
        messages.error(request, "Not lifted: enter a reason.")
    return redirect_back(request, reverse("freezes", args=[request.tenant.slug]))


def _rows(request: TenantRequest, found: list[Any]) -> list[dict[str, Any]]:
    tenant, ids = request.tenant, [each.id for each in found]
    in_force = [each for each in found if each.lifted_at is None]
    called, told = actor_names(tenant.id), events.histories(tenant.id, ids)
    incidents, waiting = after.incidents_by_freeze(tenant.id, ids), freezes.count_frozen_actions(in_force)
    panels = open_work_panels(tenant, in_force)
    return [
        _who_and_why(each, told[each.id], called)
        | {
            "waiting": f"{waiting[each.id]}+" if waiting[each.id] == 100 else waiting[each.id],
            "waiting_href": _waiting_actions_href(each, tenant.slug) if waiting[each.id] else "",
            "incidents": [
                {"row": row, "href": reverse("incident", args=[tenant.slug, row.id])} for row in incidents[each.id]
            ],
            "open": panels.get(each.id),
        }
        for each in found
    ]


def _who_and_why(freeze: Freeze, history: list[Any], names: dict[UUID, str]) -> dict[str, Any]:
    by = {event.kind: (names.get(event.actor_id, event.actor_kind), detail or {}) for event, _, detail in history}
    lifted_by, lifted = by.get("freeze_lifted", ("", {}))
    return {
        "freeze": freeze,
        "placed_by": by.get("freeze_placed", ("", {}))[0],
        "lifted_by": lifted_by,
        "lifted_because": lifted.get("reason", ""),
    }


def _waiting_actions_href(freeze: Freeze, slug: str) -> str:
    """The list of what a freeze keeps waiting."""
    narrowed = {"agent": "agent", "tool": "tool", "target": "q"}.get(freeze.scope)
    wanted = {"state": "VALIDATED"} | ({narrowed: freeze.value} if narrowed else {})
    return f"{reverse('actions', args=[slug])}?{urlencode(wanted)}"
