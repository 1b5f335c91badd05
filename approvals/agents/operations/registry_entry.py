"""Reads registry entries from rows and verifies their seals."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from approvals.agents.rules import registry
from approvals.models import AgentVersion


def is_sealed(version: AgentVersion) -> bool:
    """Whether a stored registration matches its seal (R-CR-05)."""
    return registry.is_sealed(entry_of(version), seal=version.fingerprint, key=registry_key())


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
        registered_at=version.registered_at,
    )


@lru_cache(maxsize=1)
def registry_key() -> bytes:
    """The key of the registry's fingerprints: a file outside the database."""
    return bytes.fromhex((settings.COUNTERFOIL_SECRETS_DIR / "registry_key").read_text().strip())
