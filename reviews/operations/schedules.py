"""The schedule of readings. PostgreSQL holds it; messages are hints that may be lost or repeated (D3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from ledger import queries as record
from ledger.tenancy import tenancy
from reviews.models import Schedule

CLAIM = timedelta(seconds=30)

_CLAIM = """
    UPDATE reviews_schedule SET claimed_until = %s
    WHERE action_id IN (
        SELECT action_id FROM reviews_schedule
        WHERE due_at <= %s AND (claimed_until IS NULL OR claimed_until <= %s)
        ORDER BY priority DESC, due_at LIMIT %s FOR UPDATE SKIP LOCKED
    )
    RETURNING tenant_id, action_id, recheck IS NOT NULL
"""


def schedule(*, tenant_id: UUID, action_id: UUID, due_at: datetime, priority: int, at: datetime) -> None:
    """Have an action read at `due_at`; one that is already scheduled is read at the earlier time."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reviews_schedule (action_id, tenant_id, due_at, priority, readings, opened_at)"
            " VALUES (%s, %s, %s, %s, 0, %s) ON CONFLICT (action_id)"
            " DO UPDATE SET due_at = least(reviews_schedule.due_at, excluded.due_at)",
            [action_id, tenant_id, due_at, priority, at],
        )


def reopen(*, tenant_id: UUID, action_id: UUID, priority: int, at: datetime) -> None:
    """Start the clock of a verification again, now."""
    Schedule.objects.filter(action_id=action_id).delete()
    schedule(tenant_id=tenant_id, action_id=action_id, due_at=at, priority=priority, at=at)


def claim_due(*, at: datetime, limit: int) -> list[tuple[UUID, UUID, bool]]:
    """(tenant, action, whether it is a recheck) of due rows, taken for a while; a claim of the dead runs out."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_CLAIM, [at + CLAIM, at, at, limit])
        return [(tenant, action, recheck) for tenant, action, recheck in cursor.fetchall()]


def schedule_recheck(*, tenant_id: UUID, action_id: UUID, due_at: datetime, number: int, at: datetime) -> None:
    """Have a settled action read once more at `due_at`, as the contract's recheck of that number."""
    Schedule.objects.update_or_create(
        action_id=action_id,
        defaults={
            "tenant_id": tenant_id,
            "due_at": due_at,
            "claimed_until": None,
            "priority": 0,
            "readings": 0,
            "opened_at": at,
            "recheck": number,
        },
    )


def read_again(*, action_id: UUID, due_at: datetime) -> None:
    """One more reading was made; the next is due then."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE reviews_schedule SET due_at = %s, claimed_until = NULL, readings = readings + 1"
            " WHERE action_id = %s",
            [due_at, action_id],
        )


def settle(*, action_id: UUID) -> None:
    """Nothing more is read."""
    Schedule.objects.filter(action_id=action_id).delete()


def adopt(*, at: datetime) -> int:
    """Give every action that is verified, waiting or unknown a schedule row if it has none; how many it was."""
    adopted = 0
    for tenant in record.tenants():
        with tenancy(tenant.id):
            waiting = record.unsettled(tenant.id)
            known = set(Schedule.objects.filter(action_id__in=waiting).values_list("action_id", flat=True))
            for action_id in waiting:
                if action_id not in known:
                    schedule(tenant_id=tenant.id, action_id=action_id, due_at=at, priority=0, at=at)
                    adopted += 1
    return adopted


def readings_wanted() -> list[tuple[UUID, UUID]]:
    """(tenant, action) of every reading that an order waits for."""
    wanted: list[tuple[UUID, UUID]] = []
    for tenant in record.tenants():
        with tenancy(tenant.id):
            wanted += [(tenant.id, action_id) for action_id in record.readings_wanted(tenant.id)]
    return wanted
