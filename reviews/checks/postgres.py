"""Read-only, time-limited connections to a PostgreSQL system of record, with its primary status."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.checks.limits import ConversationDeadline, deadline_after
from reviews.readback.rules import shapes
from reviews.readback.rules.addresses import is_loopback

ADDRESS: Final[Mapping[str, shapes.Schema]] = {
    "url": shapes.member(shapes.TEXT, "Connection string", "In place of host, port and database; without a password."),
    "host": shapes.member(shapes.TEXT, "Host", "Not needed if the credential names it."),
    "port": shapes.member(shapes.number_schema(1, 65_535), "Port", default=5432),
    "dbname": shapes.member(shapes.TEXT, "Database"),
    "user": shapes.member(shapes.TEXT, "User", "One that can only read. Its password belongs in the credential."),
    "sslmode": shapes.member(
        shapes.one_of(("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
        "TLS",
        "A password leaves this machine only under require, verify-ca or verify-full.",
    ),
    "sslrootcert": shapes.member(
        shapes.TEXT, "File of the certificate's authority", "PEM, on the hosts that read it.", is_rare=True
    ),
    "hostaddr": shapes.member(shapes.TEXT, "IP address of the host", is_rare=True),
}
"""The settings that say where a PostgreSQL is."""
_PARAMETERS: Final = ADDRESS.keys() - {"url"} | {"password"}

_NAME = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
COLUMN: Final = shapes.name_schema(_NAME, "a column's name")
TABLE: Final[dict[str, shapes.Schema]] = {
    "table": {
        "type": "string",
        "pattern": rf"^{_NAME}(?:\.{_NAME})?$",
        "fault": "must be a table's name, with or without its schema.",
    },
    "where": shapes.map_schema(COLUMN),
}
"""The required members of a lookup in a table: its name and the condition on its rows."""

Row = dict[str, Any]


@contextmanager
def read_only_connection(system: SystemAccess, timeout_s: float) -> Iterator[psycopg.Connection[Row]]:
    """Open a connection whose transactions see one snapshot and cannot write; it is closed in time in any case."""
    with (
        ConversationDeadline(deadline_after(timeout_s)) as limit,
        _connection(system, timeout_s) as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as talk,
    ):
        limit.watch(talk)
        yield connection


def _connection(system: SystemAccess, timeout_s: float) -> psycopg.Connection[Row]:
    given = {**system.settings, **system.credential}
    address = {name: value for name, value in given.items() if name in _PARAMETERS}
    milliseconds = max(1, int(timeout_s * 1000))
    limits = (
        "-c default_transaction_read_only=on"
        f" -c statement_timeout={milliseconds} -c lock_timeout={max(1, milliseconds // 2)}"
        f" -c idle_in_transaction_session_timeout={milliseconds}"
    )
    try:
        text = make_conninfo(given.get("url", ""), **address, options=limits, application_name="readback")
        text = make_conninfo(text, **_tls_settings(conninfo_to_dict(text)))
        connection = psycopg.connect(
            text,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=max(2, int(timeout_s)),
            prepare_threshold=None,  # one reading is too short for plans, and a pooler could lose them
        )
    except psycopg.Error as problem:
        # Whatever keeps us out, also a refused password, may be mended while the action waits.
        raise CheckFailed(_sentence(problem), retryable=True) from None
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    set_json_loads(partial(json.loads, parse_float=str), connection)
    return connection


def _tls_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that send a password beyond the loopback address only under TLS; refuse contrary settings."""
    hosts = str(given.get("hostaddr") or given.get("host") or "/").split(",")
    if not given.get("password") or all(map(is_loopback, hosts)):
        return {}
    asked = given.get("sslmode")
    if asked not in (None, "require", "verify-ca", "verify-full"):
        raise CheckFailed(f"{hosts[0]} is asked without TLS (sslmode {asked}), so no secret is sent.", retryable=False)
    return {} if asked else {"sslmode": "require"}


def primary_status(connection: psycopg.Connection[Row]) -> Row:
    """Return whether this is the primary, and its log position; the first statement takes the snapshot."""
    row = connection.execute(
        "SELECT pg_is_in_recovery() AS in_recovery, CASE WHEN pg_is_in_recovery()"
        " THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text AS position"
    ).fetchone()
    assert row is not None
    return row


def server_identity(connection: psycopg.Connection[Row]) -> dict[str, str]:
    """Return the identity of the server and the database; empty if the role may not read it.

    A replica has the identity of its primary.
    """
    row = connection.execute(
        "SELECT has_function_privilege('pg_control_system()', 'execute') AS allowed,"
        " (SELECT oid FROM pg_database WHERE datname = current_database())::text AS database"
    ).fetchone()
    if row is None or not row["allowed"]:
        return {}
    told = connection.execute("SELECT system_identifier::text AS server FROM pg_control_system()").fetchone()
    return {"server": f"postgresql {told['server']}", "database": row["database"]} if told is not None else {}


def check_failure(problem: psycopg.Error, indicator: str | None = None) -> CheckFailed:
    """Lost connections and locks pass; a table that is not there, or may not be read, does not."""
    passing = isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)
    return CheckFailed(_sentence(problem), retryable=passing, indicators=(indicator,) if indicator else ())


def _sentence(problem: psycopg.Error) -> str:
    # Connection errors quote host and user, never the password.
    return (str(problem).strip().split("\n")[0] or type(problem).__name__)[:300]
