"""Agents: what operators register, and how their calls fare at the gate."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from approvals.agents import queries as agents_read
from approvals.agents.operations import agents
from approvals.agents.rules import registry
from approvals.agents.rules.acceptance import CallTally
from approvals.gate import queries as calls_read
from console.api import paging
from console.api.agents import schemas
from console.api.auth import admits, caller_of
from console.api.members import member_named
from console.api.schemas import LintFinding, Page, Paged, ReasonBody
from console.api.transaction import NotFound, in_tenancy
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.versions import check_range
from reviews.guarding.queries import count_unreported

router = Router(tags=["Registry and contracts"])
OPERATORS = ("oper", "operator", "administrator")
PERIOD = timedelta(days=30)
"""The figures of an agent are over so long."""
STEP = timedelta(days=1)


@router.post("/agents", summary="Register a version of an agent", response={201: schemas.AgentRegistered})
@admits(*OPERATORS)
@in_tenancy
def register_agent(request: HttpRequest, body: schemas.AgentBody) -> schemas.AgentRegistered:
    caller, at = caller_of(request), timezone.now()
    for wanted in body.versions.values():
        check_range(wanted)
    entry = registry.RegistryEntry(
        tenant=str(caller.tenant_id),
        agent_id=body.agent_id,
        version=body.version,
        tools=tuple(body.tools),
        versions=body.versions,
        output_tags=tuple(body.output_tags),
        model_tier=body.model_tier or "",
        registered_by=body.registered_by or caller.name,
        registered_at=at,
    )
    owner = member_named(caller.tenant_id, body.owner) if body.owner else None
    version = agents.register_agent(tenant_id=caller.tenant_id, entry=entry, owner=owner, by=caller.actor, at=at)
    found = registry.findings(version.tools, contracts=catalogue_queries.tool_names(caller.tenant_id))
    return schemas.AgentRegistered.of(version, lint=[LintFinding.of(each, detail=each.told) for each in found])


@router.get("/agents", summary="The registered agents", response=Page[schemas.AgentSummary])
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def list_agents(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.AgentSummary]:
    tenant_id, at = caller_of(request).tenant_id, timezone.now()
    found = agents_read.agents(tenant_id, after=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1)
    names = [each.agent_id for each in found]
    tallies = calls_read.call_tallies(tenant_id, "agent_id", since=at - PERIOD, until=at, agent_id__in=names)
    return paging.page_of(
        lambda agent: schemas.AgentSummary.of(agent, **_figures(agent, tallies.get((agent.agent_id,), CallTally()))),
        found,
        wanted.limit,
    )


@router.get("/agents/{agent_id}", summary="One agent with its versions and call statistics", response=schemas.Agent)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def get_agent(request: HttpRequest, agent_id: str) -> schemas.Agent:
    tenant_id, at = caller_of(request).tenant_id, timezone.now()
    agent = agents_read.agent(tenant_id, agent_id)
    if agent is None:
        raise NotFound
    since = at - PERIOD
    days = calls_read.call_tallies(tenant_id, since=since, until=at, step=STEP, agent_id=agent_id)
    versions = agents_read.agent_versions(tenant_id, agent_id)
    tools = {tool for each in versions for tool in each.tools}
    undisclosed = calls_read.undisclosed_attempts(tenant_id, agent_id=agent_id, since=since)
    return schemas.Agent.of(
        agent,
        **_figures(agent, sum(days.values(), CallTally())),
        versions=versions,
        demonstrated_tools=sorted(actions.demonstrated_tools(tenant_id, agent_id, tools)),
        over_time=[schemas.CallShares.of(tally, day=start) for (start,), tally in sorted(days.items())],
        attempted_undisclosed=list(undisclosed),
        untold_changes=count_unreported(tenant_id, agent_id),
    )


@router.post(
    "/agents/{agent_id}/revoke",
    summary="Revoke an agent immediately, including its open sessions",
    response=schemas.Revoked,
)
@admits(*OPERATORS)
@in_tenancy
def revoke_agent(request: HttpRequest, agent_id: str, body: ReasonBody) -> schemas.Revoked:
    caller = caller_of(request)
    agents.revoke_agent(
        tenant_id=caller.tenant_id, agent_id=agent_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return schemas.Revoked(agent_id=agent_id, revoked=True)


def _figures(agent: Any, tally: CallTally) -> dict[str, Any]:
    return {
        "revoked": agent.revoked_at is not None,
        "made": tally.made,
        "acceptance_rate": tally.acceptance_rate,
        "phantom_share": tally.phantom_share,
    }
