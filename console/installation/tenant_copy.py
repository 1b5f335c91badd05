"""The copy of a tenant that is taken to another installation: its rows, the people who are its members, its keys.

A folder of files: one for each table, as COPY writes its rows; `people.json`; `keys`, wrapped as they are stored; and
`manifest.json`, which names all of them with their digests. What is a row of the tenant, the catalogue says: each table
with a column `tenant_id`. Nothing is converted, so a table has the same digest at both installations.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import psycopg
from django.db import connections, transaction
from psycopg import sql

from ledger import keystore
from ledger.catalogue.rules.moving import FROZEN, IMPORTED, MOVED
from ledger.record.queries import events

T = TypeVar("T")
FORMAT: Final = 1
LEFT: Final[Mapping[str, str]] = {
    "ledger_pending": "empty: every event has its place in the log before the copy is taken",
    "ledger_actionsearch": "follows from the actions; the database makes it as they come in",
}
"""Tables with rows of tenants that are not copied, and why."""
PERSONAL: Final = ("account_emailaddress", "mfa_authenticator", "socialaccount_socialaccount")
"""The tables of rows that belong to an account."""
STAYS: Final[Mapping[str, str]] = {
    "django_session": "everybody signs in again",
    "usersessions_usersession": "everybody signs in again",
    "account_emailconfirmation": "an address that was not confirmed is confirmed anew",
    "socialaccount_socialtoken": "no token is kept",
    "socialaccount_socialapp": "providers are settings",
    "axes_accessattempt": "failed attempts to sign in, of a moment",
    "axes_accessattemptexpiration": "failed attempts to sign in, of a moment",
    "axes_accessfailurelog": "failed attempts to sign in, of a moment",
    "axes_accesslog": "failed attempts to sign in, of a moment",
    "auth_group": "not used",
    "auth_group_permissions": "not used",
    "auth_permission": "made by the migrations",
    "console_user_groups": "not used",
    "console_user_user_permissions": "not used",
    "django_content_type": "made by the migrations",
    "django_migrations": "must be the same",
    "console_cache": "a cache",
    "approvals_grantkeychange": "of the installation: what it has signed is good here alone",
    "ledger_blank": "made by the migrations",
    "ledger_epoch": "of the installation",
    "ledger_maintenance": "of the installation",
    "ledger_processlease": "of the installation",
    "ledger_taskrun": "of the installation",
    "ledger_wrongclock": "of the installation",
}
"""Tables without rows of tenants that stay where they are, and why."""
LAST: Final = ("ledger_evidence", "ledger_releasegate")
"""Tables of which a trigger looks at other rows of the copy, which must be there before."""
KEYS_AT_A_TIME: Final = 1_000
CHUNK: Final = 1 << 20
_TENANT: Final = ("id", "slug", "name", "origin", "created_at", "epoch", "restored_at")


class CopyRefused(Exception):
    """The copy cannot be taken, or not be taken in; nothing was changed. The message says why."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with rows of tenants: its columns, its key, and which columns are ordered as texts."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    texts: tuple[str, ...]

    def rows(self, tenant_id: UUID) -> sql.Composed:
        """The rows of a tenant in an order that is the same everywhere."""
        order = [
            sql.SQL('{} COLLATE "C"' if name in self.texts else "{}").format(sql.Identifier(name)) for name in self.key
        ]
        return sql.SQL("SELECT {} FROM {} WHERE tenant_id = {} ORDER BY {}").format(
            self.names, sql.Identifier(self.name), tenant_id, sql.SQL(", ").join(order)
        )

    @property
    def names(self) -> sql.Composed:
        """The columns, as a list of a statement."""
        return sql.SQL(", ").join(map(sql.Identifier, self.columns))


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of the copy: its rows and the digest of its bytes."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a copy: the tenant's row of the directory, the move, the schema, and the files."""

    format: int
    tenant: dict[str, Any]
    move: dict[str, Any]
    schema: list[str]
    tables: dict[str, CopiedFile]
    people: CopiedFile
    keys: CopiedFile

    @property
    def digest(self) -> str:
        """The name of this copy, from all that is in it."""
        return hashlib.sha256(_as_json(asdict(self)).encode()).hexdigest()

    @property
    def tenant_id(self) -> UUID:
        """The tenant's id."""
        return UUID(self.tenant["id"])

    @property
    def rows(self) -> int:
        """The number of the tenant's rows in all tables."""
        return sum(part.rows for part in self.tables.values())


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


