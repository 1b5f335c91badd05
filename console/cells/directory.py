"""The directory of cells: which installation serves which tenant (docs/cells.md).

It is a small PostgreSQL database of its own, which no cell owns. A cell knows its own tenants and their keys; the
directory knows the cell and nothing else of a tenant. Without COUNTERFOIL_DIRECTORY_URL there is one installation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import psycopg
from django.conf import settings
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import class_row

TABLES: Final = (Path(__file__).parent / "directory.sql").read_bytes()
"""The tables of a directory; may be run again at any time."""
DEFAULTS: Final[Mapping[str, Any]] = {
    "application_name": "counterfoil directory",
    "connect_timeout": 3,
    # A server that is gone is given up soon.
    "tcp_user_timeout": 5000,
    "target_session_attrs": "read-write",
}
"""The options of a connection that the address of the directory does not set."""
T = TypeVar("T")
_WRITES: Final = {"cell": "SELECT, INSERT, UPDATE, DELETE", "tenant": "SELECT, INSERT, UPDATE, DELETE"}
_RIGHTS: Final[Sequence[Mapping[str, str]]] = (
    _WRITES | {"change": "SELECT"},
    {"cell": "SELECT", "tenant": "SELECT", "change": "SELECT (number)"},
)


class NoDirectory(Exception):
    """This installation is one cell by itself: COUNTERFOIL_DIRECTORY_URL is not set."""


class DirectoryUnavailable(Exception):
    """The directory does not answer, or not this role; whether a change without an answer was made is unknown."""


class UnknownCell(Exception):
    """The directory has no cell of this name."""


class DirectoryConflict(Exception):
    """The directory does not allow this change; nothing was changed."""


class PlacedElsewhere(Exception):
    """The tenant does not stand where the change expected it; nothing was changed."""

    def __init__(self, slug: str, standing: Placement | None) -> None:
        self.standing = standing
        where = f"stands at {standing.cell}" if standing else "is not placed"
        super().__init__(f"{slug} {where}.")


@dataclass(frozen=True)
class Cell:
    """One installation: its name, what people open, where requests are sent, and the address of its record."""

    name: str
    public_url: str
    addresses: list[str]
    record: str


@dataclass(frozen=True)
class Placement:
    """A tenant's place; `version` counts the changes of it, and `host` is a name that is its own, if any."""

    tenant_id: UUID
    slug: str
    cell: str
    version: int
    host: str | None


@dataclass(frozen=True)
class Change:
    """A line of the history: what a cell or a tenant was before and afterwards; None if it was not there."""

    number: int
    at: Any
    role: str
    reason: str
    kind: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True)
class Directory:
    """The whole directory as of the change `number`."""

    number: int
    cells: tuple[Cell, ...]
    placements: tuple[Placement, ...]


_PLACEMENT: Final = "id AS tenant_id, slug, cell, version, host"


# One tenant


def find(slug: str) -> Placement | None:
    """The place of a tenant by its slug; None if it is not placed."""
    with _connection() as connection:
        return _standing(connection, "slug = %s", slug)


def find_tenant(tenant_id: UUID) -> Placement | None:
    """The place of a tenant by its id; None if it is not placed."""
    with _connection() as connection:
        return _standing(connection, "id = %s", tenant_id)


def place(tenant_id: UUID, slug: str, *, cell: str, after: str | None, reason: str = "") -> Placement:
    """Have a cell serve a tenant, only if the tenant stands at `after` now; None if it is not placed yet.

    `PlacedElsewhere` tells where it stands otherwise. Once this returns, the change is durable and on record.
    """
    with _change(reason) as connection:
        if after is None:
            statement: LiteralString = (
                "INSERT INTO tenant (id, slug, cell, version) VALUES (%(id)s, %(slug)s, %(cell)s, 1)"
                f" ON CONFLICT DO NOTHING RETURNING {_PLACEMENT}"
            )
        else:
            statement = (
                "UPDATE tenant SET cell = %(cell)s WHERE id = %(id)s AND slug = %(slug)s AND cell = %(after)s"
                f" RETURNING {_PLACEMENT}"
            )
        values = {"id": tenant_id, "slug": slug, "cell": cell, "after": after}
        placed = _rows(connection, Placement, statement, values)
        if not placed:
            standing = _standing(connection, "id = %s", tenant_id) or _standing(connection, "slug = %s", slug)
            if standing and (standing.tenant_id, standing.slug) != (tenant_id, slug):
                raise DirectoryConflict(f"The directory has {standing.slug} with the id {standing.tenant_id}.")
            raise PlacedElsewhere(slug, standing)
    return placed[0]


def withdraw(slug: str, *, after: str, reason: str = "") -> None:
    """Take a tenant that no cell serves any more out of the directory, only if it stands at `after` now."""
    with _change(reason) as connection:
        statement: LiteralString = f"DELETE FROM tenant WHERE slug = %s AND cell = %s RETURNING {_PLACEMENT}"
        if not _rows(connection, Placement, statement, [slug, after]):
            raise PlacedElsewhere(slug, _standing(connection, "slug = %s", slug))


