"""A record that is taken to another database, and a database of the old migrations: as docs/deploy.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from psycopg import errors, sql

from console.local import servers
from console.management.commands.prepare_database import LAST_OF_THE_OLD
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.verification.queries import fences
from tests.conftest import Run, _use, new_database
from tests.db.record.records import executing, fill
from tests.db.record.rows import a_row
from tests.support.builders import propose
from tests.support.erasing import decided, erase
from tests.support.seals import seal_up, signer_state_file

DOCS = Path(__file__).parents[3] / "docs" / "deploy.md"
SECTION = "### From the last version before the `.sql` files"
FILLED_BEFORE = {"django_migrations", "django_content_type", "auth_permission"}
WORD = "moving-1"
NORMAL_NAMES = "0013_names_in_normal_form"
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
    assert "7b22" in lines[0]
    with new_database(run) as new, psycopg.connect(run.postgres.url(servers.SUPERUSER, new.name)) as superuser:
        into = sql.SQL("COPY ledger_event ({}) FROM STDIN").format(names)
        with superuser.transaction(), superuser.cursor().copy(into) as copy:
            copy.write(lines[0])
        with (
            pytest.raises(errors.CheckViolation, match="event_hash_is_of_the_envelope"),
            superuser.transaction(),
            superuser.cursor().copy(into) as copy,
        ):
            copy.write(lines[1].replace("7b22", "7b20", 1))


@contextmanager
def migrated_to(run: Run, cluster: servers.Postgres, name: str, **last: str) -> Iterator[None]:
    """Use a new database that has run the migrations of each app up to the one that is named."""
    before = connections["default"].settings_dict["NAME"]
    cluster.make_database(name)
    _use(name)
    for app, migration in last.items():
        call_command("migrate", app, migration, database="owner", verbosity=0)
    yield
    _use(before)
    with psycopg.connect(cluster.url(servers.SUPERUSER, "postgres"), autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def tables_and_fences(committed_db, run: Run, cluster: servers.Postgres) -> Iterator[psycopg.Connection]:
    """The owner's connection to a new database as the old migrations left one: tables and fences, and their names."""
    name = f"{committed_db.name}_tables"
    first = dict.fromkeys(("ledger", "approvals", "reviews", "console"), "0002_fences")
    with (
        migrated_to(run, cluster, name, **first),
        psycopg.connect(run.postgres.url(servers.OWNER, name), autocommit=True) as owner,
    ):
        owner.execute("DELETE FROM django_migrations WHERE name = '0002_fences'")
        yield owner


def record_migrations(owner: psycopg.Connection, names: set[str]) -> None:
    for app, name in (each.split(".") for each in ["ledger.0002_the_record", *sorted(names)]):
        owner.execute("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, now())", [app, name])


def test_a_database_that_ran_all_of_the_old_migrations_is_adopted(tables_and_fences):
    """Its tables are those of 0001_initial, so what is left to run are the files."""
    record_migrations(tables_and_fences, LAST_OF_THE_OLD)
    tables_and_fences.execute(
        "INSERT INTO ledger_tenant (id, slug, name, origin, created_at)"
        " VALUES (gen_random_uuid(), 'before', 'Before', 'console.test/before', now())"
    )
    call_command("prepare_database", verbosity=0)
    assert fences.missing_fences() == []
    record = fill("orchid")
    with tenancy(record.tenant):
        assert actions.action(record.tenant, record.action.id) is not None
    slugs = tables_and_fences.execute("SELECT slug FROM ledger_tenant ORDER BY 1").fetchall()
    assert slugs == [("before",), ("orchid",)]


def test_a_database_that_stopped_before_the_last_of_the_old_migrations_is_left_unchanged(
    committed_db, owner_connection
):
    record_migrations(owner_connection, LAST_OF_THE_OLD - {"reviews.0014_signed_settlements"})
    applied = "SELECT app, name FROM django_migrations ORDER BY 1, 2"
    before = owner_connection.execute(applied).fetchall()
    with pytest.raises(CommandError, match=r"predates the last version before the \.sql files. Nothing was changed"):
        call_command("prepare_database", verbosity=0)
    assert owner_connection.execute(applied).fetchall() == before


@pytest.fixture
def before_normal_names(committed_db, owner_connection):
    """A database in which people sign in under their names as they were typed, and a way to give it some."""
    owner_connection.execute("ALTER TABLE console_user DROP CONSTRAINT user_name_in_normal_form")
    call_command("migrate", "console", "0012_posted_notices", database="owner", fake=True, verbosity=0)

    def add(name: str) -> None:
        owner_connection.execute(
            "INSERT INTO console_user (id, username, password, is_superuser, first_name, last_name, email, is_staff,"
            " is_active, date_joined, single_keys, theme) VALUES (gen_random_uuid(), %s, '', false, '', '', '', false,"
            " true, now(), true, 'auto')",
            [name],
        )

    return add


