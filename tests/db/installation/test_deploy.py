"""deploy/postgresql.sql on a server whose administrator is no superuser, as on a managed service."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from console.local import processes, servers
from console.local.installation import ROOT
from console.local.servers import SUPERUSER, ensure_role, postgres_url
from tests.support.outside.forking import forks

ADMIN, OWNER, APP, DATABASE, KEYS = "managed_admin", "managed_owner", "managed_app", "managed", "managed_keys"
OTHERS = {role: f"managed_{role}" for role in ("sequencer", "eraser", "auditor")}
ROLES = {"owner": OWNER, "app": APP} | OTHERS
WORD = "not-a-real-password"


@pytest.fixture
def managed(cluster) -> Iterator[dict[str, str]]:
    with psycopg.connect(cluster.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        ensure_role(connection, ADMIN, WORD, makes_roles=True)
        connection.execute("ALTER ROLE managed_admin CREATEDB")
        yield {
            role: postgres_url(role=role, password=WORD, port=cluster.port, database=database)
            for role, database in ((ADMIN, "postgres"), (OWNER, DATABASE), (APP, DATABASE))
        }
        for database in (DATABASE, KEYS):
            connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        for role in (OWNER, APP, *OTHERS.values(), ADMIN):
            connection.execute(f"DROP OWNED BY {role}") if _known(connection, role) else None
            connection.execute(f"DROP ROLE IF EXISTS {role}")


def _known(connection: psycopg.Connection, role: str) -> bool:
    return connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone() is not None


def _psql(cluster, url: str, roles: dict[str, str] = ROLES, **extra: str) -> subprocess.CompletedProcess[str]:
    values = ROLES | {"database": DATABASE, "keys_database": KEYS} | {f"{role}_password": WORD for role in roles}
    options = [part for name, value in (values | extra).items() for part in ("-v", f"{name}={value}")]
    psql = cluster.programs.postgres.with_name("psql")
    file = ROOT / "deploy" / "postgresql.sql"
    return subprocess.run([psql, url, *options, "-f", file], capture_output=True, text=True, cwd="/")


def _prepare(run, managed: dict[str, str], **extra: str) -> subprocess.CompletedProcess[str]:
    told = {"DATABASE_URL": managed[APP], "DATABASE_OWNER_URL": managed[OWNER]}
    told |= {f"KEYS_{name}": f"{url}_keys" for name, url in told.items()}
    told |= {f"COUNTERFOIL_{role.upper()}_ROLE": name for role, name in OTHERS.items()} | extra
    return forks().run(["manage.py", "prepare_database"], dict(os.environ) | told)


def test_preparing_a_managed_server_twice_gives_the_same_rights(cluster, run, managed):
    made = _psql(cluster, managed[ADMIN])
    assert made.returncode == 0, made.stderr
    for _ in range(2):
        prepared = _prepare(run, managed)
        assert prepared.returncode == 0, prepared.stderr
    with psycopg.connect(managed[APP], autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM ledger_tenant").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM ledger_event")


@pytest.mark.parametrize("might", ["BYPASSRLS", "SUPERUSER"])
def test_an_application_role_with_too_many_rights_is_refused(cluster, run, managed, might):
    assert _psql(cluster, managed[ADMIN]).returncode == 0
    with psycopg.connect(cluster.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER ROLE managed_app {might}")
    answer = _prepare(run, managed)
    assert answer.returncode != 0
    assert "must not be a superuser" in answer.stderr


def test_an_application_that_could_become_the_owner_is_refused(cluster, run, managed):
    assert _psql(cluster, managed[ADMIN]).returncode == 0
    with psycopg.connect(cluster.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute("GRANT managed_owner TO managed_app")
    assert "must not be a superuser" in _prepare(run, managed).stderr
    assert "must not be a superuser" in _prepare(run, managed, DATABASE_URL=managed[OWNER]).stderr


@pytest.fixture
def other_server(cluster) -> Iterator[servers.Postgres]:
    """A second server, as the keys have it."""
    folder = cluster.folder.with_name("postgres-of-keys")
    server = replace(cluster, folder=folder, port=servers.free_port())
    server.initialise()
    child = processes.spawn(server.program())
    try:
        server.wait(child)
        yield server
    finally:
        processes.stop_children([child])
        shutil.rmtree(folder)


def _own_names(server: servers.Postgres) -> set[str]:
    """The databases and roles that deploy/postgresql.sql has made on a server."""
    with psycopg.connect(server.url(SUPERUSER, "postgres")) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles EXCEPT SELECT %s", [ADMIN]
        )
        return {name for (name,) in rows if name.startswith("managed")}


def test_record_and_keys_on_two_servers_each_get_their_own_database_and_roles(cluster, run, managed, other_server):
    keys = {role: ROLES[role] for role in ("owner", "app", "eraser")}
    record = _psql(cluster, managed[ADMIN], only="record")
    apart = _psql(cluster, other_server.url(SUPERUSER, "postgres"), roles=keys, only="keys")
    assert (record.returncode, apart.returncode) == (0, 0), record.stderr + apart.stderr
    assert _own_names(cluster) == {DATABASE, *ROLES.values()}
    assert _own_names(other_server) == {KEYS, *keys.values()}
    addresses = {
        f"KEYS_{name}": postgres_url(role=role, password=WORD, port=other_server.port, database=KEYS)
        for name, role in (("DATABASE_URL", APP), ("DATABASE_OWNER_URL", OWNER))
    }
    prepared = _prepare(run, managed, **addresses)
    assert prepared.returncode == 0, prepared.stderr


def test_an_unknown_choice_of_what_to_make_makes_nothing(cluster, managed):
    refused = _psql(cluster, managed[ADMIN], only="everything")
    assert refused.returncode != 0
    assert "only is record or keys" in refused.stderr
    assert _own_names(cluster) == set()
