"""The events that wait to be exported, and the position of each destination."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from console.event_export.messages import SealedEvent
from console.models import EventDestination
from ledger.db import execute


@dataclass(frozen=True, slots=True)
class ExportLag:
    """The number of events that wait for a destination, and the time of the oldest."""

    events: int
    oldest_at: datetime | None


def running_destinations(tenant_id: UUID) -> dict[str, EventDestination]:
    """The destinations that are sent to, by name."""
    found = EventDestination.objects.filter(tenant_id=tenant_id, ended_at__isnull=True).order_by("name")
    return {each.name: each for each in found}


def due_destinations(tenant_id: UUID, *, at: datetime) -> list[EventDestination]:
    """The destinations that may be tried now."""
    return [each for each in running_destinations(tenant_id).values() if each.retry_at is None or each.retry_at <= at]


# What stands under a signed checkpoint, and all of a log that was closed: nothing more is signed there.
_SENDABLE = (
    " FROM ledger_leaf l JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.log"
    " JOIN ledger_event e ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
    " LEFT JOIN ledger_action a ON e.subject_kind = 'action' AND a.tenant_id = e.tenant_id AND a.id = e.subject_id"
    " WHERE l.tenant_id = $1 AND (l.log, l.index) > ($2, $3) AND (l.index < t.signed_size"
    " OR l.log < (SELECT max(number) FROM ledger_log WHERE tenant_id = $1))"
)


def events_behind(tenant_id: UUID, log: int, index: int, *, limit: int) -> list[SealedEvent]:
    """The events after a position, in log order, which is also the order of each subject."""
    rows = execute(
        "SELECT l.log, l.index, e.id, e.kind, e.subject_kind, e.at, e.entry_hash, e.envelope, a.tool,"
        f" a.side_effect_class, a.trace_id{_SENDABLE} ORDER BY l.log, l.index LIMIT $4",
        *(tenant_id, log, index, limit),
    )
    return [SealedEvent(*row) for row in rows]


def lag(row: EventDestination) -> ExportLag:
    """The delay of a destination behind the signed log."""
    rows = execute(f"SELECT count(*), min(e.at){_SENDABLE}", row.tenant_id, row.log, row.index)
    return ExportLag(*rows[0])