@contextmanager
def owner_transaction(tenant_id: UUID | None = None, *, reads_only: bool = False) -> Iterator[psycopg.Connection[Any]]:
    """One transaction of the tables' owner, for the rows of one tenant; one that only reads sees one moment."""
    if "owner" not in connections:
        raise CopyRefused("Set DATABASE_OWNER_URL to the role that owns the tables.")
    with transaction.atomic(using="owner"):
        connections["owner"].ensure_connection()
        session: psycopg.Connection[Any] = connections["owner"].connection
        if reads_only:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for name, value in _PLAIN.items():
            session.execute("SELECT set_config(%s, %s, true)", [name, value])
        session.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant_id or "")])
        yield session


_PLAIN: Final = {"timezone": "UTC", "datestyle": "ISO, YMD", "intervalstyle": "postgres", "bytea_output": "hex"}
"""Settings by which values are written the same way everywhere."""


def tenant_tables(session: psycopg.Connection[Any]) -> list[Table]:
    """Every table that has rows of tenants and is copied, in the order in which they are taken in."""
    found = [Table(*map(_plain, row)) for row in session.execute(_TABLES).fetchall()]
    kept = [table for table in found if table.name not in LEFT]
    return sorted(kept, key=lambda table: (LAST.index(table.name) if table.name in LAST else -1, table.name))


_TABLES: Final = """
SELECT c.relname::text,
    ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        AND a.attgenerated = '' ORDER BY a.attname),
    coalesce((SELECT ARRAY(SELECT k.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY n (number, place)
            JOIN pg_attribute k ON k.attrelid = c.oid AND k.attnum = n.number ORDER BY n.place)
        FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), '{}'),
    ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attcollation <> 0)
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
ORDER BY c.relname
"""


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Taking the copy


def take(tenant_id: UUID, folder: Path) -> Manifest:
    """Write the copy of a frozen tenant into a folder, which appears once it is whole; return its manifest."""
    if folder.exists():
        manifest, tenant = read_manifest(folder), events.tenant_by_id(tenant_id)
        if manifest.tenant_id != tenant_id or manifest.move != tenant.move:
            raise CopyRefused(f"{folder} has another copy. Name a folder that is not there, or remove it.")
        return manifest
    draft = folder.with_name(f".{folder.name}.part")
    draft.mkdir(mode=0o700, parents=True, exist_ok=True)
    with owner_transaction(tenant_id, reads_only=True) as session:
        [row] = _documents(session, "SELECT to_jsonb(t)::text FROM ledger_tenant t WHERE id = %s", tenant_id)
        if row["moving"] not in (FROZEN, MOVED):
            raise CopyRefused("The tenant is not frozen. Run `move_tenant freeze` first.")
        manifest = Manifest(
            format=FORMAT,
            tenant={name: row[name] for name in _TENANT},
            move=row["move"],
            schema=_schema(session),
            tables={
                table.name: _write(draft / f"{table.name}.copy", partial(_copy_out, session, table, tenant_id))
                for table in tenant_tables(session)
            },
            people=_write(draft / "people.json", partial(_people_out, session, tenant_id)),
            keys=_write(draft / "keys", partial(_keys_out, session, tenant_id)),
        )
    _write(draft / "manifest.json", lambda sink: _text_out(sink, _as_json(asdict(manifest))))
    draft.replace(folder)
    _sync(folder.parent)
    return manifest


def _write(path: Path, fill: Any) -> CopiedFile:
    digest = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:

        class Both:
            def write(self, data: bytes) -> None:
                digest.update(data)
                file.write(data)

        rows = fill(Both())
        file.flush()
        os.fsync(file.fileno())
    return CopiedFile(rows, digest.hexdigest())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _copy_out(session: psycopg.Connection[Any], table: Table, tenant_id: UUID, sink: _Sink) -> int:
    with session.cursor() as cursor:
        with cursor.copy(sql.SQL("COPY ({}) TO STDOUT").format(table.rows(tenant_id))) as copy:
            for data in copy:
                sink.write(bytes(data))
        return cursor.rowcount


def _people_out(session: psycopg.Connection[Any], tenant_id: UUID, sink: _Sink) -> int:
    members = _documents(
        session,
        "SELECT to_jsonb(u)::text FROM console_user u WHERE id IN"
        " (SELECT user_id FROM console_membership WHERE tenant_id = %s) ORDER BY id",
        tenant_id,
    )
    accounts = [
        {"console_user": user} | {name: _owned_rows(session, name, user["id"]) for name in PERSONAL} for user in members
    ]
    _text_out(sink, _as_json(accounts))
    return len(accounts)


