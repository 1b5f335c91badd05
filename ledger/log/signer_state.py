"""State of the log signer outside PostgreSQL: its keys, and the last head signed for each log.

The keys are files. The guard is the last head that was signed for each log, kept outside PostgreSQL, and the epoch of
the installation: a number that is raised whenever the database is restored, so that no grant from before is good again.

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

from ledger.log.rules.signing import NOTHING, HistoryForked, TreeHead
from ledger.record.rules.refusals import Refused

_SCHEMA = """
CREATE TABLE IF NOT EXISTS head (
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
) WITHOUT ROWID
"""
_EPOCH = "CREATE TABLE IF NOT EXISTS epoch (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL)"
FIRST_EPOCH = 1


class EpochUnknown(Refused):
    """The epoch of this installation cannot be read, so nothing is released; the sequencer writes it when it starts."""

    code = "EPOCH_UNKNOWN"
    status = 503


def read_epoch(path: Path) -> int:
    """The epoch as the guard has told it last, for processes that may read this file and not the guard."""
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise EpochUnknown from None
    if not text.isdecimal():
        raise EpochUnknown
    return int(text)


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


def rotate_key(path: Path) -> LogKeys:
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


def retire_key(path: Path) -> None:
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
    _replace(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)


def _replace(path: Path, data: bytes, *, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


class SignerState:
    """One guard file; `with Guard(path, epoch=file) as guard`. Several processes may open it, one of them signs.

    `epoch` is the file in which others read the epoch; it is brought up to date here.
    """

    def __init__(self, path: Path, *, epoch: Path | None = None) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._file = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute(_SCHEMA)
        self._file.execute(_EPOCH)
        self._epoch = epoch
        if epoch is not None:
            self._tell_epoch()

    def __enter__(self) -> SignerState:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def epoch(self) -> int:
        """The epoch of the installation."""
        row = self._file.execute("SELECT number FROM epoch").fetchone()
        return int(row[0]) if row else FIRST_EPOCH

    def raise_epoch(self) -> int:
        """Begin a new epoch: every grant from before is void. It is on disk here before the file tells it to others.

        If we die in between, the next process that opens the guard tells it.
        """
        self._keep_epoch(self.epoch + 1)
        self._tell_epoch()
        return self.epoch

    def _tell_epoch(self) -> None:
        """Write the file where it is behind; a guard that was lost goes on from what the file says."""
        if self._epoch is None:
            return
        try:
            told = read_epoch(self._epoch)
        except EpochUnknown:
            told = 0
        if told > self.epoch:
            self._keep_epoch(told)
        elif told < self.epoch:
            _replace(self._epoch, f"{self.epoch}\n".encode(), mode=0o644)

    def _keep_epoch(self, number: int) -> None:
        self._file.execute(
            "INSERT INTO epoch VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET number = excluded.number", [number]
        )

    def last(self, origin: str) -> TreeHead | None:
        """The last head signed for a log, or None where the guard does not know it."""
        row = self._file.execute("SELECT size, root FROM head WHERE origin = ?", [origin]).fetchone()
        return TreeHead(row[0], bytes(row[1])) if row else None

    def origins(self) -> list[str]:
        """Every log that the guard knows."""
        return [origin for (origin,) in self._file.execute("SELECT origin FROM head ORDER BY origin")]

    def enrol(self, origin: str) -> None:
        """Make an empty log known; one that is known and empty stays so, one that was signed is refused."""
        self._file.execute("INSERT OR IGNORE INTO head VALUES (?, ?, ?)", [origin, NOTHING.size, NOTHING.root])
        if self.last(origin) != NOTHING:
            raise HistoryForked(f"The log {origin} was signed before, and is empty now: was the database restored?")

    def adopt(self, origin: str, head: TreeHead) -> None:
        """Take a head on trust for a log that the guard has lost; what it knows is never replaced."""
        added = self._file.execute("INSERT OR IGNORE INTO head VALUES (?, ?, ?)", [origin, head.size, head.root])
        if added.rowcount == 0:
            raise HistoryForked(f"The guard knows {origin} already; there is nothing to adopt.")

    def advance(self, origin: str, last: TreeHead, following: TreeHead) -> None:
        """Remember the next head, only if the last one is still the last: of two signers one goes on."""
        moved = self._file.execute(
            "UPDATE head SET size = ?, root = ? WHERE origin = ? AND size = ? AND root = ?",
            [following.size, following.root, origin, last.size, last.root],
        )
        if moved.rowcount == 0:
            raise HistoryForked(f"Another signer has signed for {origin} meanwhile.")
