"""The queue of cases, and the page on which a person settles one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console import erased, words
from console import queries as directory
from console.account import names
from console.dispute import dispute
from console.forms import BatchOrder, CaseFilter, Confirmation, Remark, Resolution
from console.http import Request, in_tenant, looked
from console.title import title
from console.ungated import ungated
from ledger.queries import acting
from reviews import queries
from reviews.operations import cases
from reviews.rules import resolutions
from reviews.rules.batches import MOST

TABS = {"": "Open", "mine": "Mine", "free": "Nobody owns", "snoozed": "Snoozed", "settled": "Settled"}
PAGE = 50


@in_tenant()
def queue(request: Request) -> HttpResponse:
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    filters = case_filter(request)
    after = _uuid(request.GET.get("after", ""))
    found = found_cases(request, tab, filters, after=after, limit=PAGE + 1)
    context = {
        "here": "cases",
        "tabs": queue_tabs(request, tab),
        "batch": _batch(request),
        "cases": _rows(request, found[:PAGE]),
        "order": "newest first" if tab == "settled" else _order(filters),
        "filters": filters,
        "kept": {"tab": tab} if tab else {},
        "older": _page_after(request, found[PAGE - 1].id) if len(found) > PAGE else "",
        "newest": _page_after(request, None) if after else "",
        "empty": _EMPTY.get(tab, "0 cases are open here"),
    }
    return render(request, "cases/_list.html" if request.htmx else "cases/list.html", context)


_EMPTY = {"settled": "No case is settled yet", "snoozed": "No case is snoozed"}


@in_tenant()
def case(request: Request, case_id: UUID) -> HttpResponse:
    page = erased.instead(request, "case", case_id) or show(request, case_id)
    found = queries.case(request.tenant.id, case_id)
    looked(request, "case", case_id, found.action_id if found else None)
    return page


@in_tenant("operator")
@require_POST
def resolve(request: Request, case_id: UUID) -> HttpResponse:
    form = Resolution(request.POST, allowed=resolutions.Resolution)
    if not form.is_valid():
        return show(request, case_id, resolution=form, status=422)
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
        messages.error(request, "Nothing was recorded: say whether you confirm it or decline it.")
        return show(request, case_id, status=422)
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


def show(
    request: Request,
    case_id: UUID,
    *,
    resolution: Resolution | None = None,
    remark: Remark | None = None,
    status: int = 200,
) -> HttpResponse:
    """The case page, with a form that was not complete where there is one."""
    found = queries.case(request.tenant.id, case_id)
    if found is None:
        raise Http404
    told = dispute if found.action_id else ungated
    context = {
        "here": "cases",
        "cases_href": reverse("cases", args=[request.tenant.slug]),
        "case": told(request.tenant, found, caller=request.caller, at=request.as_of),
        "form": resolution or Resolution(allowed=[]),
        "comment_form": remark or Remark(),
    }
    return render(request, "cases/_detail.html" if request.htmx else "cases/detail.html", context, status=status)


def case_filter(request: Request, query: QueryDict | None = None) -> CaseFilter:
    """The filters of an address, over what this tenant has to choose from."""
    seen = request.GET if query is None else query
    return CaseFilter(seen, owners=_owners(request), reasons=queries.reasons(request.tenant.id))


def _owners(request: Request) -> list[tuple[str, str]]:
    return [(str(actor), name) for actor, name in directory.operators(request.tenant.id).items()]


def _batch(request: Request) -> dict[str, Any] | None:
    """The bar for doing one thing to many cases; for operators only."""
    if "operator" not in request.caller.roles:
        return None
    return {
        "form": BatchOrder(owners=_owners(request), auto_id="batch-%s"),
        "href": reverse("batches", args=[request.tenant.slug]),
        "filter": request.GET.urlencode(),
        "most": MOST,
    }


def found_cases(
    request: Request, tab: str, filters: CaseFilter, *, after: UUID | None = None, limit: int = PAGE
) -> list[Any]:
    """The cases that a tab shows under its filters."""
    wanted = filters.wanted(as_of=request.as_of) if filters.is_valid() else {}
    if tab in ("mine", "free"):
        wanted["owner"] = request.caller.actor.id if tab == "mine" else None
    name = tab if tab in ("snoozed", "settled") else "open"
    sort = filters.cleaned_data.get("sort", "")
    return queries.shelf(request.tenant.id, name, sort=sort, at=request.as_of, after=after, limit=limit, **wanted)


def _order(filters: CaseFilter) -> str:
    chosen = filters.cleaned_data.get("sort", "")
    return "gravest first, then oldest" if not chosen else dict(filters.fields["sort"].choices)[chosen].lower()  # type: ignore[attr-defined]


def queue_tabs(request: Request, current: str) -> list[dict[str, Any]]:
    """The shelves of the queue, and the batches beside them."""
    here = reverse("cases", args=[request.tenant.slug])
    tabs = [(name, word, f"{here}?tab={name}" if name else here) for name, word in TABS.items()]
    if "operator" in request.caller.roles:
        tabs.append(("batches", "Batches", reverse("batches", args=[request.tenant.slug])))
    return [{"href": href, "word": word, "current": name == current} for name, word, href in tabs]


def _page_after(request: Request, last: UUID | None) -> str:
    kept = {name: value for name, value in request.GET.items() if value and name != "after"}
    return f"{request.path}?{urlencode({**kept, 'after': last} if last else kept)}"


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _rows(request: Request, found: list[Any]) -> list[dict[str, Any]]:
    actions = acting.actions_by_id(request.tenant.id, [each.action_id for each in found if each.action_id])
    called = names(request.tenant.id)
    return [
        {
            "row": each,
            "href": reverse("case", args=[request.tenant.slug, each.id]),
            "title": title(actions[each.action_id].operation_kind, each.target) if each.action_id else each.target,
            "found": words.discrepancy(each.discrepancy) if each.discrepancy else words.reason(each.reason),
            "reason": words.reason(each.reason) if each.discrepancy else "",
            "action": actions.get(each.action_id),
            "owner": called.get(each.claimed_by, "") if each.claimed_by else "",
            "snoozed": bool(each.snoozed_until and each.snoozed_until > request.as_of),
        }
        for each in found
    ]
