"""Legal holds, erasure by two people, and retention periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console import tasks
from console.accounts.step_up import is_recently_authenticated
from console.audit.views import audit_tabs
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.edge.transaction import after_commit
from console.retention import lists, scans, verbs
from console.retention.erasure import waiting_reason
from console.retention.schemas import PersonSearchForm
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web import labels
from console.web.labels import action_title
from console.web.list_page import export_address
from ledger.actions.queries import actions
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
    search: PersonSearchForm | None = None,
    status: int = 200,
    **ids: Any,
) -> HttpResponse:
    policy = queries.policy(request.tenant.id)
    holds, erasures = lists.HOLDS.rows(request, SHOWN), lists.ERASURES.rows(request, SHOWN)
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "holds"),
        "holds": holds,
        "lifted": lists.HOLDS.rows(request, 5, lifted=True),
        "erasures": erasures,
        "answer": _waiting_sentence(holds, erasures),
        "policy": policy,
        "policies": lists.POLICIES.rows(request, 5),
        "off_boarding": _off_boarding(request),
        "forms": {
            "place_hold": verbs.PLACE_HOLD.form(),
            "ask": verbs.REQUEST_ERASURE.form(),
            "propose_policy": verbs.PROPOSE_POLICY.form(initial=policy.document()),
            **forms,
        },
        "search": search or PersonSearchForm(),
        "may_change": "compliance" in request.caller.roles,
        "is_fresh": is_recently_authenticated(request),
        "holds_export": export_address(request, lists.HOLDS),
        "erasures_export": export_address(request, lists.ERASURES),
    }
    return render(request, "retention/_page.html" if request.htmx else "retention/page.html", context, status=status)


def _off_boarding(request: TenantRequest) -> dict[str, Any] | None:
    """The off-boarding of the tenant, while it waits or is under way."""
    found = queries.off_boarding(request.tenant.id)
    if found is None or not found.is_open:
        return None
    slug = request.tenant.slug
    return {
        "row": found,
        "word": labels.OFF_BOARDINGS[found.state],
        "proof": verbs.CONFIRM_OFF_BOARDING.form(auto_id=f"id_{found.id}_%s"),
        "may_confirm": found.state == "REQUESTED",
        "may_refuse": found.state in ("REQUESTED", "CONFIRMED"),
        "answer": reverse("off-boarding-answer", args=[slug, found.id]),
        "record": reverse("event", args=[slug, request.tenant.id, found.seq]),
    }


def _waiting_sentence(holds: Sequence[Mapping[str, Any]], erasures: Sequence[Mapping[str, Any]]) -> str:
    """The erasures that wait for a second person, and the holds that may block one."""
    waits = sum(each["row"].state == "REQUESTED" for each in erasures)
    asked = f"{waits or 'No'} erasure{' waits' if waits == 1 else 's wait' if waits else ' waits'} for a second person"
    more = " or more" if len(holds) == SHOWN else ""
    held = f"{len(holds) or 'no'}{more} legal hold{'s are' if len(holds) > 1 else ' is'} in force"
    return f"{asked}; {held}."


@in_tenant("compliance")
@require_POST
def start_person_search(request: TenantRequest) -> HttpResponse:
    """Start the search for the actions that mention a person; the worker carries it out."""
    form = PersonSearchForm(request.POST)
    if not form.is_valid():
        return _page(request, search=form, status=422)
    search = scans.start_search(
        tenant_id=request.tenant.id, text=form.cleaned_data["text"], by=request.caller.actor.id, at=request.as_of
    )
    record_page_view(request, "person", UUID(search.id))
    after_commit(tasks.search_for_person, str(request.tenant.id), search.id)
    return redirect("person-search", request.tenant.slug, search.id)


@in_tenant("compliance")
def show_person_search(request: TenantRequest, search_id: UUID) -> HttpResponse:
    """Show how far a search is, what it found, and what of it waits and until when."""
    tenant_id = request.tenant.id
    search = scans.read_search(tenant_id, search_id, by=request.caller.actor.id)
    found = [UUID(each) for each in search.found] if search is not None else []
    rows = actions.actions_by_id(tenant_id, found)
    waits = (
        {each: waiting_reason(tenant_id, each, at=request.as_of) for each in rows} if search and search.is_done else {}
    )
    ready = [each for each in found if each in rows and not waits.get(each)]
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "holds"),
        "search": search,
        "found": [
            {
                "row": rows[each],
                "title": action_title(rows[each].operation_kind, rows[each].target),
                "waits": waits.get(each, ""),
            }
            for each in found
            if each in rows
        ],
        "ready": len(ready),
        "ask": verbs.REQUEST_ERASURE.form(initial={"what": "\n".join(map(str, ready))}) if waits and ready else None,
    }
    name = "retention/_search.html" if request.htmx else "retention/search.html"
    return render(request, name, context, status=200 if search is not None else 404)


place = page_of(verbs.PLACE_HOLD, home=_home, render=_page)
lift = page_of(verbs.LIFT_HOLD, home=_home)
request_erasure = page_of(verbs.REQUEST_ERASURE, home=_home, render=_page, keeps=True)
answer_erasure = page_of(
    {"confirm": verbs.CONFIRM_ERASURE, "refuse": verbs.REFUSE_ERASURE, "withdraw": verbs.WITHDRAW_ERASURE}, home=_home
)
answer_off_boarding = page_of({"confirm": verbs.CONFIRM_OFF_BOARDING, "refuse": verbs.REFUSE_OFF_BOARDING}, home=_home)
propose = page_of(verbs.PROPOSE_POLICY, home=_home, render=_page)
answer_policy = page_of({"confirm": verbs.CONFIRM_POLICY, "withdraw": verbs.WITHDRAW_POLICY}, home=_home)
