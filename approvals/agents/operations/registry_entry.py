"""Reads registry entries from rows and verifies their seals."""

from __future__ import annotations

from django.conf import settings

from approvals.agents.rules import registry
from approvals.models import Agent, AgentVersion, Session
from ledger.key_files import read_hex_keys
from ledger.record.rules.refusals import Refused


def is_sealed(version: AgentVersion) -> bool:
    """Return whether a stored registration matches its seal (R-CR-05)."""
    return registry.is_sealed(entry_of(version), seal=version.fingerprint, keys=registry_keys())


def is_sealed_in_use(version: AgentVersion) -> bool:
    """Return whether a stored registration matches its seal under the key that seals now."""
    return registry.is_sealed(entry_of(version), seal=version.fingerprint, keys=registry_keys()[:1])


def entry_of(version: AgentVersion) -> registry.RegistryEntry:
    """The registry entry in a row."""
    return registry.RegistryEntry(
        tenant=str(version.tenant_id),
        agent_id=version.agent_id,
        version=version.version,
        registered_by=version.registered_by,
        tools=tuple(version.tools),
        versions=version.versions,
        output_tags=tuple(version.output_tags),
        model_tier=version.model_tier,
        acts_elsewhere=version.acts_elsewhere,
        registered_at=version.registered_at,
    )


def refusal_to_act(
    session: Session | None, agent: Agent | None, current: AgentVersion | None, *, tool: str, version: str
) -> Refused | None:
    """Return the reason why an agent may not have this done in this session under the present registry, or None.

    `current` is the registration in force. A missing or altered registration refuses.
    """
    if session is None or agent is None or current is None:
        return registry.AgentNotRegistered()
    if agent.revoked_at is None and not is_sealed(current):
        return registry.RegistryFingerprintMismatch()
    standing = registry.AgentStanding(
        entry_of(current), agent.revoked_at is not None, agent.sessions_since, agent.withdrawn
    )
    return registry.refusal_to_act(standing, opened_at=session.agent_seq, tool=tool, version=version)


def registry_keys() -> tuple[bytes, ...]:
    """The key of the registry's fingerprints, in a file outside the database; behind it those that sealed before."""
    return read_hex_keys(settings.COUNTERFOIL_SECRETS_DIR / "registry_key")
