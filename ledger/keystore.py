"""Data keys for payloads and evidence, in a separate database that shares no backup with the record.

The record knows a subject's key only by a random id; the key itself is here, wrapped by the key-encryption key.
Deleting its row makes every copy of the ciphertext unreadable, in old backups too, once the backups of this database
have expired (docs/deploy.md).

1. A key is durable before it is used: keys are created in blocks, one commit per block, and handed out from memory.
   Those that a process has not handed out when it ends are never used. Once a connection was lost, the server may have
   gone back to a backup: what is left of the block is stored again before more of it is handed out.
2. Unwrapped keys are used for a minute at most, so that a destroyed one is soon gone everywhere; they leave memory
   with the next key that is unwrapped.
3. This module has its own connections. They hold no transaction and know no tenant: a key's id reveals nothing.

Beside them stand the names of the grant keys that are retired, so that a restore of the record brings none back.
"""

from __future__ import annotations

import os
import secrets
import select
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any, LiteralString, NamedTuple
from uuid import UUID, uuid4

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError

from ledger import key_files
from ledger.record.rules import encryption

BLOCK = 64
BLOCK_LASTS_S = 3600.0
OPEN_FOR_S = 60.0
MOST_OPEN = 20_000
IDLE = 4
KEK = "kek"
STORE_AGAIN_AFTER_S = 5.0
RETIRED_FOR_S = 5.0
"""The age in seconds up to which the list of retired grant keys is used; the record's own is read each time."""

TABLES = (Path(__file__).parent / "sql" / "keys.sql").read_bytes()
"""The tables of a key database; may be run again at any time."""


class DataKey(NamedTuple):
    """A key of 32 bytes and its id in the record."""

    id: UUID
    key: bytes


class _Store:
    """The state of one process: unused keys, unwrapped keys and connections. A fork starts with an empty one."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = RLock()
        self.unused: list[DataKey] = []
        self.unused_until = 0.0
        self.was_lost = False
        self.store_again_at = 0.0
        self.open: dict[UUID, tuple[bytes, float]] = {}
        self.retired: dict[str, datetime] = {}
        self.retired_until: float | None = None
        self.idle: list[psycopg.Connection] = []
        self.url = ""


_store = _Store()


def new_key() -> DataKey:
    """A new key, which is already durable."""
    store = _process_store()
    with store.lock:
        if not store.unused or store.unused_until < time.monotonic():
            store.unused, store.unused_until = _make_block(), time.monotonic() + BLOCK_LASTS_S
            store.was_lost = False
        elif (store.was_lost or _is_lost(store.idle)) and time.monotonic() >= store.store_again_at:
            _store_again(store)
        key = store.unused.pop()
        _keep_open(store, {key.id: key.key}, since=time.monotonic())
        return key


def read_keys(ids: Iterable[UUID]) -> dict[UUID, bytes]:
    """Return the keys with these ids, unwrapped; destroyed ones are left out."""
    store, now = _process_store(), time.monotonic()
    wanted = set(ids)
    # Another thread may drop some of them meanwhile.
    kept = {each: store.open.get(each) for each in wanted}
    found = {each: entry[0] for each, entry in kept.items() if entry is not None and entry[1] > now}
    missing = [each for each in wanted if each not in found]
    if missing:
        rows = _execute("SELECT id, wrapped FROM data_key WHERE id = ANY($1)", missing)
        fresh = {key_id: _unwrap(bytes(data), key_id) for key_id, data in rows}
        with store.lock:
            _keep_open(store, fresh, since=now)
        found |= fresh
    return found


def store_keys(keys: Iterable[DataKey]) -> None:
    """Store keys, wrapped; existing ones stay unchanged."""
    rows = [(each.id, wrap_key(each)) for each in keys]
    _execute(
        "INSERT INTO data_key (id, wrapped) SELECT * FROM unnest($1::uuid[], $2::bytea[]) ON CONFLICT DO NOTHING",
        [key_id for key_id, _ in rows],
        [data for _, data in rows],
    )


def wrapped_keys(ids: Iterable[UUID]) -> list[tuple[UUID, bytes]]:
    """The keys with these ids as they are stored, wrapped, in the order of the ids; destroyed ones are left out."""
    rows = _execute("SELECT id, wrapped FROM data_key WHERE id = ANY($1) ORDER BY id", list(ids))
    return [(key_id, bytes(data)) for key_id, data in rows]


def store_wrapped_keys(rows: Sequence[tuple[UUID, bytes]]) -> None:
    """Store keys as they were wrapped elsewhere; existing ones stay unchanged."""
    _execute(
        "INSERT INTO data_key (id, wrapped) SELECT * FROM unnest($1::uuid[], $2::bytea[]) ON CONFLICT DO NOTHING",
        [key_id for key_id, _ in rows],
        [data for _, data in rows],
    )


def does_open(key_id: UUID, wrapped: bytes) -> bool:
    """Return whether a stored key opens under a key-encryption key of this host's file."""
    return any(_is_under(wrapped, key_id, key) for key in key_encryption_keys())


