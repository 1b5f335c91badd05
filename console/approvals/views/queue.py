"""The inbox of approvals: waiting requests, in order of urgency."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from approvals.agents import queries as agents_queries
from approvals.requests.queries import approvals
from approvals.voting.queries import approvers
from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.approvals import queue
from console.approvals.forms import QueueFilter
from console.approvals.queue import QueueCard, queue_cards
from console.edge.http import TenantRequest, in_tenant
from console.standing_approvals.context import time_box_notices
from console.web import labels
from console.web.list_page import Column, ListPage, list_context, pager_context
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.money import money_at_stake
from ledger.catalogue.rules.targets import target_text

TABS = {
    "": ("Waiting", "No approval is waiting"),
    "approved": ("Approved, not yet executed", "No approved action is waiting to be executed"),
    "decided": ("Decided", "No decisions yet"),
}
PAGE = 50
APPROVALS_LIST = ListPage(
    "approvals",
    tuple(QueueFilter.base_fields),
    columns=(
        Column(
            "action",
            "Action",
            lambda row: target_text(row["action"].target),
            more={"Action id": lambda row: row["action"].id},
        ),
        Column("tool", "Tool", lambda row: row["action"].tool),
        Column("agent", "Agent", lambda row: row["action"].agent),
        Column("class", "Class", lambda row: labels.side_effect_class_label(row["action"].side_effect_class)),
        Column("reversibility", "Reversibility", lambda row: labels.REVERSIBILITY.get(row["action"].reversibility, "")),
        Column("risk", "Risk", lambda row: labels.RISKS.get(row["approval"].risk, "")),
        Column("state", "State", lambda row: labels.approval_label(row["approval"], row["action"])[1]),
        Column("requested", "Requested", lambda row: row["approval"].requested_at),
        Column("deadline", "Deadline", lambda row: row["approval"].decide_by),
        Column("assigned", "Assigned to", lambda row: row["assigned_to"]),
        Column("claimed", "Claimed by", lambda row: row["claimed_by"]),
        Column("missing", "Votes missing", lambda row: row["missing"]),
        Column("id", "Id", lambda row: row["approval"].id),
    ),
    orders=("deadline", "oldest", "newest"),
)


@in_tenant()
def inbox(request: TenantRequest) -> HttpResponse:
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    context = _waiting(request) if tab == "" else _decided_tab(request, tab)
    context |= {"here": "approvals", "tabs": _tabs(request, tab), **list_context(request, APPROVALS_LIST)}
    context["time_boxes"] = time_box_notices(request)
    return render(request, "approvals/_list.html" if request.htmx else "approvals/list.html", context)


@in_tenant()
def next_approval(request: TenantRequest) -> HttpResponse:
    """The next request that waits for this person's vote, under the filters of their last look at the queue."""
    query = QueryDict(request.session.get(_session_key(request), ""))
    wanted = queue_filter(request, query).wanted(me=request.caller.actor.id)
    wanted |= {"without": request.caller.actor.id}
    passed = request.GET.get("after", "")
    waiting = approvals.queue(request.tenant.id, limit=2, at=request.as_of, **wanted)
    after = next((each for each in waiting if str(each.id) != passed), None)
    if after is None:
        messages.success(request, "Nothing else in this queue needs your decision.")
        return redirect(f"{_here(request)}?{query.urlencode()}" if query else _here(request))
    return redirect("approval", request.tenant.slug, after.id)


def exported_rows(request: TenantRequest) -> list[dict[str, Any]]:
    """The rows of a filtered tab, without payloads."""
    tenant, tab = request.tenant.id, request.GET.get("tab", "")
    found = _found_on(request, tab, limit=MOST_EXPORTED)
    actions = actions_queries.actions_by_id(tenant, [each.action_id for each in found])
    called, missing = actor_names(tenant), queue.missing_votes(tenant, found)
    claims = {each.id: queue.active_claim(each, at=request.as_of) for each in found}
    return [
        {
            "approval": each,
            "action": actions[each.action_id],
            "assigned_to": called.get(each.assigned_to, ""),
            "claimed_by": called.get(claim.by, "") if (claim := claims[each.id]) else "",
            "missing": missing[each.id],
        }
        for each in found
    ]


