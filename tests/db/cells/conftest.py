"""A directory on the run's server: the tables' owner owns it, the application writes it, and the auditor reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from psycopg import sql

from console.cells import directory
from console.local import servers
from tests.conftest import Run


@dataclass(frozen=True)
class Addresses:
    """The addresses of one directory by the roles that use it."""

    owner: str
    operator: str
    router: str


@contextmanager
def new_directory(run: Run, patched: pytest.MonkeyPatch) -> Iterator[Addresses]:
    """A prepared and empty directory, which operators' commands of this process use."""
    name = f"directory_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{uuid4().hex[:8]}"
    run.postgres.make_database(name)
    made = Addresses(*(run.postgres.url(role, name) for role in (servers.OWNER, servers.APP, servers.AUDITOR)))
    patched.setattr(settings, "COUNTERFOIL_DIRECTORY_URL", made.operator)
    patched.setattr(settings, "COUNTERFOIL_DIRECTORY_OWNER_URL", made.owner)
    patched.setattr(settings, "COUNTERFOIL_ROUTER_ROLE", servers.AUDITOR)
    try:
        directory.prepare(made.owner, operator=servers.APP, router=servers.AUDITOR)
        yield made
    finally:
        with psycopg.connect(run.postgres.url(servers.SUPERUSER, "postgres"), autocommit=True) as superuser:
            superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def addresses(run: Run, cluster: servers.Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Addresses]:
    with new_directory(run, monkeypatch) as made:
        yield made
