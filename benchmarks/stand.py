"""Where everything is measured: embedded servers that write for real, in a folder of their own, and one database each.

Both sides of a figure run on the same servers and in the same processes; `bare` (benchmarks/bare) is added to the
product's own settings, so that a bare endpoint meets the same middleware and a bare task the same worker.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from benchmarks.keepalive import Wire
from console.local import processes, programs, servers
from console.local.installation import ROOT
from console.local.keys import ensure_keys, ensure_log_key

SETTINGS = "benchmarks.bare.settings"
TEMPLATE = "prepared"
KEYS = "keys"

AGENT = "support"
CONTRACTS = ROOT / "client" / "example" / "contracts"
SYSTEMS = {"shop": "databases", "documents": "filesystems", "events": "queues_events"}


@dataclass(frozen=True, kw_only=True)
class Stand:
    """The servers of one run. Everything in it can be handed to another process."""

    folder: Path
    postgres: servers.Postgres
    valkey: servers.Valkey

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    def environment(self, database: str) -> dict[str, str]:
        """Return the environment of a process that works on a database of this stand."""
        return {
            "DATABASE_URL": self.postgres.url(servers.APP, database),
            "KEYS_DATABASE_URL": self.postgres.url(servers.APP, KEYS),
            "REDIS_URL": self.valkey.url(),
            "COUNTERFOIL_SECRETS_DIR": str(self.secrets),
            "COUNTERFOIL_EXPORTS": str(self.folder / "exports"),
            "COUNTERFOIL_PUBLIC_URL": "http://localhost:8000",
            "COUNTERFOIL_LOG_LEVEL": "WARNING",
            # Counted on both sides, and never reached.
            "COUNTERFOIL_RATE_PER_S": "1000000",
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "PYTHONPATH": str(ROOT),
            "PATH": os.environ.get("PATH", ""),
        }

    def sealing(self, database: str) -> dict[str, str]:
        """Return the environment of a sequencer on a database of this stand, with a signer state of its own."""
        return self.environment(database) | {
            "DATABASE_URL": self.postgres.url(servers.SEQUENCER, database),
            "KEYS_DATABASE_URL": "",
            "COUNTERFOIL_SIGNER_STATE": str(self.folder / f"{database}.sqlite"),
        }

    @contextmanager
    def superuser(self, database: str) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.postgres.url(servers.SUPERUSER, database), autocommit=True) as connection:
            yield connection

    def database(self, name: str, template: str = TEMPLATE) -> None:
        """Create a copy of another database; by default of one as a release leaves it."""
        with self.superuser("postgres") as connection:
            made, owner, app = map(sql.Identifier, (name, servers.OWNER, servers.APP))
            copied = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}")
            connection.execute(copied.format(made, sql.Identifier(template), owner))
            for role in (app, sql.Identifier(servers.SEQUENCER), sql.Identifier(servers.ERASER)):
                connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(made, role))

    def founded(self, database: str, *, approval: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A tenant with its people and keys, as `manage.py bootstrap` says them, its log opened and signed once.

        `approval` is its first policy.
        """
        words = ["bootstrap", "--tenant", "bench", "--messages", "pass", "--json"]
        if approval is not None:
            file = self.folder / f"{database}-approval.json"
            file.write_text(json.dumps(approval))
            words += ["--policy", f"approval={file}"]
        found: dict[str, Any] = json.loads(self.manage(database, *words))
        # Claims and starts wait for a signed epoch. The opening of the log is an event, too.
        for _ in range(2):
            self.manage(database, "sequencer", "--once", **self.sealing(database))
        return found

    def manage(self, database: str, *words: str, **more: str) -> str:
        answer = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *words],
            env=self.environment(database) | more,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        if answer.returncode != 0:
            raise SystemExit(f"benchmarks: manage.py {words[0]} failed: {answer.stderr[-2000:]}")
        return answer.stdout

    @contextmanager
    def running(self, program: processes.Program, **more: str) -> Iterator[processes.Child]:
        """One of the product's processes, with the bare side added to it."""
        told = dict(program.environment) | {"DJANGO_SETTINGS_MODULE": SETTINGS} | more
        child = processes.spawn(replace(program, environment=told))
        processes.record_processes(self.folder / f"{program.name}-{child.process.pid}.running", [child])
        try:
            yield child
        finally:
            processes.stop_children([child])

    def pids(self) -> dict[str, int]:
        """The process ids of the servers and of everything that runs, by the names of their programs."""
        records = [json.loads(record.read_text()) for record in self.folder.glob("*.running")]
        return {row["name"]: row["pid"] for rows in records for row in rows}

    @contextmanager
    def web(self, database: str, **more: str) -> Iterator[int]:
        """Start the web process, with more in its environment; yield its port."""
        port = servers.free_port()
        program = programs.web_program(port=port, environment=self.environment(database) | more, log=self.folder)
        with self.running(replace(program, log=self.folder / f"web-{database}.log")) as child:
            if not processes.wait_until(lambda: _listens(child, port), within_s=60):
                raise SystemExit(f"benchmarks: web did not start: {processes.tail_log(child.program.log, 20)}")
            yield port


