"""Claims: batches of due readings, each of one system, taken for a while by one worker.

A claim locks the lanes that it looks at, so that limits hold over all workers; the rows themselves need no lock then.
Lanes are served in the order in which they were served last, the rows of a lane by class and age: a class is worth
half a minute of waiting, so that nothing waits for ever. What a dead worker held is free again when its claims run
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, LiteralString
from uuid import UUID, uuid4

from django.db import transaction

from ledger.db import execute
from ledger.record.queries.work import HELD_TENANTS
from reviews.readback.rules import limits
from reviews.readback.rules.circuit import Circuit, CircuitState, allowed_readings, circuit_state

CLAIM = timedelta(seconds=40)
BATCH = 50
FIRST_BATCH = 10
SLOW_MS = 500
_BATCH_MS = 1000

# $: at, what is slow, whether slow ones are wanted, lanes at once
_LANES: LiteralString = f"""
    SELECT l.tenant_id, l.system_id FROM reviews_lane l CROSS JOIN LATERAL (
        SELECT count(DISTINCT f.claim) AS batches FROM reviews_schedule f
        WHERE f.tenant_id = l.tenant_id AND f.system_id = l.system_id AND f.claim IS NOT NULL AND f.claimed_until > $1
    ) AS flying
    WHERE l.tenant_id NOT IN ({HELD_TENANTS}) AND (coalesce(l.pace_ms, 0) < $2 OR $3)
        AND CASE WHEN l.held_until > $1 THEN true WHEN l.held_until IS NOT NULL THEN flying.batches = 0
            ELSE flying.batches < l.concurrency END
        AND (l.held_until > $1 OR l.paid_until IS NULL
            OR l.paid_until <= $1 + greatest(interval '0', interval '1 s' - interval '60 s' / l.reads_per_minute))
        AND EXISTS (
            SELECT FROM generate_series(0, 5) AS class (rank) CROSS JOIN LATERAL (
                SELECT FROM reviews_schedule s
                WHERE s.tenant_id = l.tenant_id AND s.system_id = l.system_id AND s.priority = class.rank
                    AND s.due_at <= $1 AND (s.claimed_until IS NULL OR s.claimed_until <= $1)
                ORDER BY s.due_at LIMIT 1) AS due)
    ORDER BY l.served_at NULLS FIRST LIMIT $4 FOR UPDATE OF l SKIP LOCKED
"""
# The lanes are locked now; only a statement of its own sees the claims that were made just before.
_LOCKED: LiteralString = """
    SELECT l.tenant_id, l.system_id, l.concurrency, l.reads_per_minute, l.paid_until, l.held_until, l.pace_ms,
        (SELECT count(DISTINCT f.claim) FROM reviews_schedule f
         WHERE f.tenant_id = l.tenant_id AND f.system_id = l.system_id AND f.claim IS NOT NULL AND f.claimed_until > $1)
    FROM unnest($2::uuid[], $3::uuid[]) AS w (tenant_id, system_id)
    JOIN reviews_lane l ON l.tenant_id = w.tenant_id AND l.system_id = w.system_id ORDER BY l.served_at NULLS FIRST
"""
_ROWS: LiteralString = """
    WITH wanted AS (
        SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::integer[], $5::uuid[])
            AS w (tenant_id, system_id, most, claim)
    ), chosen AS (
        SELECT w.tenant_id, turn.action_id, w.claim FROM wanted w CROSS JOIN LATERAL (
            SELECT oldest.action_id FROM generate_series(0, 5) AS class (rank) CROSS JOIN LATERAL (
                SELECT s.action_id, s.due_at - s.priority * interval '30 s' AS turn FROM reviews_schedule s
                WHERE s.tenant_id = w.tenant_id AND s.system_id = w.system_id AND s.priority = class.rank
                    AND s.due_at <= $1 AND (s.claimed_until IS NULL OR s.claimed_until <= $1)
                ORDER BY s.due_at LIMIT 50) AS oldest
            ORDER BY oldest.turn LIMIT w.most) AS turn
    )
    UPDATE reviews_schedule s SET claimed_until = $6, claim = c.claim FROM chosen c
    WHERE s.tenant_id = c.tenant_id AND s.action_id = c.action_id
    RETURNING s.claim, s.action_id, s.due_at, s.priority, s.readings, s.opened_at, s.recheck, s.is_claim
"""
_SERVED: LiteralString = """
    UPDATE reviews_lane l SET served_at = $1, paid_until = w.paid_until
    FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[]) AS w (tenant_id, system_id, paid_until)
    WHERE l.tenant_id = w.tenant_id AND l.system_id = w.system_id
