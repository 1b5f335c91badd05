"""The split view: an item's page beside the list from which it was opened.

The page is the item's own, at its own address, with its own access record and forms; the address says which list stands
beside it (`beside`), which of its items this is (`item`) and what was decided there last (`decided`). A form that is
sent from there says the same, and leads to the next item once the list has lost this one; an approved request stays
shown, so that its outcome is watched, and leads on from there. So nothing of an item is
written twice, and on a narrow screen, where the list is not drawn, an item is a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from approvals.requests.queries import approvals
from console.approvals.views.queue import queue_filter
from console.cases.views.cases import TABS, case_filter, found_cases
from console.edge.http import TenantRequest
from console.home import inbox
from console.home.inbox import AwaitedDecision
from ledger.db import tenancy

MOST_DECIDED: Final = 3
"""How many decided items the list goes on showing."""
MOST_LISTED: Final = 50


@dataclass(frozen=True)
class SplitView:
    """A list beside one of its items."""

    beside: str
    word: str
    href: str
    items: Sequence[AwaitedDecision]
    groups: Sequence[dict[str, Any]]
    current: str
    decided: Sequence[AwaitedDecision]
    query: str
    """What an address says of all this."""

    address: str
    """Where the list alone can be read again."""

    next: str
    """The address of the item to go on with; empty if nothing waits."""


def split_view_of(request: TenantRequest) -> SplitView | None:
    """The list that this page or form was opened beside; None if it names none."""
    said = request.POST if "beside" in request.POST else request.GET
    name, _, filters = said.get("beside", "").partition("?")
    if name not in _LISTS:
        return None
    word, read = _LISTS[name]
    items = read(request, QueryDict(filters))
    slug, beside = request.tenant.slug, said["beside"]
    groups = inbox.group_like_items(items, slug) if name == "inbox" else [{"items": [each]} for each in items]
    waiting = {each.id for each in items}
    decided = [each for each in _ids(said.getlist("decided")) if each not in waiting]
    query = _query(beside, said.get("item", ""), decided)
    next_up = next((each for each in items if str(each.id) == said.get("next")), items[0] if items else None)
    home = reverse("home" if name == "inbox" else name, args=[slug])
    return SplitView(
        beside=beside,
        word=word,
        href=f"{home}?{filters}" if filters else home,
        items=items,
        groups=groups,
        current=said.get("item", ""),
        decided=inbox.decided_items(request.tenant, request.caller, decided) if decided else [],
        query=query,
        address=f"{reverse('beside', args=[slug])}?{query}",
        next=_address(next_up.href, beside, str(next_up.id), decided) if next_up else "",
    )


def _inbox(request: TenantRequest, _: QueryDict) -> list[AwaitedDecision]:
    return inbox.inbox_items(request.tenant, request.caller, at=request.as_of)


def _approvals(request: TenantRequest, query: QueryDict) -> list[AwaitedDecision]:
    """The queue under its filters, without what this person has voted on already."""
    me, after = request.caller.actor.id, next(iter(_ids([query.get("after", "")])), None)
    wanted = queue_filter(request, query).wanted(me=me) | {"without": me}
    found = approvals.queue(request.tenant.id, after=after, limit=MOST_LISTED, at=request.as_of, **wanted)
    return inbox.approval_items(request.tenant, found)


def _cases(request: TenantRequest, query: QueryDict) -> list[AwaitedDecision]:
    """The queue under its filters, without cases proposed by this person that somebody else must confirm."""
    tab = query.get("tab", "") if query.get("tab", "") in TABS else ""
    after = next(iter(_ids([query.get("after", "")])), None)
    found = found_cases(request, tab, case_filter(request, query), after=after, limit=MOST_LISTED)
    me = request.caller.actor.id
    return inbox.case_items(request.tenant, request.caller, [each for each in found if each.proposed_by != me])


_LISTS: Final[dict[str, tuple[str, Callable[[TenantRequest, QueryDict], list[AwaitedDecision]]]]] = {
    "inbox": ("Inbox", _inbox),
    "approvals": ("Approvals", _approvals),
    "cases": ("Cases", _cases),
}


def lead_to_next_item(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: after a form that was sent from a split view, continue in that list.

    While the list still has the item, to where the form leads anyway, beside the list; once it has lost it, to the item
    that stood behind it.
    """

    def lead_on(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        if request.method == "POST" and response.status_code == 302 and hasattr(request, "caller"):
            response["Location"] = _next_address(request, response["Location"])  # type: ignore[arg-type]
        return response

    return lead_on


def _next_address(request: TenantRequest, otherwise: str) -> str:
    if "beside" not in request.POST:
        return otherwise
    with tenancy(request.tenant.id):
        view = split_view_of(request)
        is_approved = view is not None and any(_is_approved(request, each) for each in _ids([view.current]))
    if view is None or not otherwise.startswith(f"/t/{request.tenant.slug}/"):
        return otherwise
    waiting = {str(each.id): each for each in view.items}
    decided = _ids(request.POST.getlist("decided"))
    if view.current in waiting:
        return _address(otherwise, view.beside, view.current, decided)
    behind = [each for each in request.POST.get("behind", "").split() if each in waiting] or list(waiting)
    if not behind:
        messages.success(request, f"Nothing else is waiting in this list: {view.word}.")
        return otherwise
    decided = [*_ids([view.current]), *decided][:MOST_DECIDED]
    if is_approved:
        stay = _address(otherwise, view.beside, view.current, decided)
        return f"{stay}&{urlencode({'next': behind[0]})}"
    return _address(waiting[behind[0]].href, view.beside, behind[0], decided)


def _is_approved(request: TenantRequest, item: UUID) -> bool:
    """Return whether a request was approved: what becomes of it is watched before the next one is opened."""
    approval = approvals.approval(request.tenant.id, item)
    return approval is not None and approval.state == "APPROVED"


def _address(page: str, beside: str, item: str, decided: Sequence[UUID]) -> str:
    parts = urlsplit(page)
    query = "&".join(filter(None, (parts.query, _query(beside, item, decided))))
    return parts._replace(query=query).geturl()


def _query(beside: str, item: str, decided: Sequence[UUID]) -> str:
    return urlencode([("beside", beside), ("item", item), *(("decided", str(each)) for each in decided)])


def _ids(texts: Sequence[str]) -> list[UUID]:
    found = []
    for text in texts[:MOST_DECIDED]:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
