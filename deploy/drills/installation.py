"""A whole installation for drills: PostgreSQL servers for the record and for the keys, a broker, and every process.

Everything listens on loopback, in a folder that is removed at the end. The servers are those that the project brings
along; only a drill that says so uses a program of the machine's own. Executors are processes that are started again
when they end, as a supervisor would.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
import psycopg

from console.local import programs, servers
from console.local.installation import ROOT
from console.local.keys import ensure_keys, ensure_log_key
from console.local.processes import Child, Program, ServiceUser, run_as_user, spawn, stop_children, wait_until
from counterfoil.agent import Agent, Call
from deploy.drills import pooler
from deploy.drills.broker_servers import (
    RABBITMQ,
    RABBITMQ_MISSING,
    REDIS_MISSING,
    RabbitCluster,
    WatchedRedis,
    find_redis,
    kill,
)
from deploy.drills.clock import MovableClock, NoCompiler
from deploy.drills.proxy import Proxy

CONTRACTS = ROOT / "client" / "example" / "contracts"
TOOLS = ("write_document", "delete_document")
EXECUTORS = ("one", "two")
PAST = Path(__file__).with_name("past.py")


class Broker(StrEnum):
    """The servers that carry the hints: one Valkey, which also counts, or those of several hosts."""

    ONE = "one"
    SENTINEL = "sentinel"
    RABBITMQ = "rabbitmq"


class DrillFailed(Exception):
    """The drill itself could not continue; this is no finding about the product."""


class CannotRun(Exception):
    """This machine lacks a program or a right that the drill needs; the message says which."""


class Standby(StrEnum):
    """The second server of the record, and when it confirms a commit."""

    NONE = "none"
    ASYNCHRONOUS = "asynchronous"
    SYNCHRONOUS = "synchronous"


@dataclass(frozen=True)
class Tree:
    """A version of the product: its files, and the Python that has what it needs."""

    root: Path
    python: str

    def program(self, program: Program) -> Program:
        """The same program of this version. uvicorn and Celery look for modules in the folder that they run in, too."""
        environment = {**program.environment, "PYTHONPATH": str(self.root)}
        return replace(program, argv=[self.python, *program.argv[1:]], environment=environment, folder=self.root)


OURS = Tree(ROOT, sys.executable)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The parts that an installation has besides one of each; `disk_mb` bounds the disk of the record's server,
    `archived` has both servers archive their log, `movable_clock` gives all its processes a clock that a drill puts
    forward, `founding` adds words to `bootstrap`, `settings` goes into every environment. Several `signers` are
    sequencers on hosts of their own, with the signer state on a server of its own. `tree` is the version that it
    begins with, and `history` the number of past actions, of the tenant `past`. `fronted` puts the load balancer before
    a single web process too, and `tenant` is the slug of the first tenant.
    """

    standby: Standby = Standby.NONE
    webs: int = 1
    pooled: bool = False
    disk_mb: int | None = None
    archived: bool = False
    movable_clock: bool = False
    founding: tuple[str, ...] = ()
    signers: tuple[str, ...] = ("sequencer",)
    broker: Broker = Broker.ONE
    settings: Mapping[str, str] = field(default_factory=dict)
    tree: Tree = OURS
    history: int = 0
    fronted: bool = False
    tenant: str = "drill"


