"""Leases of processes: work that one process of the installation does at a time, and when each was last seen at it;
and the hosts on which a process found its clock to be off.

A lease is a row with a time, taken and renewed in one statement. A lock of a database session would stay with the
server connection of a pooler in transaction mode, where nobody can release it.
"""

from __future__ import annotations

from uuid import UUID

from ledger.db import execute

READINGS = "readings"
"""The worker that reads slow systems and stays for what becomes due."""
TICKS = "ticks"
"""Whichever worker ran beat's last tick; nobody is kept from it."""

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