def _owned_rows(session: psycopg.Connection[Any], table: str, user_id: str) -> list[dict[str, Any]]:
    rows = sql.SQL("SELECT to_jsonb(t)::text FROM {} t WHERE user_id = %s ORDER BY id").format(sql.Identifier(table))
    return _documents(session, rows, user_id)


def _documents(session: psycopg.Connection[Any], statement: Any, value: Any) -> list[dict[str, Any]]:
    return [json.loads(text) for (text,) in session.execute(statement, [value])]


def _keys_out(session: psycopg.Connection[Any], tenant_id: UUID, sink: _Sink) -> int:
    count = 0
    for ids in _portions(_key_ids(session, tenant_id)):
        for key_id, wrapped in keystore.wrapped_keys(ids):
            sink.write(f"{key_id} {wrapped.hex()}\n".encode())
            count += 1
    return count


def _key_ids(session: psycopg.Connection[Any], tenant_id: UUID) -> list[UUID]:
    return [
        key_id
        for (key_id,) in session.execute(
            "SELECT key_id FROM ledger_subjectkey WHERE tenant_id = %s ORDER BY key_id", [tenant_id]
        )
    ]


def _portions(values: Iterable[T]) -> Iterator[list[T]]:
    left = iter(values)
    while some := list(islice(left, KEYS_AT_A_TIME)):
        yield some


def _text_out(sink: _Sink, text: str) -> int:
    sink.write(text.encode())
    return 1


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)


def _schema(session: psycopg.Connection[Any]) -> list[str]:
    rows = session.execute("SELECT app || '.' || name FROM django_migrations")
    return sorted({name for (name,) in rows})


