"""The processes of the installation, across tenants: leases of work that one of them does at a time, when each was last
seen at it, when each task last ended, the hosts whose clock is off, the concerns of all tenants in numbers, and the
file by which a supervisor sees that one still works.

A lease is a row with a time, taken and renewed in one statement. A lock of a database session would stay with the
server connection of a pooler in transaction mode, where nobody can release it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.db import execute

READINGS = "readings"
"""The worker that reads slow systems and stays for what becomes due."""
TICKS = "ticks"
"""Whichever worker ran beat's last tick; nobody is kept from it."""
SEQUENCER = "sequencer"
"""The leading sequencer; a lease in the signer state keeps the others from it, this says when it was last seen."""

_TAKE = """
WITH renewed AS (
    UPDATE ledger_processlease SET holder = $2, renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + make_interval(secs => $3)
    WHERE name = $1 AND (holder = $2 OR expires_at <= clock_timestamp()) RETURNING name
), first AS (
    INSERT INTO ledger_processlease (name, holder, renewed_at, expires_at)
    SELECT $1, $2, clock_timestamp(), clock_timestamp() + make_interval(secs => $3)
    WHERE NOT EXISTS (SELECT FROM ledger_processlease WHERE name = $1)
    ON CONFLICT (name) DO NOTHING RETURNING name
)
SELECT name FROM renewed UNION ALL SELECT name FROM first
"""


def take_lease(name: str, holder: UUID, *, seconds: float) -> bool:
    """Take a lease, or renew the holder's own; return False while another holds it."""
    return bool(execute(_TAKE, name, holder, seconds))


def give_up_lease(name: str, holder: UUID) -> None:
    """End the holder's lease now, so that it is free for the next one."""
    execute(
        "UPDATE ledger_processlease SET expires_at = clock_timestamp() WHERE name = $1 AND holder = $2", name, holder
    )


def seconds_since_renewal() -> dict[str, float]:
    """Return the seconds since each lease was last taken or renewed, by name; leases never taken are missing."""
    rows = execute("SELECT name, extract(epoch FROM clock_timestamp() - renewed_at)::float8 FROM ledger_processlease")
    return {str(name): float(seconds) for name, seconds in rows}


def note_wrong_clock(host: str, ahead_s: float) -> None:
    """Record that a process of this host found its clock this many seconds ahead of the database's (behind: < 0)."""
    execute(
        "INSERT INTO ledger_wrongclock (host, ahead_s, seen_at) VALUES ($1, $2, clock_timestamp())"
        " ON CONFLICT (host) DO UPDATE SET ahead_s = EXCLUDED.ahead_s, seen_at = EXCLUDED.seen_at",
        *(host, ahead_s),
    )


def wrong_clocks(*, within_s: float) -> list[tuple[str, float]]:
    """Each host whose clock was found to be off within these last seconds, and by how much."""
    rows = execute(
        "SELECT host, ahead_s FROM ledger_wrongclock WHERE seen_at > clock_timestamp() - make_interval(secs => $1)"
        " ORDER BY host",
        within_s,
    )
    return [(str(host), float(ahead_s)) for host, ahead_s in rows]


@dataclass(frozen=True, slots=True)
class LastRun:
    """The seconds since a task last ended on any host, and those that it took then."""

    task: str
    ended_ago_s: float
    took_s: float


_NOTE_RUNS = """
INSERT INTO ledger_taskrun (task, host, ended_at, took_s)
    SELECT task, $1, clock_timestamp(), took_s FROM unnest($2::text[], $3::float8[]) AS ran (task, took_s) ORDER BY task
ON CONFLICT (task, host) DO UPDATE SET ended_at = EXCLUDED.ended_at, took_s = EXCLUDED.took_s
"""


def note_task_runs(host: str, took_s: Mapping[str, float]) -> None:
    """Record that these tasks have just ended on this host, and the seconds that each took."""
    execute(_NOTE_RUNS, host, list(took_s), list(took_s.values()))


def last_runs() -> list[LastRun]:
    """The last run of each task that has ever ended."""
    rows = execute(
        "SELECT DISTINCT ON (task) task, extract(epoch FROM clock_timestamp() - ended_at)::float8, took_s"
        " FROM ledger_taskrun ORDER BY task, ended_at DESC"
    )
    return [LastRun(*row) for row in rows]


def count_worker_hosts(*, within_s: float) -> int:
    """Count the hosts on which a task ended within these last seconds."""
    [(hosts,)] = execute(
        "SELECT count(DISTINCT host) FROM ledger_taskrun"
        " WHERE ended_at > clock_timestamp() - make_interval(secs => $1)",
        within_s,
    )
    return int(hosts)


def prune_task_runs(*, older_than_s: float) -> None:
    """Delete old runs of hosts that may be gone, except the last run of each task."""
    execute(
        "DELETE FROM ledger_taskrun r WHERE ended_at < clock_timestamp() - make_interval(secs => $1)"
        " AND EXISTS (SELECT FROM ledger_taskrun n WHERE n.task = r.task AND n.ended_at > r.ended_at)",
        older_than_s,
    )


@dataclass(frozen=True, slots=True)
class ConcernCount:
    """The number of concerns of one name in all tenants, and since when the first has been one."""

    what: str
    name: str
    count: int
    since: datetime


def count_concerns(*, before: datetime) -> list[ConcernCount]:
    """Count what has waited for people since before this time, in all tenants, by what it is (`alarm`, `erasure`, or a
    kind of outsider that did not vouch) and its name; and, whenever that was, the entries without a signature
    (`unsigned`) and the last anchor of each kind of outsider (`anchored`).
    """
    rows = execute("SELECT what, name, count, since FROM ledger_count_concerns($1) ORDER BY what, name", before)
    return [ConcernCount(*row) for row in rows if row[2]]
