"""The ground that the other tests stand on."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection
from redis import Redis


@pytest.mark.django_db
def test_tests_run_as_the_application_role():
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user")
        assert cursor.fetchone() == ("counterfoil_app", False, False)


def test_other_connections_see_what_a_committed_database_contains(committed_db, app_connection):
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_session VALUES ('one', '', now())")
    seen = app_connection.execute("SELECT session_key FROM django_session").fetchall()
    assert seen == [("one",)]
    assert connection.settings_dict["NAME"] == committed_db.name


def test_a_committed_database_leaves_nothing_behind(committed_db, app_connection):
    assert app_connection.execute("SELECT count(*) FROM django_session").fetchone() == (0,)


def test_the_application_role_owns_nothing(committed_db, owner_connection):
    owned = owner_connection.execute(
        "SELECT count(*) FROM pg_class WHERE relowner = 'counterfoil_app'::regrole"
    ).fetchone()
    member = owner_connection.execute("SELECT pg_has_role('counterfoil_app', 'counterfoil_owner', 'MEMBER')").fetchone()
    assert (owned, member) == ((0,), (False,))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (id int)",
        "CREATE TEMPORARY TABLE mine (id int)",
        "CREATE SCHEMA mine",
        "SET ROLE counterfoil_owner",
        "ALTER TABLE django_session DISABLE TRIGGER ALL",
        "SET session_replication_role = replica",
        "TRUNCATE django_session",
        "DELETE FROM django_migrations",
        "COPY django_session TO PROGRAM 'cat'",
    ],
)
def test_forbidden_statements_of_the_application_role_are_refused(committed_db, app_connection, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_connection.execute(statement)


def test_the_broker_answers_and_is_empty(valkey_url):
    with Redis.from_url(valkey_url) as client:
        assert client.dbsize() == 0
        client.set("key", "value")


def test_key_files_are_closed_to_others(secrets_dir):
    assert secrets_dir.stat().st_mode & 0o077 == 0
    # All but the public half of the log's key.
    kept = [file for file in secrets_dir.iterdir() if file.name != "log_key.pub"]
    assert len(kept) > 2
    assert all(file.stat().st_mode & 0o077 == 0 for file in kept)


def test_the_stack_survives_a_kill_of_each_of_its_processes(stack):
    stack.start("web", "worker")
    assert stack.answers()
    for name in ("valkey", "web"):
        stack.kill(name)
        stack.start(name)
    assert stack.answers()
    assert stack.children["worker"].running()