def test_names_are_normalised(before_normal_names, owner_connection):
    for name in ("Ada@Bücher.Example", "ben@corp.example"):
        before_normal_names(name)
    call_command("migrate", "console", NORMAL_NAMES, database="owner", verbosity=0)
    names = [name for (name,) in owner_connection.execute("SELECT username FROM console_user ORDER BY 1")]
    assert names == ["ada@xn--bcher-kva.example", "ben@corp.example"]


def test_two_accounts_whose_names_normalise_alike_are_named_and_nothing_is_changed(
    before_normal_names, owner_connection
):
    for name in ("Ada@corp.example", "ada@corp.example"):
        before_normal_names(name)
    with pytest.raises(RuntimeError, match=r"have one name in normal form: Ada@corp.example and ada@corp.example"):
        call_command("migrate", "console", NORMAL_NAMES, database="owner", verbosity=0)
    names = {name for (name,) in owner_connection.execute("SELECT username FROM console_user")}
    assert names == {"Ada@corp.example", "ada@corp.example"}


QUEUES_AND_DIRECTORY = (
    *("console_apikey", "approvals_due", "console_membership", "ledger_order", "ledger_pending"),
    *("reviews_hook", "reviews_lane", "reviews_schedule"),
)
A_KEY = (
    "INSERT INTO console_apikey (id, tenant_id, kind, name, hash, actor_id, scopes, created_at)"
    " VALUES (gen_random_uuid(), %s, 'agent', 'shop', %s, gen_random_uuid(), '[]', now())"
)


def test_queues_and_directory_keep_their_rows_where_the_tenant_enters_their_keys(committed_db, run, cluster):
    name, tenants = f"{committed_db.name}_keys", (uuid4(), uuid4())
    last = {"ledger": "0019_wrong_clocks", "approvals": "0011_release_locks"}
    last |= {"reviews": "0007_readings_of_each_system", "console": "0016_metrics_by_difference"}
    with (
        migrated_to(run, cluster, name, **last),
        psycopg.connect(cluster.url(servers.SUPERUSER, name), autocommit=True) as superuser,
    ):
        superuser.execute("SET session_replication_role = replica")
        for tenant in tenants:
            for table in QUEUES_AND_DIRECTORY[1:]:
                superuser.execute(a_row(superuser, table, tenant))
            superuser.execute(A_KEY, [tenant, tenant.hex])
        before = rows(cluster.url(servers.SUPERUSER, name))
        call_command("prepare_database", verbosity=0)
        after = rows(cluster.url(servers.SUPERUSER, name))
        for table in QUEUES_AND_DIRECTORY:
            kept, found = (
                sorted((json.loads(row) for _, row in every[table]), key=itemgetter("tenant_id"))
                for every in (before, after)
            )
            assert len(kept) == 2, table
            if table == "approvals_due":
                kept = [{name: value for name, value in row.items() if name != "id"} for row in kept]
            assert found == kept, table
        # The queue goes on where it was.
        statement = "INSERT INTO ledger_pending (tenant_id, subject_id, seq) SELECT %s, %s, 1 RETURNING position"
        [drawn] = superuser.execute(statement, [tenants[0], uuid4()]).fetchone()
        assert drawn > max(json.loads(row)["position"] for _, row in before["ledger_pending"])


def test_metrics_that_were_counted_by_the_hour_are_counted_anew_from_the_record(committed_db, run, cluster):
    name = f"{committed_db.name}_metrics"
    last = {"ledger": "0019_wrong_clocks", "approvals": "0011_release_locks"}
    last |= {"reviews": "0007_readings_of_each_system", "console": "0015_prices_and_budgets"}
    counted = ("console_metricaction", "console_metricrollup", "console_metricdelay", "console_metriccursor")
    with (
        migrated_to(run, cluster, name, **last),
        psycopg.connect(cluster.url(servers.SUPERUSER, name), autocommit=True) as superuser,
    ):
        superuser.execute("SET session_replication_role = replica")
        for table in counted:
            superuser.execute(a_row(superuser, table, uuid4()))
        call_command("prepare_database", verbosity=0)
        left = rows(cluster.url(servers.SUPERUSER, name))
        assert [len(left.get(table, ())) for table in counted] == [0, 0, 0, 0]