def _listens(child: processes.Child, port: int) -> bool:
    import socket

    if not child.running():
        raise SystemExit(f"benchmarks: web ended: {processes.tail_log(child.program.log, 20)}")
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def stand() -> Iterator[Stand]:
    """Start the servers and prepare one database; remove everything at the end."""
    account = servers.service_user()
    folder = _new_folder(account)
    try:
        made = _stand(folder, account)
        with _running(made):
            prepare(made)
            yield made
    finally:
        for record in folder.glob("*.running"):
            processes.stop_leftovers(record)
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(account: processes.ServiceUser | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-bench-"))
    if not servers.can_access(folder.parent, account):
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=servers.private_folder(servers.SYSTEM_FOLDER, account)))
    servers.private_folder(folder, account)
    ensure_keys(folder / "secrets")
    ensure_log_key(folder / "secrets")
    return folder


def _stand(folder: Path, account: processes.ServiceUser | None) -> Stand:
    found = servers.install_binaries(account)
    words = servers.load_passwords(folder / "passwords.json")
    postgres = servers.Postgres(
        folder=folder / "postgres", programs=found, account=account, passwords=words, port=servers.free_port()
    )
    valkey = servers.Valkey(
        folder=folder / "valkey", programs=found, account=account, password=words.valkey, port=servers.free_port()
    )
    return Stand(folder=folder, postgres=postgres, valkey=valkey)


@contextmanager
def _running(made: Stand) -> Iterator[None]:
    children: list[processes.Child] = []
    try:
        for server in (made.postgres, made.valkey):
            server.initialise()
            children.append(processes.spawn(server.program()))
            processes.record_processes(made.folder / "servers.running", children)
            server.wait(children[-1])
        yield
    finally:
        processes.stop_children(list(reversed(children)))


def prepare(made: Stand) -> None:
    """Roles, the template that other databases are copied from, and the database of the keys."""
    made.postgres.make_roles()
    owners = {}
    for name, database in (("DATABASE_OWNER_URL", TEMPLATE), ("KEYS_DATABASE_OWNER_URL", KEYS)):
        made.postgres.make_database(database)
        owners[name] = made.postgres.url(servers.OWNER, database)
    made.manage(TEMPLATE, "prepare_database", DJANGO_SETTINGS_MODULE="console.settings", **owners)
    with made.superuser(TEMPLATE) as connection:
        connection.execute(files("benchmarks.bare").joinpath("tables.sql").read_bytes())


def register_example(operator: Wire) -> None:
    """Register the parts of the live example, its systems, contracts and agent, with the operator's key."""
    for name, pattern in SYSTEMS.items():
        operator.post("/api/v1/systems", {"name": name, "pattern": pattern, "settings": {}})
    documents = [json.loads(file.read_text()) for file in sorted(CONTRACTS.glob("*.json"))]
    for document in documents:
        operator.post("/api/v1/contracts", document)
    tools = [document["name"] for document in documents]
    operator.post("/api/v1/agents", {"agent_id": AGENT, "version": "1", "tools": tools})


# Processes of their own: Django knows one database per process.


def apart(stand: Stand, database: str, function: str, *arguments: Any) -> Any:
    """Return the result of `module:function` in a process that works on this database; its first argument
    is the stand.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_run, stand, database, function, arguments).result()


def set_up(stand: Stand, database: str, more: dict[str, str] | None = None) -> None:
    """Make this process one that works on a database of the stand."""
    import django

    os.environ |= stand.environment(database) | (more or {})
    django.setup()


def named(function: str) -> Any:
    module, name = function.split(":")
    return getattr(import_module(module), name)


def _run(stand: Stand, database: str, function: str, arguments: tuple[Any, ...]) -> Any:
    set_up(stand, database)
    return named(function)(stand, *arguments)
