"""The edge of the record: one transaction, one tenant, and calls that speak to the server directly."""

from __future__ import annotations

from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction

from ledger import db as edge
from ledger.db import (
    call_function,
    defer,
    execute,
    fetch_one,
    insert,
    insert_call,
    instances,
    pipeline,
    savepoint,
    select,
    select_call,
    tenancy,
)
from ledger.models import Action, ContractVersion, Freeze
from tests.support.builders import AT, propose
from tests.support.callers import found

# Outlives the transaction, unless that is rolled back.
CHANGE = b"SELECT set_config('application_name', 'changed', false)"


def current() -> bytes | None:
    return call_function(b"SELECT current_setting('app.tenant', true)")[0][0]


def change_and_fail() -> None:
    call_function(CHANGE)
    raise ZeroDivisionError


def ask_after_hanging_up(superuser: psycopg.Connection) -> None:
    """Our own connection is ended by the server, as in a restart."""
    backend = int.from_bytes(call_function(b"SELECT pg_backend_pid()")[0][0] or b"")
    superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
    call_function(b"SELECT 1")


def test_a_transaction_has_its_tenant_until_it_ends(committed_db, superuser_connection):
    tenant = UUID(int=7)
    with tenancy(tenant):
        assert current() == str(tenant).encode()
        assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(current_setting('app.tenant', true), '')")
        assert cursor.fetchone() == ("",)


def test_a_nested_tenancy_restores_the_outer_one(tenant: UUID, other_tenant: UUID):
    with tenancy(tenant):
        with tenancy(other_tenant):
            assert current() == str(other_tenant).encode()
        assert current() == str(tenant).encode()


def test_a_failure_rolls_the_whole_transaction_back(committed_db):
    with pytest.raises(ZeroDivisionError), tenancy(UUID(int=7)):
        change_and_fail()
    assert call_function(b"SHOW application_name") == [(b"counterfoil",)]


def test_a_call_is_part_of_the_transaction_around_it_even_as_its_first_statement(committed_db):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        change_and_fail()
    assert call_function(b"SHOW application_name") == [(b"counterfoil",)]


def test_values_are_bound_and_never_read_as_sql(db: None):
    text = "'; DROP TABLE ledger_event; --"
    assert call_function(b"SELECT $1::text, $2::bytea, $3::bytea", text, b"\x00\xff", None) == [
        (text.encode(), b"\x00\xff", None),
    ]


def test_an_error_of_the_server_is_raised_as_a_database_error(db: None):
    with pytest.raises(DatabaseError, match="division by zero"), transaction.atomic():
        call_function(b"SELECT 1 / 0")
    with pytest.raises(IntegrityError), transaction.atomic():
        call_function(b"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'integrity_constraint_violation'; END $$")


def test_a_lost_connection_is_an_outage_and_not_a_refusal(committed_db, superuser_connection):
    with pytest.raises(OperationalError), tenancy(UUID(int=7)):
        ask_after_hanging_up(superuser_connection)
    connection.close()
    assert call_function(b"SELECT 1::text") == [(b"1",)]


def a_freeze(tenant: UUID, value: str) -> Freeze:
    return Freeze(tenant_id=tenant, id=uuid4(), scope="tool", value=value, reason="tried out", placed_at=AT)


def insert_and_fail(row: Freeze) -> None:
    insert(row)
    raise ZeroDivisionError


def defer_and_fail(row: Freeze) -> None:
    defer(insert_call(row))
    raise ZeroDivisionError


def insert_behind_deferred(deferred: Freeze, row: Freeze) -> None:
    defer(insert_call(deferred))
    insert(row)


def test_rows_are_returned_as_by_the_orm(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
        ours = fetch_one(Action, "tenant_id = $1 AND id = $2", tenant, head.id)
        theirs = Action.objects.get(tenant_id=tenant, id=head.id)
    names = [field.attname for field in Action._meta.concrete_fields]
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]
    assert fetch_one(Action, "id = $1", uuid4()) is None


def test_json_bytes_and_times_survive_a_round_trip(tenant: UUID):
    row = ContractVersion(
        tenant_id=tenant,
        id=uuid4(),
        name="issue_refund",
        version="1",
        digest="0" * 64,
        document=b"\x00\xff",
        lint=[{"code": "X", "path": "/", "detail": "Zürich"}],
        registered_at=AT,
    )
    with tenancy(tenant):
        insert(row)
        ours, theirs = select(ContractVersion, "id = $1", row.id)[0], ContractVersion.objects.get(id=row.id)
    assert ours.lint == theirs.lint == row.lint
    assert ours.document == bytes(theirs.document) == row.document
    assert ours.registered_at == theirs.registered_at == AT


