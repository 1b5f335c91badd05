"""PgBouncer in transaction mode, each transaction on the next server of the pool."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from console.local import servers
from console.local.processes import Child, Program, ServiceUser, tail_log, wait_until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/usr/bin")
MISSING = "pgbouncer is not installed (Debian's package pgbouncer)"


@dataclass(frozen=True, kw_only=True)
class Pooler:
    """A pooler before `databases` (name, or `*`, to port), for the application's role with `password`."""

    folder: Path
    port: int
    databases: Mapping[str, int]
    password: str
    account: ServiceUser | None
    size: int = 2

    @property
    def log(self) -> Path:
        return self.folder / "pgbouncer.log"

    def program(self) -> Program:
        """Return the program to run; write its files first."""
        servers.private_folder(self.folder, self.account)
        users, settings = self.folder / "users", self.folder / "pgbouncer.ini"
        users.write_text(f'"{servers.APP}" "{self.password}"\n')
        databases = "".join(f"{name} = host=127.0.0.1 port={port}\n" for name, port in self.databases.items())
        settings.write_text(
            f"[databases]\n{databases}[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = scram-sha-256\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {self.size}\nmax_client_conn = 200\nserver_round_robin = 1\n"
        )
        for file in (users, settings):
            file.chmod(0o600)
            if self.account is not None:
                shutil.chown(file, self.account.uid, self.account.gid)
        argv = [str(PGBOUNCER), str(settings)]
        return Program(name="pgbouncer", argv=argv, log=self.log, account=self.account)

    def wait(self, child: Child, database: str, *, within_s: float = 30) -> None:
        """Wait until a database can be reached through it; raise `ServerFailed` if it cannot."""
        url = servers.postgres_url(role=servers.APP, password=self.password, port=self.port, database=database)

        def answers() -> bool:
            # A refused connection is refused at once: the waiting is done here.
            try:
                psycopg.connect(url, connect_timeout=1).close()
            except psycopg.OperationalError:
                return False
            return True

        if not child.running() or not wait_until(answers, within_s=within_s):
            raise servers.ServerFailed(f"PgBouncer does not answer: {tail_log(self.log)}")
