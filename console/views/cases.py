"""The queue of cases, and the page on which a person settles one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console import words
from console.account import names
from console.dispute import dispute
from console.forms import CaseFilter, Confirmation, Remark, Resolution
from console.http import Request, in_tenant
from console.title import title
from ledger import queries as record
from reviews import queries
from reviews.operations import cases
from reviews.rules import resolutions

TABS = {"": "Open", "mine": "Mine", "free": "Nobody owns", "settled": "Settled"}


@in_tenant()
def queue(request: Request) -> HttpResponse:
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    here = reverse("cases", args=[request.tenant.slug])
    filters = CaseFilter(request.GET)
    context = {
        "here": "cases",
        "tabs": [
            {"href": f"{here}?tab={name}" if name else here, "word": word, "current": name == tab}
            for name, word in TABS.items()
        ],
        "cases": _rows(request, _found(request, tab, filters)),
        "order": "newest first" if tab == "settled" else "gravest first, then oldest",
        "filters": filters,
        "kept": {"tab": tab} if tab else {},
        "empty": "No case is settled yet" if tab == "settled" else "0 cases are open here",
    }
    return render(request, "cases/_list.html" if request.htmx else "cases/list.html", context)


@in_tenant()
def case(request: Request, case_id: UUID) -> HttpResponse:
    return _page(request, case_id)


@in_tenant("operator")
@require_POST
def claim(request: Request, case_id: UUID) -> HttpResponse:
    cases.claim(tenant_id=request.tenant.id, case_id=case_id, by=request.caller.actor, at=request.as_of)
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def release(request: Request, case_id: UUID) -> HttpResponse:
    cases.release(tenant_id=request.tenant.id, case_id=case_id, by=request.caller.actor, at=request.as_of)
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator", "reviewer", "compliance")
@require_POST
def comment(request: Request, case_id: UUID) -> HttpResponse:
    form = Remark(request.POST)
    if not form.is_valid():
        return _page(request, case_id, remark=form, status=422)
    cases.comment(
        tenant_id=request.tenant.id,
        case_id=case_id,
        text=form.cleaned_data["text"],
        by=request.caller.actor,
        at=request.as_of,
    )
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def resolve(request: Request, case_id: UUID) -> HttpResponse:
    form = Resolution(request.POST, allowed=resolutions.Resolution)
    if not form.is_valid():
        return _page(request, case_id, resolution=form, status=422)
    state = cases.resolve(
        tenant_id=request.tenant.id,
        case_id=case_id,
        resolution=resolutions.Resolution(form.cleaned_data["resolution"]),
        reason=form.cleaned_data["reason"],
        evidence=form.pieces(),
        by=request.caller.actor,
        at=request.as_of,
    )
    settled = "Recorded. The case is settled." if state == "RESOLVED" else "Recorded. A second person must confirm it."
    messages.success(request, settled)
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator", "reviewer")
@require_POST
def confirm(request: Request, case_id: UUID) -> HttpResponse:
    form = Confirmation(request.POST)
    if not form.is_valid():
        return _page(request, case_id, status=422)
    cases.confirm(
        tenant_id=request.tenant.id,
        case_id=case_id,
        accept=form.accepted(),
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(
        request, "Confirmed. The case is settled." if form.accepted() else "Sent back. The case is open again."
    )
    return redirect("case", request.tenant.slug, case_id)


def _page(
    request: Request,
    case_id: UUID,
    *,
    resolution: Resolution | None = None,
    remark: Remark | None = None,
    status: int = 200,
) -> HttpResponse:
    found = queries.case(request.tenant.id, case_id)
    if found is None:
        raise Http404
    context = {
        "here": "cases",
        "cases_href": reverse("cases", args=[request.tenant.slug]),
        "case": dispute(request.tenant, found, caller=request.caller),
        "form": resolution or Resolution(allowed=[]),
        "comment_form": remark or Remark(),
    }
    return render(request, "cases/_detail.html" if request.htmx else "cases/detail.html", context, status=status)


def _found(request: Request, tab: str, filters: CaseFilter) -> list[Any]:
    wanted = filters.cleaned_data if filters.is_valid() else {}
    found = queries.cases(request.tenant.id, resolved=tab == "settled")
    if tab in ("mine", "free"):
        owner = request.caller.actor.id if tab == "mine" else None
        found = [each for each in found if each.claimed_by == owner]
    for name in ("discrepancy", "side_effect_class"):
        found = [each for each in found if wanted.get(name, "") in ("", getattr(each, name))]
    return found


def _rows(request: Request, found: list[Any]) -> list[dict[str, Any]]:
    actions = record.actions_by_id(request.tenant.id, [each.action_id for each in found])
    called = names(request.tenant.id)
    return [
        {
            "row": each,
            "href": reverse("case", args=[request.tenant.slug, each.id]),
            "title": title(actions[each.action_id].operation_kind, each.target),
            "found": words.discrepancy(each.discrepancy) if each.discrepancy else words.sentence(each.reason),
            "action": actions[each.action_id],
            "owner": called.get(each.claimed_by, "") if each.claimed_by else "",
        }
        for each in found
    ]
