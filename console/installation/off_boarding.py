"""Off-boarding of a tenant: nothing new begins, what is open comes to its end, and the record is handed over.

An operator asks for it, and nothing is done before a person of the tenant has confirmed. Each step uses what an
administrator uses, leaves its own events, and may be repeated. Nothing is deleted here: that is decided by two people
(erasure) or by the tenant's retention, and the events, their log and its proofs stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from approvals.agents import queries as agents
from approvals.agents.operations.agents import revoke_agent
from console.accounts import operations as accounts
from console.accounts import queries as accounts_queries
from ledger.actions.queries import actions
from ledger.actions.queries.freezes import freezes_in_force
from ledger.catalogue.operations import registration
from ledger.catalogue.operations.installation import record_off_boarding
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from ledger.record.rules.lifecycle import OPEN
from ledger.record.rules.refusals import AlreadyDecided
from ledger.retention import queries as retention_queries
from ledger.retention.operations import off_boarding as retention
from ledger.retention.queries import OffBoarding
from reviews import queries as after

MOST_COUNTED: Final = 1_000
REPORTING: Final = ("exec",)
"""Kinds of keys that stay while something is open: their holders report how it ended."""


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """The number of actions and of cases of a tenant that are open, up to `MOST_COUNTED` each."""

    actions: int
    cases: int

    def __bool__(self) -> bool:
        return bool(self.actions or self.cases)


def open_work(tenant_id: UUID, *, at: datetime) -> UnfinishedWork:
    """Count what is open. Inside `tenancy`."""
    _, (count, _) = actions.count_standings(tenant_id, tuple(sorted(OPEN)), most=MOST_COUNTED)
    cases, _ = after.count_waiting_cases(tenant_id, at=at, most=MOST_COUNTED)
    return UnfinishedWork(count, cases)


def count_keys_in_force(tenant_id: UUID) -> int:
    """Count the keys that are not revoked. Inside `tenancy`."""
    return sum(key.revoked_at is None for key in accounts_queries.api_keys(tenant_id))


def request_off_boarding(tenant_id: UUID, *, reason: str, at: datetime) -> OffBoarding:
    """Ask for the off-boarding unless that was done, and return it."""
    with tenancy(tenant_id):
        return retention.request_off_boarding(tenant_id=tenant_id, reason=reason, at=at)


def close_entrances(tenant_id: UUID, off_boarding: OffBoarding, *, at: datetime) -> None:
    """Let nothing new begin: freeze the tenant, stop its agents and revoke their keys. `AlreadyDecided` unless a person
    of the tenant has confirmed this and not refused it since.

    Executors keep theirs, to report what runs. Stopping an agent ends its sessions, and what has not started as FAILED.
    """
    reason = off_boarding.reason
    with tenancy(tenant_id):
        if not any(each.scope in ("tenant", "all") for each in freezes_in_force(tenant_id)):
            registration.place_freeze(tenant_id=tenant_id, scope="tenant", value="", reason=reason, actor=SYSTEM, at=at)
        for agent in agents.agents(tenant_id):
            revoke_agent(tenant_id=tenant_id, agent_id=agent.agent_id, reason=reason, by=SYSTEM, at=at)
        _revoke_keys(tenant_id, all_but=REPORTING, reason=reason, at=at)
        record_off_boarding(
            "off_boarding_begun",
            tenant_id=tenant_id,
            off_boarding_id=off_boarding.id,
            detail={"reason": reason},
            at=at,
        )
        # The tenant is locked now, and a refusal that came meanwhile is on record.
        now = retention_queries.off_boarding(tenant_id)
        if off_boarding.state not in ("CONFIRMED", "BEGUN") or now is None or now.state != "BEGUN":
            raise AlreadyDecided


def finish(tenant_id: UUID, off_boarding: OffBoarding, *, bundle: str, at: datetime) -> None:
    """Revoke the keys that are left, and record the digest of the bundle that was handed over."""
    with tenancy(tenant_id):
        _revoke_keys(tenant_id, all_but=(), reason=off_boarding.reason, at=at)
        record_off_boarding(
            "off_boarding_finished",
            tenant_id=tenant_id,
            off_boarding_id=off_boarding.id,
            detail={"bundle": bundle},
            at=at,
        )


def _revoke_keys(tenant_id: UUID, *, all_but: tuple[str, ...], reason: str, at: datetime) -> None:
    for key in accounts_queries.api_keys(tenant_id):
        if key.revoked_at is None and key.kind not in all_but:
            accounts.revoke_key(tenant_id=tenant_id, key_id=key.id, by=SYSTEM, reason=reason, at=at)
