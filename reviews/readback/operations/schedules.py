"""The schedule of readings. PostgreSQL holds it; messages are hints that may be lost or repeated (D3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.actions.queries import actions, readings
from ledger.db import defer, execute, tenancy
from ledger.record.queries.work import Work, tenants_with
from reviews.models import Schedule
from reviews.readback.operations import work_queue

# No contract asks for so many rechecks: after this one comes none.
_NOT_ASKED_FOR = 99


def schedule(*, tenant_id: UUID, action_id: UUID, due_at: datetime, at: datetime, priority: int | None = None) -> None:
    """Schedule a reading of an action at `due_at`; keep the earlier time if one is already scheduled.

    Without a priority it is that of the action's class.
    """
    place = work_queue.queue_position(tenant_id=tenant_id, action_id=action_id)
    execute(
        *schedule_call(
            tenant_id, action_id, place, due_at=due_at, priority=place.rank if priority is None else priority, at=at
        )
    )


_SCHEDULE = f"""
WITH lane AS ({work_queue.NEW_LANE})
INSERT INTO reviews_schedule (action_id, tenant_id, system_id, due_at, priority, readings, opened_at)
VALUES ($5, $2, $1, $6, $7, 0, $8) ON CONFLICT (tenant_id, action_id) DO UPDATE SET
    due_at = least(reviews_schedule.due_at, excluded.due_at), asked_at = excluded.opened_at,
    system_id = excluded.system_id, priority = greatest(reviews_schedule.priority, excluded.priority)
"""


def schedule_call(
    tenant_id: UUID, action_id: UUID, place: work_queue.QueuePosition, *, due_at: datetime, priority: int, at: datetime
) -> tuple[Any, ...]:
    """The same as a call for `db.pipeline`, for an action whose position in the queue is known."""
    limits = place.limits
    lane = (place.system_id, tenant_id, limits.concurrency, limits.reads_per_minute)
    return _SCHEDULE, *lane, action_id, due_at, priority, at


def restart_schedule(*, tenant_id: UUID, action_id: UUID, priority: int, at: datetime) -> None:
    """Start the clock of a verification again, now."""
    Schedule.objects.filter(tenant_id=tenant_id, action_id=action_id).delete()
    schedule(tenant_id=tenant_id, action_id=action_id, due_at=at, priority=priority, at=at)


def schedule_recheck(*, tenant_id: UUID, action_id: UUID, due_at: datetime, number: int, at: datetime) -> None:
    """Schedule another reading of a settled action at `due_at`, as the contract's recheck of that number."""
    place = work_queue.queue_position(tenant_id=tenant_id, action_id=action_id)
    lane = (place.system_id, tenant_id, place.limits.concurrency, place.limits.reads_per_minute)
    execute(_SCHEDULE_RECHECK, *lane, action_id, due_at, at, number)


_SCHEDULE_RECHECK = f"""
WITH lane AS ({work_queue.NEW_LANE})
INSERT INTO reviews_schedule (action_id, tenant_id, system_id, due_at, priority, readings, opened_at, recheck)
VALUES ($5, $2, $1, $6, 0, 0, $7, $8) ON CONFLICT (tenant_id, action_id) DO UPDATE SET
    system_id = excluded.system_id, due_at = excluded.due_at, claimed_until = NULL,
    claim = NULL, asked_at = NULL, priority = 0, readings = 0, opened_at = excluded.opened_at,
    recheck = excluded.recheck
"""


_SCHEDULE_CLAIM = f"""
WITH lane AS ({work_queue.NEW_LANE})
INSERT INTO reviews_schedule
    (action_id, tenant_id, system_id, due_at, priority, readings, opened_at, recheck, is_claim)
VALUES ($5, $2, $1, $6, $7, 0, $8, $9, true) ON CONFLICT (tenant_id, action_id) DO UPDATE SET
    due_at = least(reviews_schedule.due_at, excluded.due_at), asked_at = excluded.opened_at
"""


