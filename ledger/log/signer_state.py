"""State of the log signer outside the record's PostgreSQL: its keys, and the last head signed for each log.

The keys are files. The signer state is the last head that was signed for each log, the epoch of the installation (a
number that is raised whenever the database is restored, so that no grant from before is good again), and who leads.

A database that is restored, copied or rewritten cannot take this back, so it cannot get a signature over a second
history. The state is a SQLite file on one host, or a PostgreSQL of its own for several; it belongs on another volume
than the record and into none of its backups. Each change is durable before the call returns: a signature leaves the
process only after the state knows of it (L19).

One process leads, under a lease. Each that takes the lead gets the next token, and each change states its token and is
refused with an older one. So a leader that was paused, and wakes up after another took over, changes nothing.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.log.rules.signing import NOTHING, HistoryForked, LogHandedOver, TreeHead

FIRST_EPOCH = 1
LEASE_S = 2.5
"""The seconds for which a leader that does nothing keeps the lead."""
RENEW_S = 1.0
"""The seconds between two renewals of a lease."""


class LeadLost(Exception):
    """Another signer leads, so this one may change nothing."""


class SignerStateUnavailable(Exception):
    """The signer state does not answer; nothing is signed meanwhile."""


class StateInsideRecord(Exception):
    """The signer state is on the record's database server, so a restore would take it back with the record."""


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

    @property
    def public(self) -> tuple[bytes, ...]:
        """The public keys of `all`, raw."""
        return tuple(key.public_key().public_bytes_raw() for key in self.all)


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
    write_public_keys(path)
    return LogKeys(key, old)


def retire_key(path: Path) -> None:
    """Retire the previous key: it signs nothing more; its signatures stay valid."""
    _previous_path(path).unlink()
    write_public_keys(path)


def write_public_keys(path: Path) -> None:
    """Write the public halves of the keys at `path` beside it, for web and workers, which check the epoch with them."""
    blocks = (
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in read_keys(path).all
    )
    _replace_file(path.with_suffix(".pub"), b"".join(blocks), mode=0o644)


def _previous_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.before{path.suffix}")


def _read_key(path: Path) -> Ed25519PrivateKey:
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} must hold an Ed25519 key")
    return key


def _write_key(path: Path, key: Ed25519PrivateKey) -> None:
    _replace_file(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)


