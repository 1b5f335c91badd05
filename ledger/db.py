"""Access to tenant data: one transaction per tenant, with statements that bypass the ORM where speed matters.

The code on the path of an agent's call uses these functions instead of the ORM: same connection, same transaction,
same errors, at a fifth of the cost (docs/benchmarks.md). Statements are written out in full; the server binds the
values, which never become part of the text.

    call_function          call one of the record's functions with raw bytes; with `prepared` the connection keeps
                           its plan. `call_functions` sends several sets of values in one message
    execute                run any statement with Python's types as a prepared statement
    pipeline               run several such statements in one message
    defer                  run statements whose rows nobody reads with the next message, at the latest with COMMIT
    select                 load rows of one table as model instances; `fetch_one` loads the first, and `select_call` is
                           for `pipeline`, whose rows `instances` loads
    page_in_order          a page of any rows of the ORM in the order of a column, behind a row
    columns, load_models   the same from a join that the caller writes; a `rows_column` has many rows of another table
    insert                 insert rows into any tables in one statement; `insert_each` uses one statement per row and
                           one message
    savepoint              a part of the transaction that can be rolled back alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from django.db.models import Q, QuerySet
from django.db.models.base import ModelState
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.types.json import Jsonb, JsonbBinaryLoader

M = TypeVar("M", bound=models.Model)

_Row = tuple[Any, ...]
_Bytes = tuple[bytes | None, ...]


class _Statement(NamedTuple):
    """A statement with encoded values: their formats, and their types where the server must not infer them."""

    text: bytes | str
    values: Sequence[bytes | None]
    formats: Sequence[int]
    types: tuple[int, ...] | None = None


class RawCall(NamedTuple):
    """A call for `pipeline` whose values are bytes or text as in `call_function`."""

    statement: bytes
    values: Sequence[bytes | str | None]


class Row(models.Model):
    """A model whose constructor copies named values without visiting each field and sending signals."""

    class Meta:
        abstract = True

    def __init__(self, *values: Any, **named: Any) -> None:
        defaults = _column_defaults(type(self))
        if values or not named.keys() <= defaults.keys():
            super().__init__(*values, **named)
            return
        self.__dict__.update({name: named[name] if name in named else default() for name, default in defaults.items()})
        self._state = ModelState()


@cache
def _column_defaults(kind: type[models.Model]) -> dict[str, Callable[[], Any]]:
    """The default of each column, as a function."""
    return {field.attname: field.get_default for field in kind._meta.concrete_fields}


class _JsonLoader(JsonbBinaryLoader):
    """Decode jsonb with orjson; stored documents have no content that two parsers would read differently."""

    def load(self, data: Buffer) -> Any:
        return orjson.loads(bytes(data[1:]))


class _AdaptedConnection:
    """A connection whose type adapters decode jsonb with `_JsonLoader`."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.adapters = connection, AdaptersMap(connection.adapters)
        self.adapters.register_loader("jsonb", _JsonLoader)


@dataclass(slots=True)
class _Connection:
    """A connection for Django and libpq, with the state that lasts as long as it does.

    That state is the adaptation of Python's types, the names of prepared statements (None where a pooler may put
    another server behind the connection), and the statements that wait for the next message.
    """

    django: BaseDatabaseWrapper
    server: Any
    types: Any
    plans: dict[tuple[bytes | str, tuple[int, ...] | None], bytes] | None
    deferred: list[_Statement]
    prepared: int = 0

    @property
    def starts_transaction(self) -> bool:
        """Return whether the next statement is the first of a transaction."""
        return self.server.transaction_status == TransactionStatus.IDLE and self.django.in_atomic_block


