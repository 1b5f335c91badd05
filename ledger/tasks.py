"""What Celery looks after for the log: the sequencer cannot say itself that it is not there."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from ledger.operations import logs
from ledger.queries import log, record
from ledger.tenancy import tenancy

NOT_SEALING = "NOT_SEALING"


@shared_task
def watch() -> int:
    """Raise an alarm for each tenant whose log has fallen behind; how many were raised now.

    It stands until a person has looked, also where the log has caught up meanwhile.
    """
    return sum(_is_raised(tenant.id) for tenant in record.tenants())


def _is_raised(tenant_id: UUID) -> bool:
    with tenancy(tenant_id):
        behind = log.lag(tenant_id)
    if not behind.is_late:
        return False
    waited = max(behind.oldest_s or 0.0, behind.unsigned_s or 0.0)
    told = f"{behind.waiting} events wait for a sealed place in the log, the oldest for {waited:.0f} s."
    return logs.raise_alarm(tenant_id=tenant_id, kind=NOT_SEALING, detail=told, at=timezone.now())
