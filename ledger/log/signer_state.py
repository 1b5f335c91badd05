"""State of the log signer outside PostgreSQL: its keys, and the last head signed for each log.

The keys are files. The signer state is the last head that was signed for each log, kept outside PostgreSQL, and the
epoch of the installation: a number that is raised whenever the database is restored, so that no grant from before is
good again.

A database that is restored, copied or rewritten cannot take this back, so it cannot get a signature over a second
history. The file belongs on another volume than the database and into none of its backups. Each change is on disk
before the call returns: a signature leaves the process only after the state knows of it (L19).
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from counterfoil_tlog import checkpoint as checkpoints
from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.log.rules.signing import NOTHING, HistoryForked, TreeHead
from ledger.record.rules.refusals import Refused

_HEAD_TABLE = """
CREATE TABLE IF NOT EXISTS head (
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
) WITHOUT ROWID
"""
_EPOCH_TABLE = "CREATE TABLE IF NOT EXISTS epoch (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL)"
FIRST_EPOCH = 1


class EpochUnknown(Refused):
    """The epoch of this installation cannot be read, so nothing is released; the sequencer writes it when it starts."""

    code = "EPOCH_UNKNOWN"
    status = 503


def read_epoch(path: Path) -> int:
    """The epoch from its published file, for processes that may not read the signer state itself."""
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise EpochUnknown from None
    if not text.isdecimal():
        raise EpochUnknown
    return int(text)


def read_signed_head(epoch: Path, tenant_id: UUID) -> CheckpointBody | None:
    """Read the newest head signed for a tenant from the file beside the epoch; None if there is none yet.

    It says what the record must have, so read it before the record. `EpochUnknown` where the file cannot be read.
    """
    try:
        text = _head_file(epoch, tenant_id).read_text("utf-8")
        return checkpoints.parse(text.partition("\n\n")[0] + "\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, checkpoints.BadCheckpoint):
        raise EpochUnknown("The file of the newest signed head cannot be read, so nothing is released.") from None


def _head_file(epoch: Path, tenant_id: UUID) -> Path:
    return epoch.with_name("heads") / str(tenant_id)


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The key that signs checkpoints, and the previous one while some verifiers know only the previous one."""

    current: Ed25519PrivateKey
    before: Ed25519PrivateKey | None = None

    @property
    def all(self) -> tuple[Ed25519PrivateKey, ...]:
        """Every key whose signature a checkpoint carries, the current one first."""
        return (self.current, self.before) if self.before is not None and self.is_rotated else (self.current,)

    @property
    def is_rotated(self) -> bool:
        """True if there are two keys; an interrupted rotation leaves the same one twice."""
        return self.before is not None and self.before.public_key() != self.current.public_key()


def read_keys(path: Path) -> LogKeys:
    """Read the key at `path` and the previous one next to it; raise `OSError` or `ValueError` if there is none."""
    before = _previous_path(path)
    return LogKeys(_read_key(path), _read_key(before) if before.exists() else None)


def rotate_key(path: Path) -> LogKeys:
    """Introduce a new key; the previous one keeps signing as well until `retire_key`.

    The old key is copied before the new one replaces it. After a crash in between, both files hold the same key, which
    signs once, and the next rotation continues from there.
    """
    old, before = _read_key(path), _previous_path(path)
    if read_keys(path).is_rotated:
        raise ValueError(f"{before} exists: retire that key before another one is introduced")
    key = Ed25519PrivateKey.generate()
    _write_key(before, old)
    _write_key(path, key)
    return LogKeys(key, old)


def retire_key(path: Path) -> None:
    """Retire the previous key: it signs nothing more; its signatures stay valid."""
    _previous_path(path).unlink()


def _previous_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.before{path.suffix}")


def _read_key(path: Path) -> Ed25519PrivateKey:
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} must hold an Ed25519 key")
    return key


def _write_key(path: Path, key: Ed25519PrivateKey) -> None:
    _replace_file(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)


