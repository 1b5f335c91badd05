"""Legal holds, erasure under two persons, and how long what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.accounts.queries import actor_names
from console.accounts.step_up import is_recently_authenticated
from console.audit.views import MAY, audit_tabs
from console.edge.http import TenantRequest, in_tenant
from console.retention import verbs
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web import labels
from console.web.list_page import Column, ListPage, export_address
from console.web.spreadsheets import MOST_EXPORTED
from ledger.people.queries import is_same_person
from ledger.retention import queries
from ledger.retention.rules.retention import HoldScope
from ledger.verification.queries import storage

SHOWN = 20
HOLDS_LIST = ListPage(
    "holds",
    columns=(
        Column("scope", "Scope", lambda row: row["word"]),
        Column("value", "Value", lambda row: row["row"].value),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("by", "Placed by", lambda row: row["by"]),
        Column("placed", "Placed", lambda row: row["row"].placed_at),
        Column("lifted", "Lifted", lambda row: row["row"].lifted_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(MAY),
)
ERASURES_LIST = ListPage(
    "erasures",
    page="holds",
    columns=(
        Column("state", "State", lambda row: row["word"]),
        Column("basis", "Legal basis", lambda row: row["row"].legal_basis),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("subjects", "Subjects", lambda row: row["row"].subjects),
        Column("erased", "Erased", lambda row: row["row"].erased),
        Column("by", "Requested by", lambda row: row["by"]),
        Column("requested", "Requested", lambda row: row["row"].requested_at),
        Column("second", "Confirmed by", lambda row: row["second"]),
        Column("confirmed", "Confirmed", lambda row: row["row"].confirmed_at),
        Column("ended", "Ended", lambda row: row["row"].ended_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(MAY),
)


@in_tenant(*MAY)
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("holds", args=[request.tenant.slug])


def _page(
    request: TenantRequest,
    /,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    status: int = 200,
    **ids: Any,
) -> HttpResponse:
    tenant, called = request.tenant.id, actor_names(request.tenant.id)
    policy = queries.policy(tenant)
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "holds"),
        "holds": [_hold(request, each, called) for each in queries.holds(tenant, limit=SHOWN)],
        "lifted": [_hold(request, each, called) for each in queries.holds(tenant, lifted=True, limit=5)],
        "erasures": [_erasure(request, each, called) for each in queries.erasures(tenant, limit=SHOWN)],
        "policy": policy,
        "policies": [_policy(request, each, called) for each in queries.retentions(tenant, limit=5)],
        "forms": {
            "place_hold": verbs.PLACE_HOLD.form(),
            "ask": verbs.REQUEST_ERASURE.form(),
            "propose_policy": verbs.PROPOSE_POLICY.form(initial=policy.document()),
            **forms,
        },
        "may_change": "compliance" in request.caller.roles,
        "is_fresh": is_recently_authenticated(request),
        "holds_export": export_address(request, HOLDS_LIST),
        "erasures_export": export_address(request, ERASURES_LIST),
    }
    return render(request, "retention/_page.html" if request.htmx else "retention/page.html", context, status=status)


place = page_of(verbs.PLACE_HOLD, home=_home, render=_page)
lift = page_of(verbs.LIFT_HOLD, home=_home)
request_erasure = page_of(verbs.REQUEST_ERASURE, home=_home, render=_page)
answer_erasure = page_of(
    {"confirm": verbs.CONFIRM_ERASURE, "refuse": verbs.REFUSE_ERASURE, "withdraw": verbs.WITHDRAW_ERASURE}, home=_home
)
propose = page_of(verbs.PROPOSE_POLICY, home=_home, render=_page)
answer_policy = page_of({"confirm": verbs.CONFIRM_POLICY, "withdraw": verbs.WITHDRAW_POLICY}, home=_home)


def exported_holds(request: TenantRequest) -> list[dict[str, Any]]:
    """The holds in force, then the lifted ones."""
    tenant, called = request.tenant.id, actor_names(request.tenant.id)
    found = [each for lifted in (False, True) for each in queries.holds(tenant, lifted=lifted, limit=MOST_EXPORTED)]
    return [_hold(request, each, called) for each in found]


def exported_erasures(request: TenantRequest) -> list[dict[str, Any]]:
    """Every request to erase, newest first."""
    called = actor_names(request.tenant.id)
    return [_erasure(request, each, called) for each in queries.erasures(request.tenant.id, limit=MOST_EXPORTED)]


def _hold(request: TenantRequest, row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    slug = request.tenant.slug
    return {
        "row": row,
        "word": labels.HOLD_SCOPES[row.scope],
        "by": names.get(row.placed_by, "somebody"),
        "href": _recording(slug, row.value) if row.scope == HoldScope.RECORDING else "",
        "lift": reverse("hold-lift", args=[slug, row.id]),
        "record": reverse("event", args=[slug, row.id, 1]),
    }


def _recording(slug: str, value: str) -> str:
    return reverse("recording", args=[slug, UUID(value)]) if storage.is_uuid(value) else ""


def _erasure(request: TenantRequest, row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    slug, me = request.tenant.slug, request.caller.actor.id
    waits = row.state == "REQUESTED"
    return {
        "row": row,
        "word": labels.ERASURES.get(row.state, labels.sentence_case(row.state)),
        "icon": _ICONS.get(row.state, "dot"),
        "by": names.get(row.requested_by, "the policy in force"),
        "second": names.get(row.confirmed_by, "") if row.confirmed_by else "",
        "may_confirm": waits and not is_same_person(row.requested_by, me),
        "proof": verbs.CONFIRM_ERASURE.form(auto_id=f"id_{row.id}_%s"),
        "may_withdraw": row.state in queries.OPEN and row.begun_at is None,
        "answer": reverse("erasure-answer", args=[slug, row.id]),
        "record": reverse("event", args=[slug, row.id, 1]),
    }


def _policy(request: TenantRequest, row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    slug = request.tenant.slug
    return {
        "row": row,
        "word": labels.sentence_case(row.state),
        "by": names.get(row.proposed_by, "somebody"),
        "second": names.get(row.confirmed_by, "") if row.confirmed_by else "",
        "waits": row.state == "PROPOSED",
        "may_confirm": row.state == "PROPOSED" and not is_same_person(row.proposed_by, request.caller.actor.id),
        "proof": verbs.CONFIRM_POLICY.form(auto_id=f"id_{row.id}_%s"),
        "answer": reverse("retention-answer", args=[slug, row.id]),
        "record": reverse("event", args=[slug, row.id, 1]),
    }


_ICONS = {"REQUESTED": "clock", "CONFIRMED": "clock", "DONE": "tick", "REFUSED": "cross", "WITHDRAWN": "minus"}
