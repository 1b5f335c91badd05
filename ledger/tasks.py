"""Celery tasks of the log itself. A tick may be lost or repeated: due work is stored in the database."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from typing import Any
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from kombu.exceptions import OperationalError

from ledger.db import tenancy
from ledger.log.operations import anchoring, logs
from ledger.log.queries import log
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.refusals import Refused

logger = logging.getLogger(__name__)
NOT_SEALING = "NOT_SEALING"
WITHIN_S = 30.0
AT_ONCE = 50
"""The number of tenants with work that one run of a task visits by itself; more are shared with other workers."""
SHARE_S = 10
"""A share that no worker has begun by then is left out: a later tick finds the same tenants."""


def share_of(kind: Work, task: Any, shard: int | None, *, at: datetime) -> list[UUID]:
    """The tenants with work of a kind that this run of a task visits: all, or where they are many those of its shard.

    Whoever finds many hands them over, one message for each of `COUNTERFOIL_SHARDS`, by the tenant's id. A message may
    be lost: the next tick asks again.
    """
    found, shards = tenants_with(kind, at=at), settings.COUNTERFOIL_SHARDS
    if shard is not None:
        return [each for each in found if each.int % shards == shard]
    if len(found) <= AT_ONCE or shards == 1:
        return found
    try:
        for number in range(shards):
            task.apply_async(kwargs={"shard": number}, expires=SHARE_S, retry=False)
    except (OSError, OperationalError):
        logger.warning("the broker did not take %s over; it goes on here", task.name)
        return found
    return []


@shared_task
def watch() -> int:
    """Raise an alarm for each tenant whose log has fallen behind; return the number of new alarms.

    The sequencer cannot say itself that it is not there. The alarm stands until a person has looked, also where the
    log has caught up meanwhile.
    """
    return sum(_is_raised(tenant_id) for tenant_id in tenants_with(Work.LATE_LOGS, at=timezone.now()))


def _is_raised(tenant_id: UUID) -> bool:
    with tenancy(tenant_id):
        behind = log.lag(tenant_id)
    if not behind.is_late:
        return False
    waited = max(behind.oldest_s or 0.0, behind.unsigned_s or 0.0)
    told = f"{behind.waiting} events wait for a sealed place in the log, the oldest for {waited:.0f} s."
    return logs.raise_alarm(tenant_id=tenant_id, kind=NOT_SEALING, detail=told, at=timezone.now())


@shared_task
def anchor(shard: int | None = None) -> int:
    """Have external parties attest the logs, if any are configured; return the number of new pieces of evidence.

    Tenants that are left over when the time is up are taken up at the next tick, since they are still due.
    """
    kinds = [Work.DUE_COSIGNATURES] if settings.COUNTERFOIL_WITNESSES is not None else []
    kinds += [Work.DUE_TIME_STAMPS] if settings.COUNTERFOIL_TSA_URL is not None else []
    stored, until = 0, time.monotonic() + WITHIN_S
    for tenant_id in dict.fromkeys(each for kind in kinds for each in share_of(kind, anchor, shard, at=timezone.now())):
        if time.monotonic() > until:
            break
        try:
            stored += anchoring.anchor_log(tenant_id=tenant_id, clock=timezone.now)
        except (DatabaseError, Refused):
            logger.exception("the log of tenant %s could not be anchored", tenant_id)
    return stored
