"""Legal holds, erasure by two people, and retention periods."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.accounts.step_up import is_recently_authenticated
from console.audit.views import audit_tabs
from console.edge.http import TenantRequest, in_tenant
from console.retention import lists, verbs
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.list_page import export_address
from ledger.retention import queries

SHOWN = 20


@in_tenant(*lists.PAGE_READERS)
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
    policy = queries.policy(request.tenant.id)
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "holds"),
        "holds": lists.HOLDS.rows(request, SHOWN),
        "lifted": lists.HOLDS.rows(request, 5, lifted=True),
        "erasures": lists.ERASURES.rows(request, SHOWN),
        "policy": policy,
        "policies": lists.POLICIES.rows(request, 5),
        "forms": {
            "place_hold": verbs.PLACE_HOLD.form(),
            "ask": verbs.REQUEST_ERASURE.form(),
            "propose_policy": verbs.PROPOSE_POLICY.form(initial=policy.document()),
            **forms,
        },
        "may_change": "compliance" in request.caller.roles,
        "is_fresh": is_recently_authenticated(request),
        "holds_export": export_address(request, lists.HOLDS),
        "erasures_export": export_address(request, lists.ERASURES),
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
