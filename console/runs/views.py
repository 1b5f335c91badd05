"""One run: its steps as a saga, with the pivot, steps continued after a failure, and its rollback."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.sessions import queries as sessions_queries
from console.edge.http import TenantRequest, in_tenant
from console.runs import context as runs_context
from console.runs import verbs
from console.sessions import session_context
from console.sessions.context import summary_panel
from console.verbs.verb import page_of
from reviews import queries as after


@in_tenant()
def run(request: TenantRequest, run_id: str) -> HttpResponse:
    found = runs_context.load_run(request.tenant.id, run_id)
    if found is None:
        raise Http404
    session = sessions_queries.session(request.tenant.id, found.steps[0].row.session_id) if found.steps else None
    shown = found.around(None, runs_context.MOST_SHOWN)
    steps = [one.row.id for one in shown.steps] + [each.id for one in shown.steps for each in one.recovery]
    goal = session and {
        "text": session.goal,
        "hash": session.pin_hash,
        "pinned_at": session.pinned_at,
        "agent": session.agent_id,
    }
    back = runs_context.rollback_status(request.tenant.id, found)
    context = {
        "here": "actions",
        "run": shown,
        "back": back,
        "case_href": _case_href(request, back),
        "goal": goal,
        "may_cancel": "operator" in request.caller.roles and found.unwinding is None,
        "live_ids": " ".join(map(str, steps)),
        **summary_panel(request.tenant.slug, session_context.actions_of_run(request.tenant.id, run_id)),
    }
    return render(request, "runs/_detail.html" if request.htmx else "runs/detail.html", context)


cancel_run = page_of(
    verbs.CANCEL, home=lambda request, ids, result: reverse("run", args=[request.tenant.slug, ids["run_id"]])
)


def _case_href(request: TenantRequest, back: runs_context.RollbackStatus | None) -> str:
    """The address where a person settles what the run waits for."""
    case = after.case_of(request.tenant.id, back.waits_at) if back and back.waits_at else None
    return reverse("case", args=[request.tenant.slug, case.id]) if case else ""
