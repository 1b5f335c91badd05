"""Reads a tenant's logs: heads, tiles, positions of events, lag and alarms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Final, LiteralString
from uuid import UUID

from counterfoil_tlog.merkle import HASH_BYTES
from counterfoil_tlog.tiles import WIDTH, TileAddress
from ledger.db import execute
from ledger.models import Alarm
from ledger.record.rules import envelope

MANY = 4096
"""More events than this without a leaf, and nothing irreversible is released."""
LATE_S = 5.0
"""An event without a signed place for longer than this, and nothing irreversible is released."""


@dataclass(frozen=True, slots=True)
class LogHead:
    """A log as stored: its tree head, and the newest checkpoint that was signed over it."""

    number: int
    id: UUID
    origin: str
    opened_at: datetime
    size: int
    root: bytes
    integrated_at: datetime
    signed_size: int
    signed_at: datetime | None
    note: bytes | None
    stopped: str


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The position of an event in its log, and whether a signed checkpoint covers it."""

    log: int
    index: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class SealedLeaf:
    """One leaf of a log, and its event; `kind` is that of its subject."""

    log: int
    index: int
    subject_id: UUID
    seq: int
    kind: str


@dataclass(frozen=True, slots=True)
class Lag:
    """The log's delay behind the record: events without a leaf, and the seconds that the oldest has waited.

    `unsigned_s` is how long leaves have waited for a signature; None if none does.
    """

    waiting: int
    oldest_s: float | None
    unsigned_s: float | None

    @property
    def is_late(self) -> bool:
        """True if the log is too far behind for anything irreversible."""
        return self.waiting > MANY or max(self.oldest_s or 0.0, self.unsigned_s or 0.0) > LATE_S


@dataclass(frozen=True, slots=True)
class LogStanding:
    """The size of a tenant's newest log and its waiting events; without sizes before its first checkpoint."""

    size: int | None
    signed_size: int | None
    signed_at: datetime | None
    # When the leading sequencer last reported; an idle log is signed again only now and then.
    reported_at: datetime | None
    waiting: int
    oldest_s: float | None
    unsigned_s: float | None

    @property
    def lag(self) -> Lag:
        """The log's delay behind the record."""
        return Lag(self.waiting, self.oldest_s, self.unsigned_s)


def learn_sizes() -> int:
    """Run ANALYZE on tables that have grown, so that query plans fit them (sizes.sql); return their number."""
    return int(execute("SELECT ledger_learn_sizes()")[0][0])


# The tenants with something in the queue, each found by one look-up in its key (`ledger_queued_tenants`, for surveys).
_QUEUED_TENANTS: Final[LiteralString] = """
    WITH RECURSIVE queued AS (
        (SELECT tenant_id FROM ledger_pending ORDER BY tenant_id LIMIT 1)
        UNION ALL SELECT (SELECT p.tenant_id FROM ledger_pending p WHERE p.tenant_id > q.tenant_id
                ORDER BY p.tenant_id LIMIT 1)
            FROM queued q WHERE q.tenant_id IS NOT NULL)
"""
_PENDING: Final[LiteralString] = f"""{_QUEUED_TENANTS}, wanted AS (
        SELECT tenant_id FROM queued WHERE tenant_id IS NOT NULL AND tenant_id <> ALL($1::uuid[]))
    SELECT w.tenant_id, p.position FROM wanted w CROSS JOIN LATERAL (
        SELECT position FROM ledger_pending WHERE tenant_id = w.tenant_id ORDER BY position
        LIMIT greatest(1, $2 / (SELECT count(*) FROM wanted))) AS p
    ORDER BY w.tenant_id, p.position
"""


def pending_events(*, but: Iterable[UUID] = (), limit: int = MANY) -> dict[UUID, list[int]]:
    """The queue positions of events without a leaf, by tenant, oldest first; without the tenants in `but`.

    Each tenant has an equal share of `limit` and at least one event, so nobody's long queue holds up another's.
    """
    found: dict[UUID, list[int]] = {}
    for tenant_id, position in execute(_PENDING, list(but), limit):
        found.setdefault(tenant_id, []).append(position)
    return found


def logs(tenant_id: UUID) -> list[LogHead]:
    """Every log of a tenant, the newest first."""
    return [
        LogHead(*row)
        for row in execute(
            "SELECT l.number, l.id, l.origin, l.opened_at, t.size, t.root, t.integrated_at, t.signed_size, t.signed_at,"
            " t.note, t.stopped FROM ledger_log l JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.number"
            " WHERE l.tenant_id = $1 ORDER BY l.number DESC",
            tenant_id,
        )
    ]


