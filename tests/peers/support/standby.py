"""A real PostgreSQL in recovery: what was written before it became a standby, and nothing since."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg

from console.local import processes, servers


@contextmanager
def second_server(first: servers.Postgres, beside: Path) -> Iterator[str]:
    """The address of another server that can be written to."""
    folder = beside / f"second-{uuid4().hex[:6]}"
    server = replace(first, folder=folder, port=servers.free_port())
    server.initialise()
    try:
        with _running(server) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def standby(primary: servers.Postgres, beside: Path, fill: Callable[[psycopg.Connection], object]) -> Iterator[str]:
    """The address of a server that `fill` filled while it could still be written to."""
    folder = beside / f"standby-{uuid4().hex[:6]}"
    server = replace(primary, folder=folder, port=servers.free_port())
    server.initialise()
    try:
        with _running(server) as url, psycopg.connect(url, autocommit=True) as connection:
            fill(connection)
        (server.data / "standby.signal").touch()
        with _running(server) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(server: servers.Postgres) -> Iterator[str]:
    child = processes.spawn(server.program())
    try:
        server.wait(child)
        yield server.url(servers.SUPERUSER, "postgres")
    finally:
        processes.stop_children([child])