def _found_on(request: TenantRequest, tab: str, *, after: UUID | None = None, limit: int) -> list[Any]:
    """The approvals of a tab after the row `after`; waiting ones under their filters."""
    tenant = request.tenant.id
    if tab == "decided":
        return approvals.decided_approvals(tenant, before=after, limit=limit)
    if tab == "approved":
        return approvals.approvals(tenant, state="APPROVED", after=after, limit=limit)
    if tab:
        raise Http404
    wanted = queue_filter(request, request.GET).wanted(me=request.caller.actor.id)
    return approvals.queue(tenant, after=after, limit=limit, at=request.as_of, **wanted)


def queue_filter(request: TenantRequest, query: QueryDict) -> QueueFilter:
    """The filters of an address, over the choices of this tenant."""
    tenant = request.tenant.id
    called = directory.names_of(tenant)
    people = [(str(each.actor_id), called.get(each.actor_id, "somebody")) for each in approvers.approvers(tenant)]
    return QueueFilter(
        APPROVALS_LIST.without_faults(query),
        people=people,
        tools=sorted(catalogue_queries.tool_names(tenant)),
        agents=[each.agent_id for each in agents_queries.agents(tenant)],
        groups=approvers.approver_groups(tenant),
    )


def _waiting(request: TenantRequest) -> dict[str, Any]:
    filters = queue_filter(request, request.GET)
    wanted = filters.wanted(me=request.caller.actor.id)
    after = _parse_uuid(request.GET.get("after", ""))
    found = approvals.queue(request.tenant.id, after=after, limit=PAGE + 1, at=request.as_of, **wanted)
    shown = queue_cards(request, found[:PAGE])
    query = APPROVALS_LIST.view_query(request.GET)
    if request.session.get(_session_key(request)) != query:
        request.session[_session_key(request)] = query
    return {
        "cards": shown,
        "at_stake": money_at_stake(each.payload for each in shown),
        "order": _order(filters),
        "empty": "No approval matches these filters" if wanted else TABS[""][1],
        "filters": filters,
        "kept": {},
        "beside": f"approvals?{request.GET.urlencode()}".rstrip("?"),
        "batch": _batch(request, shown),
        "looking": _looking(request, found[:PAGE]),
        **pager_context(request, APPROVALS_LIST, found, PAGE),
    }


def _decided_tab(request: TenantRequest, tab: str) -> dict[str, Any]:
    after = _parse_uuid(request.GET.get("after", ""))
    found = _found_on(request, tab, after=after, limit=PAGE + 1)
    return {
        "cards": queue_cards(request, found[:PAGE]),
        "order": "newest first" if tab == "decided" else "Earliest deadline first",
        "empty": TABS[tab][1],
        **pager_context(request, APPROVALS_LIST, found, PAGE),
    }


def _order(filters: QueueFilter) -> str:
    chosen = filters.cleaned_data.get("sort", "") if filters.is_valid() else ""
    if not chosen:
        return "Highest risk first, then by deadline"
    return str(dict(filters.fields["sort"].choices)[chosen]).lower()  # type: ignore[attr-defined]


def _batch(request: TenantRequest, shown: list[QueueCard]) -> dict[str, Any] | None:
    """The bar for voting on several at once; only where this person may vote and something may be batched."""
    most = [card.batch_most for card in shown if card.may_batch]
    if "reviewer" not in request.caller.roles or not most:
        return None
    return {"href": reverse("approvals-batch", args=[request.tenant.slug]), "most": max(most)}


def _looking(request: TenantRequest, found: list[Any]) -> str:
    ids = urlencode([("id", each.id) for each in found])
    return f"{reverse('approvals-looking', args=[request.tenant.slug])}?{ids}" if found else ""


def _tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    here = _here(request)
    return [
        {"href": f"{here}?tab={tab}" if tab else here, "word": word, "current": tab == current}
        for tab, (word, _) in TABS.items()
    ]


def _session_key(request: TenantRequest) -> str:
    return f"queue:{request.tenant.slug}"


def _here(request: TenantRequest) -> str:
    return reverse("approvals", args=[request.tenant.slug])


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
