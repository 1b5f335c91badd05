"""A PostgreSQL of its own for the signer state, as an installation with sequencers on several hosts has it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from console.local import servers
from console.local.processes import Child, spawn, stop_children


class StateServer:
    """The server; each test has a database of its own."""

    def __init__(self, postgres: servers.Postgres) -> None:
        self.postgres = postgres
        self._numbers = count()
        self._child: Child | None = None

    def start(self) -> None:
        self._child = spawn(self.postgres.program())
        self.postgres.wait(self._child)

    def stop(self) -> None:
        if self._child is not None:
            stop_children([self._child])

    def new_database(self) -> str:
        """The address of a new database."""
        name = f"state_{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name}")
        return self.postgres.url(servers.SUPERUSER, name)

    def ask(self, statement: str) -> Any:
        """The first value that a statement gives, or None."""
        url = self.postgres.url(servers.SUPERUSER, "postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(statement)  # type: ignore[call-overload]
            return found.fetchone()[0] if found.description else None


@contextmanager
def state_server() -> Iterator[StateServer]:
    """A running server in a folder that is removed with it."""
    account = servers.service_user()
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-state-"))
    servers.private_folder(folder, account)
    server = StateServer(
        servers.Postgres(
            folder=folder / "postgres",
            programs=servers.install_binaries(account),
            account=account,
            passwords=servers.load_passwords(folder / "passwords.json"),
            port=servers.free_port(),
            durable=False,
        )
    )
    try:
        server.postgres.initialise()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
