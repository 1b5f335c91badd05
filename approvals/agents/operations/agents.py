"""The registry of agents: what each may call, committed by an operator and sealed with a keyed fingerprint."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.agents import queries as agents_queries
from approvals.agents.operations.registry_entry import entry_of, registry_key
from approvals.agents.rules import registry
from approvals.models import Agent, AgentVersion
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused


class AgentVersionTaken(Refused):
    """This version of the agent is already registered with other capabilities."""

    code = "VERSION_IMMUTABLE"


class UnknownAgent(Refused):
    """Agent not found."""

    code = "NOT_FOUND"
    status = 404


def register_agent(
    *, tenant_id: UUID, entry: registry.RegistryEntry, by: ledger.Actor, at: datetime, owner: UUID | None = None
) -> AgentVersion:
    """Append a version of an agent and make it the current one (R-CR-01, R-CR-13); a revoked agent lives again.

    Its `owner` is who is named, else whoever registered it first: they do not decide on what it asks for.
    """
    known = agents_queries.agent_version(tenant_id, entry.agent_id, entry.version)
    agent = agents_queries.agent(tenant_id, entry.agent_id)
    if known is not None:
        if _capabilities(entry_of(known)) != _capabilities(entry):
            raise AgentVersionTaken
        if agent is not None and agent.revoked_at is None and agent.version == entry.version:
            return known
    version = known or _seal_version(tenant_id, entry, at=at)
    if agent is None:
        agent = Agent.objects.create(
            tenant_id=tenant_id,
            id=ledger.new_id(at),
            agent_id=entry.agent_id,
            version=entry.version,
            owner=owner or by.id,
        )
        head = ledger.SubjectHead(tenant_id=tenant_id, id=agent.id, kind="agent")
    else:
        owned = {"owner": owner} if owner else {}
        Agent.objects.filter(tenant_id=tenant_id, id=agent.id).update(version=entry.version, revoked_at=None, **owned)
        head = ledger.lock_subject(tenant_id=tenant_id, subject_id=agent.id, kind="agent")
    ledger.append(
        head,
        ledger.NewEvent(
            kind="agent_registered",
            to="REGISTERED",
            detail=_event_detail(entry) | {"owner": str(owner or agent.owner or by.id)},
            digests={"fingerprint": version.fingerprint},
        ),
        actor=by,
        at=at,
    )
    return version


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
        registered_by=entry.registered_by,
        registered_at=entry.registered_at,
        fingerprint=registry.fingerprint(entry, key=registry_key()),
    )


def _capabilities(entry: registry.RegistryEntry) -> tuple[object, ...]:
    return entry.tools, dict(entry.versions), entry.output_tags, entry.model_tier


def revoke_agent(*, tenant_id: UUID, agent_id: str, reason: str, by: ledger.Actor, at: datetime) -> None:
    """End an agent: the next handshake and the next call of every open session are refused (R-CR-07, R-CR-14)."""
    agent = agents_queries.agent(tenant_id, agent_id)
    if agent is None:
        raise UnknownAgent
    ledger.append(
        ledger.lock_subject(tenant_id=tenant_id, subject_id=agent.id, kind="agent"),
        ledger.NewEvent(kind="agent_revoked", to="REVOKED", detail={"agent_id": agent_id, "reason": reason}),
        actor=by,
        at=at,
    )
    Agent.objects.filter(tenant_id=tenant_id, id=agent.id).update(revoked_at=at)
