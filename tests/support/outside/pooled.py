"""Every connection of the application through PgBouncer, for a whole run: `-p tests.support.outside.pooled`.

Each transaction goes to the next server (`server_round_robin`), so nothing that a session keeps is there in the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from console.local import processes, servers
from deploy.drills.pooler import Pooler
from ledger import keystore


@contextmanager
def pooling(run: Any, *, size: int) -> Iterator[int]:
    """Connect through a pooler with `size` servers a database from now on; its port."""
    port, default = servers.free_port(), connections.settings["default"]
    pooler = Pooler(
        folder=run.folder / f"pooler-{port}",
        port=port,
        databases={"*": run.postgres.port},
        password=run.postgres.passwords.app,
        account=run.postgres.account,
        size=size,
    )
    child = processes.spawn(pooler.program())
    straight = default["PORT"], settings.KEYS_DATABASE_URL
    try:
        pooler.wait(child, "counterfoil_keys")
        _connect_to(port, settings.KEYS_DATABASE_URL.replace(f":{run.postgres.port}/", f":{port}/"))
        yield port
    finally:
        _connect_to(*straight)
        processes.stop_children([child])


def _connect_to(port: int | str, keys_url: str) -> None:
    connections.close_all()
    connections.settings["default"]["PORT"] = port
    settings.KEYS_DATABASE_URL = keys_url
    keystore.clear_cache()


@pytest.fixture(scope="session", autouse=True)
def behind_pooler(django_db_setup: None, run: Any) -> Iterator[None]:
    """The whole run, in one process."""
    with pooling(run, size=8):
        yield
