"""Reads of agents and their versions. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import (
    Q,
)

from approvals.models import (
    Agent,
    AgentVersion,
    Session,
)
from approvals.sessions.rules.pins import MAX_TTL_SECONDS
from ledger.actions.queries.actions import IS_OPEN, action_columns, read_action
from ledger.db import columns, execute, fetch_one, load_models, page_in_order, select
from ledger.record.rules.ids import lower_bound

if TYPE_CHECKING:
    from ledger.models import Action

_JUST_CHANGED = timedelta(minutes=10)
"""For longer than any call takes."""


def agent(tenant_id: UUID, agent_id: str) -> Agent | None:
    return fetch_one(Agent, "tenant_id = $1 AND agent_id = $2", tenant_id, agent_id)


def agents(
    tenant_id: UUID, *, order: str = "agent_id", after: UUID | None = None, limit: int | None = None
) -> list[Agent]:
    """Return the agents by their names, or in the order of another column, starting after the row `after`."""
    return page_in_order(Agent.objects.filter(tenant_id=tenant_id), order, behind=after, limit=limit)


def agent_names(tenant_id: UUID) -> dict[UUID, str]:
    """The name of each agent, by its pseudonym in the record."""
    return {
        row_id: str(name)
        for row_id, name in execute("SELECT id, agent_id FROM approvals_agent WHERE tenant_id = $1", tenant_id)
    }


def registrations_in_force(tenant_id: UUID) -> list[AgentVersion]:
    """The present registration of each agent that is not revoked."""
    current = (
        "tenant_id = $1 AND EXISTS (SELECT FROM approvals_agent a WHERE a.tenant_id = $1 AND a.revoked_at IS NULL"
        " AND a.agent_id = approvals_agentversion.agent_id AND a.version = approvals_agentversion.version)"
    )
    return select(AgentVersion, f"{current} ORDER BY agent_id", tenant_id)


def all_versions(tenant_id: UUID) -> list[AgentVersion]:
    """Every registration that is on record."""
    return select(AgentVersion, "tenant_id = $1 ORDER BY agent_id, id", tenant_id)


def agent_version(tenant_id: UUID, agent_id: str, version: str) -> AgentVersion | None:
    return fetch_one(AgentVersion, "tenant_id = $1 AND agent_id = $2 AND version = $3", tenant_id, agent_id, version)


_REGISTERED = f"""
SELECT {columns(Agent, "a")}, {columns(AgentVersion, "v")}, h.seq FROM approvals_agent a
LEFT JOIN approvals_agentversion v ON v.tenant_id = $1 AND v.agent_id = a.agent_id AND v.version = a.version
JOIN ledger_subject h ON h.tenant_id = $1 AND h.id = a.id WHERE a.tenant_id = $1
"""


def registered_agent(tenant_id: UUID, agent_id: str) -> tuple[Agent | None, AgentVersion | None, int]:
    """An agent, its registration in force, and the newest event of its record, as one statement saw them."""
    rows = execute(f"{_REGISTERED} AND a.agent_id = $2", tenant_id, agent_id)
    if not rows:
        return None, None, 0
    (agent, version), (seq,) = load_models(rows[0], Agent, AgentVersion)
    return agent, version, seq


def agent_with_registration(tenant_id: UUID, agent_row: UUID) -> tuple[Agent, AgentVersion | None]:
    """An agent, by its row's id, with its registration in force."""
    [row] = execute(f"{_REGISTERED} AND a.id = $2", tenant_id, agent_row)
    (agent, version), _ = load_models(row, Agent, AgentVersion)
    return agent, version


# The actions (a) of an agent (m) with its registration in force (b), in sessions (s) from which something was taken
# since. Which of them it may still have done is for the registry to say.
_LOST = """
FROM approvals_agent m
LEFT JOIN approvals_agentversion b ON b.tenant_id = $1 AND b.agent_id = m.agent_id AND b.version = m.version
JOIN ledger_action a ON a.tenant_id = $1 AND a.agent = m.agent_id
JOIN approvals_session s ON s.tenant_id = $1 AND s.id = a.session_id
WHERE m.tenant_id = $1 AND m.id = $2
    AND (m.revoked_at IS NOT NULL OR s.agent_seq < m.sessions_since OR m.withdrawn ? a.tool OR NOT b.tools ? a.tool)
"""


def stopped_actions(agent: Agent, *, after: UUID | None, limit: int) -> list[tuple[Action, Session]]:
    """The actions of an agent that have not started and that it may have lost, in the order of their ids."""
    rows = execute(
        f"SELECT {action_columns('a')}, {columns(Session, 's')} {_LOST} AND a.phase = 'VALIDATED'"
        " AND ($3::uuid IS NULL OR a.id > $3) ORDER BY a.id LIMIT $4",
        *(agent.tenant_id, agent.id, after, limit),
    )
    found = []
    for row in rows:
        action, rest = read_action(row)
        [session], _ = load_models(rest, Session)
        found.append((action, session))
    return found


def may_leave_more(agent: Agent, *, at: datetime) -> bool:
    """Return True if more work that the agent is no longer allowed to do could still be started.

    That is so while an action is open, or when its registration has just changed, so that an earlier call may not be on
    record yet.
    """
    [(found,)] = execute(
        f"SELECT EXISTS (SELECT {_LOST} AND {IS_OPEN}) OR EXISTS (SELECT FROM ledger_subject"
        " WHERE tenant_id = $1 AND id = $2 AND updated_at > $3)",
        *(agent.tenant_id, agent.id, at - _JUST_CHANGED),
    )
    return bool(found)


def stopped_sessions(agent: Agent, *, at: datetime, limit: int) -> list[UUID]:
    """The open sessions of an agent that its revocation has ended."""
    rows = execute(
        "SELECT s.id FROM approvals_agent m JOIN approvals_session s ON s.tenant_id = $1 AND s.agent_id = m.agent_id"
        " WHERE m.tenant_id = $1 AND m.id = $2 AND s.id >= $3 AND s.closed_at IS NULL AND s.pin_expires_at > $4"
        " AND (m.revoked_at IS NOT NULL OR s.agent_seq < m.sessions_since) ORDER BY s.id LIMIT $5",
        *(agent.tenant_id, agent.id, lower_bound(at - timedelta(seconds=MAX_TTL_SECONDS)), at, limit),
    )
    return [session_id for (session_id,) in rows]


def agent_versions(tenant_id: UUID, agent_id: str) -> list[AgentVersion]:
    return list(AgentVersion.objects.filter(tenant_id=tenant_id, agent_id=agent_id).order_by("-id"))


def agents_named(tenant_id: UUID, names: Collection[str]) -> list[Agent]:
    return list(Agent.objects.filter(tenant_id=tenant_id, agent_id__in=list(names)).order_by("agent_id"))


def flagged_agents(tenant_id: UUID, *, limit: int = 500) -> list[Agent]:
    """The agents with flags."""
    found = Agent.objects.filter(tenant_id=tenant_id, revoked_at__isnull=True).exclude(flags={})
    return list(found.order_by("agent_id")[:limit])


def registration_times(tenant_id: UUID, agents: Collection[Agent]) -> dict[str, datetime]:
    """The registration time of each agent's version in force."""
    named = Q(*(Q(agent_id=each.agent_id, version=each.version) for each in agents), _connector=Q.OR)
    found = AgentVersion.objects.filter(named, tenant_id=tenant_id) if agents else AgentVersion.objects.none()
    return dict(found.values_list("agent_id", "registered_at"))