def test_rows_of_several_tables_are_read_in_one_message(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
        insert(a_freeze(tenant, "one"), a_freeze(tenant, "two"))
        freezes, none, actions = pipeline(
            select_call(Freeze, "tenant_id = $1 ORDER BY value", tenant),
            select_call(Freeze, "tenant_id = $1 AND value = $2", tenant, "three"),
            select_call(Action, "tenant_id = $1", tenant),
        )
    assert [row.value for row in instances(Freeze, freezes)] == ["one", "two"]
    assert (none, [row.id for row in instances(Action, actions)]) == ([], [head.id])


def test_rows_of_several_tables_are_written_together_or_not_at_all(tenant: UUID):
    with tenancy(tenant):
        insert(a_freeze(tenant, "one"), a_freeze(tenant, "two"))
        with pytest.raises(IntegrityError), savepoint():
            insert(a_freeze(tenant, "three"), a_freeze(tenant, "one"))
        assert {each.value for each in Freeze.objects.all()} == {"one", "two"}


def test_a_failure_in_a_savepoint_leaves_the_rest_intact(tenant: UUID):
    with tenancy(tenant):
        insert(a_freeze(tenant, "kept"))
        with pytest.raises(ZeroDivisionError), savepoint():
            insert_and_fail(a_freeze(tenant, "undone"))
        with savepoint():
            insert(a_freeze(tenant, "added"))
        # The ORM goes on in the same transaction.
        assert sorted(Freeze.objects.values_list("value", flat=True)) == ["added", "kept"]


def test_a_row_of_another_tenant_is_neither_seen_nor_written(tenant: UUID, other_tenant: UUID):
    with tenancy(other_tenant):
        insert(a_freeze(other_tenant, "theirs"))
    with tenancy(tenant):
        assert select(Freeze, "true") == []
        assert execute("SELECT count(*) FROM ledger_freeze WHERE value = $1", "theirs") == [(0,)]
        with pytest.raises(DatabaseError), savepoint():
            insert(a_freeze(other_tenant, "forged"))


def test_the_first_statement_already_runs_inside_the_tenant(committed_db):
    def by_call() -> str:
        return (current() or b"").decode()

    def by_asking() -> str:
        return str(execute("SELECT current_setting('app.tenant', true)")[0][0])

    def by_the_orm() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('app.tenant', true)")
            return str(cursor.fetchone()[0])

    def by_copying() -> str:
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY (SELECT current_setting('app.tenant')) TO STDOUT") as copy,
        ):
            return b"".join(copy).decode().strip()

    for first_word in (by_call, by_asking, by_the_orm, by_copying):
        with tenancy(UUID(int=7)):
            assert first_word() == str(UUID(int=7)), first_word.__name__
    # What is said outside any tenancy, on the same connection, knows none.
    with transaction.atomic():
        assert current() in (None, b"")


def test_an_empty_transaction_sends_nothing(committed_db):
    def transaction_number() -> int:
        return int(call_function(b"SELECT pg_current_xact_id()::text")[0][0] or b"")

    def used_between() -> int:
        before = transaction_number()
        with tenancy(UUID(int=7)):
            pass
        return transaction_number() - before

    # The numbers are those of the whole server, which other tests use, too.
    assert min(used_between() for _ in range(20)) == 1


def hook_and_fail(ran: list[bytes | None]) -> None:
    transaction.on_commit(lambda: ran.append(b"never"))
    change_and_fail()


def test_commit_hooks_run_after_the_commit_and_never_without_it(committed_db):
    ran: list[bytes | None] = []
    with tenancy(UUID(int=7)):
        call_function(CHANGE)
        transaction.on_commit(lambda: ran.append(call_function(b"SHOW application_name")[0][0]))
        assert ran == []
    assert ran == [b"changed"]
    with pytest.raises(ZeroDivisionError), tenancy(UUID(int=7)):
        hook_and_fail(ran)
    with tenancy(UUID(int=7)):
        call_function(b"SELECT set_config('application_name', 'counterfoil', false)")
        transaction.set_rollback(True)
    assert ran == [b"changed"]
    assert call_function(b"SHOW application_name") == [(b"changed",)]
    connection.close()


