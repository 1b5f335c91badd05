"""The edge of the record: one transaction, one tenant, and calls that speak to the server directly."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction

from ledger.tenancy import call, tenancy

# Outlives the transaction, unless that is rolled back.
CHANGE = b"SELECT set_config('application_name', 'changed', false)"


def current() -> bytes | None:
    return call(b"SELECT current_setting('app.tenant', true)")[0][0]


def change_and_fail() -> None:
    call(CHANGE)
    raise ZeroDivisionError


def ask_after_hanging_up(superuser: psycopg.Connection) -> None:
    """Our own connection is ended by the server, as in a restart."""
    backend = int.from_bytes(call(b"SELECT pg_backend_pid()")[0][0] or b"")
    superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
    call(b"SELECT 1")


def test_a_transaction_knows_its_tenant_and_forgets_it_at_the_end(committed_db, superuser_connection):
    tenant = UUID(int=7)
    with tenancy(tenant):
        assert current() == str(tenant).encode()
        assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(current_setting('app.tenant', true), '')")
        assert cursor.fetchone() == ("",)


def test_a_nested_tenancy_gives_the_outer_one_back(tenant: UUID, other_tenant: UUID):
    with tenancy(tenant):
        with tenancy(other_tenant):
            assert current() == str(other_tenant).encode()
        assert current() == str(tenant).encode()


def test_what_fails_inside_is_rolled_back_as_a_whole(committed_db):
    with pytest.raises(ZeroDivisionError), tenancy(UUID(int=7)):
        change_and_fail()
    assert call(b"SHOW application_name") == [(b"counterfoil",)]


def test_a_call_is_part_of_the_transaction_around_it_even_as_its_first_statement(committed_db):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        change_and_fail()
    assert call(b"SHOW application_name") == [(b"counterfoil",)]


def test_values_are_bound_and_never_read_as_sql(db: None):
    text = "'; DROP TABLE ledger_event; --"
    assert call(b"SELECT $1::text, $2::bytea, $3::bytea", text, b"\x00\xff", None) == [
        (text.encode(), b"\x00\xff", None),
    ]


def test_a_refusal_of_the_server_is_the_error_of_any_query(db: None):
    with pytest.raises(DatabaseError, match="division by zero"), transaction.atomic():
        call(b"SELECT 1 / 0")
    with pytest.raises(IntegrityError), transaction.atomic():
        call(b"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'integrity_constraint_violation'; END $$")


def test_a_lost_connection_is_an_outage_and_no_refusal(committed_db, superuser_connection):
    with pytest.raises(OperationalError), tenancy(UUID(int=7)):
        ask_after_hanging_up(superuser_connection)
    connection.close()
    assert call(b"SELECT 1::text") == [(b"1",)]
