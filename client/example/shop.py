"""The example's real systems: a shop in PostgreSQL, a folder of documents, a Valkey stream.

Three database roles, as in a real company: `shop_owner` owns the schema and cannot sign in, the
writer (the executor's role) changes rows, and the reader (the verifier's role) only looks. The
reader does not see `example_faults`: nothing in the product knows what is going to go wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import LiteralString

import psycopg
import redis
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row

from example import environment

OWNER = "shop_owner"
STREAM, GROUP, DEAD_LETTERS = "shop:events", "mailer", "shop:dead"
READABLE = ("orders", "refunds", "charges", "notices", "reservations", "audit")

Connection = psycopg.Connection[DictRow]


@dataclass(frozen=True)
class Shop:
    """Where the shop's systems are, as the executor and the scripted agent reach them."""

    database_url: str
    valkey_url: str
    folder: Path

    def connect(self) -> Connection:
        """A connection whose block is one transaction."""
        return psycopg.connect(self.database_url, row_factory=dict_row, connect_timeout=5)

    def valkey(self) -> redis.Redis:
        """A client of the stream's server."""
        return redis.Redis.from_url(self.valkey_url, decode_responses=True, socket_timeout=5)


def from_environment() -> Shop:
    """The shop that the environment describes."""
    return Shop(
        database_url=environment.setting("SHOP_DATABASE_URL"),
        valkey_url=environment.setting("SHOP_VALKEY_URL"),
        folder=environment.folder("SHOP_FOLDER"),
    )


def sent_key(order_id: str) -> str:
    """The hash under which the mailer stores what it sent about an order."""
    return f"shop:sent:{order_id}"


def set_up(*, admin_url: str, writer_url: str, reader_url: str) -> None:
    """Create the roles, the schema and its tables; a repeat changes nothing but passwords.

    Names and passwords of writer and reader are those in their own addresses.
    """
    writer, reader = conninfo_to_dict(writer_url), conninfo_to_dict(reader_url)
    with psycopg.connect(admin_url) as connection:
        _role(connection, OWNER, None)
        _role(connection, str(writer["user"]), str(writer["password"]))
        _role(connection, str(reader["user"]), str(reader["password"]))
        _run(connection, "GRANT {} TO CURRENT_USER", OWNER)
        _run(connection, "CREATE SCHEMA IF NOT EXISTS shop AUTHORIZATION {}", OWNER)
        _run(connection, "SET LOCAL ROLE {}", OWNER)
        tables = files("example").joinpath("shop.sql").read_text()
        connection.execute(tables.encode())
        _grant(connection, writer=str(writer["user"]), reader=str(reader["user"]))
        connection.execute("RESET ROLE")
        _let_in(connection, str(writer["user"]), str(reader["user"]))


def set_up_stream(valkey: redis.Redis) -> None:
    """Make the stream and its consumer group, unless they are there."""
    try:
        valkey.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as fault:
        if not str(fault).startswith("BUSYGROUP"):
            raise


def _role(connection: psycopg.Connection, name: str, password: str | None) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
    if not known:
        _run(connection, "CREATE ROLE {}", name)
    if password is None:
        return
    # The server gets the verifier, never the password, so that no statement log holds it.
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    statement = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}")
    connection.execute(statement.format(sql.Identifier(name), sql.Literal(verifier)))


def _grant(connection: psycopg.Connection, *, writer: str, reader: str) -> None:
    _run(connection, "GRANT USAGE ON SCHEMA shop TO {}, {}", writer, reader)
    _run(connection, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA shop TO {}", writer)
    for table in READABLE:
        _run(connection, "GRANT SELECT ON shop.{} TO {}", table, reader)


def _let_in(connection: psycopg.Connection, *roles: str) -> None:
    database = connection.info.dbname
    for role in roles:
        _run(connection, "GRANT CONNECT ON DATABASE {} TO {}", database, role)


def _run(connection: psycopg.Connection, statement: LiteralString, *names: str) -> None:
    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