def _replace_file(path: Path, data: bytes, *, mode: int, synced: bool = True) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        if synced:
            os.fsync(file.fileno())
    draft.replace(path)


class SignerState:
    """One signer-state file: `with SignerState(path, epoch=file) as state`. Several processes may open it; only one
    signs.

    `epoch` is the file in which other processes read the epoch; it is updated here.
    """

    def __init__(self, path: Path, *, epoch: Path | None = None) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._file = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute(_HEAD_TABLE)
        self._file.execute(_EPOCH_TABLE)
        self._epoch = epoch
        self._published: dict[UUID, bytes] = {}
        if epoch is not None:
            self._publish_epoch()

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
        """Begin a new epoch, which voids all earlier grants. It is on disk here before the epoch file has it.

        After a crash in between, the next process that opens the signer state publishes it.
        """
        self._store_epoch(self.epoch + 1)
        self._publish_epoch()
        return self.epoch

    def _publish_epoch(self) -> None:
        """Update the epoch file if it is behind; a lost signer state continues from the file."""
        if self._epoch is None:
            return
        try:
            published = read_epoch(self._epoch)
        except EpochUnknown:
            published = 0
        if published > self.epoch:
            self._store_epoch(published)
        elif published < self.epoch:
            _replace_file(self._epoch, f"{self.epoch}\n".encode(), mode=0o644)

    def publish_head(self, tenant_id: UUID, note: bytes) -> None:
        """Publish a tenant's newest signed checkpoint to other processes; only after the database has it too.

        A crash before it leaves the file behind by one signature, until this log is signed or swept again.
        """
        if self._epoch is None or self._published.get(tenant_id) == note:
            return
        file = _head_file(self._epoch, tenant_id)
        if not file.parent.is_dir():
            file.parent.mkdir(exist_ok=True)
            # Other users read it, whatever our umask is.
            file.parent.chmod(0o755)
        _replace_file(file, note, mode=0o644, synced=False)
        self._published[tenant_id] = note

    def _store_epoch(self, number: int) -> None:
        self._file.execute(
            "INSERT INTO epoch VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET number = excluded.number", [number]
        )

    def last(self, origin: str) -> TreeHead | None:
        """The last head signed for a log, or None if the log is not enrolled."""
        row = self._file.execute("SELECT size, root FROM head WHERE origin = ?", [origin]).fetchone()
        return TreeHead(row[0], bytes(row[1])) if row else None

    def origins(self) -> list[str]:
        """Every enrolled log."""
        return [origin for (origin,) in self._file.execute("SELECT origin FROM head ORDER BY origin")]

    def enrol(self, origin: str) -> None:
        """Enrol an empty log; refuse one that has been signed before."""
        self._file.execute("INSERT OR IGNORE INTO head VALUES (?, ?, ?)", [origin, NOTHING.size, NOTHING.root])
        if self.last(origin) != NOTHING:
            raise HistoryForked(f"The log {origin} was signed before, and is empty now: was the database restored?")

    def adopt(self, origin: str, head: TreeHead) -> None:
        """Adopt a trusted head for a log that is not enrolled; an enrolled one is never replaced."""
        added = self._file.execute("INSERT OR IGNORE INTO head VALUES (?, ?, ?)", [origin, head.size, head.root])
        if added.rowcount == 0:
            raise HistoryForked(f"The signer state knows {origin} already; there is nothing to adopt.")

    def advance(self, origin: str, last: TreeHead, following: TreeHead) -> None:
        """Store the next head if `last` is still the last one; of two signers only one succeeds."""
        moved = self._file.execute(
            "UPDATE head SET size = ?, root = ? WHERE origin = ? AND size = ? AND root = ?",
            [following.size, following.root, origin, last.size, last.root],
        )
        if moved.rowcount == 0:
            raise HistoryForked(f"Another signer has signed for {origin} meanwhile.")
