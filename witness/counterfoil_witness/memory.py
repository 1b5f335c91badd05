"""The state of a witness: its key, and for each log the head that it cosigned last.

    witness.sqlite     heads, forks that a log signed, and the name of the witness
    witness_key.pem    Ed25519, readable by its owner only

A witness that forgets is worse than none: its key would vouch for a history that it never compared. So the key is made
last, once, and a folder that has the key but not the rest is refused.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from counterfoil_tlog.submission import NOTHING_YET, CosignedHead

KEY_FILE = "witness_key.pem"
HEADS_FILE = "witness.sqlite"
WAIT_S = 2.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS witness (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS head (origin TEXT PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL, "
    "seconds INTEGER NOT NULL, note BLOB NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS fork (origin TEXT NOT NULL, note BLOB NOT NULL, seconds INTEGER NOT NULL, "
    "PRIMARY KEY (origin, note)) STRICT, WITHOUT ROWID",
)
_MOST_FORKS = 100


class UnusableState(Exception):
    """The folder is not one that a witness may go on with; the message is the sentence a person reads."""


class WitnessState:
    """The heads of one witness. Every change is on disk before `advance` returns."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / HEADS_FILE
        self._local = threading.local()

    def advance(
        self, origin: str, note: bytes, *, judged: Callable[[CosignedHead], CosignedHead], clock: Callable[[], int]
    ) -> int:
        """Store the head that `judged` makes of the last one, without interference; return the time to state.

        The clock is read in between, too, so that no later time is stated for a smaller head. It never goes back,
        whatever the clock does.
        """
        with self._writing() as connection:
            row = connection.execute("SELECT size, root, seconds FROM head WHERE origin = ?", (origin,)).fetchone()
            head = judged(CosignedHead(row[0], row[1]) if row else NOTHING_YET)
            stated = max(clock(), row[2] if row else 0)
            connection.execute(
                "INSERT INTO head (origin, size, root, seconds, note) VALUES (?, ?, ?, ?, ?) ON CONFLICT (origin) "
                "DO UPDATE SET size = excluded.size, root = excluded.root, seconds = excluded.seconds, "
                "note = excluded.note",
                (origin, head.size, head.root, stated, note),
            )
        return stated

    def keep_fork(self, origin: str, seconds: int, note: bytes) -> None:
        """Keep a second signed head of the same size: with the cosigned one, proof of equivocation."""
        with self._writing() as connection:
            (kept,) = connection.execute("SELECT count(*) FROM fork WHERE origin = ?", (origin,)).fetchone()
            if kept < _MOST_FORKS:
                connection.execute("INSERT OR IGNORE INTO fork VALUES (?, ?, ?)", (origin, note, seconds))

    def notes(self) -> list[bytes]:
        """Every signed head that is remembered: of each log the last one, then the forks."""
        text = "SELECT origin, 0, note FROM head UNION ALL SELECT origin, 1, note FROM fork ORDER BY 1, 2, 3"
        return [note for _, _, note in self._connection().execute(text)]

    @property
    def name(self) -> str:
        (name,) = self._connection().execute("SELECT name FROM witness").fetchone()
        return str(name)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._file, timeout=WAIT_S, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection


def open_state(folder: Path, name: str | None) -> tuple[WitnessState, Ed25519PrivateKey]:
    """The memory and the key in a folder, made on the first start under this name."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    heads, key = folder / HEADS_FILE, folder / KEY_FILE
    lost = (
        f"{heads} is gone or empty, so this witness no longer knows what it cosigned. Restore the file, or remove "
        f"{key} and start as a new witness, whose key the auditors have to be told."
    )
    if key.exists() and not heads.exists():
        raise UnusableState(lost)
    with closing(sqlite3.connect(heads, timeout=WAIT_S)) as connection, connection:
        heads.chmod(0o600)
        for table in _TABLES:
            connection.execute(table)
        row = connection.execute("SELECT name FROM witness").fetchone()
        if row is None and key.exists():
            raise UnusableState(lost)
        if row is None and name is None:
            raise UnusableState("A new witness needs a name: --name witness.example.org/one")
        if row is None:
            connection.execute("INSERT INTO witness (one, name) VALUES (1, ?)", (name,))
        elif name not in (None, row[0]):
            raise UnusableState(f"This folder is that of the witness {row[0]}, and a witness keeps its name.")
    if not key.exists():
        _make(key)
    return WitnessState(folder), _read_key(key)


def _make(file: Path) -> None:
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = file.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(key)
        stream.flush()
        os.fsync(stream.fileno())
    # Whole or not there: a key that was cut off half-way would stop every later start.
    with suppress(FileExistsError):
        os.link(draft, file)
    draft.unlink()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read_key(file: Path) -> Ed25519PrivateKey:
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise UnusableState(f"{file} must be closed to others: chmod 600 it.")
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except ValueError:
        raise UnusableState(f"{file} is not a key.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnusableState(f"{file} is not an Ed25519 key.")
    return key
