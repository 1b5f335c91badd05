"""One session of an agent: its pinned goal, its calls, and the reports."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.agents.operations import withheld_tools
from approvals.gate import queries as calls_read
from approvals.sessions import queries as sessions_queries
from console.actions.erased_pages import erased_page
from console.edge.http import TenantRequest, in_tenant
from console.sessions import guarded_message, session_context
from console.sessions.context import summary_panel
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import runs
from reviews import queries as after

MOST_CALLS = 100
MOST_JUDGED = 20


@in_tenant()
def session(request: TenantRequest, session_id: UUID) -> HttpResponse:
    found = sessions_queries.session(request.tenant.id, session_id)
    if found is None:
        raise Http404
    if gone := erased_page(request, "session", session_id):
        return gone
    newest = calls_read.newest_calls_of(request.tenant.id, session_id, limit=MOST_CALLS)
    actions = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in newest if each.action_id])
    calls = [_call(request, each, actions) for each in newest]
    context = {
        "here": "actions",
        "session": found,
        "goal": {"text": found.goal, "hash": found.pin_hash, "pinned_at": found.pinned_at, "agent": found.agent_id},
        "undisclosed": len(calls_read.undisclosed_attempts(request.tenant.id, session_id=session_id)),
        "live_ids": " ".join(str(each) for each in [session_id, *actions]),
        **summary_panel(request.tenant.slug, session_context.actions_of_session(found)),
        "calls": calls,
        "is_cut": len(calls) < found.calls_accepted + found.calls_refused,
        "guarded": [guarded_message.guarded_message_context(each) for each in _verdicts(request, session_id)],
        "tools": [tool["name"] for tool in found.contract["tools"]],
        "surface": withheld_tools.newest_report(found),
        "over": found.pin_expires_at <= request.as_of,
        "unwinding": runs.unwinding(request.tenant.id, found.run_id),
    }
    return render(request, "sessions/_detail.html" if request.htmx else "sessions/detail.html", context)


def _verdicts(request: TenantRequest, session_id: UUID) -> list[Any]:
    """The newest verdicts of the guard; `?tag=` keeps one part of the taxonomy (R-CG-20)."""
    tag = request.GET.get("tag", "")
    return after.guard_verdicts(request.tenant.id, session_id=session_id, tag=tag, limit=MOST_JUDGED)


def _call(request: TenantRequest, call: Any, actions: dict[UUID, Any]) -> dict[str, Any]:
    action = actions.get(call.action_id)
    return {
        "row": call,
        "action": action,
        "title": action_title(action.operation_kind, action.target) if action else call.tool,
        "href": reverse("action", args=[request.tenant.slug, action.id]) if action else "",
        "icon": "tick" if call.accepted else "stop",
        "family": "" if call.accepted else "false",
        "hint": call.result.get("hint") or "",
    }
