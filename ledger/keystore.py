"""Data keys for payloads and evidence, in a database of their own that shares no backup with the record.

The record knows the key of a subject by a random id and nothing else; the key itself stands here, wrapped by the
key-encryption key. Destroying the row makes every copy of the ciphertext unreadable, in old backups too, as soon as the
backups of this database have run out (docs/deploy.md).

1. A key is durable before anybody uses it: keys are made in blocks, one commit for each block, and handed out from
   memory. What a process has not handed out when it ends is never used.
2. Opened keys stay in memory for a minute at most, so that a destroyed one is soon gone everywhere.
3. Connections are this module's own. They hold no transaction and know no tenant: a key's id says nothing.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, LiteralString, NamedTuple
from uuid import UUID, uuid4

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError

from ledger.record.rules import encryption

BLOCK = 64
BLOCK_LASTS_S = 3600.0
OPEN_FOR_S = 60.0
MOST_OPEN = 20_000
IDLE = 4

TABLES = (Path(__file__).parent / "sql" / "keys.sql").read_bytes()
"""What makes a key database of an empty one; may be run again at any time."""


class DataKey(NamedTuple):
    """A key of 32 bytes and the id by which the record knows it."""

    id: UUID
    key: bytes


class _Store:
    """What one process holds: keys to hand out, keys it has opened, connections. A fork begins with nothing."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = RLock()
        self.made: list[DataKey] = []
        self.made_until = 0.0
        self.open: dict[UUID, tuple[bytes, float]] = {}
        self.idle: list[psycopg.Connection] = []
        self.url = ""


_store = _Store()


def new_key() -> DataKey:
    """A key that nobody has had before; it is durable already."""
    store = _here()
    with store.lock:
        if not store.made or store.made_until < time.monotonic():
            store.made, store.made_until = _block(), time.monotonic() + BLOCK_LASTS_S
        key = store.made.pop()
        store.open[key.id] = (key.key, time.monotonic() + OPEN_FOR_S)
        return key


def read_keys(ids: Iterable[UUID]) -> dict[UUID, bytes]:
    """The opened keys of these ids; one that was destroyed is left out."""
    store, now = _here(), time.monotonic()
    wanted = set(ids)
    found = {each: store.open[each][0] for each in wanted & store.open.keys() if store.open[each][1] > now}
    missing = [each for each in wanted if each not in found]
    if missing:
        rows = _ask("SELECT id, wrapped FROM data_key WHERE id = ANY($1)", missing)
        fresh = {
            key_id: encryption.open_sealed(key_encryption_key(), bytes(data), key_context(key_id))
            for key_id, data in rows
        }
        with store.lock:
            if len(store.open) + len(fresh) > MOST_OPEN:
                store.open.clear()
            store.open.update({each: (key, now + OPEN_FOR_S) for each, key in fresh.items()})
        found |= fresh
    return found


def store_keys(keys: Iterable[DataKey]) -> None:
    """Store keys, wrapped; one that is stored already is left as it is."""
    rows = [(each.id, wrap_key(each)) for each in keys]
    _ask(
        "INSERT INTO data_key (id, wrapped) SELECT * FROM unnest($1::uuid[], $2::bytea[]) ON CONFLICT DO NOTHING",
        [key_id for key_id, _ in rows],
        [data for _, data in rows],
    )


def destroy_keys(ids: Iterable[UUID]) -> None:
    """Make these keys gone for good; one that is gone already harms nothing. For the eraser's role alone."""
    gone = list(ids)
    _ask("DELETE FROM data_key WHERE id = ANY($1)", gone)
    store = _here()
    with store.lock:
        for each in gone:
            store.open.pop(each, None)


def is_reachable() -> bool:
    """Whether the key database can be reached."""
    try:
        return bool(_ask("SELECT 1"))
    except (OperationalError, ImproperlyConfigured):
        return False


def clear_cache() -> None:
    """Drop what this process holds, connections too."""
    store = _here()
    with store.lock:
        store.made.clear()
        store.open.clear()
        _close(store.idle)
    key_encryption_key.cache_clear()


def wrap_key(key: DataKey) -> bytes:
    """A key as it is stored: sealed by the key-encryption key, for this id alone."""
    return encryption.seal(
        key_encryption_key(), secrets.token_bytes(encryption.NONCE_BYTES), key.key, key_context(key.id)
    )


def key_context(key_id: UUID) -> str:
    return f"key/{key_id}"


@lru_cache(maxsize=1)
def key_encryption_key() -> bytes:
    """The key that wraps all others: a file outside every database."""
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR
    return bytes.fromhex((folder / "kek").read_text().strip())


def _block() -> list[DataKey]:
    made = [DataKey(uuid4(), secrets.token_bytes(32)) for _ in range(BLOCK)]
    store_keys(made)
    return made


def _here() -> _Store:
    global _store
    if _store.pid != os.getpid():
        _store = _Store()
    return _store


def _ask(statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
    """One statement, one commit; a connection that broke while it was idle is replaced once."""
    try:
        try:
            return _asked(statement, values, fresh=False)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            return _asked(statement, values, fresh=True)
    except psycopg.Error as error:
        raise OperationalError(f"The key database: {str(error).strip()}") from error


def _asked(statement: LiteralString, values: tuple[Any, ...], *, fresh: bool) -> list[tuple[Any, ...]]:
    with _connection(fresh=fresh) as connection:
        cursor = psycopg.RawCursor(connection)
        cursor.execute(statement, values, binary=True)
        return cursor.fetchall() if cursor.description else []


def _close(connections: list[psycopg.Connection]) -> None:
    while connections:
        connections.pop().close()


def _connected(url: str) -> psycopg.Connection:
    """A new connection, which keeps its plans where the server that answers is the one that it was made to.

    A pooler in transaction mode hands each statement to any of its servers, and the next one does not know the plan.
    """
    connection = psycopg.connect(
        url, autocommit=True, connect_timeout=5, application_name="counterfoil keys", prepare_threshold=None
    )
    [(process,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    if process == connection.info.backend_pid:
        connection.prepare_threshold = 1
    return connection


@contextmanager
def _connection(*, fresh: bool) -> Iterator[psycopg.Connection]:
    store, url = _here(), settings.KEYS_DATABASE_URL
    if not url:
        raise ImproperlyConfigured("KEYS_DATABASE_URL is not set. See docs/deploy.md.")
    with store.lock:
        if url != store.url or fresh:
            _close(store.idle)
            store.url = url
        connection = store.idle.pop() if store.idle else None
    if connection is None:
        connection = _connected(url)
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