def renew_key(key_id: UUID) -> bytes:
    """Make a new key under the id of a lost one: more can be sealed, and what the lost one sealed stays closed."""
    store_keys([DataKey(key_id, secrets.token_bytes(32))])
    # Somebody else may have been first.
    return read_keys([key_id])[key_id]


def destroy_keys(ids: Iterable[UUID]) -> None:
    """Delete these keys for good; missing ones are ignored. Only the eraser's role may do this."""
    destroyed = list(ids)
    _execute("DELETE FROM data_key WHERE id = ANY($1)", destroyed)
    store = _process_store()
    with store.lock:
        for each in destroyed:
            store.open.pop(each, None)


def retire_grant_key(kid: str, *, at: datetime) -> None:
    """Store that a grant key is retired; the first time counts."""
    _execute("INSERT INTO retired_grant_key (kid, retired_at) VALUES ($1, $2) ON CONFLICT DO NOTHING", kid, at)
    store = _process_store()
    with store.lock:
        store.retired = {kid: at} | store.retired


def retired_grant_keys() -> Mapping[str, datetime]:
    """The retired grant keys and when they were retired. One that this process has seen retired stays so.

    While the key database is away, those that are known are returned, if the list has ever been read.
    """
    store = _process_store()
    if store.retired_until is None or store.retired_until < time.monotonic():
        try:
            rows = _execute("SELECT kid, retired_at FROM retired_grant_key")
        except OperationalError:
            if store.retired_until is None:
                raise
            rows = []
        with store.lock:
            store.retired = store.retired | dict(rows)
            store.retired_until = time.monotonic() + RETIRED_FOR_S
    return store.retired


def is_reachable() -> bool:
    """Return whether the key database can be reached."""
    try:
        return bool(_execute("SELECT 1"))
    except (OperationalError, ImproperlyConfigured):
        return False


def clear_cache() -> None:
    """Drop the keys and connections of this process."""
    store = _process_store()
    with store.lock:
        store.unused.clear()
        store.open.clear()
        store.retired, store.retired_until = {}, None
        _close(store.idle)


def wrap_key(key: DataKey) -> bytes:
    """Wrap a key for storage: encrypted by the key-encryption key and bound to its id."""
    return encryption.seal(
        key_encryption_key(), secrets.token_bytes(encryption.NONCE_BYTES), key.key, key_context(key.id)
    )


def key_context(key_id: UUID) -> str:
    return f"key/{key_id}"


def key_encryption_key() -> bytes:
    """The key that wraps all others: in a file outside every database."""
    return key_encryption_keys()[0]


def key_encryption_keys() -> tuple[bytes, ...]:
    """The key that wraps all others, and behind it those that what was wrapped before or elsewhere may need."""
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR
    return key_files.read_hex_keys(folder / KEK)


def key_name() -> str:
    """The name of the key that wraps all others."""
    return _key_lines()[0].name


def has_former_keys() -> bool:
    """Return whether another key was in use before the present one and is still read."""
    return bool(key_files.former_keys(_key_lines()))


def _key_lines() -> tuple[key_files.KeyLine, ...]:
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR
    return key_files.read_lines(folder / KEK)


def open_with_any(keys: Iterable[bytes], sealed: bytes, place: str) -> bytes:
    """Decrypt what was sealed under one of these keys."""
    refusal = encryption.CannotOpen()
    for key in keys:
        try:
            return encryption.open_sealed(key, sealed, place)
        except encryption.CannotOpen as cannot:
            refusal = cannot
    raise refusal


class KeyEncryptionKeyMissing(OperationalError):
    """A key is wrapped under a key that this host's file does not have; the key itself is there."""


def rewrap_keys(*, after: UUID, limit: int, keys: Sequence[bytes]) -> tuple[UUID | None, int]:
    """Wrap one batch of stored keys under the first of `keys`; return the last id read, None at the end, and how many
    were wrapped anew.

    Nothing but the owner of the key database may do this. A batch is one statement, and replaces only the bytes that
    were read: a key that was destroyed meanwhile stays so.
    """
    if not settings.KEYS_DATABASE_OWNER_URL:
        raise ImproperlyConfigured("KEYS_DATABASE_OWNER_URL is not set. See docs/deploy.md.")
    with psycopg.connect(settings.KEYS_DATABASE_OWNER_URL) as connection:
        cursor = psycopg.RawCursor(connection)
        cursor.execute(
            "SELECT id, wrapped FROM data_key WHERE id > $1 ORDER BY id LIMIT $2", (after, limit), binary=True
        )
        rows = [(key_id, bytes(data)) for key_id, data in cursor.fetchall()]
        changed = [
            (key_id, data, _wrap_anew(data, key_id, keys))
            for key_id, data in rows
            if not _is_under(data, key_id, keys[0])
        ]
        cursor.execute(
            "UPDATE data_key k SET wrapped = n.fresh"
            " FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) n (id, old, fresh)"
            " WHERE k.id = n.id AND k.wrapped = n.old",
            [[row[place] for row in changed] for place in range(3)],
        )
        return (rows[-1][0] if rows else None), cursor.rowcount


