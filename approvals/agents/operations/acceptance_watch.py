"""Flags agents whose calls are refused too often, and clears the flags when they recover."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.agents import queries as agents_read
from approvals.agents.rules import acceptance
from approvals.agents.rules.acceptance import CallTally, FlagThresholds
from approvals.gate import queries as gate_queries
from approvals.models import Agent
from ledger.catalogue import queries as catalogue_queries
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from ledger.record.rules.envelope import instant


def thresholds_of(tenant_id: UUID) -> FlagThresholds:
    """The thresholds above which this tenant flags an agent."""
    return acceptance.flag_thresholds(
        parse(bytes(catalogue_queries.active_policies(tenant_id)["autonomy"].document)).get("watch", {})
    )


def find_flag_changes(*, tenant_id: UUID, at: datetime) -> list[tuple[str, dict[str, Any]]]:
    """The agents whose flags must change, each as (agent, new flags). Nothing is written."""
    limits = thresholds_of(tenant_id)
    since, until = at - limits.window, at
    made = gate_queries.call_tallies(tenant_id, "agent_id", since=since, until=until)
    tried = gate_queries.count_names_tried(tenant_id, since=since, until=until)
    tallied = {agent_id: each for (agent_id,), each in made.items()}
    agents = _of_interest(tenant_id, tallied)
    began = agents_read.registration_times(tenant_id, agents)
    changes = []
    for agent in agents:
        tally, names = tallied.get(agent.agent_id, CallTally()), tried.get(agent.agent_id, 0)
        start = began.get(agent.agent_id, since)
        if start > since:
            # What an earlier version did is not held against this one.
            tally = gate_queries.call_tally(tenant_id, since=start, until=until, agent_id=agent.agent_id)
            named = gate_queries.count_names_tried(tenant_id, since=start, until=until, agent_id=agent.agent_id)
            names = named.get(agent.agent_id, 0)
        wanted = acceptance.current_flags(
            tally, names=names, standing=agent.flags, version=agent.version, limits=limits
        )
        if wanted.keys() != agent.flags.keys():
            changes.append((agent.agent_id, {str(flag): facts for flag, facts in wanted.items()}))
    return changes


def _of_interest(tenant_id: UUID, tallied: Iterable[str]) -> list[Agent]:
    known = {each.agent_id: each for each in agents_read.agents_named(tenant_id, list(tallied))}
    known |= {each.agent_id: each for each in agents_read.flagged_agents(tenant_id)}
    return [each for each in known.values() if each.revoked_at is None]


def update_flags(*, tenant_id: UUID, agent_id: str, flags: dict[str, Any], at: datetime) -> int:
    """Raise and clear an agent's flags, each with an event of the agent (R-TG-07, R-MC-15); return the number of
    changes.

    The agent is locked first, so that two looks at once raise a flag once.
    """
    agent = agents_read.agent(tenant_id, agent_id)
    if agent is None:
        return 0
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=agent.id, kind="agent")
    agent = agents_read.agent(tenant_id, agent_id)
    assert agent is not None
    raised = {name: facts for name, facts in flags.items() if name not in agent.flags}
    cleared = [name for name in agent.flags if name not in flags]
    if not raised and not cleared:
        return 0
    drafts = []
    for kind, name, facts in [
        *(("agent_flagged", name, facts) for name, facts in raised.items()),
        *(("agent_flag_cleared", name, {}) for name in cleared),
    ]:
        happening = ledger.NewEvent(kind=kind, detail={"agent_id": agent_id, "flag": name} | facts)
        drafts.append(ledger.draft_event(head, happening, actor=ledger.SYSTEM, at=at))
        head = drafts[-1].head
    ledger.write_events(*drafts)
    kept = {name: agent.flags.get(name) or facts | {"since": instant(at)} for name, facts in flags.items()}
    Agent.objects.filter(tenant_id=tenant_id, id=agent.id).update(flags=kept)
    return len(drafts)
