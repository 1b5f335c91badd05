"""Destinations of events: started, moved and stopped by people; sent to under a lease, from a stored position.

The place of a destination moves once the destination has taken what stands before it. If we crash in between, the same
events go again, with the same ids; none is left out. One worker at a time holds the lease of a destination, so that the
order stays that of the log.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from django.db.models import F, Q

from console.event_export import queries
from console.models import EventDestination
from console.notifications.operations import PAUSES
from ledger.exports import queries as exports
from ledger.log.queries import log as logs
from ledger.log.rules.signing import NotSigned
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound

LEASE: Final = timedelta(seconds=60)
"""How long a worker may send under one lease; one that died is replaced after it."""
_JITTER: Final = 0.25
_BEGINNING: Final = (0, -1)

Start = str | int | datetime
"""Where to begin: "beginning", "now", an index of the log, or a time."""


NO_SUCH_DESTINATION: Final = "No destination with that name is configured for this tenant, or it is not started."


def start(*, tenant_id: UUID, name: str, start_at: Start, by: ledger.Actor, at: datetime) -> EventDestination:
    """Send events to a destination from a position on; an active one continues from there."""
    log, index = _place(tenant_id, start_at)
    detail = {"name": name, "after_log": log, "after_index": index}
    running = EventDestination.objects.filter(tenant_id=tenant_id, name=name, ended_at__isnull=True).first()
    if running is None:
        row = EventDestination.objects.create(
            tenant_id=tenant_id, id=ledger.new_id(at), name=name, log=log, index=index, started_at=at
        )
        begun = ledger.NewEvent(kind="event_export_started", to="ACTIVE", detail=detail)
        head = ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="event_destination")
        ledger.append(head, begun, actor=by, at=at)
        return row
    head = _lock(running)
    # Whoever is sending now may not move the place that was just chosen.
    changed = {"log": log, "index": index, "failures": 0, "fault": "", "retry_at": None, "lease": None}
    EventDestination.objects.filter(tenant_id=tenant_id, id=running.id).update(**changed)
    ledger.append(head, ledger.NewEvent(kind="event_export_moved", detail=detail), actor=by, at=at)
    return EventDestination.objects.get(tenant_id=tenant_id, id=running.id)


def stop(*, tenant_id: UUID, name: str, reason: str, by: ledger.Actor, at: datetime) -> EventDestination:
    """Stop sending; a message in progress may still arrive."""
    row = queries.running_destinations(tenant_id).get(name)
    if row is None:
        raise NotFound(detail=NO_SUCH_DESTINATION)
    head = _lock(row)
    row.ended_at = at
    EventDestination.objects.filter(tenant_id=tenant_id, id=row.id).update(ended_at=at, lease=None)
    ended = ledger.NewEvent(kind="event_export_stopped", to="ENDED", detail={"reason": reason})
    ledger.append(head, ended, actor=by, at=at)
    return row


def _lock(row: EventDestination) -> ledger.SubjectHead:
    return ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="event_destination")


def _place(tenant_id: UUID, start_at: Start) -> tuple[int, int]:
    """The position before the first event to send."""
    if start_at == "beginning":
        return _BEGINNING
    head = logs.current_log(tenant_id)
    if head is None:
        return _BEGINNING
    if start_at == "now":
        return head.number, head.signed_size - 1
    if isinstance(start_at, datetime):
        return head.number, exports.first_index_since(tenant_id, head.number, start_at, size=head.signed_size) - 1
    if not isinstance(start_at, int) or not 0 <= start_at <= head.signed_size:
        raise NotSigned(f"The log has {head.signed_size} signed entries; entry {start_at} is not among them.")
    return head.number, start_at - 1


# The worker's side


def take_lease(row: EventDestination, *, at: datetime) -> EventDestination | None:
    """The destination, leased to this worker for a while; None if another one holds it."""
    lease = uuid4()
    free = Q(lease__isnull=True) | Q(leased_until__lte=at)
    here = EventDestination.objects.filter(free, tenant_id=row.tenant_id, id=row.id, ended_at__isnull=True)
    if not here.update(lease=lease, leased_until=at + LEASE):
        return None
    return EventDestination.objects.get(tenant_id=row.tenant_id, id=row.id)


def settle(
    row: EventDestination, *, place: tuple[int, int], taken: int, refused: int, fault: str, at: datetime
) -> None:
    """Store the progress of a destination and release its lease; do nothing if it was moved meanwhile."""
    changed: dict[str, Any] = {"log": place[0], "index": place[1], "lease": None, "leased_until": None}
    changed |= {"sent": F("sent") + taken, "refused": F("refused") + refused}
    if taken:
        changed["sent_at"] = at
    failures = row.failures + 1 if fault else 0
    changed |= {"failures": failures, "fault": fault[:200], "retry_at": _retry_at(failures, at) if fault else None}
    here = EventDestination.objects.filter(tenant_id=row.tenant_id, id=row.id, lease=row.lease)
    here.update(**changed)


def _retry_at(failures: int, at: datetime) -> datetime:
    pause = PAUSES[min(failures, len(PAUSES)) - 1]
    return at + timedelta(seconds=pause * (1 + _JITTER * secrets.randbelow(1000) / 1000))
