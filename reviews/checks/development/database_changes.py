"""The effect of a statement in PostgreSQL: rows of any table by their primary key, and objects of the schema.

    effects.<name>   reads "rows" or "objects", and optionally expect "absent" (of rows)

The call's arguments say what to look for: `cluster` and `database` (system identifier and name, as the server gave
them), and either `table`, `key_columns`, `columns`, `rows` (each the key and then the values, as text), or `objects`
(each `kind`, `name`, `present`, `datatype`).

The system's settings are those of `databases`: an address, and `tables` where not every table may be read.

1. Everything is read in one read-only snapshot of the primary. Names become identifiers, values are bound.
2. A statement that ran in another database than the registered one is not looked for here: no answer.
3. Row security that would hide rows from this role makes the reading fail: a hidden row is not a removed one.
4. `as_asked` counts the rows or objects that are as requested. If none is, the statement did not take effect. Of an
   object, kind, schema and name are compared, of a column its type without length or precision; nothing else of a
   definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg import errors, sql

from reviews.checks import lookups
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.checks.postgres import ADDRESS, Row, check_failure, primary_status, read_only_connection
from reviews.readback.rules import shapes
from reviews.reconciliation.rules.reading import NOT_FRESH

_FIELDS: dict[str, Any] = {"as_asked": {"type": "integer"}, "found": {"type": "integer"}}
_KINDS = {"table": "rp", "index": "iI", "view": "v", "sequence": "S"}


class DatabaseChangeCheck(lookups.LookupCheck):
    """The check of pattern `database_changes`."""

    pattern = "database_changes"
    settings = {**ADDRESS, "tables": shapes.readable("Tables")}
    fields = _FIELDS
    part = shapes.reads_schema(
        ("rows", "objects"),
        shapes.rule(
            ": each object says itself whether it is to be there.",
            if_={"properties": {"reads": {"const": "objects"}}},
            then={"not": {"required": ["expect"]}},
        ),
        optional={"expect": shapes.EXPECT},
    )

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the requested rows or objects from the primary."""
        asked = bindings.get("sr", {})
        try:
            with read_only_connection(system, timeout_s) as connection, connection.transaction():
                standing = primary_status(connection)
                _check_place(connection, asked)
                connection.execute("SET LOCAL row_security = off")
                effects = tuple(
                    _rows_effect(connection, system, name, part, asked)
                    if part["reads"] == "rows"
                    else _objects_effect(connection, name, asked)
                    for name, part in lookups.lookup_effects(verification).items()
                )
        except errors.LockNotAvailable as problem:
            raise check_failure(problem, "lock_timeout") from None
        except psycopg.Error as problem:
            raise check_failure(problem) from None
        replica = standing["in_recovery"]
        return Reading(
            source=system.name,
            consistency=Consistency.REPLICA if replica else Consistency.PRIMARY,
            freshness=f"lsn {standing['position']}",
            observed_at=at,
            pointer=f"{asked.get('table') or 'the schema'} of {asked['database']}",
            effects=effects,
            indicators=(NOT_FRESH,) if replica else (),
            raw={each.name: dict(each.fields) for each in effects},
        )


def _check_place(connection: psycopg.Connection[Row], asked: Mapping[str, Any]) -> None:
    place = connection.execute(
        "SELECT system_identifier::text AS cluster, current_database()::text AS database FROM pg_control_system()"
    ).fetchone()
    if place != {name: asked.get(name) for name in ("cluster", "database")}:
        here = f"{place['database']} of cluster {place['cluster']}" if place else "unknown"
        there = f"{asked.get('database')} of cluster {asked.get('cluster')}"
        raise CheckFailed(f"This is database {here}; the statement ran in {there}.", retryable=False)


def _rows_effect(
    connection: psycopg.Connection[Row],
    system: SystemAccess,
    name: str,
    part: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> ReadEffect:
    table, rows = str(asked["table"]), asked["rows"]
    if table not in system.settings.get("tables", [table]):
        raise CheckFailed(f"{table} is not among the tables that may be read.", retryable=False)
    key, columns = asked["key_columns"], asked["columns"]
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
        sql.SQL(", ").join(
            [sql.SQL("true AS there"), *(sql.SQL("{}::text").format(sql.Identifier(one)) for one in columns)]
        ),
        sql.Identifier(*table.split(".")),
        sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(one), sql.Placeholder()) for one in key),
    )
    found = [connection.execute(query, row[: len(key)]).fetchone() for row in rows]
    there = sum(one is not None for one in found)
    if part.get("expect") == "absent":
        return _effect(name, as_asked=len(rows) - there, found=there)
    right = sum(
        one is not None and list(one.values())[1:] == row[len(key) :] for one, row in zip(found, rows, strict=True)
    )
    return _effect(name, as_asked=right, found=there)


def _objects_effect(connection: psycopg.Connection[Row], name: str, asked: Mapping[str, Any]) -> ReadEffect:
    found = [_object_type(connection, each["kind"], each["name"].split(".")) for each in asked["objects"]]
    right = [
        (shown is not None) is each["present"] and (not shown or not each["datatype"] or shown == each["datatype"])
        for shown, each in zip(found, asked["objects"], strict=True)
    ]
    return _effect(name, as_asked=sum(right), found=sum(one is not None for one in found))


def _object_type(connection: psycopg.Connection[Row], kind: str, names: Sequence[str]) -> str | None:
    """Return the type of a column, "" for another object that exists, None for one that does not."""
    if kind == "schema":
        query, values = "SELECT '' AS type FROM pg_namespace WHERE nspname = %s", [names[0]]
    elif kind == "column":
        query = (
            "SELECT a.atttypid::regtype::text AS type FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s AND a.attname = %s AND a.attnum > 0 AND NOT a.attisdropped"
        )
        values = [*names]
    else:
        query = (
            "SELECT '' AS type FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s AND strpos(%s, c.relkind::text) > 0"
        )
        values = [*names, _KINDS[kind]]
    row = connection.execute(query, values).fetchone()
    return None if row is None else str(row["type"])


def _effect(name: str, *, as_asked: int, found: int) -> ReadEffect:
    """Return the effect by the number of rows or objects as requested; zero means that the statement did not run (rule
    4).
    """
    fields = {"as_asked": as_asked, "found": found}
    return ReadEffect(name=name, present=as_asked > 0, count=int(as_asked > 0), fields=fields)
