"""The signer's guard: the last head that was signed for each log, kept outside PostgreSQL.

A database that is restored, copied or rewritten cannot take this back, so it cannot get a signature over a second
history. The file belongs on another volume than the database and into none of its backups. Each change is on disk
before the call returns: a signature leaves the process only after the guard knows of it (L19).
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ledger.rules.signing import NOTHING, HistoryForked, Signed

_SCHEMA = """
CREATE TABLE IF NOT EXISTS head (
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
) WITHOUT ROWID
"""


class Guard:
    """One guard file; `with Guard(path) as guard`. Several processes may open it, one of them signs."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._file = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute(_SCHEMA)

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def last(self, origin: str) -> Signed | None:
        """The last head signed for a log, or None where the guard does not know it."""
        row = self._file.execute("SELECT size, root FROM head WHERE origin = ?", [origin]).fetchone()
        return Signed(row[0], bytes(row[1])) if row else None

    def origins(self) -> list[str]:
        """Every log that the guard knows."""
        return [origin for (origin,) in self._file.execute("SELECT origin FROM head ORDER BY origin")]

    def enrol(self, origin: str) -> None:
        """Make an empty log known; one that is known and empty stays so, one that was signed is refused."""
        self._file.execute("INSERT OR IGNORE INTO head VALUES (?, ?, ?)", [origin, NOTHING.size, NOTHING.root])
        if self.last(origin) != NOTHING:
            raise HistoryForked(f"The log {origin} was signed before, and is empty now: was the database restored?")

    def adopt(self, origin: str, head: Signed) -> None:
        """Take a head on trust for a log that the guard has lost; what it knows is never replaced."""
        added = self._file.execute("INSERT OR IGNORE INTO head VALUES (?, ?, ?)", [origin, head.size, head.root])
        if added.rowcount == 0:
            raise HistoryForked(f"The guard knows {origin} already; there is nothing to adopt.")

    def advance(self, origin: str, last: Signed, following: Signed) -> None:
        """Remember the next head, only if the last one is still the last: of two signers one goes on."""
        moved = self._file.execute(
            "UPDATE head SET size = ?, root = ? WHERE origin = ? AND size = ? AND root = ?",
            [following.size, following.root, origin, last.size, last.root],
        )
        if moved.rowcount == 0:
            raise HistoryForked(f"Another signer has signed for {origin} meanwhile.")
