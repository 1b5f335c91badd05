"""Queues due readings in one lane per system, so that no system delays another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.db import execute
from reviews import queries
from reviews.models import Lane
from reviews.readback.rules.limits import BadLimits, SystemLimits, limits_of


@dataclass(frozen=True)
class QueuePosition:
    """The queue of an action's readings: its system's lane, created with these limits if new, and the rank of its
    class.
    """

    system_id: UUID
    rank: int
    limits: SystemLimits


def queue_position(*, tenant_id: UUID, action_id: UUID) -> QueuePosition:
    """The lane of an action."""
    action = actions.action(tenant_id, action_id)
    row = catalogue_queries.contract_by_digest(tenant_id, action.contract_digest) if action is not None else None
    if action is None or row is None:
        return QueuePosition(tenant_id, 0, SystemLimits())
    contract = queries.reading_contracts(tenant_id, [action])[action_id].contract
    return position_in_lane(tenant_id, contract, execute(*system_call(tenant_id, contract)))


def system_call(tenant_id: UUID, contract: Contract) -> tuple[Any, ...]:
    """The call that reads the system which a contract's actions are verified in."""
    name = contract.verification.system if contract.verification is not None else ""
    return "SELECT id, settings FROM ledger_system WHERE tenant_id = $1 AND name = $2", tenant_id, name


def position_in_lane(tenant_id: UUID, contract: Contract, systems: list[tuple[Any, ...]]) -> QueuePosition:
    """Return the lane of that system; entries without a registered system queue in the tenant's own lane."""
    return lane_of(tenant_id, contract.side_effect_class.rank, systems)


def lane_of(tenant_id: UUID, rank: int, systems: list[tuple[Any, ...]]) -> QueuePosition:
    """The lane of a system, given as its id and settings if it is registered, for readings of this rank."""
    for system_id, settings in systems:
        return QueuePosition(system_id, rank, _limits(settings))
    return QueuePosition(tenant_id, rank, SystemLimits())


def set_lane_limits(*, tenant_id: UUID, system_id: UUID, limits: SystemLimits) -> None:
    """Set the limits of a system's lane."""
    _lane(tenant_id, system_id, limits)
    Lane.objects.filter(tenant_id=tenant_id, system_id=system_id).update(
        concurrency=limits.concurrency, reads_per_minute=limits.reads_per_minute
    )


def update_pace(
    *, tenant_id: UUID, system_id: UUID, limits: SystemLimits, pace_ms: int | None, held_until: datetime | None
) -> None:
    """Record the recent duration of a reading of this system, and until when its circuit holds it."""
    _lane(tenant_id, system_id, limits)
    Lane.objects.filter(tenant_id=tenant_id, system_id=system_id).update(pace_ms=pace_ms, held_until=held_until)


def _limits(settings: dict[str, Any]) -> SystemLimits:
    # Registered before limits were looked at: such a system is asked as any other.
    try:
        return limits_of(settings)
    except BadLimits:
        return SystemLimits()


# Always written, never remembered: a lane that a rollback took away would leave its rows unread for ever.
NEW_LANE: LiteralString = (
    "INSERT INTO reviews_lane (system_id, tenant_id, concurrency, reads_per_minute) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (tenant_id, system_id) DO NOTHING"
)


def _lane(tenant_id: UUID, system_id: UUID, limits: SystemLimits) -> None:
    execute(NEW_LANE, system_id, tenant_id, limits.concurrency, limits.reads_per_minute)
