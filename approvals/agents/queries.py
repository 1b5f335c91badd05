"""Reads of agents and their versions. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import (
    Q,
)

from approvals.models import (
    Agent,
    AgentVersion,
)
from ledger.db import columns, execute, fetch_one, load_models, page_in_order


def agent(tenant_id: UUID, agent_id: str) -> Agent | None:
    return fetch_one(Agent, "tenant_id = $1 AND agent_id = $2", tenant_id, agent_id)


def agents(
    tenant_id: UUID, *, order: str = "agent_id", after: UUID | None = None, limit: int | None = None
) -> list[Agent]:
    """The agents by their names, or in the order of another column, starting behind the row `after`."""
    return page_in_order(Agent.objects.filter(tenant_id=tenant_id), order, behind=after, limit=limit)


def agent_names(tenant_id: UUID) -> dict[UUID, str]:
    """What each agent is called, by its pseudonym in the record."""
    return {
        row_id: str(name)
        for row_id, name in execute("SELECT id, agent_id FROM approvals_agent WHERE tenant_id = $1", tenant_id)
    }


def agent_version(tenant_id: UUID, agent_id: str, version: str) -> AgentVersion | None:
    return fetch_one(AgentVersion, "tenant_id = $1 AND agent_id = $2 AND version = $3", tenant_id, agent_id, version)


_WITH_VERSION = f"""
SELECT {columns(Agent, "a")}, {columns(AgentVersion, "v")} FROM approvals_agent a LEFT JOIN approvals_agentversion v
    ON v.tenant_id = $1 AND v.agent_id = $2 AND v.version = $3 WHERE a.tenant_id = $1 AND a.agent_id = $2
"""


def agent_with_version(tenant_id: UUID, agent_id: str, version: str) -> tuple[Agent | None, AgentVersion | None]:
    """An agent and one version of it, each None if missing, read in one statement."""
    rows = execute(_WITH_VERSION, tenant_id, agent_id, version)
    (agent, found), _ = load_models(rows[0], Agent, AgentVersion) if rows else ((None, None), ())
    return agent, found


def agent_versions(tenant_id: UUID, agent_id: str) -> list[AgentVersion]:
    return list(AgentVersion.objects.filter(tenant_id=tenant_id, agent_id=agent_id).order_by("-id"))


def agents_named(tenant_id: UUID, names: Collection[str]) -> list[Agent]:
    return list(Agent.objects.filter(tenant_id=tenant_id, agent_id__in=list(names)).order_by("agent_id"))


def flagged_agents(tenant_id: UUID, *, limit: int = 500) -> list[Agent]:
    """The agents with flags."""
    found = Agent.objects.filter(tenant_id=tenant_id, revoked_at__isnull=True).exclude(flags={})
    return list(found.order_by("agent_id")[:limit])


def registration_times(tenant_id: UUID, agents: Collection[Agent]) -> dict[str, datetime]:
    """When the version of each agent that is in force was registered."""
    named = Q(*(Q(agent_id=each.agent_id, version=each.version) for each in agents), _connector=Q.OR)
    found = AgentVersion.objects.filter(named, tenant_id=tenant_id) if agents else AgentVersion.objects.none()
    return dict(found.values_list("agent_id", "registered_at"))
