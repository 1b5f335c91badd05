"""Notices: written once for each alarm and channel, claimed by one worker at a time, tried again until they arrive.

A worker that dies between sending and writing that down sends the message twice, under the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from console.models import Notice
from ledger.operations.record import new_id
from ledger.tenancy import tenancy

# Seconds until the next attempt; the last one is repeated until the message is given up.
PAUSES = (15, 30, 60, 300, 900, 3600)
MOST_ATTEMPTS = 30


def write(*, tenant_id: UUID, alarms: Iterable[Any], channels: Iterable[str], at: datetime) -> None:
    """See to it that every standing alarm is told by every channel."""
    Notice.objects.bulk_create(
        [
            Notice(
                tenant_id=tenant_id,
                id=new_id(at),
                channel=channel,
                kind=alarm.kind,
                about_id=alarm.id,
                raised_at=alarm.raised_at,
                due_at=at,
            )
            for alarm in alarms
            for channel in channels
        ],
        ignore_conflicts=True,
    )


def claim(*, tenant_id: UUID, at: datetime) -> Notice | None:
    """The next message that is due, for this worker; should it die, the message is due again after a pause."""
    with tenancy(tenant_id):
        due = Notice.objects.filter(tenant_id=tenant_id, sent_at__isnull=True, given_up_at__isnull=True, due_at__lte=at)
        row = due.select_for_update(skip_locked=True).order_by("due_at").first()
        if row is not None:
            row.attempts += 1
            row.due_at = at + timedelta(seconds=PAUSES[min(row.attempts, len(PAUSES)) - 1])
            _here(row).update(attempts=row.attempts, due_at=row.due_at)
        return row


def answered(*, notice: Notice, fault: str, at: datetime) -> None:
    """Write down that a message has arrived, or what was wrong."""
    with tenancy(notice.tenant_id):
        if not fault:
            _here(notice).update(sent_at=at, fault="")
        else:
            over = at if notice.attempts >= MOST_ATTEMPTS else None
            _here(notice).update(fault=fault[:200], given_up_at=over)


def _here(row: Notice) -> Any:
    return Notice.objects.filter(tenant_id=row.tenant_id, id=row.id)
