"""deploy/postgresql.sql on a server whose administrator is no superuser, as on a managed service."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from console.local.installation import ROOT
from console.local.servers import SUPERUSER, ensure_role, postgres_url
from tests.support.outside.forking import forks

ADMIN, OWNER, APP, DATABASE, KEYS = "managed_admin", "managed_owner", "managed_app", "managed", "managed_keys"
OTHERS = {role: f"managed_{role}" for role in ("sequencer", "eraser", "auditor")}
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


def _psql(cluster, url: str) -> subprocess.CompletedProcess[str]:
    roles = {"owner": OWNER, "app": APP} | OTHERS
    values = roles | {"database": DATABASE, "keys_database": KEYS} | {f"{role}_password": WORD for role in roles}
    options = [part for name, value in values.items() for part in ("-v", f"{name}={value}")]
    psql = cluster.programs.postgres.with_name("psql")
    file = ROOT / "deploy" / "postgresql.sql"
    return subprocess.run(
        [psql, url, "-v", "ON_ERROR_STOP=1", *options, "-f", file], capture_output=True, text=True, cwd="/"
    )


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
