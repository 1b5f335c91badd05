"""The registry of agents: what each may call, committed by an operator and sealed with a keyed fingerprint."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.agents import queries as agents_queries
from approvals.agents.operations import stops
from approvals.agents.operations.registry_entry import entry_of, registry_keys
from approvals.agents.rules import registry
from approvals.models import Agent, AgentVersion
from ledger.catalogue.operations.registration import VersionTaken
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound


def register_agent(
    *, tenant_id: UUID, entry: registry.RegistryEntry, by: ledger.Actor, at: datetime, owner: UUID | None = None
) -> AgentVersion:
    """Append a version of an agent and make it the current one (R-CR-01, R-CR-13); a revoked agent lives again.

    Its `owner` is who is named, else whoever registered it first: they do not decide on what it asks for. What the
    version before had and this one does not is taken away at once; see `stops` for what follows.
    """
    agent = agents_queries.agent(tenant_id, entry.agent_id)
    if agent is None:
        version = _version_of(tenant_id, entry, at=at)
        agent = Agent.objects.create(
            tenant_id=tenant_id,
            id=ledger.new_id(at),
            agent_id=entry.agent_id,
            version=entry.version,
            owner=owner or by.id,
        )
        head = ledger.SubjectHead(tenant_id=tenant_id, id=agent.id, kind="agent")
        ledger.append(head, _registration(agent, version, entry), actor=by, at=at)
        return version
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=agent.id, kind="agent")
    agent, before, _ = agents_queries.registered_agent(tenant_id, entry.agent_id)
    assert agent is not None
    version = _version_of(tenant_id, entry, at=at)
    if agent.revoked_at is None and agent.version == entry.version:
        return version
    _change_registration(agent, before, entry, owner or agent.owner or by.id, seq=head.seq + 1)
    ledger.append(head, _registration(agent, version, entry), actor=by, at=at)
    if agent.sessions_since or agent.withdrawn:
        stops.begin(agent, at=at)
    return version


def _version_of(tenant_id: UUID, entry: registry.RegistryEntry, *, at: datetime) -> AgentVersion:
    """The version, sealed now if it is new; refuses another one under its name."""
    known = agents_queries.agent_version(tenant_id, entry.agent_id, entry.version)
    if known is not None and _capabilities(entry_of(known)) != _capabilities(entry):
        raise VersionTaken("This version of the agent is already registered with other capabilities.")
    return known or _seal_version(tenant_id, entry, at=at)


def _change_registration(
    agent: Agent, before: AgentVersion | None, entry: registry.RegistryEntry, owner: UUID, *, seq: int
) -> None:
    """Put a version in force by this event of the agent's record."""
    if agent.revoked_at is not None:
        # Every session from before has ended, so nothing is left from which single tools are to be kept.
        agent.sessions_since, agent.withdrawn = seq, {}
    elif before is not None:
        agent.withdrawn = dict(registry.withdraw(entry_of(before), entry, agent.withdrawn, seq=seq))
    agent.version, agent.revoked_at, agent.owner = entry.version, None, owner
    Agent.objects.filter(tenant_id=agent.tenant_id, id=agent.id).update(
        version=agent.version,
        revoked_at=None,
        owner=owner,
        sessions_since=agent.sessions_since,
        withdrawn=agent.withdrawn,
    )


def _registration(agent: Agent, version: AgentVersion, entry: registry.RegistryEntry) -> ledger.NewEvent:
    lost = {"sessions_since": agent.sessions_since, "withdrawn": agent.withdrawn}
    return ledger.NewEvent(
        kind="agent_registered",
        to="REGISTERED",
        detail=_event_detail(entry)
        | {"owner": str(agent.owner)}
        | {name: value for name, value in lost.items() if value},
        digests={"fingerprint": version.fingerprint},
    )


def _event_detail(entry: registry.RegistryEntry) -> dict[str, Any]:
    return {
        "agent_id": entry.agent_id,
        "version": entry.version,
        "tools": list(entry.tools),
        **({"versions": dict(entry.versions)} if entry.versions else {}),
        "output_tags": list(entry.output_tags),
        "registered_by": entry.registered_by,
        "registered_at": instant(entry.registered_at),
        "model_tier": entry.model_tier,
        **({"acts_elsewhere": True} if entry.acts_elsewhere else {}),
    }


def _seal_version(tenant_id: UUID, entry: registry.RegistryEntry, *, at: datetime) -> AgentVersion:
    return AgentVersion.objects.create(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        agent_id=entry.agent_id,
        version=entry.version,
        tools=list(entry.tools),
        versions=dict(entry.versions),
        output_tags=list(entry.output_tags),
        model_tier=entry.model_tier,
        acts_elsewhere=entry.acts_elsewhere,
        registered_by=entry.registered_by,
        registered_at=entry.registered_at,
        fingerprint=registry.fingerprint(entry, key=registry_keys()[0]),
    )


def _capabilities(entry: registry.RegistryEntry) -> tuple[object, ...]:
    return entry.tools, dict(entry.versions), entry.output_tags, entry.model_tier, entry.acts_elsewhere


def revoke_agent(*, tenant_id: UUID, agent_id: str, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Stop an agent: from now on none of its actions is called, decided, claimed or started (R-CR-07, R-CR-14).

    Its waiting requests, grants and sessions end with it (`stops`); attempts that have started go on and are read back.
    An agent that is revoked already stays so.
    """
    agent = agents_queries.agent(tenant_id, agent_id)
    if agent is None:
        raise NotFound("Agent")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=agent.id, kind="agent")
    if head.state == "REVOKED":
        return
    # The update passes the tenant's gate: a start is before all of this or behind it.
    Agent.objects.filter(tenant_id=tenant_id, id=agent.id).update(revoked_at=at)
    ledger.append(
        head,
        ledger.NewEvent(kind="agent_revoked", to="REVOKED", detail={"agent_id": agent_id, "reason": reason}),
        actor=by,
        at=at,
    )
    stops.begin(agent, at=at)