def test_a_refused_first_statement_leaves_the_connection_usable(committed_db):
    for prepared in (False, True):
        with pytest.raises(DatabaseError, match="division by zero"), tenancy(UUID(int=7)):
            call_function(b"SELECT 1 / (ascii($1) - 48)", "0", prepared=prepared)
        assert call_function(b"SELECT $1::text", "fine", prepared=prepared) == [(b"fine",)]


def test_a_refused_commit_raises_an_error(committed_db, superuser_connection):
    superuser_connection.execute("CREATE TABLE pair (one integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    superuser_connection.execute("GRANT SELECT, INSERT ON pair TO counterfoil_app")
    with pytest.raises(IntegrityError), tenancy(UUID(int=7)):
        call_function(b"INSERT INTO pair VALUES (1), (1)")
    assert call_function(b"SELECT count(*)::text FROM pair") == [(b"0",)]


def plans() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements ORDER BY name")
        return [name for (name,) in cursor.fetchall()]


def test_a_call_is_prepared_once_per_connection(committed_db):
    connection.close()
    for word in ("one", "two"):
        assert call_function(b"SELECT $1::text", word, prepared=True) == [(word.encode(),)]
    assert plans() == ["counterfoil_0"]
    connection.close()
    assert call_function(b"SELECT $1::text", "three", prepared=True) == [(b"three",)]
    assert plans() == ["counterfoil_0"]


def test_behind_a_pooler_no_plan_is_kept(committed_db, monkeypatch: pytest.MonkeyPatch):
    """A pooler says another number than the server behind it."""
    connection.close()
    connection.ensure_connection()

    class Pooled:
        def __init__(self, server: Any) -> None:
            self.server = server

        def __getattr__(self, name: str) -> Any:
            return 1 if name == "backend_pid" else getattr(self.server, name)

    monkeypatch.setattr(edge, "_libpq_connection", lambda: Pooled(connection.connection.pgconn))
    with tenancy(UUID(int=7)):
        assert call_function(b"SELECT $1::text", "one", prepared=True) == [(b"one",)]
        assert execute("SELECT $1::text", "two") == [("two",)]
        assert pipeline(("SELECT $1::text", "three"), ("SELECT 4",)) == [[("three",)], [(4,)]]
    assert plans() == []
    connection.close()


def test_a_statement_is_planned_once_per_connection_and_parameter_type(committed_db):
    connection.close()
    with tenancy(UUID(int=7)):
        for number in (1, 2, 3):
            assert execute("SELECT $1::bigint", number) == [(number,)]
        assert plans() == ["counterfoil_0"]
        assert execute("SELECT $1::bigint", 2**40) == [(2**40,)]
    assert len(plans()) == 2
    connection.close()


def test_a_connection_keeps_a_limited_number_of_plans(committed_db, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(edge, "_MAX_PLANS", 3)
    connection.close()
    with tenancy(UUID(int=7)):
        for number in range(10):
            assert execute(f"SELECT {number}") == [(number,)]
            assert execute("SELECT $1::uuid", UUID(int=7)) == [(UUID(int=7),)]
        assert len(plans()) <= 3
        # Of one message none is forgotten before it is sent.
        for number in range(10):
            assert pipeline(*((f"SELECT {number + 1}",), ("SELECT 2",), (f"SELECT {number + 3}",))) == [
                [(number + 1,)],
                [(2,)],
                [(number + 3,)],
            ]
    connection.close()


def test_statements_in_one_message_see_the_effects_of_earlier_ones(committed_db):
    with tenancy(UUID(int=7)):
        said = pipeline(
            ("SELECT set_config('app.word', $1, true)", "one"),
            ("SELECT current_setting('app.word'), current_setting('app.tenant')",),
            ("SELECT $1::int + 1, $2::uuid[]", 1, [UUID(int=8)]),
        )
    assert said == [[("one",)], [("one", str(UUID(int=7)))], [(2, [UUID(int=8)])]]


SAY = "SELECT set_config('app.word', $1, true)"


def word_by_the_orm() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('app.word')")
        return str(cursor.fetchone()[0])


def test_statements_after_a_deferred_one_see_its_effect(committed_db):
    readers = (
        lambda: execute("SELECT current_setting('app.word')")[0][0],
        lambda: pipeline(("SELECT current_setting('app.word')",))[0][0][0],
        lambda: (call_function(b"SELECT current_setting('app.word')")[0][0] or b"").decode(),
        word_by_the_orm,
    )
    for number, read in enumerate(readers):
        with tenancy(UUID(int=7)):
            defer((SAY, "first"), (SAY, f"word {number}"))
            assert read() == f"word {number}"
    with tenancy(UUID(int=7)):
        defer((SAY, "outer"))
        with tenancy(UUID(int=8)):
            assert word_by_the_orm() == "outer"


def test_deferred_statements_are_committed_at_the_end_and_dropped_on_failure(committed_db):
    tenant = found("orchid")
    with tenancy(tenant):
        defer(insert_call(a_freeze(tenant, "kept")))
    with pytest.raises(ZeroDivisionError), tenancy(tenant):
        defer_and_fail(a_freeze(tenant, "undone"))
    with pytest.raises(IntegrityError), tenancy(tenant):
        defer(insert_call(a_freeze(tenant, "undone too")), insert_call(a_freeze(tenant, "kept")))
    with tenancy(tenant):
        assert [each.value for each in select(Freeze, "tenant_id = $1", tenant)] == ["kept"]


def test_a_deferred_statement_in_a_savepoint_fails_alone(committed_db):
    tenant = found("orchid")
    with tenancy(tenant):
        defer(insert_call(a_freeze(tenant, "before")))
        with pytest.raises(ZeroDivisionError), savepoint():
            defer_and_fail(a_freeze(tenant, "never sent"))
        with pytest.raises(IntegrityError), savepoint():
            defer(insert_call(a_freeze(tenant, "before")))
        with pytest.raises(ZeroDivisionError), savepoint():
            insert_and_fail(a_freeze(tenant, "sent"))
        with pytest.raises(IntegrityError), savepoint():
            insert_behind_deferred(a_freeze(tenant, "fine"), a_freeze(tenant, "before"))
        with savepoint():
            defer(insert_call(a_freeze(tenant, "inside")))
            with pytest.raises(ZeroDivisionError), savepoint():
                defer_and_fail(a_freeze(tenant, "deeper"))
        defer(insert_call(a_freeze(tenant, "behind")))
    with tenancy(tenant):
        assert sorted(each.value for each in select(Freeze, "tenant_id = $1", tenant)) == ["before", "behind", "inside"]


def test_a_message_ends_at_its_first_refused_statement(committed_db):
    for before in ((), (("SELECT 1",),)):
        with pytest.raises(DatabaseError, match="division by zero"), tenancy(UUID(int=7)):
            pipeline(*before, ("SELECT 1 / $1::int", 0), ("SELECT 1 / $1::int", 0))
        assert execute("SELECT 1") == [(1,)]


def test_a_connection_handed_to_another_thread_uses_the_tenant_of_its_new_transaction(committed_db):
    """A pool hands it on: what one thread has kept with it must not speak for the next one."""
    tenant = uuid4()
    execute("SELECT 1")
    held, seen = connection.connection, []

    def next_holder() -> None:
        connection.ensure_connection()
        own, connection.connection = connection.connection, held
        try:
            with tenancy(tenant):
                seen.append(execute("SELECT current_setting('app.tenant', true)"))
        finally:
            connection.connection = own
            connection.close()

    thread = Thread(target=next_holder)
    thread.start()
    thread.join()
    assert seen == [[(str(tenant),)]]


# Plans


def _plans_of(text: str) -> tuple[int, int]:
    """Count the executions of a statement on this connection, by a generic plan and by a custom one."""
    asked = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = $1"
    [(generic, custom)] = execute(asked, text)
    return generic, custom


def test_a_transaction_that_plans_once_has_one_plan_for_any_values_of_a_statement(committed_db: Any):
    keyed, other, beside = (f"SELECT count(*) AS {name} FROM ledger_subject WHERE id = $1" for name in "abc")
    with tenancy(uuid4(), plans_once=True):
        for _ in range(3):
            execute(keyed, uuid4())
        assert _plans_of(keyed) == (3, 0)
        # One whose best plan depends on its values is not prepared; what follows is planned like in other transactions.
        execute("SELECT count(*) FROM ledger_subject WHERE updated_at > $1", AT, prepared=False)
        execute(beside, uuid4())
        assert _plans_of(beside) == (0, 1)
    with tenancy(uuid4()):
        execute(other, uuid4())
        assert _plans_of(other) == (0, 1)
