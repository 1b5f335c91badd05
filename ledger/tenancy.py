"""The edge of every read and write of tenant data: one transaction that knows its tenant.

Every request begins one and most of them call the record's functions, so both speak to the server directly: it is the
same connection and the same transaction, without the price of a cursor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection, transaction
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

_BEGIN = "BEGIN; SELECT set_config('app.tenant', '{}', true)"
_TEXT, _BINARY = 0, 1


@contextmanager
def tenancy(tenant_id: UUID) -> Iterator[None]:
    """One transaction in which row-level security shows the rows of `tenant_id` and no others.

    Without it the database shows no rows at all, so a forgotten edge fails closed. Where it is nested, the outer
    tenant comes back at the end (on an error the savepoint's rollback brings it back).
    """
    outer = _current() if connection.in_atomic_block else None
    with transaction.atomic():
        if outer is None:
            _begin(tenant_id)
        else:
            _set(str(tenant_id))
        yield
        if outer is not None:
            _set(outer)


def call(statement: bytes, *values: bytes | str | None) -> list[tuple[bytes | None, ...]]:
    """The rows of one statement in the server's binary form; `$1` and so on are its values, bytes or text.

    Errors are those of any other query.
    """
    server = _server()
    if server.transaction_status == TransactionStatus.IDLE and connection.in_atomic_block:
        _checked(server, server.exec_(b"BEGIN"))
    sent = [value.encode() if isinstance(value, str) else value for value in values]
    forms = [_TEXT if isinstance(value, str) else _BINARY for value in values]
    answer = _checked(server, server.exec_params(statement, sent, None, forms, _BINARY))
    return [tuple(answer.get_value(row, each) for each in range(answer.nfields)) for row in range(answer.ntuples)]


def _begin(tenant_id: UUID) -> None:
    # The transaction and its tenant in one message instead of two. An id is nothing but hex digits and dashes.
    server = _server()
    _checked(server, server.exec_(_BEGIN.format(tenant_id).encode()))


def _server() -> Any:
    connection.ensure_connection()
    assert connection.connection is not None
    return connection.connection.pgconn


def _checked(server: Any, answer: Any) -> Any:
    if answer.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return answer
    with connection.wrap_database_errors:
        if server.status != ConnStatus.OK:
            raise psycopg.OperationalError(answer.get_error_message())
        raise psycopg.errors.error_from_result(answer)


def _current() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(current_setting('app.tenant', true), '')")
        return str(cursor.fetchone()[0])


def _set(tenant: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', %s, true)", [tenant])
