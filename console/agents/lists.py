"""Agents with the figures of their calls: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.urls import reverse

from approvals.agents import queries
from approvals.agents.rules.acceptance import CallTally, sum_tallies
from approvals.gate import queries as gate_queries
from console.agents import schemas
from console.calls import context as calls_context
from console.calls.context import Period
from console.edge.http import TenantRequest
from console.web import charts
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.actions.queries import freezes

if TYPE_CHECKING:
    from approvals.models import Agent

OPERATORS = ("oper", "operator", "administrator")
PERIOD = timedelta(days=30)
"""The figures of an agent are over so long."""


def _rows(request: TenantRequest, agents: Sequence[Agent]) -> list[dict[str, Any]]:
    over = calls_context.period_ending_at(request.GET.get("period", ""), at=request.as_of)
    listed = [each.agent_id for each in agents]
    tenant, slug = request.tenant.id, request.tenant.slug
    made = (
        gate_queries.call_tallies(
            tenant, "agent_id", since=over.since, until=over.until, step=over.step, agent_id__in=listed
        )
        if listed
        else {}
    )
    frozen = {each.value for each in freezes.freezes_in_force(tenant) if each.scope == "agent"}
    return [_row(slug, each, over, made, each.agent_id in frozen) for each in agents]


def _row(slug: str, agent: Agent, over: Period, made: dict[tuple[Any, ...], CallTally], frozen: bool) -> dict[str, Any]:
    own = {key: tally for key, tally in made.items() if key[0] == agent.agent_id}
    tally = sum_tallies(own.values())
    return {
        "agent": agent,
        "href": reverse("agent", args=[slug, agent.agent_id]),
        "flags": calls_context.flag_rows(agent),
        "frozen": frozen,
        "tally": tally,
        "acceptance": charts.format_percent(tally.acceptance_rate),
        "phantoms": charts.format_percent(tally.phantom_share),
        "unhealthy": tally.healthy is False,
        "calls_href": calls_context.calls_href(slug, over, agent=agent.agent_id),
        "refused_href": calls_context.calls_href(slug, over, agent=agent.agent_id, outcome="refused"),
        "phantoms_href": calls_context.calls_href(slug, over, agent=agent.agent_id, outcome="phantom"),
        "chart": calls_context.rate_charts(own, over),
    }


def agent_figures(agent: Agent, tally: CallTally) -> dict[str, Any]:
    """The figures of an agent in the API, from its calls of the last `PERIOD`."""
    return {
        "revoked": agent.revoked_at is not None,
        "made": tally.made,
        "acceptance_rate": tally.acceptance_rate,
        "phantom_share": tally.phantom_share,
    }


def _answers(tenant_id: UUID, rows: Sequence[Agent], at: datetime) -> Callable[[Agent], schemas.AgentSummary]:
    names = [each.agent_id for each in rows]
    tallies = gate_queries.call_tallies(tenant_id, "agent_id", since=at - PERIOD, until=at, agent_id__in=names)
    return lambda agent: schemas.AgentSummary.of(
        agent, **agent_figures(agent, tallies.get((agent.agent_id,), CallTally()))
    )


AGENTS: Final = ListPage(
    "agents",
    ("period",),
    columns=(
        sortable("agent_id", "Agent", lambda row: row["agent"].agent_id),
        Column("version", "Version", lambda row: row["agent"].version, is_usual=False),
        Column("flags", "Flags", lambda row: [each["word"] for each in row["flags"]], is_usual=False),
        Column("frozen", "Frozen", lambda row: row["frozen"], is_usual=False),
        Column("revoked", "Revoked", lambda row: row["agent"].revoked_at, is_usual=False),
        Column("calls", "Calls", lambda row: row["tally"].made, "num"),
        Column("refused", "Refused", lambda row: row["tally"].refused, "num"),
        Column("accepted", "Accepted", lambda row: row["acceptance"], "num"),
        Column("acceptance", "Acceptance", css="roomy"),
        Column("unknown", "Unknown tool", lambda row: row["phantoms"], "num"),
        Column("rate", "Unknown-tool rate", css="roomy"),
        Column("id", "Id", lambda row: row["agent"].id, is_usual=False),
    ),
    query=queries.agents,
    rows_of=_rows,
    get=GetRoute(
        path="/agents",
        operation="list_agents",
        summary="The registered agents",
        answer=schemas.AgentSummary,
        told=_answers,
        readers=(*OPERATORS, "audit", "person"),
    ),
)