@dataclass
class Record:
    """The servers of the record; `primary` takes writes, `standby` follows it or is not there."""

    primary: servers.Postgres
    standby: servers.Postgres
    shape: Shape
    clock: Mapping[str, str] = field(default_factory=dict)
    running: dict[int, Child] = field(default_factory=dict)

    def start(self, server: servers.Postgres) -> None:
        program = server.program()
        program = replace(program, environment={**program.environment, **self.clock})
        if self.shape.disk_mb is not None:
            # Log that is kept to be used again would be what fills so small a disk.
            program = replace(program, argv=[*program.argv, "-c", "max_wal_size=64MB"])
        if self.shape.archived:
            servers.private_folder(self.archive(server), server.account)
            # A name appears once its file is whole.
            command = f"cp %p {self.archive(server)}/part && mv {self.archive(server)}/part {self.archive(server)}/%f"
            more = ["archive_mode=on", f"archive_command={command}"]
            program = replace(program, argv=[*program.argv, *(word for each in more for word in ("-c", each))])
        child = spawn(program)
        self.running[server.port] = child
        server.wait(child)

    def ask(self, server: servers.Postgres, statement: str) -> Any:
        with psycopg.connect(server.url(servers.SUPERUSER, "postgres"), autocommit=True) as connection:
            found = connection.execute(statement)  # type: ignore[call-overload]
            return found.fetchone()[0] if found.description else None

    def archive(self, server: servers.Postgres) -> Path:
        """The folder of a server's archived log."""
        return server.folder / "archive"

    def copy(self, server: servers.Postgres, to: Path, *words: str) -> None:
        """Copy a running server's data into a new folder, by `pg_basebackup` with these words."""
        argv = [str(server.programs.postgres.with_name("pg_basebackup")), "-D", str(to), "-c", "fast", *words]
        argv += ["-h", "127.0.0.1", "-p", str(server.port), "-U", servers.SUPERUSER]
        made = subprocess.run(
            argv,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PGPASSWORD": server.passwords.superuser},
            capture_output=True,
            text=True,
            **run_as_user(server.account),
        )
        if made.returncode != 0:
            raise DrillFailed(f"The server's data could not be copied: {made.stderr.strip()[-300:]}")

    def follow(self) -> None:
        """Rebuild the standby from the primary, and wait until it streams."""
        shutil.rmtree(self.standby.data, ignore_errors=True)
        servers.private_folder(self.standby.folder, self.standby.account)
        self.copy(self.primary, self.standby.data, "-R", "-X", "stream")
        self.start(self.standby)
        streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        if not wait_until(lambda: self.ask(self.primary, streams) == 1, within_s=30, every_s=0.2):
            raise DrillFailed("The standby does not stream.")
        if self.shape.standby is Standby.SYNCHRONOUS:
            self.ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.ask(self.primary, "ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
            self.ask(self.primary, "SELECT pg_reload_conf()")

    def fall_behind(self) -> None:
        """Cut the standby off: from here on it receives nothing more."""
        self.ask(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        self.ask(self.standby, "SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Kill the primary, and promote the standby."""
        kill(self.running.pop(self.primary.port))
        # The new primary has no standby yet, and must not wait for one.
        self.ask(self.standby, "ALTER SYSTEM SET synchronous_standby_names = ''")
        self.ask(self.standby, "SELECT pg_promote(true, 30)")
        self.primary, self.standby = self.standby, self.primary


class Installation:
    """The product on these servers, with executors, one agent's key and a reviewer's password."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        if shape.pooled and pooler.PGBOUNCER is None:
            raise CannotRun(pooler.MISSING)
        self.folder = folder
        self.shape = shape
        account = servers.service_user()
        binaries = servers.install_binaries(account)
        words = servers.load_passwords(folder / "passwords.json")
        common = {"programs": binaries, "account": account, "passwords": words}
        one, two, keys, state = (
            servers.Postgres(folder=folder / name, port=servers.free_port(), **common)
            for name in ("pg1", "pg2", "keys", "state")
        )
        self.clock = _movable_clock(folder) if shape.movable_clock else None
        self.record = Record(one, two, shape, self.clock.environment if self.clock else {})
        self.keys = keys
        self.state = state
        self.broker = servers.Valkey(
            folder=folder / "broker",
            programs=binaries,
            account=account,
            password=words.valkey,
            port=servers.free_port(),
        )
        self.hosts = _broker_hosts(shape.broker, folder / "hosts", account)
        databases = {"counterfoil": one.port, "counterfoil_keys": keys.port}
        self.pooler = pooler.Pooler(
            folder=folder / "pooler",
            port=servers.free_port(),
            databases=databases,
            password=words.app,
            account=account,
            size=8,
        )
        self.webs = {f"web{number or ''}": servers.free_port() for number in range(shape.webs)}
        is_fronted = shape.webs > 1 or shape.fronted
        self.proxy = Proxy(servers.free_port(), self.webs.values()) if is_fronted else None
        self.port = self.proxy.port if self.proxy else self.webs["web"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.documents = folder / "documents"
        self.effects = folder / "effects"
        self.log = folder / "log"
        self.children: dict[str, Child] = {}
        self.executors: dict[str, Child] = {}
        self.endings: list[tuple[str, int]] = []
        self.others: list[Installation] = []
        """Further installations of the drill, which end with this one."""
        self.known: dict[str, Any] = {}
        self.past: dict[str, Any] = {}
        self.clients: list[httpx.Client] = []
        self._environments: dict[str, Mapping[str, str]] = {}
        self._ended = threading.Event()

    # Start and end

    def begin(self) -> None:
        for place in (self.documents, self.log, self.folder / "exports", self.folder / "state"):
            place.mkdir(mode=0o700)
        ensure_keys(self.folder / "secrets")
        ensure_log_key(self.folder / "secrets")
        for tenant in (self.shape.tenant, "past"):
            credentials = self.folder / "secrets" / "systems" / tenant
            credentials.mkdir(mode=0o700)
            (credentials / "documents.json").write_text("{}")
        if self.shape.disk_mb is not None:
            mount_small_disk(self.record.primary.folder, self.shape.disk_mb)
        for server in (self.record.primary, self.keys, *([self.state] if len(self.shape.signers) > 1 else [])):
            server.initialise()
            self.record.start(server)
            server.make_roles()
        self.broker.initialise()
        self.children["broker"] = spawn(self.broker.program())
        self.broker.wait(self.children["broker"])
        if self.hosts is not None:
            self.hosts.begin()
        self.record.primary.make_database("counterfoil")
        self.keys.make_database("counterfoil_keys")
        if self.shape.standby is not Standby.NONE:
            self.record.follow()
        if self.shape.pooled:
            self.children["pooler"] = spawn(self.pooler.program())
        self.prepare_database(self.shape.tree)
        if self.shape.pooled:
            self.pooler.wait(self.children["pooler"], "counterfoil")
        words = ("--tenant", self.shape.tenant, "--messages", "pass", "--json", *self.shape.founding)
        self.known = json.loads(self.manage("bootstrap", *words))
        self.start_product()
        self.register()
        if self.shape.history:
            self.make_past(self.shape.history)
        self.start_executors()
        threading.Thread(target=self._supervise, daemon=True).start()

    @property
    def owners(self) -> dict[str, str]:
        """Return the environment that a command of the tables' owner needs besides."""
        return {
            "DATABASE_OWNER_URL": self.record_url(servers.OWNER),
            "KEYS_DATABASE_OWNER_URL": self.keys.url(servers.OWNER, "counterfoil_keys"),
        }

    @property
    def sealing(self) -> dict[str, str]:
        """Return the environment that a command of the sequencer's role needs besides."""
        return {"DATABASE_URL": self.record_url(servers.SEQUENCER), "KEYS_DATABASE_URL": ""}

    def prepare_database(self, tree: Tree) -> str:
        """The output of `prepare_database` of a version."""
        return self.manage("prepare_database", more=self.owners, tree=tree)

    def make_past(self, count: int) -> None:
        """Give a tenant of its own so many past actions in all kinds of states (`past.py`)."""
        self.past = json.loads(self.manage("bootstrap", "--tenant", "past", "--messages", "pass", "--json"))
        self.register(self.past["keys"]["oper"])
        text = "What was written."
        (self.documents / "past.md").write_text(text)
        (self.documents / "old.md").write_text("An outdated draft.")
        calls = (
            Call(
                "write_document", {"path": "past.md", "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            ),
            Call("delete_document", {"path": "old.md", "reason": "It is out of date."}),
        )
        with httpx.Client(timeout=20) as http:
            agent = Agent(url=self.url, key=self.past["keys"]["agent"], agent_id="clerk", http=http)
            session = agent.open_session(goal="Tidy up.", ttl_seconds=3600)
            made = [session.call(each).action_id for each in calls]
        # Nobody takes up what is half made.
        stop_children([self.children["worker"]])
        address = self.record.primary.url(servers.SUPERUSER, "counterfoil")
        argv = ["", "-P", str(PAST), address, str(count), *map(str, made)]
        program = Program(name="past", argv=argv, log=self.log / "past.log", environment={})
        child = spawn(self.shape.tree.program(program))
        if child.process.wait() != 0:
            raise DrillFailed(f"The past could not be made: {program.log.read_text()[-500:]}")
        print(program.log.read_text(), end="", flush=True)
        self.restart("worker")

    def start_product(self) -> None:
        environment = self.environment()
        started = {
            **{name: self._sequencer(name) for name in self.shape.signers},
            **{
                name: programs.web_program(port=port, environment=environment, log=self.log)
                for name, port in self.webs.items()
            },
            "worker": self._worker(self.shape.tree),
            "bulk": programs.worker_program(
                environment=environment, log=self.log, processes=1, name="bulk", queues="bulk"
            ),
            "beat": programs.beat_program(environment=environment, log=self.log),
        }
        for name, program in started.items():
            self.children[name] = spawn(self.shape.tree.program(program))
        if not wait_until(lambda: all(map(self.is_ready, self.webs)), within_s=120, every_s=0.3):
            raise DrillFailed(f"A web process is not ready: {[self.readiness(name) for name in self.webs]}")
        if self.proxy is not None:
            self.proxy.start()

    def _worker(self, tree: Tree) -> Program:
        # A version that knew of one queue only sends everything there, and ours takes no queue that it does not know.
        queues = "due,tick" if tree is OURS else "due,tick,celery"
        return programs.worker_program(environment=self.environment(), log=self.log, queues=queues)

    def _sequencer(self, name: str) -> Program:
        environment, log = self.environment() | self.sealing, self.log
        if len(self.shape.signers) > 1:
            host, log = self.folder / name, self.log / name
            ensure_keys(host)
            shutil.copy(self.folder / "secrets" / "log_key.pem", host)
            log.mkdir(mode=0o700)
            environment |= {
                "COUNTERFOIL_SECRETS_DIR": str(host),
                "COUNTERFOIL_SIGNER_STATE": self.state.url(servers.SUPERUSER, "postgres"),
            }
        return programs.sequencer_program(environment=environment, log=log)

    def ask_state(self, statement: str) -> Any:
        """The first value that a statement gives in the database of the signer state."""
        return self.record.ask(self.state, statement)

    def restart(self, name: str, more: Mapping[str, str] | None = None) -> None:
        """Start a process again that was killed, with more in its environment."""
        program = self.children[name].program
        self.children[name] = spawn(replace(program, environment={**program.environment, **(more or {})}))

    def exchange(self, name: str, tree: Tree) -> None:
        """Stop a process and start it with another version. A web process gets no requests meanwhile."""
        port = self.webs.get(name)
        if port is not None and self.proxy is not None and not self.proxy.take_out(port):
            raise DrillFailed(f"{name} still has connections.")
        stop_children([self.children[name]])
        program = self._worker(tree) if name == "worker" else self.children[name].program
        self.children[name] = spawn(tree.program(program))
        if port is None:
            return
        if not wait_until(lambda: self.is_ready(name), within_s=120, every_s=0.2):
            raise DrillFailed(f"{name} of {tree.root} does not become ready: {self.readiness(name)}")
        if self.proxy is not None:
            self.proxy.put_back(port)

    def end(self) -> None:
        for other in self.others:
            other.end()
        self._ended.set()
        time.sleep(1.5)
        for client in self.clients:
            client.close()
        if self.proxy is not None:
            self.proxy.stop()
        stop_children([*self.executors.values(), *self.children.values(), *self.record.running.values()])
        if self.hosts is not None:
            self.hosts.end()
        if self.shape.disk_mb is not None:
            subprocess.run(["umount", "--lazy", str(self.record.primary.folder)], capture_output=True)

    # Health

    def readiness(self, name: str = "web") -> dict[str, Any]:
        """The answer of a web process at `/readyz`; empty if it does not answer."""
        return self._health(f"http://127.0.0.1:{self.webs[name]}/readyz")

    def is_ready(self, name: str) -> bool:
        return self.readiness(name).get("ready") is True

    def failed_parts(self) -> dict[str, str]:
        """The parts of the installation that have failed according to `/statusz`: code and sentence."""
        checks = self._health(f"{self.url}/statusz").get("checks", [])
        return {each["code"]: each["detail"] for each in checks if each["state"] == "failed"}

    def _health(self, address: str) -> dict[str, Any]:
        with suppress(httpx.HTTPError, ValueError):
            found: dict[str, Any] = httpx.get(address, timeout=10).json()
            return found
        return {}

    # Addresses

    def record_url(self, role: str) -> str:
        """The address of the record; with two servers it names both, and the writable one is used."""
        one, two = self.record.primary, self.record.standby
        if self.shape.standby is Standby.NONE:
            return one.url(role, "counterfoil")
        place = f"127.0.0.1:{one.port}"
        return one.url(role, "counterfoil").replace(place, f"{place},127.0.0.1:{two.port}") + "?connect_timeout=3"

    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        record, keys = self.record_url(servers.APP), self.keys.url(servers.APP, "counterfoil_keys")
        if self.shape.pooled:
            record = record.replace(f":{self.record.primary.port}/", f":{self.pooler.port}/")
            keys = keys.replace(f":{self.keys.port}/", f":{self.pooler.port}/")
        return inherited | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": str(ROOT / "client"),
            "PYTHONUNBUFFERED": "1",
            "DATABASE_URL": record,
            "KEYS_DATABASE_URL": keys,
            **self._shared_servers(),
            "COUNTERFOIL_SECRETS_DIR": str(self.folder / "secrets"),
            "COUNTERFOIL_EXPORTS": str(self.folder / "exports"),
            "COUNTERFOIL_PUBLIC_URL": self.url,
            "COUNTERFOIL_RATE_PER_S": "0",
            **self.shape.settings,
            **(self.clock.environment if self.clock else {}),
        }

    def _shared_servers(self) -> dict[str, str]:
        """RabbitMQ keeps no counters; Sentinels watch a server for both."""
        if isinstance(self.hosts, WatchedRedis):
            return {"REDIS_URL": self.hosts.url}
        more = {"BROKER_URL": self.hosts.url} if self.hosts is not None else {}
        return {"REDIS_URL": self.broker.url(), **more}

    def manage(self, *words: str, more: dict[str, str] | None = None, tree: Tree | None = None) -> str:
        """The output of a `manage.py` command, of the installation's first version if no other is given."""
        tree = tree or self.shape.tree
        done = subprocess.run(
            [tree.python, str(tree.root / "manage.py"), *words],
            env=self.environment() | {"PYTHONPATH": str(tree.root / "client")} | (more or {}),
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise DrillFailed(f"manage.py {words[0]} failed: {done.stderr.strip()[-500:]}")
        return done.stdout

    def declare_restored(self, *words: str) -> str:
        """Declare the record restored, as an operator does after a restore."""
        return self.manage("log", "restored", *words, more=self.sealing)

    # Callers

    def machine(self, kind: str, known: Mapping[str, Any] | None = None) -> httpx.Client:
        """A caller with the key of that kind, of the drill's tenant if no other is given."""
        key = (known or self.known)["keys"][kind]
        return httpx.Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=20)

    def person(self, role: str) -> tuple[httpx.Client, str]:
        """A signed-in person and their password."""
        who = next(each for each in self.known["people"] if each["role"] == role)
        http = httpx.Client(base_url=self.url, timeout=20)
        self.clients.append(http)
        http.get("/sign-in")
        form = {"username": who["username"], "password": who["password"]}
        answer = http.post("/sign-in", data=form | {"csrfmiddlewaretoken": http.cookies["csrftoken"]})
        if answer.status_code != 302:
            raise DrillFailed(f"The {role} could not sign in: {answer.status_code}")
        http.headers["X-CSRFToken"] = http.cookies["csrftoken"]
        return http, who["password"]

    def register(self, key: str = "") -> None:
        """Register the system, the tools and the agent, in the tenant of this operator's key."""
        operator = self.machine("oper")
        if key:
            operator.headers["Authorization"] = f"Bearer {key}"
        self.clients.append(operator)
        bodies = [
            ("/systems", {"name": "documents", "pattern": "filesystems", "settings": {"root": str(self.documents)}}),
            *(("/contracts", json.loads((CONTRACTS / f"{tool}.json").read_text())) for tool in TOOLS),
            ("/agents", {"agent_id": "clerk", "version": "1", "tools": list(TOOLS)}),
        ]
        for path, body in bodies:
            answer = operator.post(path, json=body)
            if answer.status_code not in (200, 201):
                raise DrillFailed(f"{path} answered {answer.status_code}: {answer.text}")

    # Executors

    def start_executors(self) -> None:
        for name in EXECUTORS:
            self.start_executor(name)

    def stop_executors(self) -> None:
        """Kill the executors; their supervisor leaves them so."""
        stopped, self.executors = self.executors, {}
        for child in stopped.values():
            kill(child)

    def start_executor(self, name: str) -> None:
        words = [sys.executable, "-m", "deploy.drills.executor", name, str(self.folder)]
        environment = self.environment() | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}",
            "DRILL_URL": self.url,
            "DRILL_KEY": self.known["keys"]["exec"],
            **self._environments.get(name, {}),
        }
        program = Program(name=f"executor-{name}", argv=words, log=self.log / "executors.log", environment=environment)
        self.executors[name] = spawn(program)

    def restart_executor(self, name: str, more: Mapping[str, str]) -> None:
        """Kill an executor; its supervisor restarts it with this environment from now on."""
        self._environments[name] = more
        kill(self.executors[name])

    def _supervise(self) -> None:
        while not self._ended.wait(0.5):
            for name, child in list(self.executors.items()):
                if not child.running():
                    self.endings.append((name, child.process.returncode))
                    self.start_executor(name)


def _movable_clock(folder: Path) -> MovableClock:
    try:
        return MovableClock(folder)
    except NoCompiler as missing:
        raise CannotRun(str(missing)) from None


def _broker_hosts(kind: Broker, folder: Path, account: ServiceUser | None) -> WatchedRedis | RabbitCluster | None:
    if kind is Broker.SENTINEL:
        program = find_redis()
        if program is None:
            raise CannotRun(REDIS_MISSING)
        return WatchedRedis(folder=folder, account=account, program=program)
    if kind is Broker.RABBITMQ:
        if not RABBITMQ.is_dir():
            raise CannotRun(RABBITMQ_MISSING)
        return RabbitCluster(folder=folder, account=account)
    return None


def mount_small_disk(folder: Path, megabytes: int) -> None:
    """Mount a disk in memory, of the owner that the folder will have; `CannotRun` where that is not allowed here."""
    servers.private_folder(folder, None)
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder)]
    try:
        made = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        raise CannotRun("A small disk cannot be mounted here: there is no program mount.") from None
    if made.returncode != 0:
        raise CannotRun(f"A small disk cannot be mounted here (root may do that): {made.stderr.strip()}")


@contextmanager
def installation(shape: Shape) -> Iterator[Installation]:
    """An installation that is removed afterwards, or kept where DRILL_KEEP is set."""
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-drill-"))
    servers.private_folder(folder, servers.service_user())
    try:
        made = Installation(folder, shape)
        try:
            made.begin()
            yield made
        finally:
            made.end()
    finally:
        if os.environ.get("DRILL_KEEP"):
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