_TEXT, _BINARY = 0, 1
# Stands for each of our transactions in Django's list of atomic blocks.
_ATOMIC_BLOCK = transaction.Atomic(DEFAULT_DB_ALIAS, savepoint=True, durable=False)
# The connection of this thread's transaction: while it lasts, the connection needs no health check.
_current_transaction = local()
_COMMIT = _Statement(b"COMMIT", (), ())
# Left to itself the server plans a statement anew for each of its first five uses on a connection, and some each time,
# which takes longer than looking up a few rows.
_PLANNED_ONCE = b"SET LOCAL plan_cache_mode = force_generic_plan"
_PLANNED_FOR_VALUES = RawCall(b"SET LOCAL plan_cache_mode = auto", ())
# Prepared statements per connection; beyond this all are deallocated.
_MAX_PLANS = 500


@contextmanager
def tenancy(tenant_id: UUID, *, reads_only: bool = False, plans_once: bool = False) -> Iterator[None]:
    """One transaction in which row-level security shows the rows of `tenant_id` and no others.

    Without it the database shows no rows, so code that forgets it fails closed. When nested, the outer tenant is
    restored at the end (on an error, by the savepoint's rollback). With `reads_only` the database itself refuses
    every write and every row lock. With `plans_once` each prepared statement is planned at its first use, for values of
    any kind: for the steps of an action, which look up rows by their keys.
    """
    conn = _connection()
    if not conn.django.in_atomic_block:
        with _tenant_transaction(conn, tenant_id, reads_only=reads_only, plans_once=plans_once):
            yield
        return
    with transaction.atomic():
        outer = _set_tenant(str(tenant_id))
        if reads_only:
            # PostgreSQL undoes this with the enclosing savepoint.
            call_function(b"SET TRANSACTION READ ONLY")
        yield
        _set_tenant(outer)


def call_function(statement: bytes, *values: bytes | str | None, prepared: bool = False) -> list[_Bytes]:
    """Run one statement and return its rows in binary format; its values `$1`, `$2` ... are bytes or text.

    `prepared` is for statements that run often: the server plans them once per connection. Errors are those of any
    other query.
    """
    return _raw_rows(_execute(_connection(), _encode_raw(statement, values), prepared=prepared))


def call_functions(statement: bytes, calls: Sequence[Sequence[bytes | str | None]]) -> list[list[_Bytes]]:
    """Run one statement with several sets of values, in order and in one message."""
    statements = [_encode_raw(statement, values) for values in calls]
    return [_raw_rows(result) for result in _execute_pipeline(_connection(), statements)] if statements else []


def execute(statement: LiteralString, *values: Any, prepared: bool = True) -> list[_Row]:
    """Run one statement with the values `$1`, `$2` ... and return its rows, none if it returns nothing.

    Not `prepared` is for statements whose best plan depends on their values, as over a stretch of time of any length:
    after five executions, or at once in a transaction that plans once, the server plans a prepared one for values of
    any kind. The rest of the transaction plans as others do.
    """
    conn = _connection()
    if not prepared:
        defer(_PLANNED_FOR_VALUES)
    return _decode_rows(conn, _execute(conn, _encode(conn, statement, values), prepared=prepared))


def pipeline(*calls: tuple[Any, ...] | RawCall) -> list[list[_Row]]:
    """Run several statements, each a tuple of the text and its values, in order and in one message."""
    conn = _connection()
    return [_decode_rows(conn, result) for result in _execute_pipeline(conn, _encode_calls(conn, calls))]


def defer(*calls: tuple[Any, ...] | RawCall) -> None:
    """Run statements without results with the transaction's next message, at the latest with its COMMIT.

    Everything that follows sees what they did; an error of theirs is raised by that message. Outside a transaction of
    `tenancy` they run at once.
    """
    conn = _connection()
    if conn is getattr(_current_transaction, "connection", None):
        conn.deferred += _encode_calls(conn, calls)
    else:
        _execute_pipeline(conn, _encode_calls(conn, calls))


def select(model: type[M], where: LiteralString, *values: Any) -> list[M]:
    """Load the rows of a table that a condition selects; an order and a limit may follow the condition."""
    return instances(model, execute(*select_call(model, where, *values)))


def select_call(model: type[models.Model], where: LiteralString, *values: Any) -> tuple[Any, ...]:
    """The same as a call for `pipeline`."""
    return _select_sql(model)[0] + where, *values


