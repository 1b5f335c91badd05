"""Agents: what operators register, and how their calls fare at the gate."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.agents import queries as agents_read
from approvals.agents.operations import agents
from approvals.agents.rules import registry
from approvals.agents.rules.acceptance import CallTally
from approvals.gate import queries as calls_read
from console.agents import schemas
from console.agents.lists import AGENTS, OPERATORS, PERIOD, agent_figures
from console.agents.stop_result import stop_result
from console.edge.auth import admits, caller_of
from console.edge.members import member_named
from console.edge.schemas import LintFinding, ReasonBody
from console.edge.transaction import in_tenancy
from console.web.list_page import add_lists
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.versions import check_range
from ledger.record.rules.refusals import NotFound
from reviews.guarding.queries import count_unreported

if TYPE_CHECKING:
    from approvals.models import Attempt
    from ledger.models import Action

router = Router(tags=["Registry and contracts"])
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
        acts_elsewhere=body.acts_elsewhere,
        registered_by=body.registered_by or caller.name,
        registered_at=at,
    )
    owner = member_named(caller.tenant_id, body.owner) if body.owner else None
    version = agents.register_agent(tenant_id=caller.tenant_id, entry=entry, owner=owner, by=caller.actor, at=at)
    found = registry.findings(version.tools, contracts=catalogue_queries.tool_names(caller.tenant_id))
    return schemas.AgentRegistered.of(version, lint=[LintFinding.of(each, detail=each.told) for each in found])


add_lists(router, __name__, AGENTS)


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
        **agent_figures(agent, sum(days.values(), CallTally())),
        versions=versions,
        demonstrated_tools=sorted(actions.demonstrated_tools(tenant_id, agent_id, tools)),
        over_time=[schemas.CallShares.of(tally, day=start) for (start,), tally in sorted(days.items())],
        attempted_undisclosed=list(undisclosed),
        untold_changes=count_unreported(tenant_id, agent_id),
    )


@router.post(
    "/agents/{agent_id}/revoke",
    summary="Stop an agent: end its sessions and all that has not started",
    response=schemas.AgentStopped,
)
@admits(*OPERATORS)
@in_tenancy
def revoke_agent(request: HttpRequest, agent_id: str, body: ReasonBody) -> schemas.AgentStopped:
    caller = caller_of(request)
    agents.revoke_agent(
        tenant_id=caller.tenant_id, agent_id=agent_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return _stop_answer(caller.tenant_id, agent_id)


@router.get(
    "/agents/{agent_id}/revocation",
    summary="What stopping an agent has stopped, what still runs and what can be undone",
    response=schemas.AgentStopped,
)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def get_revocation(request: HttpRequest, agent_id: str) -> schemas.AgentStopped:
    return _stop_answer(caller_of(request).tenant_id, agent_id)


def _stop_answer(tenant_id: UUID, agent_id: str) -> schemas.AgentStopped:
    agent = agents_read.agent(tenant_id, agent_id)
    result = stop_result(agent) if agent is not None else None
    if agent is None or result is None:
        raise NotFound
    ended = result.stopped
    return schemas.AgentStopped(
        agent_id=agent_id,
        revoked=agent.revoked_at is not None,
        revoked_at=result.at,
        reason=result.reason,
        stopped=schemas.StoppedWork(
            actions=len(ended.actions),
            requests=len(ended.requests),
            grants=ended.grants,
            sessions=len(ended.sessions),
            left=ended.left,
        ),
        running=[_running(each.action, each.attempt) for each in result.running],
        undoable=[
            schemas.UndoableChange.of(each.action, action_id=each.action.id, undo_tool=each.tool)
            for each in result.undoable
        ],
    )


def _running(action: Action, attempt: Attempt) -> schemas.RunningWork:
    return schemas.RunningWork.of(
        action,
        action_id=action.id,
        attempt=attempt.number,
        executor_id=attempt.executor_id,
        started_at=attempt.started_at,
        lease_expires_at=attempt.lease_expires_at,
        reported=attempt.ended_at is not None,
    )