def name_host(slug: str, host: str | None, *, reason: str = "") -> Placement:
    """Give a tenant a host name that is its own, or take it away."""
    with _change(reason) as connection:
        statement: LiteralString = f"UPDATE tenant SET host = %s WHERE slug = %s RETURNING {_PLACEMENT}"
        named = _rows(connection, Placement, statement, [host, slug])
        if not named:
            raise PlacedElsewhere(slug, None)
    return named[0]


# The whole


def put_cell(cell: Cell, *, reason: str = "") -> None:
    """Add a cell, or change the addresses of one that is there."""
    with _change(reason) as connection:
        connection.execute(
            "INSERT INTO cell VALUES (%s, %s, %s, %s) ON CONFLICT (name) DO UPDATE"
            " SET public_url = excluded.public_url, addresses = excluded.addresses, record = excluded.record",
            [cell.name, cell.public_url, cell.addresses, cell.record],
        )


def remove_cell(name: str, *, reason: str = "") -> None:
    """Remove a cell that serves nobody."""
    with _change(reason) as connection:
        if not connection.execute("DELETE FROM cell WHERE name = %s", [name]).rowcount:
            raise UnknownCell(name)


def read_directory(url: str = "", *, unless: int | None = None) -> Directory | None:
    """The whole directory, of one moment; None if its newest change still has the number `unless`."""
    with _connection(url) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        [(number,)] = connection.execute("SELECT coalesce(max(number), 0) FROM change").fetchall()
        if number == unless:
            return None
        cells = _rows(connection, Cell, "SELECT name, public_url, addresses, record FROM cell ORDER BY name")
        every: LiteralString = f"SELECT {_PLACEMENT} FROM tenant ORDER BY id"
        return Directory(number, tuple(cells), tuple(_rows(connection, Placement, every)))


def history(slug: str | None = None, *, limit: int = 100) -> list[Change]:
    """The newest changes, of one tenant or of all."""
    with _connection() as connection:
        return _rows(
            connection,
            Change,
            "SELECT number, at, role, reason, kind, before, after FROM change"
            " WHERE %(slug)s::text IS NULL OR kind = 'tenant' AND coalesce(after, before) ->> 'slug' = %(slug)s"
            " ORDER BY number DESC LIMIT %(limit)s",
            {"slug": slug, "limit": limit},
        )


def prepare(owner_url: str, *, operator: str, router: str) -> None:
    """Make the tables as their owner, and give the two roles exactly their rights: one writes, one reads."""
    with _connection(owner_url) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(4711006)")
        connection.execute(TABLES)
        for role, rights in zip((operator, router), _RIGHTS, strict=True):
            _check_role(connection, role)
            name = sql.Identifier(role)
            database = sql.Identifier(connection.info.dbname)
            connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(name))
            for table, words in rights.items():
                place = sql.Identifier(table)
                connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM PUBLIC, {}").format(place, name))
                connection.execute(sql.SQL("GRANT {} ON TABLE {} TO {}").format(sql.SQL(words), place, name))


def _check_role(connection: psycopg.Connection[Any], role: str) -> None:
    """Refuse a role that is, or can become, the owner: it could change the history."""
    found = connection.execute(
        "SELECT rolsuper OR pg_has_role(rolname, current_user, 'MEMBER') FROM pg_roles WHERE rolname = %s", [role]
    ).fetchone()
    if found is None:
        raise DirectoryConflict(f"The role {role} does not exist. Create it with deploy/directory.sql.")
    if found[0]:
        raise DirectoryConflict(f"The role {role} must not be a superuser or a member of the owner.")


# Connections


@contextmanager
def _connection(url: str = "") -> Iterator[psycopg.Connection[Any]]:
    address = url or settings.COUNTERFOIL_DIRECTORY_URL
    if not address:
        raise NoDirectory("COUNTERFOIL_DIRECTORY_URL is not set: this installation is one cell by itself.")
    try:
        with psycopg.connect(make_conninfo(**{**DEFAULTS, **conninfo_to_dict(address)}), autocommit=True) as connection:
            yield connection
    except (psycopg.OperationalError, errors.UndefinedTable, errors.InsufficientPrivilege) as error:
        raise DirectoryUnavailable(f"The directory cannot be used: {str(error).strip()}") from None


@contextmanager
def _change(reason: str) -> Iterator[psycopg.Connection[Any]]:
    """One change in one transaction, durable when it ends, with its reason in the history."""
    try:
        with _connection() as connection, connection.transaction():
            connection.execute("SELECT set_config('directory.reason', %s, true)", [reason])
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', true)"
                " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            yield connection
    except errors.ForeignKeyViolation as error:
        raise UnknownCell(_sentence(error)) from None
    except psycopg.IntegrityError as error:
        raise DirectoryConflict(_sentence(error)) from None


def _sentence(error: psycopg.Error) -> str:
    return error.diag.message_detail or error.diag.message_primary or str(error)


def _standing(connection: psycopg.Connection[Any], where: LiteralString, value: Any) -> Placement | None:
    statement: LiteralString = f"SELECT {_PLACEMENT} FROM tenant WHERE {where}"
    found = _rows(connection, Placement, statement, [value])
    return found[0] if found else None


def _rows(connection: psycopg.Connection[Any], kind: type[T], statement: LiteralString, values: Any = None) -> list[T]:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, values).fetchall()
