"""An upgrade of the database while others work on it, and a version that meets the database of a later one."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import psycopg
import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import migrations, models
from psycopg import errors

from console.local import lock_waits
from console.telemetry import health
from ledger.management.commands import migrate
from tests.db.installation.test_sql_files import CATALOGUE, catalogue

ADD = "ALTER TABLE ledger_freeze ADD COLUMN motto text"
NEXT_TRY = re.compile(r" The next try is in \d\.\d s\.")


def in_one(session: psycopg.Connection, statement: str) -> Callable[[], object]:
    """A change: this statement in a transaction."""

    def change() -> None:
        with session.transaction():
            session.execute(statement.encode())

    return change


def holding(session: psycopg.Connection, statement: str) -> None:
    session.execute(b"BEGIN")
    session.execute(statement.encode())


def prepared() -> str:
    said = StringIO()
    call_command("prepare_database", stdout=said)
    return said.getvalue().strip()


# Changes and those who work


def test_a_change_names_whom_it_waits_for_and_is_done_once_that_one_has_gone(
    committed_db, owner_connection, app_connection
):
    said: list[str] = []
    app_connection.execute("SET application_name = 'nightly report'")
    holding(app_connection, "SELECT count(*) FROM ledger_freeze")

    def note(told: str) -> None:
        said.append(NEXT_TRY.sub("", told))
        app_connection.execute("COMMIT")

    lock_waits.change_in_short_waits(owner_connection, in_one(owner_connection, ADD), say=note)
    pid, role = app_connection.info.backend_pid, app_connection.info.user
    assert said == [
        f"This change waited for a lock: process {pid} holds ledger_freeze"
        f" (role {role}, application nightly report; its statement is not visible to this role)."
    ]
    owner_connection.execute("SELECT motto FROM ledger_freeze")
    assert owner_connection.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_a_change_tells_the_age_of_a_statement_that_its_role_can_see(committed_db, owner_connection):
    said: list[str] = []
    with psycopg.connect(committed_db.owner_url) as other:
        other.execute("LOCK TABLE ledger_freeze IN ACCESS SHARE MODE")

        def note(told: str) -> None:
            said.append(told)
            other.rollback()

        lock_waits.change_in_short_waits(owner_connection, in_one(owner_connection, ADD), say=note)
    assert re.search(r"application unnamed; its statement began \d s ago\)\.", said[0])


def test_a_change_that_a_writer_waits_for_is_taken_back_and_done_later(committed_db, owner_connection, app_connection):
    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:

        def change() -> None:
            with owner_connection.transaction():
                owner_connection.execute(ADD.encode())
                if not said:
                    writers.append(pool.submit(app_connection.execute, b"UPDATE ledger_freeze SET id = id"))
                    owner_connection.execute("SELECT pg_sleep(30)")

        writers: list = []
        lock_waits.change_in_short_waits(owner_connection, change, say=lambda told: said.append(NEXT_TRY.sub("", told)))
        assert writers[0].result().statusmessage == "UPDATE 0"
    assert said == ["Others waited for this change for 0.6 s, so it was taken back."]
    owner_connection.execute("SELECT motto FROM ledger_freeze")


def test_an_error_of_the_change_itself_is_raised_at_once(committed_db, owner_connection):
    with pytest.raises(errors.UndefinedTable):
        lock_waits.change_in_short_waits(
            owner_connection, in_one(owner_connection, "ALTER TABLE nowhere ADD COLUMN motto text"), say=pytest.fail
        )


def test_an_upgrade_that_gives_up_says_so_and_goes_on_when_it_is_run_again(
    committed_db, owner_connection, app_connection
):
    [(last,)] = owner_connection.execute(
        "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'ledger_event'::regclass"
        " AND inhrelid::regclass::text LIKE '%_y%'"
    ).fetchall()
    owner_connection.execute(f"DROP TABLE {last}".encode())
    holding(app_connection, "SELECT count(*) FROM ledger_event")
    pid = app_connection.info.backend_pid
    with pytest.raises(
        CommandError, match=rf"waited for a lock: process {pid} holds .*ledger_event.* for 0 s. Run the"
    ):
        call_command("prepare_database", wait_s=0, stdout=StringIO())
    app_connection.execute("COMMIT")
    assert prepared().startswith("The database is ready for ")
    assert owner_connection.execute("SELECT to_regclass(%s) IS NOT NULL", [last]).fetchone() == (True,)


def test_an_index_that_a_failed_try_left_is_removed_and_the_next_try_waits_for_older_transactions(
    committed_db, owner_connection
):
    owner_connection.execute("CREATE TABLE walk (name text)")
    owner_connection.execute("INSERT INTO walk VALUES ('same'), ('same')")
    with pytest.raises(errors.UniqueViolation):
        owner_connection.execute("CREATE UNIQUE INDEX CONCURRENTLY walk_by_name ON walk (name)")

    class Migration(migrations.Migration):
        atomic = False
        operations = [AddIndexConcurrently("freeze", models.Index(fields=["id"], name="walk_by_name"))]

    command = migrate.Command()
    command.verbosity = 0
    command._alias = "owner"
    command.migration_progress_callback("apply_start", Migration("0099_walk", "ledger"))
    assert owner_connection.execute("SELECT to_regclass('walk_by_name')").fetchone() == (None,)


# A version and the database of a later one


@pytest.fixture
def later(owner_connection: psycopg.Connection) -> Callable[[str], None]:
    """Have a later version add a table with rights of its own, by a migration of this name."""

    def add(name: str) -> None:
        owner_connection.execute("CREATE TABLE ledger_novelty (id uuid PRIMARY KEY)")
        owner_connection.execute(b"GRANT SELECT ON ledger_novelty TO PUBLIC")
        owner_connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('ledger', %s, now())", [name]
        )

    return add


def test_a_version_stays_ready_on_the_database_of_a_later_one_and_only_adds_partitions_to_it(
    committed_db, owner_connection, later
):
    later("0999_novelty")
    with owner_connection.transaction():
        before = catalogue(owner_connection)
    assert health.readiness_faults() == []
    assert prepared() == (
        "A later version has prepared this database (ledger.0999_novelty). Only partitions were added."
    )
    with owner_connection.transaction():
        after = catalogue(owner_connection)
    for name in CATALOGUE:
        assert after[name] == before[name], name


def test_a_version_that_the_database_excludes_is_not_ready_and_changes_nothing(committed_db, later):
    later("0999_from_99_2_without_old_names")
    [fault] = health.readiness_faults()
    assert (fault.code, fault.detail) == (
        "MIGRATIONS",
        "The database is for version 99.2 and later; this is 0.1.",
    )
    with pytest.raises(CommandError, match=r"for version 99\.2 and later; this is 0\.1\. Nothing was changed\."):
        prepared()


def test_what_a_version_itself_took_away_does_not_exclude_it(committed_db, later):
    later("0999_from_0_1_without_old_names")
    assert health.readiness_faults() == []