# Taking it in


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a copy, and refuse one whose files are not those that it names."""
    try:
        said = json.loads((folder / "manifest.json").read_bytes())
        if said["format"] != FORMAT:
            raise CopyRefused(f"This copy is of format {said['format']}, and this version reads {FORMAT}.")
        parts = {name: CopiedFile(**part) for name, part in said["tables"].items()}
        people, keys = CopiedFile(**said["people"]), CopiedFile(**said["keys"])
        manifest = Manifest(**(said | {"tables": parts, "people": people, "keys": keys}))
        files = {f"{name}.copy": part for name, part in parts.items()} | {"people.json": people, "keys": keys}
        altered = [name for name, part in files.items() if _file_digest(folder / name) != part.sha256]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CopyRefused(f"The copy in {folder} cannot be read: {error}") from None
    if altered:
        raise CopyRefused(f"These files are not those that the manifest names: {', '.join(sorted(altered))}.")
    return manifest


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def take_in(folder: Path, manifest: Manifest) -> bool:
    """Take a copy in as one transaction; False if it is here already.

    The keys come first: without the rows nobody knows of them, and a repeat finds them there.
    """
    with owner_transaction(manifest.tenant_id) as session:
        if _is_here(session, manifest):
            return False
        _check_schema(session, manifest)
    keys = [_key_line(line) for line in (folder / "keys").read_text().splitlines()]
    for some in _portions(keys):
        keystore.store_wrapped_keys(some)
    with owner_transaction(manifest.tenant_id) as session:
        session.execute("SELECT set_config('app.import', 'on', true)")
        if _is_here(session, manifest):
            return False
        _people_in(session, json.loads((folder / "people.json").read_bytes()))
        _insert(session, "ledger_tenant", manifest.tenant | {"moving": "", "move": _arrival(manifest)})
        for table in tenant_tables(session):
            _copy_in(session, table, folder / f"{table.name}.copy", manifest.tables[table.name])
        session.execute("SET CONSTRAINTS ALL IMMEDIATE")
        session.execute("UPDATE ledger_tenant SET moving = %s WHERE id = %s", [IMPORTED, manifest.tenant_id])
    return True


def _arrival(manifest: Manifest) -> dict[str, Any]:
    return {name: manifest.move.get(name) for name in ("id", "from", "to")} | {"copy": manifest.digest}


def _is_here(session: psycopg.Connection[Any], manifest: Manifest) -> bool:
    rows = session.execute(
        "SELECT id, slug, origin, move ->> 'copy' FROM ledger_tenant WHERE id = %s OR slug = %s OR origin = %s",
        [manifest.tenant_id, manifest.tenant["slug"], manifest.tenant["origin"]],
    ).fetchall()
    for tenant_id, slug, origin, copy in rows:
        if (tenant_id, copy) != (manifest.tenant_id, manifest.digest):
            raise CopyRefused(
                f"This installation has a tenant {slug} already (id {tenant_id}, log {origin}). Nothing was changed."
            )
    return bool(rows)


def _check_schema(session: psycopg.Connection[Any], manifest: Manifest) -> None:
    here = _schema(session)
    if here != manifest.schema:
        other = ", ".join(sorted(set(here) ^ set(manifest.schema)))
        raise CopyRefused(f"The two installations are not of one version; their migrations differ in {other}.")
    tables = {table.name for table in tenant_tables(session)}
    if tables != manifest.tables.keys():
        raise CopyRefused(f"The tables differ: {', '.join(sorted(tables ^ manifest.tables.keys()))}.")


def _key_line(line: str) -> tuple[UUID, bytes]:
    key_id, _, wrapped = line.partition(" ")
    return UUID(key_id), bytes.fromhex(wrapped)


def _people_in(session: psycopg.Connection[Any], accounts: Sequence[dict[str, Any]]) -> None:
    """Make the accounts that are missing. One that has come with another tenant is used and left as it is; another one
    of the same name is refused, since the record names accounts by their ids.
    """
    faults = []
    for account in accounts:
        user = account["console_user"]
        found = session.execute(
            "SELECT id::text, username FROM console_user WHERE id = %s OR username = %s OR id IN"
            " (SELECT user_id FROM account_emailaddress WHERE verified AND email = ANY(%s))",
            [user["id"], user["username"], [each["email"] for each in account["account_emailaddress"]]],
        ).fetchall()
        if not found:
            _insert(session, "console_user", user | {"is_staff": False, "is_superuser": False})
            for name in PERSONAL:
                for row in account[name]:
                    _insert(session, name, {column: value for column, value in row.items() if column != "id"})
        elif found != [(user["id"], user["username"])]:
            faults.append(f"{user['username']} (here: {', '.join(name for _, name in found)})")
    if faults:
        raise CopyRefused(
            f"This installation has other accounts of these names or addresses: {'; '.join(faults)}. Change the name of"
            " one of the two first. Nothing was changed."
        )


def _insert(session: psycopg.Connection[Any], table: str, row: Mapping[str, Any]) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    session.execute(
        sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM jsonb_populate_record(NULL::{0}, %s::jsonb)").format(
            sql.Identifier(table), names
        ),
        [json.dumps(row)],
    )


def _copy_in(session: psycopg.Connection[Any], table: Table, path: Path, part: CopiedFile) -> None:
    name = sql.Identifier(table.name)
    # Row-level security is forced, and does not let COPY write; so the rows pass a table of this transaction.
    session.execute(
        sql.SQL("CREATE TEMPORARY TABLE incoming ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
            table.names, name
        )
    )
    with (
        path.open("rb") as file,
        session.cursor() as cursor,
        cursor.copy(sql.SQL("COPY incoming ({}) FROM STDIN").format(table.names)) as copy,
    ):
        while data := file.read(CHUNK):
            copy.write(data)
    done = session.execute(sql.SQL("INSERT INTO {} ({}) SELECT * FROM incoming").format(name, table.names))
    if done.rowcount != part.rows:
        raise CopyRefused(f"{path.name} has {done.rowcount} rows, and the manifest says {part.rows}.")
    session.execute("DROP TABLE incoming")


# Comparing it


def differences(manifest: Manifest) -> list[str]:
    """Compare the rows and keys that are here with the manifest; one sentence for each difference."""
    found = []
    with owner_transaction(manifest.tenant_id, reads_only=True) as session:
        for table in tenant_tables(session):
            digest = hashlib.sha256()
            rows = _copy_out(session, table, manifest.tenant_id, _Hash(digest))
            part = manifest.tables[table.name]
            if (rows, digest.hexdigest()) != (part.rows, part.sha256):
                found.append(f"{table.name} has {rows} rows here, and other bytes than the {part.rows} of the copy.")
        ids = _key_ids(session, manifest.tenant_id)
    return [*found, *_key_faults(ids, manifest.keys.rows)]


class _Hash:
    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: bytes) -> None:
        self._digest.update(data)


def _key_faults(ids: Iterable[UUID], wanted: int) -> list[str]:
    stored = [row for some in _portions(ids) for row in keystore.wrapped_keys(some)]
    unopened = sum(not keystore.does_open(key_id, wrapped) for key_id, wrapped in stored)
    found = []
    if len(stored) != wanted:
        found.append(f"The key database has {len(stored)} keys of this tenant, and the copy has {wanted}.")
    if unopened:
        found.append(f"{unopened} keys do not open: add the source's key to the file `kek` here, as a further line.")
    return found
