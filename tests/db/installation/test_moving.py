"""A record that is taken to another database, and a database of the earlier migrations: as docs/deploy.md says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg import errors, sql

from console.local import servers
from console.telemetry import health
from ledger.db import tenancy
from ledger.management.commands.migrate import LAST_BEFORE_TABLES
from ledger.record import operations as ledger
from ledger.verification.queries import fences
from tests.conftest import Run, _use, new_database
from tests.db.installation.test_sql_files import CATALOGUE, catalogue
from tests.db.record.records import executing, fill
from tests.support.builders import propose
from tests.support.erasing import decided, erase
from tests.support.seals import seal_up, signer_state_file

DOCS = Path(__file__).parents[3] / "docs" / "deploy.md"
SECTION = "### Into a new database"
# The epoch is signed for its place.
FILLED_BEFORE = {"django_migrations", "django_content_type", "auth_permission", "ledger_epoch"}
WORD = "moving-1"
LONG_AGO = datetime.now(UTC) - timedelta(days=100)


@pytest.fixture
def mover(run: Run, cluster: servers.Postgres) -> Iterator[str]:
    """A role that is no superuser, and may do what docs/deploy.md asks of whoever dumps and loads."""
    with psycopg.connect(cluster.url(servers.SUPERUSER, "postgres"), autocommit=True) as superuser:
        superuser.execute("CREATE ROLE mover LOGIN BYPASSRLS PASSWORD 'moving-1'")
        superuser.execute(sql.SQL("GRANT {} TO mover").format(sql.Identifier(servers.OWNER)))
        yield "mover"
        superuser.execute("DROP ROLE mover")


def rows(url: str) -> dict[str, Any]:
    """Every row of every table, and in which partition it is."""
    tables = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition ORDER BY 1"
    )
    every = "SELECT tableoid::regclass::text, to_jsonb(t)::text FROM {} t ORDER BY 1, 2"
    with psycopg.connect(url) as connection:
        names = [name for (name,) in connection.execute(tables) if name not in FILLED_BEFORE]
        return {name: connection.execute(sql.SQL(every).format(sql.Identifier(name))).fetchall() for name in names}


def verified() -> str:
    said = StringIO()
    call_command("verify_ledger", stdout=said)
    call_command("verify_ledger", log=True, stdout=said)
    return said.getvalue()


def documented(folder: Path, run: Run, **urls: str) -> None:
    """Carry out the commands of docs/deploy.md, with the programs of the server's own version."""
    section = DOCS.read_text().split(SECTION)[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 2
    path = f"{run.postgres.programs.postgres.parent}:{os.environ['PATH']}"
    for block in blocks:
        assert all(name in urls for name in re.findall(r"\$(\w+)", block))
        done = subprocess.run(
            ["bash", "-ec", block], cwd=folder, env=os.environ | urls | {"PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_documented_dump_and_load_transfers_the_whole_record(
    committed_db, owner_connection, run, mover, settings, tmp_path
):
    settings.COUNTERFOIL_SIGNER_STATE = signer_state_file()
    owner_connection.execute("SELECT ledger_ensure_partitions(-6)")
    record = fill("orchid", actions=3)
    with tenancy(record.tenant):
        gone = propose(record.tenant, at=LONG_AGO)
        ledger.append(gone, ledger.NewEvent(kind="rejected", to="FAILED"), actor=ledger.SYSTEM, at=LONG_AGO)
    decided(record.tenant, gone.id)
    erase(run)
    seal_up()
    before = rows(run.postgres.url(servers.SUPERUSER, committed_db.name))
    assert f"ledger_event_{LONG_AGO:y%Ym%m}" in {part for part, _ in before["ledger_event"]}
    assert any(str(gone.id) in text for _, text in before["ledger_erased"])

    with new_database(run) as new:
        old_url, new_url = (
            servers.postgres_url(role=mover, password=WORD, port=run.postgres.port, database=database.name)
            for database in (committed_db, new)
        )
        documented(tmp_path, run, OLD_ADMIN_URL=old_url, NEW_ADMIN_URL=new_url, NEW_OWNER_URL=new.owner_url)
        assert rows(run.postgres.url(servers.SUPERUSER, new.name)) == before
        _use(new.name)
        try:
            assert verified().count(" is intact.") == 2
            assert fences.missing_fences() == []
            with tenancy(record.tenant):
                executing(record.tenant)
            seal_up()
            assert verified().count(" is intact.") == 2
        finally:
            _use(committed_db.name)


def test_an_event_with_a_changed_byte_does_not_load(committed_db, superuser_connection, run):
    """The fences stay up while a record is loaded, for whoever loads it."""
    fill("orchid")
    names = sql.SQL(
        "tenant_id, subject_id, seq, id, subject_kind, kind, from_state, state, envelope, entry_hash,"
        " actor_kind, actor_id, at"
    )
    with superuser_connection.cursor() as cursor:
        out = sql.SQL("COPY (SELECT {} FROM ledger_event WHERE seq = 1) TO STDOUT").format(names)
        with cursor.copy(out) as copy:
            lines = [bytes(line).decode() for line in copy]
    # An id may hold these digits too: only the envelope begins with them.
    assert all(line.count("\\x7b22") == 1 for line in lines)
    with new_database(run) as new, psycopg.connect(run.postgres.url(servers.SUPERUSER, new.name)) as superuser:
        into = sql.SQL("COPY ledger_event ({}) FROM STDIN").format(names)
        with superuser.transaction(), superuser.cursor().copy(into) as copy:
            copy.write(lines[0])
        with (
            pytest.raises(errors.CheckViolation, match="event_hash_is_of_the_envelope"),
            superuser.transaction(),
            superuser.cursor().copy(into) as copy,
        ):
            copy.write(lines[1].replace("\\x7b22", "\\x7b20"))


def recorded_migrations(owner: psycopg.Connection) -> set[tuple[str, str]]:
    return set(owner.execute("SELECT app, name FROM django_migrations").fetchall())


def record_earlier(owner: psycopg.Connection, migrations: Iterable[tuple[str, str]]) -> None:
    """Have the database say that these migrations, and none of today's, made its tables."""
    owner.execute("DELETE FROM django_migrations WHERE app = ANY (%s)", [list(LAST_BEFORE_TABLES)])
    firsts = {(app, "0001_initial") for app in LAST_BEFORE_TABLES}
    for app, name in {*firsts, *migrations}:
        owner.execute("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, now())", [app, name])


@pytest.fixture
def earlier_tables(committed_db, run: Run, cluster: servers.Postgres) -> Iterator[psycopg.Connection]:
    """The owner's connection to a new database as the earlier migrations left one: without what came after them."""
    name = f"{committed_db.name}_tables"
    cluster.make_database(name)
    _use(name)
    for app in LAST_BEFORE_TABLES:
        call_command("migrate", app, "0002_functions_and_fences", database="owner", verbosity=0)
    call_command("migrate", "account", database="owner", verbosity=0)
    with psycopg.connect(run.postgres.url(servers.OWNER, name), autocommit=True) as owner:
        record_earlier(owner, LAST_BEFORE_TABLES.items())
        yield owner
    _use(committed_db.name)
    with psycopg.connect(cluster.url(servers.SUPERUSER, "postgres"), autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_database_that_ran_all_of_the_earlier_migrations_becomes_as_a_new_one_and_keeps_its_rows(
    earlier_tables, owner_connection
):
    earlier_tables.execute(
        "INSERT INTO ledger_tenant (id, slug, name, origin, created_at)"
        " VALUES (gen_random_uuid(), 'before', 'Before', 'console.test/before', now())"
    )
    call_command("prepare_database", verbosity=0)
    assert recorded_migrations(earlier_tables) == recorded_migrations(owner_connection)
    taken_over, new = catalogue(earlier_tables), catalogue(owner_connection)
    for name in CATALOGUE:
        assert taken_over[name] == new[name], name
    assert fences.missing_fences() == []
    record = fill("orchid")
    with tenancy(record.tenant):
        executing(record.tenant)
    slugs = earlier_tables.execute("SELECT slug FROM ledger_tenant ORDER BY 1").fetchall()
    assert slugs == [("before",), ("orchid",)]


@pytest.mark.parametrize("app", LAST_BEFORE_TABLES)
def test_a_database_that_lacks_the_last_of_the_earlier_migrations_is_left_unchanged(
    committed_db, owner_connection, app: str
):
    record_earlier(owner_connection, LAST_BEFORE_TABLES.items() - {(app, LAST_BEFORE_TABLES[app])})
    before = recorded_migrations(owner_connection)
    with pytest.raises(
        CommandError, match=r"those of an earlier version, and not of the last one .* Nothing was chang"
    ):
        call_command("prepare_database", verbosity=0)
    assert recorded_migrations(owner_connection) == before


def test_migrate_alone_leaves_a_database_of_the_earlier_migrations_unchanged(committed_db, owner_connection):
    record_earlier(owner_connection, LAST_BEFORE_TABLES.items())
    before = recorded_migrations(owner_connection)
    with pytest.raises(CommandError, match=r"of an earlier version. Nothing was changed. Run prepare_database."):
        call_command("migrate", database="owner", verbosity=0)
    assert recorded_migrations(owner_connection) == before
    assert [fault.code for fault in health.readiness_faults()] == ["MIGRATIONS"]