def schedule_claim(
    tenant_id: UUID,
    claim_id: UUID,
    place: work_queue.QueuePosition,
    *,
    due_at: datetime,
    recheck: int | None,
    at: datetime,
) -> None:
    """Schedule a reading of a claim; one that is settled is read again as the recheck of that number."""
    lane = (place.system_id, tenant_id, place.limits.concurrency, place.limits.reads_per_minute)
    execute(_SCHEDULE_CLAIM, *lane, claim_id, due_at, place.rank, at, recheck)


def find_unscheduled(tenant_id: UUID, ids: list[UUID]) -> list[UUID]:
    """Those of these actions or claims that have no row in the schedule."""
    rows = Schedule.objects.filter(tenant_id=tenant_id, action_id__in=ids).values_list("action_id", flat=True)
    known = set(rows)
    return [each for each in ids if each not in known]


def recheck_now(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """Read a settled action once more, now; a recheck that its contract requires is still made later."""
    row = Schedule.objects.filter(tenant_id=tenant_id, action_id=action_id).first()
    number = row.recheck - 1 if row is not None and row.recheck is not None and row.recheck >= 0 else _NOT_ASKED_FOR
    schedule_recheck(tenant_id=tenant_id, action_id=action_id, due_at=at, number=number, at=at)


@dataclass(frozen=True, kw_only=True)
class NextReading:
    """The time of an action's next reading, after one that began at `began_at` (or none, if nothing was read).

    `unlisted` are the readings that the record has nothing of; None after a run on record, which tells of all before.
    """

    action_id: UUID
    due_at: datetime
    began_at: datetime
    asked: bool = True
    unlisted: int | None = None


def reschedule(tenant_id: UUID, *again: NextReading) -> None:
    """Set the times of the next readings; a reading requested after the last one began stays due now."""
    execute(
        "UPDATE reviews_schedule s SET claimed_until = NULL, claim = NULL, readings = s.readings + w.asked::integer,"
        " unlisted = coalesce(s.unlisted + w.unlisted, 0),"
        " due_at = CASE WHEN s.asked_at > w.began_at THEN s.due_at ELSE w.due_at END"
        " FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::boolean[], $6::integer[])"
        " AS w (action_id, due_at, began_at, asked, unlisted) WHERE s.tenant_id = $1 AND s.action_id = w.action_id",
        tenant_id,
        [each.action_id for each in again],
        [each.due_at for each in again],
        [each.began_at for each in again],
        [each.asked for each in again],
        [each.unlisted for each in again],
    )


def end_schedule(*, tenant_id: UUID, action_id: UUID) -> None:
    """End the schedule of an action."""
    defer(("DELETE FROM reviews_schedule WHERE tenant_id = $1 AND action_id = $2", tenant_id, action_id))


def end_schedules(tenant_id: UUID, action_ids: list[UUID]) -> None:
    """End the schedules of several actions."""
    defer(("DELETE FROM reviews_schedule WHERE tenant_id = $1 AND action_id = ANY($2)", tenant_id, action_ids))


def schedule_missing(*, at: datetime) -> int:
    """Schedule every action in verification, waiting or unknown that has no schedule; returns how many."""
    adopted = 0
    for tenant_id in tenants_with(Work.UNSCHEDULED_ACTIONS, at=at):
        with tenancy(tenant_id):
            for action_id in find_unscheduled(tenant_id, actions.unsettled_actions(tenant_id)):
                schedule(tenant_id=tenant_id, action_id=action_id, due_at=at, at=at)
                adopted += 1
    return adopted


def requested_readings() -> list[tuple[UUID, UUID]]:
    """(tenant, action) of every reading that an order waits for."""
    wanted: list[tuple[UUID, UUID]] = []
    for tenant_id in tenants_with(Work.WANTED_READINGS):
        with tenancy(tenant_id):
            wanted += [(tenant_id, action_id) for action_id in readings.actions_needing_reading(tenant_id)]
    return wanted