"""


class ReadMode(StrEnum):
    """The treatment of a batch: read it, read once as a probe, or do not read."""

    READ = "READ"
    PROBE = "PROBE"
    HOLD = "HOLD"


@dataclass(frozen=True, kw_only=True)
class DueReading:
    """One due reading."""

    action_id: UUID
    due_at: datetime
    priority: int
    readings: int
    opened_at: datetime
    recheck: int | None
    is_claim: bool = False


@dataclass(frozen=True, kw_only=True)
class ClaimedBatch:
    """A batch of one lane; `held_until` is the probe time of an open circuit."""

    id: UUID
    tenant_id: UUID
    system_id: UUID
    mode: ReadMode
    held_until: datetime | None
    slow: bool
    due: tuple[DueReading, ...]


@dataclass(frozen=True, kw_only=True)
class _Wish:
    """The readings requested from one lane."""

    id: UUID
    lane: dict[str, Any]
    mode: ReadMode
    most: int


_DUE = ("action_id", "due_at", "priority", "readings", "opened_at", "recheck", "is_claim")
_COLUMNS = (
    *("tenant_id", "system_id", "concurrency", "reads_per_minute"),
    *("paid_until", "held_until", "pace_ms", "in_flight"),
)


def claim_batches(*, at: datetime, lanes: int, slow: bool = True) -> list[ClaimedBatch]:
    """Claim a batch from each of up to this many lanes; without `slow` only from those that answer fast."""
    with transaction.atomic():
        locked = execute(_LANES, at, SLOW_MS, slow, lanes)
        found = execute(_LOCKED, at, *map(list, zip(*locked, strict=True))) if locked else []
        wishes = [_wish(dict(zip(_COLUMNS, row, strict=True)), at=at) for row in found]
        claims = _claim_batches([wish for wish in wishes if wish.most > 0], at=at)
    return [each for each in claims if each.due]


def _claim_batches(wishes: list[_Wish], *, at: datetime) -> list[ClaimedBatch]:
    if not wishes:
        return []
    tenants, systems = zip(*((wish.lane["tenant_id"], wish.lane["system_id"]) for wish in wishes), strict=True)
    ids, most = [wish.id for wish in wishes], [wish.most for wish in wishes]
    rows: dict[UUID, list[DueReading]] = {}
    for held_by, *values in execute(_ROWS, at, list(tenants), list(systems), most, ids, at + CLAIM):
        rows.setdefault(held_by, []).append(DueReading(**dict(zip(_DUE, values, strict=True))))
    claims = [_claim(wish, rows.get(wish.id, [])) for wish in wishes]
    paid = [_paid_until(wish, len(each.due), at=at) for wish, each in zip(wishes, claims, strict=True)]
    execute(_SERVED, at, list(tenants), list(systems), paid)
    return claims


def _wish(lane: dict[str, Any], *, at: datetime) -> _Wish:
    held_until, pace = lane["held_until"], lane["pace_ms"]
    circuit = Circuit(probe_at=held_until)
    found = circuit_state(circuit, at=at)
    if found is CircuitState.OPEN:
        return _Wish(id=uuid4(), lane=lane, mode=ReadMode.HOLD, most=BATCH)
    size = FIRST_BATCH if pace is None else max(1, min(BATCH, _BATCH_MS // max(1, pace)))
    paid = limits.readings_within_rate(reads_per_minute=lane["reads_per_minute"], paid_until=lane["paid_until"], at=at)
    wanted = min(size, paid) if lane["in_flight"] < lane["concurrency"] else 0
    most = allowed_readings(circuit, wanted=wanted, in_flight=lane["in_flight"], at=at)
    return _Wish(
        id=uuid4(), lane=lane, mode=ReadMode.READ if found is CircuitState.CLOSED else ReadMode.PROBE, most=most
    )


def _claim(wish: _Wish, due: list[DueReading]) -> ClaimedBatch:
    pace = wish.lane["pace_ms"]
    return ClaimedBatch(
        id=wish.id,
        tenant_id=wish.lane["tenant_id"],
        system_id=wish.lane["system_id"],
        mode=wish.mode,
        held_until=wish.lane["held_until"],
        slow=wish.mode is not ReadMode.HOLD and (pace is None or pace >= SLOW_MS),
        due=tuple(sorted(due, key=lambda each: each.due_at - timedelta(seconds=30 * each.priority))),
    )


def _paid_until(wish: _Wish, reads: int, *, at: datetime) -> datetime | None:
    paid_until: datetime | None = wish.lane["paid_until"]
    if wish.mode is ReadMode.HOLD:
        return paid_until
    return limits.paid_until_after(
        reads_per_minute=wish.lane["reads_per_minute"], paid_until=paid_until, reads=reads, at=at
    )


def release_unread(tenant_id: UUID, claim_id: UUID, action_ids: list[UUID]) -> None:
    """Release rows that were claimed and not read."""
    execute(
        "UPDATE reviews_schedule SET claim = NULL, claimed_until = NULL"
        " WHERE tenant_id = $1 AND action_id = ANY($2) AND claim = $3",
        *(tenant_id, action_ids, claim_id),
    )
