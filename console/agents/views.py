"""Agents: the registered ones, their calls, and how one is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.agents import queries as agents_read
from approvals.agents.operations import agents as operations
from approvals.agents.operations.registry_entry import is_sealed
from approvals.agents.rules.acceptance import sum_tallies
from approvals.execution import queries as execution_queries
from approvals.gate import queries as gate_queries
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from console.accounts.queries import actor_names
from console.agents.lists import AGENTS
from console.agents.stop_result import stop_result
from console.calls import context as calls_context
from console.calls.context import Period
from console.edge.http import TenantRequest, in_tenant
from console.web import labels
from console.web.forms import LiftFreezeForm
from ledger.actions.queries import actions, freezes
from ledger.catalogue import queries as catalogue_queries

if TYPE_CHECKING:
    from approvals.models import Agent

PAGE = 50
RECENT = 20
MOST_COUNTED = 100
MAY_END = ("operator", "administrator")


def agent_tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    """The pages about agents and their calls."""
    places = (
        ("agents", "Agents"),
        ("hallucinations", "Hallucinations"),
        ("calls", "Calls"),
        ("recordings", "Recordings"),
        ("executors", "Executors"),
    )
    return [
        {"href": reverse(name, args=[request.tenant.slug]), "word": word, "current": name == current}
        for name, word in places
    ]


@in_tenant()
def list_agents(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.id
    over = calls_context.period_ending_at(request.GET.get("period", ""), at=request.as_of)
    flagged = agents_read.flagged_agents(tenant)
    found, frame = AGENTS.read_page(request, PAGE)
    context = {
        "here": "agents",
        "tabs": agent_tabs(request, "agents"),
        "periods": calls_context.period_tabs(request.path, request.GET.dict(), over),
        "period": over,
        "flagged": AGENTS.rows_of(request, flagged),
        "agents": AGENTS.rows_of(request, [each for each in found if each not in flagged]),
        **frame,
    }
    return render(request, "agents/_list.html" if request.htmx else "agents/list.html", context)


@in_tenant()
def agent(request: TenantRequest, agent_id: str) -> HttpResponse:
    found = _get_or_404(request, agent_id)
    tenant, slug = request.tenant.id, request.tenant.slug
    over = calls_context.period_ending_at(request.GET.get("period", ""), at=request.as_of)
    about: dict[str, Any] = {"since": over.since, "until": over.until, "agent_id": agent_id}
    made = gate_queries.call_tallies(tenant, step=over.step, **about)
    versions = agents_read.agent_versions(tenant, agent_id)
    context = {
        "here": "agents",
        "agent": found,
        "owner": actor_names(tenant).get(found.owner, "") if found.owner else "",
        "flags": calls_context.flag_rows(found),
        "periods": calls_context.period_tabs(request.path, request.GET.dict(), over),
        "period": over,
        "figures": calls_context.rate_figures(
            sum_tallies(made.values()), lambda **wanted: calls_context.calls_href(slug, over, agent=agent_id, **wanted)
        ),
        "chart": calls_context.rate_charts(made, over),
        "versions": [{"row": each, "sealed": is_sealed(each)} for each in versions],
        "tools": _tools(request, found, versions),
        "refusals": _refusals(slug, over, agent_id, gate_queries.count_refusals(tenant, **about)),
        "undisclosed": gate_queries.undisclosed_attempts(tenant, agent_id=agent_id, since=over.since, limit=RECENT)[
            ::-1
        ],
        "sessions": sessions_queries.sessions_of(tenant, agent_id, limit=RECENT),
        "frozen": _freezes_of(tenant, agent_id),
        "may_end": bool(set(MAY_END) & request.caller.roles),
    }
    return render(request, "agents/_detail.html" if request.htmx else "agents/detail.html", context)


@in_tenant(*MAY_END)
@require_POST
def revoke(request: TenantRequest, agent_id: str) -> HttpResponse:
    """Stop an agent: confirmed once with a reason, then again with the consequences (rule 7 of the screen)."""
    found, form = _get_or_404(request, agent_id), LiftFreezeForm(request.POST)
    tenant = request.tenant.id
    if found.revoked_at is not None:
        messages.error(request, "Already stopped; nothing changed.")
        return redirect("agent-stopped", request.tenant.slug, agent_id)
    if not form.is_valid():
        messages.error(request, "Not stopped: enter a reason.")
        return redirect("agent", request.tenant.slug, agent_id)
    reason = form.cleaned_data["reason"]
    if request.POST.get("confirmed") != agent_id:
        context = {
            "here": "agents",
            "agent": found,
            "reason": reason,
            "sessions": sessions_queries.open_sessions(tenant, agent_id, at=request.as_of),
            "unstarted": len(
                actions.actions(tenant, agent=agent_id, state="VALIDATED", before=None, limit=MOST_COUNTED)
            ),
            "waiting": approvals.count_waiting(tenant, agent_id, most=MOST_COUNTED),
            "running": len(execution_queries.started_work(tenant, agent_id, limit=MOST_COUNTED)),
        }
        return render(request, "agents/revoke.html", context)
    operations.revoke_agent(
        tenant_id=tenant, agent_id=agent_id, reason=reason, by=request.caller.actor, at=request.as_of
    )
    messages.success(request, "Stopped. Nothing of it starts any more.")
    return redirect("agent-stopped", request.tenant.slug, agent_id)


@in_tenant()
def show_stop(request: TenantRequest, agent_id: str) -> HttpResponse:
    """Show the result of stopping an agent."""
    found = _get_or_404(request, agent_id)
    result = stop_result(found)
    if result is None:
        raise Http404
    context = {
        "here": "agents",
        "agent": found,
        "result": result,
        "by": actor_names(request.tenant.id).get(result.by, "an operator's key"),
        "ended": actions.actions_by_id(request.tenant.id, list(result.stopped.actions[:RECENT])).values(),
        "running": [
            {
                "row": each,
                "word": labels.outcome_label(each.action),
                "is_leased": each.attempt.lease_expires_at > request.as_of,
            }
            for each in result.running
        ],
        "live_ids": " ".join(str(each) for each in [found.id, *(one.action.id for one in result.running)]),
    }
    return render(request, "agents/_stopped.html" if request.htmx else "agents/stopped.html", context)


def _freezes_of(tenant: UUID, agent_id: str) -> list[Any]:
    return [each for each in freezes.freezes_in_force(tenant) if (each.scope, each.value) == ("agent", agent_id)]


def _get_or_404(request: TenantRequest, agent_id: str) -> Any:
    found = agents_read.agent(request.tenant.id, agent_id)
    if found is None:
        raise Http404
    return found


def _tools(request: TenantRequest, agent: Agent, versions: list[Any]) -> list[dict[str, Any]]:
    """The tools of the version in force: has it shown that it can, and under which contract."""
    current = next((each for each in versions if each.version == agent.version), None)
    tools = list(current.tools) if current else []
    shown = actions.demonstrated_tools(agent.tenant_id, agent.agent_id, tools)
    newest = catalogue_queries.newest_contracts(agent.tenant_id, tools, versions=current.versions if current else {})
    return [
        {
            "name": tool,
            "range": current.versions.get(tool, "") if current else "",
            "demonstrated": tool in shown,
            "contract": reverse("contract", args=[request.tenant.slug, tool, newest[tool].version])
            if tool in newest
            else "",
        }
        for tool in tools
    ]


def _refusals(slug: str, over: Period, agent_id: str, counted: dict[tuple[Any, ...], int]) -> list[dict[str, Any]]:
    return [
        {
            "code": code,
            "word": labels.sentence_case(code),
            "count": count,
            "href": calls_context.calls_href(slug, over, agent=agent_id, code=code, outcome="refused"),
        }
        for (code, _), count in counted.items()
    ]