CURRENT_CHECKPOINT: Final = (
    "SELECT l.origin, t.note FROM ledger_log l JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.number"
    " WHERE l.tenant_id = $1 ORDER BY l.number DESC LIMIT 1"
)
"""The origin of the current log and its newest signed note, as a query whose first value is the tenant."""


def current_log(tenant_id: UUID) -> LogHead | None:
    """The current log, or None before the sequencer has opened the first."""
    return next(iter(logs(tenant_id)), None)


def tiles(tenant_id: UUID, log: int, wanted: Iterable[TileAddress]) -> dict[TileAddress, bytes]:
    """The stored tiles at these addresses; one may contain more hashes than a smaller size had."""
    places = sorted(wanted)
    rows = execute(
        "SELECT t.level, t.index, t.hashes FROM unnest($3::smallint[], $4::bigint[]) w(level, index)"
        " JOIN ledger_tile t ON t.tenant_id = $1 AND t.log = $2 AND t.level = w.level AND t.index = w.index",
        *(tenant_id, log, [tile.level for tile in places], [tile.index for tile in places]),
    )
    return {TileAddress(level, index): bytes(hashes) for level, index, hashes in rows}


_cached_tiles: OrderedDict[tuple[UUID, int, TileAddress], bytes] = OrderedDict()
_tiles_lock = Lock()
MOST_KEPT_TILES = 2048
"""Of 8 KiB each."""


def tiles_to_prove(tenant_id: UUID, log: int, wanted: Iterable[TileAddress]) -> dict[TileAddress, bytes]:
    """Tiles for a proof, from a cache of full ones, which never change.

    Not for the sequencer, which reads uncommitted tiles, nor for checks, which read what is stored now.
    """
    found: dict[TileAddress, bytes] = {}
    with _tiles_lock:
        for tile in wanted:
            hashes = _cached_tiles.get((tenant_id, log, tile))
            if hashes is not None:
                _cached_tiles.move_to_end((tenant_id, log, tile))
                found[tile] = hashes
    missing = [tile for tile in wanted if tile not in found]
    read = tiles(tenant_id, log, missing) if missing else {}
    with _tiles_lock:
        for tile, hashes in read.items():
            if len(hashes) == WIDTH * HASH_BYTES:
                _cached_tiles[tenant_id, log, tile] = hashes
        while len(_cached_tiles) > MOST_KEPT_TILES:
            _cached_tiles.popitem(last=False)
    return found | read


def event_positions(tenant_id: UUID, subject_id: UUID) -> dict[int, LogPosition]:
    """The log position of each event of a subject, by its seq; events without a leaf are left out."""
    rows = execute(
        "SELECT l.seq, l.log, l.index, l.index < t.signed_size FROM ledger_leaf l"
        " JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.log"
        " WHERE l.tenant_id = $1 AND l.subject_id = $2",
        *(tenant_id, subject_id),
    )
    return {seq: LogPosition(log, index, sealed) for seq, log, index, sealed in rows}


def event_position(tenant_id: UUID, subject_id: UUID, seq: int) -> LogPosition | None:
    """The log position of one event."""
    rows = execute(
        "SELECT l.log, l.index, l.index < t.signed_size FROM ledger_leaf l"
        " JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.log"
        " WHERE l.tenant_id = $1 AND l.subject_id = $2 AND l.seq = $3",
        *(tenant_id, subject_id, seq),
    )
    return LogPosition(*rows[0]) if rows else None


def leaves_after(tenant_id: UUID, log: int, index: int, *, limit: int) -> list[SealedLeaf]:
    """Return the leaves after a position in a tenant's logs, in order; later leaves never come before earlier ones."""
    rows = execute(
        "SELECT l.log, l.index, l.subject_id, l.seq, s.kind FROM ledger_leaf l"
        " JOIN ledger_subject s ON s.tenant_id = l.tenant_id AND s.id = l.subject_id"
        " WHERE l.tenant_id = $1 AND (l.log, l.index) > ($2, $3) ORDER BY l.log, l.index LIMIT $4",
        *(tenant_id, log, index, limit),
    )
    return [SealedLeaf(*row) for row in rows]


