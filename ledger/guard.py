"""What the signer of the log keeps outside PostgreSQL: its keys, and its guard.

The keys are files. The guard is the last head that was signed for each log, kept outside PostgreSQL.

A database that is restored, copied or rewritten cannot take this back, so it cannot get a signature over a second
history. The file belongs on another volume than the database and into none of its backups. Each change is on disk
before the call returns: a signature leaves the process only after the guard knows of it (L19).
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from ledger.rules.signing import NOTHING, HistoryForked, Signed

_SCHEMA = """
CREATE TABLE IF NOT EXISTS head (
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The key that signs checkpoints, and the one before it for as long as some verifiers know only that."""

    current: Ed25519PrivateKey
    before: Ed25519PrivateKey | None = None

    @property
    def all(self) -> tuple[Ed25519PrivateKey, ...]:
        """Every key whose signature a checkpoint carries, the current one first."""
        return (self.current, self.before) if self.before is not None and self.is_rotated else (self.current,)

    @property
    def is_rotated(self) -> bool:
        """Whether there are two keys; a rotation that died half-way left the same one twice."""
        return self.before is not None and self.before.public_key() != self.current.public_key()


def read_keys(path: Path) -> LogKeys:
    """The keys at `path` and beside it; `OSError` or `ValueError` where there is none."""
    before = _before(path)
    return LogKeys(_read(path), _read(before) if before.exists() else None)


def rotate(path: Path) -> LogKeys:
    """Put a new key in use; the one so far goes on signing beside it until `retire`.

    The old key is kept aside before the new one takes its place. If we die in between, the same key stands in both
    places, signs once, and the next rotation goes on from there.
    """
    old, before = _read(path), _before(path)
    if read_keys(path).is_rotated:
        raise ValueError(f"{before} exists: retire that key before another one is introduced")
    key = Ed25519PrivateKey.generate()
    _write(before, old)
    _write(path, key)
    return LogKeys(key, old)


def retire(path: Path) -> None:
    """The key before the current one signs nothing from now on; its signatures stay good."""
    _before(path).unlink()


def _before(path: Path) -> Path:
    return path.with_name(f"{path.stem}.before{path.suffix}")


def _read(path: Path) -> Ed25519PrivateKey:
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} must hold an Ed25519 key")
    return key


def _write(path: Path, key: Ed25519PrivateKey) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


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
