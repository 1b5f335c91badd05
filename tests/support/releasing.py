"""Releases in tests that are about something else: prepared by the operations, with gates that nobody ran."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from ledger.catalogue import queries
from ledger.catalogue.operations import releases
from ledger.catalogue.operations.releases import GateResult
from ledger.catalogue.rules.releases import required_gates
from ledger.models import PolicyVersion, Release
from ledger.record.operations import SYSTEM, Actor


def passed(kind: str, *, but: str = "") -> list[GateResult]:
    """Results of every gate of a kind, all passed but one; they say that no gate was run."""
    said = "Prepared by a test; no gate was run."
    return [GateResult(gate=gate, passed=gate != but, summary=said, evidence={}) for gate in required_gates(kind)]


def drafted(
    tenant: UUID, kind: str, version: str, document: Mapping[str, Any], *, at: datetime, but: str = ""
) -> Release:
    """A draft with its gates passed, all but one. Inside `tenancy`."""
    row = releases.draft_release(
        tenant_id=tenant, kind=kind, version=version, document=document, reason="A test.", by=SYSTEM, at=at
    )
    return pass_gates(tenant, row.id, but=but, at=at)


def pass_gates(tenant: UUID, release_id: UUID, *, but: str = "", at: datetime | None = None) -> Release:
    """The gates of a release passed, all but one. Inside `tenancy`."""
    row = queries.release(tenant, release_id)
    assert row is not None
    basis = queries.active_policies(tenant)[row.kind].digest
    return releases.record_gates(
        tenant_id=tenant,
        release_id=release_id,
        results=passed(row.kind, but=but),
        basis=basis,
        by=SYSTEM,
        at=at or datetime.now(UTC),
    )


def put_in_force(
    tenant: UUID, kind: str, version: str, document: Mapping[str, Any], *, at: datetime | None = None
) -> PolicyVersion:
    """A version of a policy in force, by a release that two people promoted. Inside `tenancy`."""
    at = at or datetime.now(UTC)
    row = drafted(tenant, kind, version, document, at=at)
    for _ in range(2):
        releases.promote_release(
            tenant_id=tenant,
            release_id=row.id,
            reason="A test.",
            by=Actor("person", uuid4()),
            is_first=False,
            is_proven=True,
            at=at,
        )
    found = queries.policy_version(tenant, kind, version)
    assert found is not None
    return found