def is_sealed(tenant_id: UUID, subject_id: UUID) -> bool:
    """Return whether a signed checkpoint covers all events of a subject.

    Its newest event suffices: an event comes after all those that were committed before it.
    """
    rows = execute(
        "SELECT l.index < t.signed_size FROM ledger_subject s"
        " JOIN ledger_leaf l ON l.tenant_id = s.tenant_id AND l.subject_id = s.id AND l.seq = s.seq"
        " JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.log"
        " WHERE s.tenant_id = $1 AND s.id = $2",
        *(tenant_id, subject_id),
    )
    return bool(rows) and bool(rows[0][0])


def sealed_subjects(tenant_id: UUID, subject_ids: list[UUID]) -> set[UUID]:
    """The sealed ones of these subjects, as by `is_sealed`."""
    rows = execute(
        "SELECT s.id FROM ledger_subject s"
        " JOIN ledger_leaf l ON l.tenant_id = s.tenant_id AND l.subject_id = s.id AND l.seq = s.seq"
        " JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.log"
        " WHERE s.tenant_id = $1 AND s.id = ANY($2::uuid[]) AND l.index < t.signed_size",
        *(tenant_id, subject_ids),
    )
    return {row[0] for row in rows}


_BACKLOG: Final[LiteralString] = f"""{_QUEUED_TENANTS}
    SELECT (SELECT count(*) FROM (SELECT FROM ledger_pending LIMIT $1) AS waiting),
        extract(epoch FROM clock_timestamp() - min(oldest.at))::float8
    FROM queued q CROSS JOIN LATERAL (
        SELECT at FROM ledger_pending WHERE tenant_id = q.tenant_id ORDER BY position LIMIT 1) AS oldest
"""


def backlog() -> Lag:
    """The events of all tenants that wait for a leaf, by the clock of the database."""
    [(count, age)] = execute(_BACKLOG, MANY + 1)
    return Lag(count, age, None)


STANDING: Final[LiteralString] = f"""
    SELECT tip.size, tip.signed_size, tip.signed_at,
           (SELECT renewed_at FROM ledger_processlease WHERE name = 'sequencer'), queue.count, queue.age,
           CASE WHEN tip.signed_size < tip.size
             THEN extract(epoch FROM clock_timestamp() - tip.integrated_at)::float8 END AS unsigned
      FROM (SELECT count(*), extract(epoch FROM clock_timestamp() - min(at))::float8 AS age
              FROM (SELECT at FROM ledger_pending WHERE tenant_id = $1 ORDER BY position LIMIT {MANY + 1}) AS waiting
           ) AS queue
      LEFT JOIN LATERAL (SELECT size, signed_size, signed_at, integrated_at FROM ledger_tip
             WHERE tenant_id = $1 ORDER BY log DESC LIMIT 1) AS tip ON true
"""
"""The columns of a LogStanding, in one row, by the clock of the database; `$1` is the tenant.

What was never signed of a log that a restore closed waits for nothing, so only the newest log counts.
"""


def log_standing(tenant_id: UUID) -> LogStanding:
    """The standing of a tenant's newest log."""
    [row] = execute(STANDING, tenant_id)
    return LogStanding(*row)


def logged_events(tenant_id: UUID) -> int:
    """The number of events that have their place in the tenant's logs; who reads new events notes it before reading."""
    [(count,)] = execute("SELECT coalesce(sum(size), 0)::bigint FROM ledger_tip WHERE tenant_id = $1", tenant_id)
    return int(count)


def lag(tenant_id: UUID) -> Lag:
    """The lag of one tenant's log."""
    return log_standing(tenant_id).lag


def announced_keys(tenant_id: UUID, log_id: UUID) -> set[tuple[str, str]]:
    """The keys that the events of a log have announced: (kind of event, digest of the vkey).

    A key under which the log was opened counts as introduced by `key_rotated`.
    """
    rows = execute(
        "SELECT kind, envelope FROM ledger_event WHERE tenant_id = $1 AND subject_id = $2", tenant_id, log_id
    )
    announced = ((kind, envelope.parse(bytes(data)).digests.get("log_key")) for kind, data in rows)
    return {("key_rotated" if kind in ("log_opened", "restored") else kind, key) for kind, key in announced if key}


def alarms(tenant_id: UUID, *, closed: bool = False, limit: int = 100) -> list[Alarm]:
    """The open alarms about the record, or the closed ones; the newest first."""
    found = Alarm.objects.filter(tenant_id=tenant_id, closed_at__isnull=not closed)
    return list(found.order_by("-raised_at")[:limit])
