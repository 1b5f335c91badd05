"""Readings: those taken of an action, and the requested ones. Every function runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from ledger.db import execute
from ledger.models import (
    Entry,
    Event,
)
from ledger.record.queries.events import load_json
from ledger.record.rules.target_readings import KINDS, TargetReading, fold_target_reading


def readings(tenant_id: UUID, action_id: UUID) -> list[tuple[str, datetime, dict[str, Any]]]:
    """(kind, at, detail) of the readings requested and taken before an action runs, oldest first."""
    events = Event.objects.filter(
        tenant_id=tenant_id, subject_id=action_id, kind__in=["reading_wanted", "reading_taken"]
    )
    found = list(events.order_by("seq").values_list("kind", "at", "seq"))
    kept = dict(
        Entry.objects.filter(
            tenant_id=tenant_id, subject_id=action_id, seq__in=[seq for _, _, seq in found]
        ).values_list("seq", "detail")
    )
    return [(kind, at, load_json(kept[seq]) or {}) for kind, at, seq in found]


# The events of an action (a) that say whether its target was read, as `read_target` takes them.
EVENTS_OF_TARGET = (
    "ARRAY(SELECT r.kind || ' ' || r.seq FROM ledger_event r WHERE r.tenant_id = $1 AND r.subject_id = a.id"
    f" AND r.kind IN ({', '.join(map(repr, KINDS))}) ORDER BY r.seq)"
)


def read_target(events: Iterable[str]) -> TargetReading:
    """The reading of a target from a value of `EVENTS_OF_TARGET`."""
    return fold_target_reading([(kind, int(seq)) for kind, seq in (each.split(" ") for each in events)])


def target_reading(tenant_id: UUID, action_id: UUID) -> TargetReading:
    """The reading of an action's target, as the action's events have it."""
    found = execute(f"SELECT {EVENTS_OF_TARGET} FROM (SELECT $2::uuid AS id) a", tenant_id, action_id)
    return read_target(found[0][0])


class ReadingsSince(NamedTuple):
    """The readings of an action since the record was restored: when one was requested and taken, the newest finding
    about the effect, whether the action was held for it, and whether an executor reported a start of it.
    """

    restored_at: datetime
    wanted_at: datetime | None = None
    taken_at: datetime | None = None
    effect: str | None = None
    held: bool = False
    told: bool = False


def readings_since(tenant_id: UUID, action_id: UUID, restored_at: datetime) -> ReadingsSince:
    """The readings of an action since the record was restored."""
    found = ReadingsSince(restored_at)
    rows = execute(
        "SELECT e.kind, e.at, n.detail FROM ledger_event e LEFT JOIN ledger_entry n"
        " ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq"
        " WHERE e.tenant_id = $1 AND e.subject_id = $2 AND (e.kind = 'start_without_record'"
        " OR (e.at > $3 AND e.kind IN ('reading_wanted', 'reading_taken', 'held_after_restore'))) ORDER BY e.seq",
        *(tenant_id, action_id, restored_at),
    )
    for kind, at, detail in rows:
        if kind == "reading_wanted":
            found = found._replace(wanted_at=at)
        elif kind == "reading_taken":
            effect = (load_json(detail) or {}).get("effect", "untold")
            # What an executor kept of a forgotten start outweighs a reading.
            found = found._replace(taken_at=at, effect=found.effect if found.told else effect)
        elif kind == "start_without_record":
            found = found._replace(taken_at=at, effect="present", told=True)
        else:
            found = found._replace(held=True)
    return found


def unrecorded_starts(tenant_id: UUID) -> list[dict[str, Any]]:
    """The starts kept by executors that were missing in the record, oldest first."""
    rows = execute(
        "SELECT n.detail, e.at FROM ledger_log l JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = l.id"
        " JOIN ledger_entry n ON n.tenant_id = $1 AND n.subject_id = l.id AND n.seq = e.seq"
        " WHERE l.tenant_id = $1 AND e.kind = 'start_without_record' ORDER BY l.number, e.seq",
        tenant_id,
    )
    return [(load_json(detail) or {}) | {"told_at": at} for detail, at in rows]


def newest_reading_pointers(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, UUID]:
    """Return the pointer of the newest reading before each action ran, if there was one."""
    taken = execute(
        "SELECT subject_id, max(seq) FROM ledger_event"
        " WHERE tenant_id = $1 AND subject_id = ANY($2) AND kind = 'reading_taken' GROUP BY subject_id",
        *(tenant_id, action_ids),
    )
    kept = execute(
        "SELECT subject_id, detail FROM ledger_entry WHERE tenant_id = $1"
        " AND (subject_id, seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in taken], [seq for _, seq in taken]),
    )
    return {subject: UUID(orjson.loads(detail)["pointer"]) for subject, detail in kept}


def actions_needing_reading(tenant_id: UUID, *, limit: int = 200) -> list[UUID]:
    """Validated actions whose newest reading is requested and not taken yet."""
    found = execute(
        "SELECT a.id FROM ledger_action a WHERE a.tenant_id = $1 AND a.phase = 'VALIDATED' AND a.state = 'VALIDATED'"
        " AND 'reading_wanted' ="
        " (SELECT e.kind FROM ledger_event e WHERE e.tenant_id = a.tenant_id AND e.subject_id = a.id"
        " AND e.kind IN ('reading_wanted', 'reading_taken') ORDER BY e.seq DESC LIMIT 1) ORDER BY a.id LIMIT $2",
        *(tenant_id, limit),
    )
    return [action_id for (action_id,) in found]


def is_reading_wanted(tenant_id: UUID, action_id: UUID) -> bool:
    """Return whether an action's newest reading is wanted and not taken yet."""
    return target_reading(tenant_id, action_id).is_wanted
