"""Queues due readings in one lane per system, so that no system delays another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import SideEffectClass
from reviews.models import Lane
from reviews.readback.rules.limits import BadLimits, SystemLimits, limits_of


@dataclass(frozen=True)
class QueuePosition:
    """Where an action's readings queue: its system's lane, with the rank of its class."""

    system_id: UUID
    rank: int


def queue_position(*, tenant_id: UUID, action_id: UUID) -> QueuePosition:
    """The lane of an action, which is made where there is none yet."""
    action = actions.action(tenant_id, action_id)
    row = catalogue_queries.contract_by_digest(tenant_id, action.contract_digest) if action is not None else None
    if action is None or row is None:
        return QueuePosition(_lane(tenant_id, tenant_id, SystemLimits()), 0)
    contract = contracts.load_stored(bytes(row.document), expected_digest=row.digest)
    return QueuePosition(
        lane_of(tenant_id=tenant_id, contract=contract), SideEffectClass(action.side_effect_class).rank
    )


def lane_of(*, tenant_id: UUID, contract: Contract) -> UUID:
    """The lane of a contract's system; what names no registered system queues in the tenant's own lane."""
    name = contract.verification.system if contract.verification is not None else ""
    system = catalogue_queries.system(tenant_id, name) if name else None
    if system is None:
        return _lane(tenant_id, tenant_id, SystemLimits())
    return _lane(tenant_id, system.id, _limits(system))


def set_lane_limits(*, tenant_id: UUID, system_id: UUID, limits: SystemLimits) -> None:
    """Give a system's lane its limits."""
    _lane(tenant_id, system_id, limits)
    Lane.objects.filter(system_id=system_id, tenant_id=tenant_id).update(
        concurrency=limits.concurrency, reads_per_minute=limits.reads_per_minute
    )


def update_pace(
    *, tenant_id: UUID, system_id: UUID, limits: SystemLimits, pace_ms: int | None, held_until: datetime | None
) -> None:
    """What a reading of this system takes of late, and until when its circuit holds it."""
    _lane(tenant_id, system_id, limits)
    Lane.objects.filter(system_id=system_id).update(pace_ms=pace_ms, held_until=held_until)


def _limits(system: object) -> SystemLimits:
    # Registered before limits were looked at: such a system is asked as any other.
    try:
        return limits_of(system.settings)  # type: ignore[attr-defined]
    except BadLimits:
        return SystemLimits()


def _lane(tenant_id: UUID, system_id: UUID, limits: SystemLimits) -> UUID:
    # Always written, never remembered: a lane that a rollback took away would leave its rows unread for ever.
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reviews_lane (system_id, tenant_id, concurrency, reads_per_minute) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (system_id) DO NOTHING",
            [system_id, tenant_id, limits.concurrency, limits.reads_per_minute],
        )
    return system_id