def instances(model: type[M], rows: list[_Row]) -> list[M]:
    """The rows of a `select_call`, or the value of a `rows_column`, as model instances."""
    names = _select_sql(model)[1]
    return [_model_instance(model, names, row) for row in rows]


def fetch_one(model: type[M], where: LiteralString, *values: Any) -> M | None:
    """Load the first row that a condition selects, or None."""
    return next(iter(select(model, where, *values)), None)


def page_in_order(rows: QuerySet[M], order: str, *, behind: UUID | None = None, limit: int | None = None) -> list[M]:
    """Return a page of rows in the order of a column, descending as `-column`; the id breaks ties.

    It begins behind a row, compared as a whole, so that none is left out or shown twice. For columns that are never
    null, of tables that are small or have an index with the order.
    """
    column, is_down = order.removeprefix("-"), order.startswith("-")
    way, step = ("-", "lt") if is_down else ("", "gt")
    if behind is not None:
        last = rows.filter(id=behind).values_list(column, flat=True)[:1]
        rows = rows.filter(Q(**{f"{column}__{step}": last}) | Q(**{column: last, f"id__{step}": behind}))
    return list(rows.order_by(*dict.fromkeys((f"{way}{column}", f"{way}id")))[:limit])


def columns(model: type[models.Model], alias: LiteralString) -> LiteralString:
    """All columns of a table under this alias, in the order in which `load_models` reads them."""
    return ", ".join(f"{alias}.{name}" for name in _select_sql(model)[1])


def rows_column(model: type[models.Model], where: LiteralString) -> LiteralString:
    """The rows of a table that a condition selects, as one column of another statement whose value `instances` reads.

    An order may follow the condition.
    """
    return f"ARRAY(SELECT ROW({', '.join(_select_sql(model)[1])}) FROM {model._meta.db_table} WHERE {where})"


def load_models(row: _Row, *wanted: type[models.Model]) -> tuple[list[Any], _Row]:
    """Load these models from the start of a joined row, None if an outer join had no match; and the rest."""
    instances: list[Any] = []
    for model in wanted:
        names = _select_sql(model)[1]
        values, row = row[: len(names)], row[len(names) :]
        instances.append(None if values[0] is None else _model_instance(model, names, values))
    return instances, row


def insert(*rows: models.Model, then: tuple[Any, ...] = ()) -> list[_Row]:
    """Insert all of these rows or none; fields that are not set get the model's defaults.

    `then` is one more statement and its values, run together with the inserts; its placeholders are `{}`, in order, or
    `{0}` where a value is used again, and it may begin with a WITH of its own. Its rows are returned.
    """
    return execute(*insert_call(*rows, then=then))


