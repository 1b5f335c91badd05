"""Rows of any table, made from the catalogue: what they hold does not matter, only whose they are."""

from __future__ import annotations

from uuid import UUID

import psycopg
from psycopg import sql

VALUES = {
    "uuid": "gen_random_uuid()",
    "int2": "1",
    "int4": "1",
    "int8": "1",
    "bool": "false",
    "bytea": "sha256(gen_random_uuid()::text::bytea)",
    "timestamptz": "now()",
    "date": "current_date",
    "float8": "1",
    "numeric": "1",
    "time": "localtime",
    "jsonb": "'{}'",
    "text": "left(gen_random_uuid()::text, 8)",
    "_int4": "'{1}'",
    "varchar": "left(gen_random_uuid()::text, 1)",
}


def columns(connection: psycopg.Connection, table: str) -> dict[str, str]:
    """Every column of a table and the name of its type."""
    return dict(
        connection.execute(
            "SELECT attname, typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''"
            " AND attgenerated = ''",
            [table],
        ).fetchall()
    )


def a_row(connection: psycopg.Connection, table: str, tenant: UUID) -> sql.Composed:
    """An INSERT of one row that belongs to `tenant`."""
    known = columns(connection, table)
    texts = [sql.Literal(str(tenant)) if name == "tenant_id" else sql.SQL(VALUES[kind]) for name, kind in known.items()]
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, known)), sql.SQL(", ").join(texts)
    )


def lift_checks(connection: psycopg.Connection) -> None:
    """Drop every check of this database, of rows and of what is written, and stop its foreign keys for this session.

    For a superuser's session, in a clone.
    """
    connection.execute("SET session_replication_role = replica")
    checks = connection.execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint"
        " WHERE contype = 'c' AND conparentid = 0 AND coninhcount = 0 AND conrelid <> 0"
        " AND connamespace = 'public'::regnamespace"
    ).fetchall()
    for table, name in checks:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    # Those that look at each row before it is written (pg_trigger.tgtype: ROW and BEFORE).
    before = connection.execute(
        "SELECT tgrelid::regclass::text, tgname FROM pg_trigger"
        " WHERE NOT tgisinternal AND tgparentid = 0 AND tgtype & 3 = 3"
    ).fetchall()
    for table, name in before:
        connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER {name}")
