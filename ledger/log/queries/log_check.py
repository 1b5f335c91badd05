"""Queries for the check of a whole log: leaves with their events, tiles, and the kept checkpoints."""

from __future__ import annotations

from collections.abc import Generator
from uuid import UUID

import orjson
import psycopg
from django.db import connection

from counterfoil_tlog.tiles import WIDTH, TileAddress
from ledger.db import execute
from ledger.log.rules.log_check import BLOCK, Row

_BATCH_ROWS = 1000
_DISABLED_PLANS = ("enable_hashjoin", "enable_mergejoin", "enable_memoize")


def leaves(tenant_id: UUID, log: int, places: range) -> Generator[Row]:
    """Yield these leaves in order, each with the bytes and the hash of its event, without holding them."""
    connection.ensure_connection()
    # One index lookup per leaf: events were written in nearly this order, so their pages are cached. Other plans
    # would gather, sort or memoize rows that are needed only once.
    execute("SELECT set_config(name, 'off', true) FROM unnest($1::text[]) name", list(_DISABLED_PLANS))
    execute("SET LOCAL max_parallel_workers_per_gather = 0")
    with connection.wrap_database_errors:
        cursor = psycopg.RawCursor(connection.connection)
        yield from cursor.stream(
            "SELECT l.index,"
            " CASE WHEN e.envelope IS NULL AND x.pruned_by IS NOT NULL THEN ''::bytea ELSE e.envelope END,"
            " CASE WHEN e.envelope IS NULL AND x.pruned_by IS NOT NULL THEN (SELECT substr(t.hashes,"
            " (l.index % 256)::integer * 32 + 1, 32) FROM ledger_tile t WHERE t.tenant_id = $1 AND t.log = $2"
            " AND t.level = 0 AND t.index = l.index / 256) ELSE e.entry_hash END"
            " FROM ledger_leaf l LEFT JOIN ledger_event e"
            " ON e.tenant_id = $1 AND e.subject_id = l.subject_id AND e.seq = l.seq"
            " LEFT JOIN ledger_erased x ON e.seq IS NULL AND x.tenant_id = $1 AND x.subject_id = l.subject_id"
            " WHERE l.tenant_id = $1 AND l.log = $2 AND l.index >= $3 AND l.index < $4 ORDER BY l.index",
            (tenant_id, log, places.start, places.stop),
            binary=True,
            size=_BATCH_ROWS,
        )


def block_tiles(tenant_id: UUID, log: int, places: range) -> dict[TileAddress, bytes]:
    """The tiles of levels 0 and 1 over the leaves of one block."""
    rows = execute(
        "SELECT level, index, hashes FROM ledger_tile WHERE tenant_id = $1 AND log = $2"
        " AND (level = 0 AND index >= $3 AND index < $4 OR level = 1 AND index = $5)",
        *(tenant_id, log, places.start // WIDTH, -(-places.stop // WIDTH), places.start // BLOCK),
    )
    return {TileAddress(level, index): bytes(hashes) for level, index, hashes in rows}


def upper_tiles(tenant_id: UUID, log: int) -> dict[TileAddress, bytes]:
    """The tiles of level 2 and above: one for every sixteen million leaves."""
    rows = execute(
        "SELECT level, index, hashes FROM ledger_tile WHERE tenant_id = $1 AND log = $2 AND level >= 2",
        *(tenant_id, log),
    )
    return {TileAddress(level, index): bytes(hashes) for level, index, hashes in rows}


def checkpoint_notes(tenant_id: UUID, log: int) -> list[bytes]:
    """Every checkpoint that was kept, the smallest first, and at last the newest."""
    rows = execute(
        "SELECT size, note FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2"
        " UNION SELECT signed_size, note FROM ledger_tip WHERE tenant_id = $1 AND log = $2 AND note IS NOT NULL"
        " ORDER BY size",
        *(tenant_id, log),
    )
    return [bytes(note) for _, note in rows]


def checkpoint_notes_after(tenant_id: UUID, log: int, after: int, *, limit: int) -> list[tuple[int, bytes]]:
    """The next permanent checkpoints, with their sizes."""
    rows = execute(
        "SELECT size, note FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2 AND size > $3"
        " ORDER BY size LIMIT $4",
        *(tenant_id, log, after, limit),
    )
    return [(size, bytes(note)) for size, note in rows]


def missing_checkpoint(tenant_id: UUID, log: int) -> int | None:
    """The size of a permanent checkpoint that is missing; None if all exist.

    Each that is kept names the one before it, and the tip the newest. Those from before they did are not asked.
    """
    rows = execute(
        "SELECT before FROM (SELECT size, before, lag(size) OVER (ORDER BY size) AS found FROM ledger_checkpoint"
        " WHERE tenant_id = $1 AND log = $2) c WHERE before <> coalesce(found, 0)"
        " UNION ALL SELECT kept_size FROM ledger_tip t WHERE tenant_id = $1 AND log = $2 AND kept_size IS NOT NULL"
        " AND NOT EXISTS (SELECT FROM ledger_checkpoint c WHERE c.tenant_id = t.tenant_id AND c.log = t.log"
        " AND c.size = t.kept_size) LIMIT 1",
        *(tenant_id, log),
    )
    return int(rows[0][0]) if rows else None


def verifier_keys(tenant_id: UUID, log_id: UUID) -> list[str]:
    """Return the keys that a log's own events name: at its opening, and at each change of key."""
    rows = execute(
        "SELECT n.detail FROM ledger_event e JOIN ledger_entry n"
        " ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq"
        " WHERE e.tenant_id = $1 AND e.subject_id = $2 AND n.detail IS NOT NULL ORDER BY e.seq",
        *(tenant_id, log_id),
    )
    details = [orjson.loads(detail) for (detail,) in rows]
    return [str(detail[name]) for detail in details for name in ("key", "old", "new") if name in detail]


def unlogged_event(tenant_id: UUID) -> tuple[UUID, int] | None:
    """An event that is neither in a log nor in the queue."""
    rows = execute(
        "SELECT e.subject_id, e.seq FROM ledger_event e WHERE e.tenant_id = $1 AND NOT EXISTS"
        " (SELECT FROM ledger_leaf l WHERE l.tenant_id = $1 AND l.subject_id = e.subject_id AND l.seq = e.seq)"
        " AND NOT EXISTS"
        " (SELECT FROM ledger_pending p WHERE p.tenant_id = $1 AND p.subject_id = e.subject_id AND p.seq = e.seq)"
        " LIMIT 1",
        tenant_id,
    )
    return (rows[0][0], rows[0][1]) if rows else None


def describe_leaf(tenant_id: UUID, log: int, index: int) -> str:
    """A sentence that names the event at a log position; empty if there is none."""
    rows = execute(
        "SELECT subject_id, seq FROM ledger_leaf WHERE tenant_id = $1 AND log = $2 AND index = $3",
        *(tenant_id, log, index),
    )
    if not rows:
        return ""
    return f" It is event {rows[0][1]} of {rows[0][0]}."