def _replace_file(path: Path, data: bytes, *, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


_TABLES = """
CREATE TABLE IF NOT EXISTS head (origin TEXT PRIMARY KEY, size {integer} NOT NULL, root {bytes} NOT NULL);
CREATE TABLE IF NOT EXISTS handed (origin TEXT PRIMARY KEY, statement {bytes} NOT NULL);
CREATE TABLE IF NOT EXISTS epoch (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS leader (
    one INTEGER PRIMARY KEY CHECK (one = 1), token {integer} NOT NULL, until {real} NOT NULL, holder TEXT NOT NULL
);
INSERT INTO leader VALUES (1, 0, 0, '') ON CONFLICT (one) DO NOTHING
"""
_NOBODY = -1

Run = Callable[..., list[tuple[Any, ...]]]
"""Execute one statement with its values, and return the rows that it gives."""


class SignerState(ABC):
    """The signer state: `with open_state(address) as state`. Several may open it; only the leader changes it."""

    now: str
    """The state's clock in seconds, as SQL. It decides when a lease ends, and nothing else."""

    def __init__(self) -> None:
        self._token = _NOBODY
        self._renewed = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close it; the lead, if it is held, is left to its lease."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Run]:
        """One transaction, durable when it ends; `SignerStateUnavailable` if the state does not answer."""

    @abstractmethod
    def is_on_server(self, system_identifier: int) -> bool:
        """Return whether the state is a database of this cluster, or of a physical copy of it."""

    # Who leads

    def take_lead(self, *, at_once: bool = False) -> bool:
        """Take the lead under the next token; False while another leads, unless it is to be replaced `at_once`."""
        taken = self._run(
            f"UPDATE leader SET token = token + 1, until = {self.now} + {LEASE_S}, holder = %s"
            f" WHERE until <= {self.now} OR token = %s OR %s = 1 RETURNING token",
            *(f"{socket.gethostname()}:{os.getpid()}", self._token, int(at_once)),
        )
        self._token = taken[0][0] if taken else _NOBODY
        self._renewed = time.monotonic()
        return bool(taken)

    def keep_lead(self) -> None:
        """Renew the lease if that is due; `LeadLost` if another leads."""
        if time.monotonic() - self._renewed >= RENEW_S:
            self.confirm_lead()

    def confirm_lead(self) -> None:
        """Renew the lease; `LeadLost` if another leads."""
        self._change("SELECT 1")

    def release_lead(self) -> None:
        """Let another take the lead at once."""
        self._run("UPDATE leader SET until = 0 WHERE token = %s", self._token)
        self._token = _NOBODY

    def _change(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement as the leader: with it, in one transaction, the lease is renewed under our token.

        Both this and taking the lead update one row, so no change of an earlier leader comes after a later one's.
        """
        with self._transaction() as run:
            renew = f"UPDATE leader SET until = {self.now} + {LEASE_S} WHERE token = %s RETURNING token"
            if not run(renew, self._token):
                [(holder,)] = run("SELECT holder FROM leader")
                raise LeadLost(f"Another signer leads: {holder}.")
            found = run(statement, *values)
        self._renewed = time.monotonic()
        return found

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._transaction() as run:
            return run(statement, *values)

    # The epoch

    @property
    def epoch(self) -> int:
        """The epoch of the installation."""
        rows = self._run("SELECT number FROM epoch")
        return int(rows[0][0]) if rows else FIRST_EPOCH

    def raise_epoch(self, *, to: int | None = None) -> int:
        """Begin a new epoch, which voids all earlier grants: the next one, or the one that is known elsewhere."""
        number = max(self.epoch, to) if to is not None else self.epoch + 1
        self._change(
            "INSERT INTO epoch VALUES (1, %s) ON CONFLICT (one) DO UPDATE SET number = excluded.number", number
        )
        return number

    # The heads

    def last(self, origin: str) -> TreeHead | None:
        """The last head signed for a log, or None if the log is not enrolled; refuse one that was handed over."""
        if self.handed_over(origin) is not None:
            raise LogHandedOver(f"The log {origin} was handed over to another installation, and is signed there.")
        return self.known_head(origin)

    def known_head(self, origin: str) -> TreeHead | None:
        """The last head signed here for a log, also for one that was handed over."""
        rows = self._run("SELECT size, root FROM head WHERE origin = %s", origin)
        return TreeHead(rows[0][0], bytes(rows[0][1])) if rows else None

    def origins(self) -> list[str]:
        """Every enrolled log."""
        return [origin for (origin,) in self._run("SELECT origin FROM head ORDER BY origin")]

    def enrol(self, origin: str) -> None:
        """Enrol an empty log; refuse one that has been signed before."""
        self._change(_ENROL, origin, NOTHING.size, NOTHING.root)
        if self.last(origin) != NOTHING:
            raise HistoryForked(f"The log {origin} was signed before, and is empty now: was the database restored?")

    def adopt(self, origin: str, head: TreeHead) -> None:
        """Adopt a trusted head for a log that is not enrolled; an enrolled one is never replaced."""
        if not self._change(f"{_ENROL} RETURNING origin", origin, head.size, head.root):
            raise HistoryForked(f"The signer state knows {origin} already; there is nothing to adopt.")

    def advance(self, origin: str, last: TreeHead, following: TreeHead) -> None:
        """Store the next head if we lead and `last` is still the last one; of two signers only one succeeds."""
        moved = self._change(
            "UPDATE head SET size = %s, root = %s WHERE origin = %s AND size = %s AND root = %s"
            " AND NOT EXISTS (SELECT 1 FROM handed WHERE handed.origin = head.origin) RETURNING origin",
            *(following.size, following.root, origin, last.size, last.root),
        )
        if not moved:
            raise HistoryForked(f"Another signer has signed for {origin} meanwhile.")

    # Logs that go to another installation, or come from one

    def handed_over(self, origin: str) -> bytes | None:
        """The statement with which a log was handed over to another installation, or None."""
        rows = self._run("SELECT statement FROM handed WHERE origin = %s", origin)
        return bytes(rows[0][0]) if rows else None

    def hand_over(self, origin: str, last: TreeHead, statement: bytes) -> bytes:
        """Sign nothing more for a log whose last head is `last`; return the statement that is kept, the first one."""
        self._change(
            "INSERT INTO handed SELECT origin, %s FROM head WHERE origin = %s AND size = %s AND root = %s"
            " ON CONFLICT (origin) DO NOTHING",
            *(statement, origin, last.size, last.root),
        )
        kept = self.handed_over(origin)
        if kept is None:
            raise HistoryForked(f"Another signer has signed for {origin} meanwhile.")
        return kept

    def take_over(self, origin: str, head: TreeHead) -> None:
        """Go on from a head that another installation has handed over; refuse a log that is signed here already."""
        taken = self._change(
            "INSERT INTO head VALUES (%s, %s, %s) ON CONFLICT (origin) DO UPDATE SET size = excluded.size,"
            " root = excluded.root WHERE head.size <= excluded.size"
            " AND EXISTS (SELECT 1 FROM handed WHERE handed.origin = excluded.origin) RETURNING origin",
            *(origin, head.size, head.root),
        )
        if not taken and self.known_head(origin) != head:
            raise HistoryForked(f"The signer state knows {origin} already; there is nothing to take over.")
        self._change("DELETE FROM handed WHERE origin = %s", origin)


_ENROL = "INSERT INTO head VALUES (%s, %s, %s) ON CONFLICT (origin) DO NOTHING"


class SqliteState(SignerState):
    """The signer state as a file, for sequencers on one host."""

    now = "((julianday('now') - 2440587.5) * 86400.0)"

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._file = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.executescript(_TABLES.format(integer="INTEGER", bytes="BLOB", real="REAL"))
        super().__init__()

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[Run]:
        try:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield lambda statement, *values: self._file.execute(statement.replace("%s", "?"), values).fetchall()
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise SignerStateUnavailable(f"The signer state cannot be used: {error}") from None

    def is_on_server(self, system_identifier: int) -> bool:
        return False


class PostgresState(SignerState):
    """The signer state in a PostgreSQL of its own, for sequencers on several hosts."""

    now = "extract(epoch FROM clock_timestamp())::float8"

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: psycopg.Connection | None = None
        self._has_tables = False
        super().__init__()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    def _connection(self) -> psycopg.Connection:
        if self._open is None or self._open.closed:
            address = make_conninfo(**DEFAULTS | conninfo_to_dict(self._address))
            self._open = psycopg.connect(address, autocommit=True, prepare_threshold=None)
            self._open.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
        return self._open

    def _create_tables(self) -> None:
        with self._connection().transaction():
            # Two sequencers that start at once would both create them.
            self._connection().execute("SELECT pg_advisory_xact_lock(4711004)")
            self._connection().execute(_TABLES.format(integer="bigint", bytes="bytea", real="float8"))
        self._has_tables = True

    @contextmanager
    def _transaction(self) -> Iterator[Run]:
        with self._use_connection() as connection:
            if not self._has_tables:
                self._create_tables()
            with connection.transaction():
                yield lambda statement, *values: _rows(connection.execute(statement, values))

    @contextmanager
    def _use_connection(self) -> Iterator[psycopg.Connection]:
        try:
            yield self._connection()
        except psycopg.Error as error:
            if self._open is not None:
                self._open.close()
            raise SignerStateUnavailable(f"The signer state cannot be reached: {str(error).strip()}") from None

    def is_on_server(self, system_identifier: int) -> bool:
        with self._use_connection() as connection:
            return _rows(connection.execute("SELECT system_identifier FROM pg_control_system()")) == [
                (system_identifier,)
            ]


DEFAULTS: dict[str, Any] = {
    "application_name": "counterfoil sequencer",
    "connect_timeout": 3,
    # A server that is gone is given up after about a lease.
    "tcp_user_timeout": 3000,
    "target_session_attrs": "read-write",
}
"""The options of a connection to the signer state that its address does not set."""


def _rows(cursor: psycopg.Cursor[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return cursor.fetchall() if cursor.description is not None else []


def open_state(address: Path | str) -> SignerState:
    """Open the signer state at a path, or at the address of a PostgreSQL."""
    return SqliteState(address) if isinstance(address, Path) else PostgresState(address)
