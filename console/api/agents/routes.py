"""Agents: what operators register, and how their calls fare at the gate."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from approvals.agents import queries as agents_read
from approvals.agents.operations import agents
from approvals.agents.rules import registry
from approvals.agents.rules.acceptance import CallTally
from approvals.gate import queries as calls_read
from console.api import paging
from console.api.answers import Answer, LintFinding, Page
from console.api.auth import admits, caller_of
from console.api.members import member_named
from console.api.schemas import AgentBody, Paged, ReasonBody
from console.api.transaction import NotFound, in_tenancy, json_response
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.versions import check_range
from reviews.guarding.queries import count_untold

router = Router(tags=["Registry and contracts"])
OPERATORS = ("oper", "operator", "administrator")
PERIOD = timedelta(days=30)
"""The figures of an agent are over so long."""
STEP = timedelta(days=1)


class AgentVersion(Answer):
    agent_id: str
    version: str
    tools: list[str]
    versions: dict[str, str]
    output_tags: list[str]
    model_tier: str
    registered_by: str
    registered_at: datetime
    fingerprint: str


class AgentRegistered(AgentVersion):
    lint: list[LintFinding]


class AgentFlag(Answer):
    flag: str
    since: datetime
    facts: dict[str, Any] = Field(description="The numbers that raised it.")


class AgentSummary(Answer):
    agent_id: str
    version: str
    revoked: bool
    calls: int = Field(description="Of the last thirty days, as every figure here.")
    acceptance_rate: float | None
    phantom_share: float | None
    flags: list[AgentFlag]


class UndisclosedCall(Answer):
    tool: str
    session_id: str
    at: datetime


class CallShares(Answer):
    day: datetime
    calls: int
    acceptance_rate: float | None
    valid: float | None
    valid_execution_failed: float | None
    argument_hallucination: float | None
    phantom_share: float | None


class Agent(AgentSummary):
    versions: list[AgentVersion]
    demonstrated_tools: list[str] = Field(description="Those that have ended in a reconciled success that still holds.")
    over_time: list[CallShares] = Field(description="Day by day; a day without calls is left out.")
    attempted_undisclosed: list[UndisclosedCall]
    untold_changes: int = Field(
        description="Of its newest 500 actions, the changes that no message followed which the guard has seen."
    )


class Revoked(Answer):
    agent_id: str
    revoked: bool


@router.post("/agents", summary="Register a version of an agent", response={201: AgentRegistered})
@admits(*OPERATORS)
@in_tenancy
def register_agent(request: HttpRequest, body: AgentBody) -> HttpResponse:
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
    lint = [{"code": each.code, "path": each.path, "detail": each.told} for each in found]
    return json_response(_version(version) | {"lint": lint}, 201)


@router.get("/agents", summary="The registered agents", response=Page[AgentSummary])
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def list_agents(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    tenant_id, at = caller_of(request).tenant_id, timezone.now()
    found = agents_read.agents(tenant_id, after=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1)
    names = [each.agent_id for each in found]
    tallies = calls_read.call_tallies(tenant_id, "agent_id", since=at - PERIOD, until=at, agent_id__in=names)
    return paging.page_response(
        found, wanted.limit, lambda agent: _agent(agent, tallies.get((agent.agent_id,), CallTally()))
    )


@router.get("/agents/{agent_id}", summary="One agent with its versions and its record at the gate", response=Agent)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def get_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    tenant_id, at = caller_of(request).tenant_id, timezone.now()
    agent = agents_read.agent(tenant_id, agent_id)
    if agent is None:
        raise NotFound
    since = at - PERIOD
    days = calls_read.call_tallies(tenant_id, since=since, until=at, step=STEP, agent_id=agent_id)
    versions = agents_read.agent_versions(tenant_id, agent_id)
    tools = {tool for each in versions for tool in each.tools}
    undisclosed = calls_read.undisclosed_attempts(tenant_id, agent_id=agent_id, since=since)
    return json_response(
        _agent(agent, sum(days.values(), CallTally()))
        | {
            "versions": [_version(each) for each in versions],
            "demonstrated_tools": sorted(actions.demonstrated_tools(tenant_id, agent_id, tools)),
            "over_time": [_shares(start, tally) for (start,), tally in sorted(days.items())],
            "attempted_undisclosed": [
                {"tool": call.tool, "session_id": str(call.session_id), "at": call.at} for call in undisclosed
            ],
            "untold_changes": count_untold(tenant_id, agent_id),
        }
    )


@router.post(
    "/agents/{agent_id}/revoke", summary="Revoke an agent, at once and for open sessions too", response=Revoked
)
@admits(*OPERATORS)
@in_tenancy
def revoke_agent(request: HttpRequest, agent_id: str, body: ReasonBody) -> HttpResponse:
    caller = caller_of(request)
    agents.revoke_agent(
        tenant_id=caller.tenant_id, agent_id=agent_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return json_response({"agent_id": agent_id, "revoked": True})


def _agent(agent: Any, tally: CallTally) -> dict[str, Any]:
    return {
        "agent_id": agent.agent_id,
        "version": agent.version,
        "revoked": agent.revoked_at is not None,
        "calls": tally.made,
        "acceptance_rate": tally.acceptance_rate,
        "phantom_share": tally.phantom_share,
        "flags": flags_of(agent),
    }


def flags_of(agent: Any) -> list[dict[str, Any]]:
    """The flags of an agent as the API tells them."""
    return [
        {"flag": flag, "since": facts["since"], "facts": {k: v for k, v in facts.items() if k != "since"}}
        for flag, facts in sorted(agent.flags.items())
    ]


def _shares(start: datetime, tally: CallTally) -> dict[str, Any]:
    return {
        "day": start,
        "calls": tally.made,
        "acceptance_rate": tally.acceptance_rate,
        "valid": tally.valid_share,
        "valid_execution_failed": tally.failed_share,
        "argument_hallucination": tally.argument_share,
        "phantom_share": tally.phantom_share,
    }


def _version(version: Any) -> dict[str, Any]:
    return {
        "agent_id": version.agent_id,
        "version": version.version,
        "tools": version.tools,
        "versions": version.versions,
        "output_tags": version.output_tags,
        "model_tier": version.model_tier,
        "registered_by": version.registered_by,
        "registered_at": version.registered_at,
        "fingerprint": version.fingerprint,
    }