def insert_call(*rows: models.Model, then: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The same as a call for `pipeline`."""
    statement, *values = then or ("",)
    inserted = (value for row in rows for value in _column_values(row))
    return _insert_sql(tuple(type(row) for row in rows), statement, len(values)), *inserted, *values


def insert_each(rows: Sequence[models.Model]) -> None:
    """Insert many rows in one message: one statement per row, prepared once per table."""
    pipeline(*((_insert_sql((type(row),)), *_column_values(row)) for row in rows))


@contextmanager
def savepoint() -> Iterator[None]:
    """A part of the transaction that is rolled back alone if it fails. Nothing in it may register an on-commit hook."""
    conn = _connection()
    place, begin = len(conn.deferred), RawCall(b"SAVEPOINT apart", ())
    defer(begin)
    begun = conn.deferred[place:]
    try:
        yield
        # What it has deferred fails in it.
        _send_deferred(conn)
    except BaseException:
        if begun and conn.deferred[place : place + 1] == begun:
            # Nothing has been sent since.
            del conn.deferred[place:]
        else:
            conn.deferred.clear()
            call_function(b"ROLLBACK TO SAVEPOINT apart")
            call_function(b"RELEASE SAVEPOINT apart")
        transaction.set_rollback(False)
        raise
    defer(RawCall(b"RELEASE SAVEPOINT apart", ()))


def _model_instance(model: type[M], names: list[str], row: _Row) -> M:
    """The instance that `Model.from_db` would make of a whole row, without its visits to each field and signal."""
    instance = model.__new__(model)
    instance.__dict__.update(zip(names, row, strict=True))
    instance._state = state = ModelState()
    state.adding, state.db = False, DEFAULT_DB_ALIAS
    return instance


@cache
def _select_sql(model: type[models.Model]) -> tuple[LiteralString, list[str]]:
    """The beginning of a SELECT up to its condition, and the names of its columns."""
    names = [field.attname for field in model._meta.concrete_fields]
    return f"SELECT {', '.join(names)} FROM {model._meta.db_table} WHERE ", names


def _column_values(row: models.Model) -> Iterator[Any]:
    for name, is_json in _inserted_columns(type(row)):
        value = getattr(row, name)
        yield Jsonb(value, dumps=orjson.dumps) if is_json else value


@cache
def _insert_sql(inserted: tuple[type[models.Model], ...], then: LiteralString = "", values: int = 0) -> LiteralString:
    """One statement that inserts a row of each model, the first ones as common table expressions of the last."""
    parts, used = [], 0
    for model in inserted:
        names = [name for name, _ in _inserted_columns(model)]
        placeholders = ", ".join(f"${used + number}" for number in range(1, len(names) + 1))
        parts.append(f"INSERT INTO {model._meta.db_table} ({', '.join(names)}) VALUES ({placeholders})")
        used += len(names)
    if then:
        parts.append(then.format(*(f"${used + number}" for number in range(1, values + 1))))
    expressions = ", ".join(f"part_{number} AS ({part})" for number, part in enumerate(parts[:-1]))
    if expressions and parts[-1].startswith("WITH "):
        return f"WITH {expressions}, {parts[-1].removeprefix('WITH ')}"
    return f"WITH {expressions} {parts[-1]}" if expressions else parts[-1]


@cache
def _inserted_columns(model: type[models.Model]) -> list[tuple[str, bool]]:
    """The columns that a new row supplies, and whether each contains JSON."""
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]
    return [(field.attname, isinstance(field, models.JSONField)) for field in fields]


@contextmanager
def _tenant_transaction(conn: _Connection, tenant_id: UUID, *, reads_only: bool, plans_once: bool) -> Iterator[None]:
    """Begin a transaction with its first statement, and commit it without a further query.

    `_execute_pipeline` sends BEGIN in one message with that statement. A statement that goes through psycopg makes it
    start the transaction; `start` replaces that and sets the tenant, too. To Django this is an atomic block like any
    other: the bookkeeping at its edges is done here, without a check of the connection and its mode at each step.
    """
    django, server = conn.django, conn.server
    raw: Any = django.connection
    begin = [b"BEGIN READ ONLY" if reads_only else b"BEGIN", b"SET LOCAL app.tenant = '%b'" % str(tenant_id).encode()]
    begin += [_PLANNED_ONCE] if plans_once else []

    def start() -> Iterator[None]:
        if server.transaction_status == TransactionStatus.INERROR:
            # Only a rollback to a savepoint can follow, and what waits was to come before it.
            conn.deferred.clear()
        elif conn.deferred:
            _send_deferred(conn)
        elif server.transaction_status == TransactionStatus.IDLE:
            _check_result(server, server.exec_(b"; ".join(begin)))
        yield from ()

    raw.counterfoil_begin, raw._start_query, raw._autocommit = begin, start, False
    django.commit_on_exit, django.needs_rollback, django.autocommit, django.in_atomic_block = True, False, False, True
    django.atomic_blocks.append(_ATOMIC_BLOCK)
    _current_transaction.connection = conn
    committed = False
    try:
        yield
        if not django.needs_rollback and conn.deferred:
            conn.deferred.append(_COMMIT)
            _send_deferred(conn)
        elif not django.needs_rollback and server.transaction_status == TransactionStatus.INTRANS:
            _check_result(server, server.exec_(b"COMMIT"))
        # An error ends the transaction even if the caller caught it.
        committed = server.transaction_status == TransactionStatus.IDLE
    finally:
        _current_transaction.connection = None
        conn.deferred.clear()
        django.atomic_blocks.pop()
        django.in_atomic_block = django.needs_rollback = False
        del raw.counterfoil_begin, raw._start_query
        _restore_connection(django, raw, server, committed=committed)
    if django.run_on_commit:
        django.run_and_clear_commit_hooks()


def _restore_connection(django: BaseDatabaseWrapper, raw: Any, server: Any, *, committed: bool) -> None:
    """Restore the connection's state from before the transaction, after a rollback unless it committed."""
    django.autocommit = raw._autocommit = True
    if django.closed_in_transaction:
        django.connection = None
    elif not committed:
        django.run_on_commit = []
        if server.transaction_status != TransactionStatus.IDLE and not _roll_back(server):
            django.close()
    else:
        django.errors_occurred = False


def _roll_back(server: Any) -> bool:
    try:
        return bool(server.exec_(b"ROLLBACK").status == ExecStatus.COMMAND_OK)
    except psycopg.Error:
        return False


def _execute(conn: _Connection, statement: _Statement, *, prepared: bool = True) -> Any:
    """Run one statement; the first of a transaction is sent together with its BEGIN, any with the deferred ones."""
    if conn.starts_transaction or conn.deferred:
        return _execute_pipeline(conn, [statement], prepared=prepared)[0]
    if prepared:
        _limit_plans(conn)
    server, name = conn.server, _prepared_name(conn, statement) if prepared else b""
    try:
        if name:
            result = server.exec_prepared(name, statement.values, statement.formats, _BINARY)
        else:
            result = server.exec_params(
                _statement_bytes(statement), statement.values, statement.types, statement.formats, _BINARY
            )
    except psycopg.Error as error:
        with conn.django.wrap_database_errors:
            raise error
    return _check_result(server, result)


def _execute_pipeline(conn: _Connection, statements: list[_Statement], *, prepared: bool = True) -> list[Any]:
    """Run several statements in one message, after the deferred ones."""
    _limit_plans(conn)
    server, waiting, conn.deferred = conn.server, conn.deferred, []
    names = [_prepared_name(conn, each) for each in waiting]
    names += [_prepared_name(conn, each) if prepared else b"" for each in statements]
    begin = getattr(conn.django.connection, "counterfoil_begin", (b"BEGIN",)) if conn.starts_transaction else ()
    with conn.django.wrap_database_errors:
        server.enter_pipeline_mode()
        for command in begin:
            server.send_query_params(command, None)
        for name, each in zip(names, [*waiting, *statements], strict=True):
            if name:
                server.send_query_prepared(name, each.values, each.formats, _BINARY)
            else:
                server.send_query_params(_statement_bytes(each), each.values, each.types, each.formats, _BINARY)
        server.pipeline_sync()
        results = _pipeline_results(server)
    return [_check_result(server, result) for result in results][len(begin) + len(waiting) :]


def _send_deferred(conn: _Connection) -> None:
    if conn.deferred:
        _execute_pipeline(conn, [])


def _encode_calls(conn: _Connection, calls: Sequence[tuple[Any, ...] | RawCall]) -> list[_Statement]:
    return [_encode_raw(*call) if isinstance(call, RawCall) else _encode(conn, call[0], call[1:]) for call in calls]


def _encode(conn: _Connection, statement: LiteralString, values: Sequence[Any]) -> _Statement:
    """A statement with values of Python's types."""
    types = conn.types
    try:
        encoded = types.dump_sequence(values, [PyFormat.AUTO] * len(values))
    except psycopg.Error as error:
        with conn.django.wrap_database_errors:
            raise error
    return _Statement(statement, encoded, types.formats or (), types.types or None)


def _encode_raw(statement: bytes, values: Sequence[bytes | str | None]) -> _Statement:
    """A statement with values that are sent as they are: bytes in binary, text as text."""
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return _Statement(statement, encoded, [_TEXT if isinstance(value, str) else _BINARY for value in values])


def _statement_bytes(statement: _Statement) -> bytes:
    text = statement.text
    return text.encode() if isinstance(text, str) else text


def _decode_rows(conn: _Connection, result: Any) -> list[_Row]:
    if not result.nfields:
        return []
    conn.types.set_pgresult(result, format=Format.BINARY)
    rows: list[_Row] = conn.types.load_rows(0, result.ntuples, tuple)
    return rows


def _raw_rows(result: Any) -> list[_Bytes]:
    return [tuple(result.get_value(row, each) for each in range(result.nfields)) for row in range(result.ntuples)]


def _pipeline_results(server: Any) -> list[Any]:
    """The results of a pipeline, up to its end."""
    results: list[Any] = []
    while (result := _next_result(server)) is None or result.status != ExecStatus.PIPELINE_SYNC:
        if result is not None:
            results.append(result)
        elif server.status != ConnStatus.OK:
            raise psycopg.OperationalError(server.get_error_message())
    server.exit_pipeline_mode()
    return results


def _next_result(server: Any) -> Any:
    """Wait for the next result at the socket, so that other threads continue.

    `get_result` alone would wait with the interpreter's lock held, possibly for a row that another thread of this
    very process has locked.
    """
    while server.is_busy():
        waiting = poll()
        waiting.register(server.socket, POLLIN)
        waiting.poll()
        server.consume_input()
    return server.get_result()


def _limit_plans(conn: _Connection) -> None:
    """Deallocate all prepared statements if there are too many, before a message and never within one."""
    if conn.plans is not None and len(conn.plans) >= _MAX_PLANS:
        _check_result(conn.server, conn.server.exec_(b"DEALLOCATE ALL"))
        conn.plans.clear()


def _prepared_name(conn: _Connection, statement: _Statement) -> bytes:
    """The name of the prepared statement, prepared on first use; empty if the server cannot keep it."""
    plans, server, key = conn.plans, conn.server, (statement.text, statement.types)
    if plans is None:
        return b""
    # The key holds the text as given: a str remembers its hash, freshly encoded bytes do not.
    name = plans.get(key)
    if name is None:
        name, conn.prepared = b"counterfoil_%d" % conn.prepared, conn.prepared + 1
        _check_result(server, server.prepare(name, _statement_bytes(statement), statement.types))
        plans[key] = name
    return name


def _connection() -> _Connection:
    """The connection of this thread's transaction, or the one that its next transaction will use.

    A pooler hands each transaction to any of its servers. Behind one, the server that answers is not the one that
    the connection was made to, so prepared statements cannot be relied on.
    """
    current: _Connection | None = getattr(_current_transaction, "connection", None)
    if current is not None:
        return current
    django = connections[DEFAULT_DB_ALIAS]
    # The server may have dropped the connection since the last request.
    django.close_if_health_check_failed()
    django.ensure_connection()
    raw: Any = django.connection
    conn: _Connection | None = getattr(raw, "counterfoil_connection", None)
    if conn is None:
        server = _libpq_connection()
        process = _check_result(server, server.exec_(b"SELECT pg_backend_pid()")).get_value(0, 0)
        plans: dict[Any, bytes] | None = {} if process == b"%d" % server.backend_pid else None
        raw.counterfoil_connection = conn = _Connection(django, server, Transformer(_AdaptedConnection(raw)), plans, [])
    # A pool hands the same connection to one thread after another; the Django wrapper is that of the current thread.
    conn.django = django
    return conn


def _libpq_connection() -> Any:
    raw: Any = connection.connection
    return raw.pgconn


def _check_result(server: Any, result: Any) -> Any:
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return result
    with connection.wrap_database_errors:
        if server.status != ConnStatus.OK:
            raise psycopg.OperationalError(result.get_error_message())
        raise psycopg.errors.error_from_result(result)


def _set_tenant(tenant: str) -> str:
    """Set the tenant for the rest of the transaction; returns the one before."""
    [(before, _)] = call_function(
        b"SELECT coalesce(current_setting('app.tenant', true), ''), set_config('app.tenant', $1, true)",
        tenant,
        prepared=True,
    )
    return (before or b"").decode()