def count_unopened_keys(*, limit: int) -> tuple[int, int]:
    """Try some stored keys, which their random ids choose; return how many were tried, and how many do not open."""
    rows = _execute("SELECT id, wrapped FROM data_key ORDER BY id LIMIT $1", limit)
    return len(rows), sum(not does_open(key_id, bytes(data)) for key_id, data in rows)


def _wrap_anew(wrapped: bytes, key_id: UUID, keys: Sequence[bytes]) -> bytes:
    key = _unwrap(wrapped, key_id, keys)
    fresh = encryption.seal(keys[0], secrets.token_bytes(encryption.NONCE_BYTES), key, key_context(key_id))
    if encryption.open_sealed(keys[0], fresh, key_context(key_id)) != key:
        raise ValueError("a key that was wrapped anew does not open")
    return fresh


def _is_under(wrapped: bytes, key_id: UUID, key: bytes) -> bool:
    try:
        encryption.open_sealed(key, wrapped, key_context(key_id))
    except encryption.CannotOpen:
        return False
    return True


def _unwrap(wrapped: bytes, key_id: UUID, keys: Sequence[bytes] | None = None) -> bytes:
    try:
        return open_with_any(keys or key_encryption_keys(), wrapped, key_context(key_id))
    except encryption.CannotOpen:
        raise KeyEncryptionKeyMissing(
            "The key database: a key is wrapped under a key-encryption key that this host's file `kek` does not have."
        ) from None


def _make_block() -> list[DataKey]:
    unused = [DataKey(uuid4(), secrets.token_bytes(32)) for _ in range(BLOCK)]
    store_keys(unused)
    return unused


def _is_lost(idle: list[psycopg.Connection]) -> bool:
    """Return True if the server has ended an idle connection, or sent something on it unasked."""
    if not idle:
        return False
    poll = select.poll()
    for each in idle:
        poll.register(each.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def _store_again(store: _Store) -> None:
    """Store what is left of the block; while the server is away, keys are still handed out."""
    store.was_lost = True
    try:
        store_keys(store.unused)
    except OperationalError:
        store.store_again_at = time.monotonic() + STORE_AGAIN_AFTER_S
    else:
        store.was_lost = False


def _keep_open(store: _Store, keys: Mapping[UUID, bytes], *, since: float) -> None:
    """Keep unwrapped keys for a minute; those whose minute is over go, and the oldest of too many."""
    for each, key in keys.items():
        # Behind all others, also if it was there: the first is the oldest.
        store.open.pop(each, None)
        store.open[each] = (key, since + OPEN_FOR_S)
    while store.open:
        oldest = next(iter(store.open))
        if store.open[oldest][1] > since and len(store.open) <= MOST_OPEN:
            break
        del store.open[oldest]


def _process_store() -> _Store:
    global _store
    if _store.pid != os.getpid():
        _store = _Store()
    return _store


def _execute(statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
    """Run one statement and commit; a connection that broke while idle is replaced once."""
    try:
        try:
            return _execute_once(statement, values, fresh=False)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            _process_store().was_lost = True
            return _execute_once(statement, values, fresh=True)
    except psycopg.Error as error:
        raise OperationalError(f"The key database: {str(error).strip()}") from error


def _execute_once(statement: LiteralString, values: tuple[Any, ...], *, fresh: bool) -> list[tuple[Any, ...]]:
    with _connection(fresh=fresh) as connection:
        cursor = psycopg.RawCursor(connection)
        cursor.execute(statement, values, binary=True)
        return cursor.fetchall() if cursor.description else []


def _close(connections: list[psycopg.Connection]) -> None:
    while connections:
        connections.pop().close()


def _connect(url: str) -> psycopg.Connection:
    """Open a connection, with prepared statements only if it goes to the server directly.

    A pooler in transaction mode hands each statement to any of its servers, which do not share prepared statements.
    """
    connection = psycopg.connect(url, autocommit=True, application_name="counterfoil keys", prepare_threshold=None)
    [(process,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    if process == connection.info.backend_pid:
        connection.prepare_threshold = 1
    return connection


@contextmanager
def _connection(*, fresh: bool) -> Iterator[psycopg.Connection]:
    store, url = _process_store(), settings.KEYS_DATABASE_URL
    if not url:
        raise ImproperlyConfigured("KEYS_DATABASE_URL is not set. See docs/deploy.md.")
    with store.lock:
        if url != store.url or fresh:
            _close(store.idle)
            store.url = url
        connection = store.idle.pop() if store.idle else None
    if connection is None:
        connection = _connect(url)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    with store.lock:
        if len(store.idle) < IDLE and url == store.url:
            store.idle.append(connection)
            return
    connection.close()
