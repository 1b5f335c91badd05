"""A key database for tests that count keys or wrap them anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from console.local import rights, servers
from ledger import keystore
from tests.conftest import Run

OWN_KEYS = f"own_keys_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


@pytest.fixture
def own_keys(run: Run, cluster: servers.Postgres, template: str, settings: Any, secrets_dir: Path) -> Iterator[str]:
    """A key database and key files that no other test uses; its address as the owner."""
    keystore.clear_cache()
    cluster.make_database(OWN_KEYS)
    settings.KEYS_DATABASE_URL = run.postgres.url(servers.APP, OWN_KEYS)
    settings.KEYS_DATABASE_OWNER_URL = run.postgres.url(servers.OWNER, OWN_KEYS)
    try:
        rights.prepare_key_database()
        yield settings.KEYS_DATABASE_OWNER_URL
    finally:
        keystore.clear_cache()
        with psycopg.connect(run.postgres.url(servers.SUPERUSER, "postgres"), autocommit=True) as superuser:
            superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(OWN_KEYS)))
