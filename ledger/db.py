"""Access to tenant data: one transaction per tenant, with statements that bypass the ORM where speed matters.

What every call of an agent does speaks to the server through here instead of through the ORM: it is the same
connection, the same transaction and the same errors, at a fifth of the price (docs/benchmarks.md). Statements are
written out, and values are bound by the server, never put into the text.

    call_function    one of the record's functions, bytes for bytes; `prepared`, its plan is kept with the connection;
                     `call_functions` the same with several sets of values in one message
    execute          any statement, with Python's types; its plan is kept
    pipeline         several such statements in one message
    select           rows of one table as the ORM would give them, `fetch_one` the first, `select_pipeline` of several
    columns, take    the same out of a join of several tables, which the caller writes out
    insert           new rows of any tables, in one statement; `insert_each` in one each and one message
    savepoint        what is done inside is undone alone
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from select import POLLIN, poll
from threading import local
from typing import Any, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import orjson
import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.base import ModelState
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.types.json import Jsonb

M = TypeVar("M", bound=models.Model)

_Row = tuple[Any, ...]
_Bytes = tuple[bytes | None, ...]


class _Asked(NamedTuple):
    """A statement, its values, their forms, and their types where the server shall not guess them."""

    statement: bytes
    values: Sequence[bytes | None]
    forms: Sequence[int]
    types: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Line:
    """A connection: as Django holds it, and as libpq does; with what is kept for as long as it lasts.

    That is how Python's types go there and back, and the names of what is planned (None where it is not known who
    answers behind the connection).
    """

    django: BaseDatabaseWrapper
    server: Any
    types: Any
    plans: dict[tuple[bytes, tuple[int, ...] | None], bytes] | None
    made: int = 0

    @property
    def begins(self) -> bool:
        """Whether the next statement is the first of a transaction."""
        return self.server.transaction_status == TransactionStatus.IDLE and self.django.in_atomic_block


_TEXT, _BINARY = 0, 1
# The line of this thread's transaction: while one lasts, nobody has to ask whether the connection still stands.
_held = local()
# So many plans a connection keeps; whoever goes beyond begins again.
_MOST_PLANS = 500


@contextmanager
def tenancy(tenant_id: UUID, *, reads_only: bool = False) -> Iterator[None]:
    """One transaction in which row-level security shows the rows of `tenant_id` and no others.

    Without it the database shows no rows at all, so a forgotten edge fails closed. Where it is nested, the outer
    tenant comes back at the end (on an error the savepoint's rollback brings it back). With `reads_only` the database
    itself refuses every write in it, and every lock on a row.
    """
    outer = _current() if connection.in_atomic_block else None
    with transaction.atomic():
        if outer is None:
            with _begun(tenant_id, reads_only=reads_only):
                yield
        else:
            _set(str(tenant_id))
            if reads_only:
                # PostgreSQL takes this back with the savepoint that stands around it.
                call_function(b"SET TRANSACTION READ ONLY")
            yield
            _set(outer)


def call_function(
    statement: bytes, *values: bytes | str | None, prepared: bool = False
) -> list[tuple[bytes | None, ...]]:
    """The rows of one statement in the server's binary form; `$1` and so on are its values, bytes or text.

    `prepared` is for statements that come again and again: the server plans them once per connection. Errors are those
    of any other query.
    """
    sent = [value.encode() if isinstance(value, str) else value for value in values]
    forms = [_TEXT if isinstance(value, str) else _BINARY for value in values]
    return _rows(_told(_line(), _Asked(statement, sent, forms), planned=prepared))


def call_functions(statement: bytes, calls: Sequence[Sequence[bytes | str | None]]) -> list[list[_Bytes]]:
    """The same of one statement that is sent with several sets of values, in one message and done in this order."""
    asked = [
        _Asked(
            statement,
            [value.encode() if isinstance(value, str) else value for value in values],
            [_TEXT if isinstance(value, str) else _BINARY for value in values],
        )
        for values in calls
    ]
    return [_rows(answer) for answer in _all_told(_line(), asked)] if asked else []


def execute(statement: LiteralString, *values: Any) -> list[_Row]:
    """The rows of one statement, whose values are `$1` and so on; none where it returns nothing."""
    line = _line()
    return _read(line, _told(line, _dumped(line, statement, values)))


def pipeline(*asked: tuple[Any, ...]) -> list[list[_Row]]:
    """The rows of several statements, each with its values behind it, sent in one message and done in this order."""
    line = _line()
    return [_read(line, answer) for answer in _all_told(line, [_dumped(line, each[0], each[1:]) for each in asked])]


def select(model: type[M], where: LiteralString, *values: Any) -> list[M]:
    """The rows of a table that a condition selects; an order and a limit may follow it."""
    statement, names = _selection(model)
    return [_loaded(model, names, row) for row in execute(statement + where, *values)]


def select_pipeline(*wanted: tuple[Any, ...]) -> list[list[Any]]:
    """The same of several tables in one message: each is a model, a condition and its values."""
    chosen = [(_selection(model), where, values) for model, where, *values in wanted]
    found = pipeline(*((statement + where, *values) for (statement, _), where, values in chosen))
    return [
        [_loaded(each[0], names, row) for row in rows]
        for each, ((_, names), _, _), rows in zip(wanted, chosen, found, strict=True)
    ]


def fetch_one(model: type[M], where: LiteralString, *values: Any) -> M | None:
    """The first of such rows, if there is one."""
    return next(iter(select(model, where, *values)), None)


def columns(model: type[models.Model], alias: LiteralString) -> LiteralString:
    """All columns of a table that a statement knows by this alias, in the order in which `take` reads them."""
    return ", ".join(f"{alias}.{name}" for name in _selection(model)[1])


def take(row: _Row, *kinds: type[models.Model]) -> tuple[list[Any], _Row]:
    """The rows of these tables that a joined row begins with, None where a table had none, and what is behind them."""
    found: list[Any] = []
    for kind in kinds:
        names = _selection(kind)[1]
        values, row = row[: len(names)], row[len(names) :]
        found.append(None if values[0] is None else _loaded(kind, names, values))
    return found, row


def insert(*added: models.Model, behind: tuple[Any, ...] = ()) -> list[_Row]:
    """Write new rows, all of them or none; fields that are not set get the model's defaults.

    A statement `behind` them, with its values, is done with them; its places are `{}`, in their order. Its rows come
    back.
    """
    statement, *values = behind or ("",)
    written = (value for row in added for value in _stored(row))
    return execute(_insertion(tuple(type(row) for row in added), statement), *written, *values)


def insert_each(added: Sequence[models.Model]) -> None:
    """The same of many rows: a statement each, planned once for each table, and one message."""
    pipeline(*((_insertion((type(row),)), *_stored(row)) for row in added))


@contextmanager
def savepoint() -> Iterator[None]:
    """A part of the transaction that is undone alone when it fails. Nothing in it may wait for the commit."""
    call_function(b"SAVEPOINT apart")
    try:
        yield
    except BaseException:
        call_function(b"ROLLBACK TO SAVEPOINT apart")
        transaction.set_rollback(False)
        raise
    finally:
        call_function(b"RELEASE SAVEPOINT apart")


def _loaded(model: type[M], names: list[str], row: _Row) -> M:
    """The instance that `Model.from_db` would make of a whole row, without asking each field and each signal."""
    made = model.__new__(model)
    made.__dict__.update(zip(names, row, strict=True))
    made._state = state = ModelState()
    state.adding, state.db = False, DEFAULT_DB_ALIAS
    return made


@cache
def _selection(model: type[models.Model]) -> tuple[LiteralString, list[str]]:
    names = [field.attname for field in model._meta.concrete_fields]
    return f"SELECT {', '.join(names)} FROM {model._meta.db_table} WHERE ", names


def _stored(row: models.Model) -> Iterator[Any]:
    for name, is_json in _fields(type(row)):
        value = getattr(row, name)
        yield Jsonb(value, dumps=orjson.dumps) if is_json else value


@cache
def _insertion(kinds: tuple[type[models.Model], ...], behind: LiteralString = "") -> LiteralString:
    parts, used = [], 0
    for kind in kinds:
        names = [name for name, _ in _fields(kind)]
        marks = ", ".join(f"${used + number}" for number in range(1, len(names) + 1))
        parts.append(f"INSERT INTO {kind._meta.db_table} ({', '.join(names)}) VALUES ({marks})")
        used += len(names)
    if behind:
        parts.append(behind.format(*(f"${used + number}" for number in range(1, behind.count("{}") + 1))))
    before = ", ".join(f"part_{number} AS ({part})" for number, part in enumerate(parts[:-1]))
    return f"WITH {before} {parts[-1]}" if before else parts[-1]


@cache
def _fields(model: type[models.Model]) -> list[tuple[str, bool]]:
    """The columns that a new row brings itself, and which of them hold JSON."""
    kept = [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]
    return [(field.attname, isinstance(field, models.JSONField)) for field in kept]


@contextmanager
def _begun(tenant_id: UUID, *, reads_only: bool) -> Iterator[None]:
    """Begin with the first statement, whoever sends it, and say COMMIT in one word.

    What is sent from here sends both in one message (`_all_told`). Whatever speaks through psycopg asks it to start the
    transaction, and that is done here, with the tenant in it.
    """
    line = _line()
    raw: Any = line.django.connection
    server = line.server
    begin = (b"BEGIN READ ONLY" if reads_only else b"BEGIN", b"SET LOCAL app.tenant = '%b'" % str(tenant_id).encode())

    def start() -> Iterator[None]:
        if server.transaction_status == TransactionStatus.IDLE:
            _checked(server, server.exec_(b"; ".join(begin)))
        yield from ()

    raw.counterfoil_begin, raw._start_query = begin, start
    _held.line = line
    try:
        yield
        if server.transaction_status == TransactionStatus.INTRANS and not connection.needs_rollback:
            _checked(server, server.exec_(b"COMMIT"))
    finally:
        _held.line = None
        del raw.counterfoil_begin, raw._start_query


def _told(line: _Line, asked: _Asked, *, planned: bool = True) -> Any:
    """The answer to one statement; a transaction's first is sent together with what begins it."""
    if line.begins:
        return _all_told(line, [asked], planned=planned)[0]
    server, name = line.server, _plan(line, asked) if planned else b""
    with line.django.wrap_database_errors:
        if name:
            return _checked(server, server.exec_prepared(name, asked.values, asked.forms, _BINARY))
        return _checked(server, server.exec_params(asked.statement, asked.values, asked.types, asked.forms, _BINARY))


def _all_told(line: _Line, asked: list[_Asked], *, planned: bool = True) -> list[Any]:
    """The answers to several statements, in one message."""
    server, names = line.server, [_plan(line, each) if planned else b"" for each in asked]
    before = getattr(line.django.connection, "counterfoil_begin", (b"BEGIN",)) if line.begins else ()
    with line.django.wrap_database_errors:
        server.enter_pipeline_mode()
        for statement in before:
            server.send_query_params(statement, None)
        for name, each in zip(names, asked, strict=True):
            if name:
                server.send_query_prepared(name, each.values, each.forms, _BINARY)
            else:
                server.send_query_params(each.statement, each.values, each.types, each.forms, _BINARY)
        server.pipeline_sync()
        answers = _answers(server)
    return [_checked(server, answer) for answer in answers][len(before) :]


def _dumped(line: _Line, statement: LiteralString, values: Sequence[Any]) -> _Asked:
    types = line.types
    with line.django.wrap_database_errors:
        sent = types.dump_sequence(values, [PyFormat.AUTO] * len(values))
    return _Asked(statement.encode(), sent, types.formats or (), types.types or None)


def _read(line: _Line, answer: Any) -> list[_Row]:
    if not answer.nfields:
        return []
    line.types.set_pgresult(answer, format=Format.BINARY)
    rows: list[_Row] = line.types.load_rows(0, answer.ntuples, tuple)
    return rows


def _answers(server: Any) -> list[Any]:
    """What the server said to a pipeline, up to its end."""
    answers: list[Any] = []
    while (answer := _next(server)) is None or answer.status != ExecStatus.PIPELINE_SYNC:
        if answer is not None:
            answers.append(answer)
        elif server.status != ConnStatus.OK:
            raise psycopg.OperationalError(server.get_error_message())
    server.exit_pipeline_mode()
    return answers


def _next(server: Any) -> Any:
    """The next result, waited for at the socket, where other threads go on.

    `get_result` would wait with everybody stopped, and what it waits for may be a row that another thread of this very
    process has locked.
    """
    while server.is_busy():
        _arrived(server.socket)
        server.consume_input()
    return server.get_result()


def _arrived(socket: int) -> None:
    arrived = poll()
    arrived.register(socket, POLLIN)
    arrived.poll()


def _plan(line: _Line, asked: _Asked) -> bytes:
    """The name under which the server keeps a statement's plan, or nothing where it cannot."""
    plans, server, what = line.plans, line.server, (asked.statement, asked.types)
    if plans is None:
        return b""
    name = plans.get(what)
    if name is None:
        if len(plans) == _MOST_PLANS:
            _checked(server, server.exec_(b"DEALLOCATE ALL"))
            plans.clear()
        name, line.made = b"counterfoil_%d" % line.made, line.made + 1
        _checked(server, server.prepare(name, *what))
        plans[what] = name
    return name


def _line() -> _Line:
    """The line to the server.

    A pooler hands each transaction to any of its servers. Behind one, the server that answers is not the one that
    the connection was made to, and the plans that it keeps are not ours.
    """
    held: _Line | None = getattr(_held, "line", None)
    if held is not None:
        return held
    django = connections[DEFAULT_DB_ALIAS]
    # A request's first statement may be one of ours, on a connection that the server has dropped since the last.
    django.close_if_health_check_failed()
    django.ensure_connection()
    raw: Any = django.connection
    line: _Line | None = getattr(raw, "counterfoil_line", None)
    if line is None:
        server = _server()
        process = _checked(server, server.exec_(b"SELECT pg_backend_pid()")).get_value(0, 0)
        plans: dict[Any, bytes] | None = {} if process == b"%d" % server.backend_pid else None
        raw.counterfoil_line = line = _Line(django, server, Transformer(raw), plans)
    # A pool hands the same connection to one thread after another; whose transaction it is in is the holder's to say.
    line.django = django
    return line


def _rows(answer: Any) -> list[tuple[bytes | None, ...]]:
    return [tuple(answer.get_value(row, each) for each in range(answer.nfields)) for row in range(answer.ntuples)]


def _raw() -> Any:
    connection.ensure_connection()
    assert connection.connection is not None
    return connection.connection


def _server() -> Any:
    return _raw().pgconn


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
