"""Celery tasks of the log itself. A tick may be lost or repeated: due work is stored in the database."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from ledger.db import tenancy
from ledger.log.operations import anchoring, logs
from ledger.log.queries import log
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused

logger = logging.getLogger(__name__)
NOT_SEALING = "NOT_SEALING"
WITHIN_S = 30.0


@shared_task
def watch() -> int:
    """Raise an alarm for each tenant whose log has fallen behind; return the number of new alarms.

    The sequencer cannot say itself that it is not there. The alarm stands until a person has looked, also where the
    log has caught up meanwhile.
    """
    return sum(_is_raised(tenant.id) for tenant in events.tenants())


def _is_raised(tenant_id: UUID) -> bool:
    with tenancy(tenant_id):
        behind = log.lag(tenant_id)
    if not behind.is_late:
        return False
    waited = max(behind.oldest_s or 0.0, behind.unsigned_s or 0.0)
    told = f"{behind.waiting} events wait for a sealed place in the log, the oldest for {waited:.0f} s."
    return logs.raise_alarm(tenant_id=tenant_id, kind=NOT_SEALING, detail=told, at=timezone.now())


@shared_task
def anchor() -> int:
    """Have external parties attest the logs, if any are configured; return the number of new pieces of evidence.

    Tenants that are left over when the time is up are taken up at the next tick, since they are still due.
    """
    if settings.COUNTERFOIL_WITNESSES is None and settings.COUNTERFOIL_TSA_URL is None:
        return 0
    stored, until = 0, time.monotonic() + WITHIN_S
    for tenant in events.tenants():
        if time.monotonic() > until:
            break
        try:
            stored += anchoring.anchor_log(tenant_id=tenant.id, clock=timezone.now)
        except (DatabaseError, Refused):
            logger.exception("the log of tenant %s could not be anchored", tenant.id)
    return stored
