"""Work of another connection that meets work of this one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connections

PATIENCE_S = 60


def on_its_own_connection(work: Callable[[], Any]) -> Callable[[], Any]:
    """The work with a connection of its own that is closed at the end."""

    def done() -> Any:
        try:
            return work()
        finally:
            connections.close_all()

    return done


def until_someone_waits(watcher: psycopg.Connection, *, by: str = "") -> None:
    """Until somebody waits for a lock here, of the kind `by`; asked outside the test's transaction, which would see one
    moment only.
    """
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        " AND wait_event LIKE %s"
    )
    for _ in range(PATIENCE_S * 50):
        (count,) = watcher.execute(query, [by or "%"]).fetchone() or (0,)
        if count:
            return
        time.sleep(0.02)
    raise AssertionError("nobody waits")
