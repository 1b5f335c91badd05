"""Servers and databases for the tests.

One PostgreSQL (nothing survives a crash of it) and one Valkey serve a whole run, and start when the first test
asks. A template database is prepared once by the real command; each worker of the run works in a
clone of it, as the application role. Nothing is ever flushed or truncated: tests that only use `db` are
rolled back, tests that must commit get a clone of their own.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psutil
import psycopg
import pytest
import redis
from _pytest.runner import runtestprotocol
from psycopg import sql

import tests.support.pure.hypothesis_profiles  # noqa: F401
from console.local import processes, programs, servers
from console.local.keys import ensure_keys, ensure_log_key
from tests.support.outside.forking import close_forks, forks

SETTINGS = "tests.quick_hashing"
TEMPLATE = "counterfoil_template"
# One for all clones of a run: what it holds belongs to whoever knows its random id.
KEYS = "counterfoil_keys"

# The servers of a run take some hundreds of megabytes.
MEMORY, ENOUGH_MEMORY = Path("/dev/shm"), 4 << 30

# Servers started by this process. They serve every worker and are ended by the one that began the run.
STARTED: list[processes.Child] = []


# The tests of a distribution that the console does not need; they are left out where it is not installed.
NEEDS = {
    "counterfoil_transcripts": ("transcripts", "guard", "web/recordings", "db/transcripts"),
    "counterfoil_witness": ("witness",),
}
collect_ignore = [folder for name, folders in NEEDS.items() if find_spec(name) is None for folder in folders]


# What shares an installation, a browser with its web process, or a tenant after a whole day, is done by one worker. The
# journeys share the shop, too: what one of them locks there holds up the others' executors.
SHARED = (
    r"tests/journeys/test_(?!up\.py|drills\.py)",
    "tests/browser/",
    "tests/client/gateway/",
    "tests/web/edge/test_(every_address|odd_values|openapi).py",
)
# What waits for other processes, and what computes; longest first. They are mixed, so that the processors are busy
# while some wait. The rules, which need no server and take seconds a module, fill what is left, so that no worker is
# left alone with something long at the end.
WAITING = ("journeys/", "browser/", "client/gateway/", "mcp/", "db/", "client/", "peers/")
COMPUTING = ("web/",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Of the whole suite each worker loads a share first: on a new machine each module is compiled once, not by all."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    modules = sorted(Path(__file__).parent.rglob("test_*.py"))
    for module in modules[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        # What cannot be loaded is told when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(module.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever order chance has given the modules."""
    modules = {item.path: item.path.relative_to(Path(__file__).parent).as_posix() for item in items}
    places = dict.fromkeys(modules, 1.0)
    for folders in (WAITING, COMPUTING):
        kinds = [[path for path in modules if modules[path].startswith(folder)] for folder in folders]
        kind = list(dict.fromkeys(chain.from_iterable(kinds)))
        places |= {path: number / len(kind) for number, path in enumerate(kind)}
    items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    """What the run has imported and collected stays to its end: the garbage collector need not walk through it."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _run_with_room(item, nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _run_with_room(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    runtestprotocol(item, nextitem=nextitem)


# Python keeps frames in pieces of 16 kB. Where a test stands at the end of one, each call asks the kernel for another
# and gives it back, thousands of times a second: a tenth of the time of a request in a test. What a function with a
# large stack calls stands in its own large piece.
_run_with_room.__code__ = _run_with_room.__code__.replace(co_stacksize=100_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Modules are dealt out one by one, but those together that share what is dear: an installation, or a day."""
    from xdist.scheduler import LoadScopeScheduling

    class SharedTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((shared for shared in SHARED if re.match(shared, nodeid)), super()._split_scope(nodeid))

    return SharedTogether(config, log) if config.getoption("dist") == "loadscope" else None


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that one run of pytest shares, in one folder that goes away with it."""

    folder: Path
    postgres: servers.Postgres
    valkey: servers.Valkey

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"


def _run(folder: Path) -> Run:
    account = servers.service_user()
    programs = servers.install_binaries(account)
    words = servers.load_passwords(folder / "passwords.json")
    ports = [int(port) for port in (folder / "ports").read_text().split()]
    postgres = servers.Postgres(
        folder=folder / "postgres",
        programs=programs,
        account=account,
        passwords=words,
        port=ports[0],
        durable=False,
    )
    valkey = servers.Valkey(
        folder=folder / "valkey",
        programs=programs,
        account=account,
        password=words.valkey,
        port=ports[1],
        durable=False,
    )
    return Run(folder=folder, postgres=postgres, valkey=valkey)


def _new_folder() -> Path:
    """A folder that the servers' user can enter; its other contents stay closed to that user."""
    account = servers.service_user()
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-tests-", dir=_place_in_memory()))
    if not servers.can_access(folder.parent, account):
        folder.rmdir()
        place = servers.private_folder(servers.SYSTEM_FOLDER, account)
        folder = Path(tempfile.mkdtemp(prefix="tests-", dir=place))
    servers.private_folder(folder, account)
    ensure_keys(folder / "secrets")
    ensure_log_key(folder / "secrets")
    (folder / "ports").write_text(f"{servers.free_port()} {servers.free_port()}")
    return folder


def _place_in_memory() -> Path | None:
    """A folder in memory where there is plenty of it; whoever sets TMPDIR has chosen another.

    Each test that commits makes a database of a thousand files and drops it, which many a disk's file system does
    a hundred times slower.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return None
    room = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
    return MEMORY if room >= ENOUGH_MEMORY else None


def pytest_configure(config: pytest.Config) -> None:
    # Until everything is collected: hardly any of it is garbage, and looking for that would take half of the time.
    gc.disable()
    if not hasattr(config, "workerinput"):
        # As in the Makefile: what a run's processes load is compiled once, whatever an image says.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        folder = _new_folder()
        os.environ["COUNTERFOIL_TEST_RUN"] = str(folder)
        if folder.is_relative_to(MEMORY):
            # Thousands of tests have files, which a disk takes long to forget.
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    run = _run(Path(os.environ["COUNTERFOIL_TEST_RUN"]))
    os.environ |= environment(run, TEMPLATE)
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    from django.conf import settings

    # Reading one setting makes pytest-django take Django over.
    assert settings.PASSWORD_HASHERS


def pytest_unconfigure(config: pytest.Config) -> None:
    close_forks()
    if hasattr(config, "workerinput") or "COUNTERFOIL_TEST_RUN" not in os.environ:
        return
    folder = Path(os.environ.pop("COUNTERFOIL_TEST_RUN"))
    for record in folder.glob("*.running"):
        processes.stop_leftovers(record)
    shutil.rmtree(folder, ignore_errors=True)


def environment(run: Run, database: str) -> dict[str, str]:
    """What a process of the product needs to know, with this database."""
    return {
        "DATABASE_URL": run.postgres.url(servers.APP, database),
        "DATABASE_OWNER_URL": run.postgres.url(servers.OWNER, database),
        "KEYS_DATABASE_URL": run.postgres.url(servers.APP, KEYS),
        "KEYS_DATABASE_OWNER_URL": run.postgres.url(servers.OWNER, KEYS),
        "REDIS_URL": run.valkey.url(),
        "COUNTERFOIL_SECRETS_DIR": str(run.secrets),
        "COUNTERFOIL_PUBLIC_URL": "http://localhost:8000",
        "COUNTERFOIL_EXPORTS": str(run.folder / "exports"),
        # Tests put the clock forward; those about sessions that end say so themselves.
        "COUNTERFOIL_IDLE_MINUTES": "0",
    }


@contextmanager
def _alone(run: Run, name: str) -> Iterator[bool]:
    """One worker at a time; true for the first one, who does the work."""
    with (run.folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run.folder / f"{name}.done"
        yield not done.exists()
        done.touch()


def _start(run: Run, program: processes.Program) -> processes.Child:
    child = processes.spawn(program)
    STARTED.append(child)
    processes.record_processes(run.folder / f"{program.name}.running", [child])
    return child


@contextmanager
def _superuser(run: Run) -> Iterator[psycopg.Connection]:
    url = run.postgres.url(servers.SUPERUSER, "postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def _clone(run: Run, name: str) -> None:
    """Copy the template. Rights on the database itself are not copied, so they are set again."""
    database = sql.Identifier(name)
    with _superuser(run) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY FILE_COPY").format(
                database, sql.Identifier(TEMPLATE), sql.Identifier(servers.OWNER)
            )
        )
        connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
        for role in (servers.APP, servers.SEQUENCER, servers.ERASER, servers.AUDITOR):
            connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(role)))
    sign_first_epoch(run, name)


def sign_first_epoch(run: Run, name: str) -> None:
    """Sign the epoch of a database, as the sequencer does when it starts."""
    from ledger.log.epochs import sign_epoch
    from ledger.log.signer_state import read_keys

    url = run.postgres.url(servers.SUPERUSER, name)
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:

        def execute(statement: Any, *values: Any) -> list[tuple[Any, ...]]:
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

        sign_epoch(1, read_keys(run.secrets / "log_key.pem"), execute)


def _drop(run: Run, name: str) -> None:
    with _superuser(run) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _use(name: str) -> None:
    """Point every connection that Django opens from now on, in any thread, at this database."""
    from django.db import connections

    connections.close_all()
    for alias in connections.settings:
        connections.settings[alias]["NAME"] = name
        connections[alias].settings_dict["NAME"] = name


@pytest.fixture(scope="session")
def run() -> Run:
    return _run(Path(os.environ["COUNTERFOIL_TEST_RUN"]))


@pytest.fixture(scope="session")
def cluster(run: Run) -> servers.Postgres:
    """The PostgreSQL of this run, with its roles."""
    with _alone(run, "postgres") as first:
        if first:
            run.postgres.initialise()
            run.postgres.wait(_start(run, run.postgres.program()))
            run.postgres.make_roles()
            _lend_roles(run)
    return run.postgres


def _lend_roles(run: Run) -> None:
    """So that a test's one transaction can hold what the sequencer and the eraser do between two requests.

    Only here (`tests/support/seals.py`, `tests/support/erasing.py`): on a real server the application can become
    neither, which
    tests/db/record/test_roles.py shows.
    """
    with _superuser(run) as connection:
        for role in (servers.SEQUENCER, servers.ERASER):
            connection.execute(
                sql.SQL("GRANT {} TO {} WITH INHERIT FALSE, SET TRUE").format(
                    sql.Identifier(role), sql.Identifier(servers.APP)
                )
            )


@pytest.fixture(scope="session")
def template(cluster: servers.Postgres, run: Run, django_db_blocker: object) -> str:
    """A database as `manage.py prepare_database` leaves it, to be cloned and never used."""
    from django.core.management import call_command
    from django.db import connections

    with _alone(run, "template") as first, django_db_blocker.unblock():  # type: ignore[attr-defined]
        if first:
            cluster.make_database(TEMPLATE)
            cluster.make_database(KEYS)
            call_command("prepare_database", verbosity=0)
            connections.close_all()
    return TEMPLATE


@pytest.fixture(scope="session")
def django_db_setup(template: str, run: Run) -> Iterator[None]:
    """What pytest-django asks for before the first `db`: this worker's own clone."""
    name = f"worker_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    _clone(run, name)
    _use(name)
    yield
    _use(template)
    _drop(run, name)


@contextmanager
def clean_memory() -> Iterator[None]:
    """Neither this process nor the signer of its log knows of what was rolled back before."""
    from tests.support.seals import new_signer_state

    for kept in _kept_of_tenants(len(sys.modules)):
        kept.cache_clear()
    with new_signer_state():
        yield


@lru_cache(maxsize=1)
def _kept_of_tenants(_modules: int) -> list[Any]:
    """What a process of the product keeps of a tenant because it never changes: it does, where it is rolled back."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("console", "approvals", "reviews", "ledger") and name not in _LOOKED_THROUGH:
            _LOOKED_THROUGH.add(name)
            _KEPT.update((id(each), each) for each in vars(module).values() if _keeps_of_tenant(each))
    return list(_KEPT.values())


# Looking through a module takes long, and tests load one after the other while the run goes on.
_LOOKED_THROUGH: set[str] = set()
_KEPT: dict[int, Any] = {}


def _keeps_of_tenant(each: Any) -> bool:
    return hasattr(each, "cache_clear") and "tenant_id" in signature(each).parameters


@dataclass(frozen=True)
class PreparedDatabase:
    """A database of this worker with something in it, committed once; every test there is rolled back to that."""

    lines: dict[str, Any]
    content: Any

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Everything of Django that asks for a connection gets one to this database."""
        from django.db import connections

        before = {alias: connections[alias] for alias in self.lines}
        _speak_through(self.lines)
        try:
            with clean_memory():
                yield
        finally:
            _speak_through(before)


class PreparedDatabases:
    """Makes them: a clone of the template each, and a connection that stays open."""

    def __init__(self, run: Run, blocker: Any) -> None:
        self.run = run
        self.blocker = blocker
        self.made: list[PreparedDatabase] = []

    def make(self, name: str, prepare: Callable[[], Any]) -> PreparedDatabase:
        from django.db import connections
        from django.test import override_settings

        database = f"{name}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
        _clone(self.run, database)
        before = {alias: connections[alias] for alias in connections.settings}
        lines = {alias: connections.create_connection(alias).copy() for alias in connections.settings}
        for line in lines.values():
            line.settings_dict["NAME"] = database
        _speak_through(lines)
        try:
            with self.blocker.unblock(), override_settings(COUNTERFOIL_RATE_PER_S=0):
                self.made.append(PreparedDatabase(lines, prepare()))
        finally:
            _speak_through(before)
        return self.made[-1]

    def close(self) -> None:
        for database in self.made:
            for line in database.lines.values():
                line.close()


def _speak_through(lines: dict[str, Any]) -> None:
    """These are Django's connections from now on; other threads open theirs to the same database."""
    from django.db import connections

    for alias, line in lines.items():
        connections.settings[alias] = line.settings_dict
        connections[alias] = line


@pytest.fixture(scope="session")
def prepared_databases(django_db_setup: None, run: Run, django_db_blocker: object) -> Iterator[PreparedDatabases]:
    databases = PreparedDatabases(run, django_db_blocker)
    yield databases
    databases.close()


@dataclass(frozen=True, kw_only=True)
class CommittedDatabase:
    """A database in which commits are real, and what other processes need to use it."""

    name: str
    url: str
    owner_url: str
    sequencer_url: str
    environment: dict[str, str]


@contextmanager
def new_database(run: Run) -> Iterator[CommittedDatabase]:
    """A clone of the template, dropped at the end; the tests' own connections stay where they are."""
    name = f"committed_{uuid4().hex[:12]}"
    _clone(run, name)
    try:
        yield CommittedDatabase(
            name=name,
            url=run.postgres.url(servers.APP, name),
            owner_url=run.postgres.url(servers.OWNER, name),
            sequencer_url=run.postgres.url(servers.SEQUENCER, name),
            environment=environment(run, name),
        )
    finally:
        _drop(run, name)


@contextmanager
def _committed(run: Run, blocker: object) -> Iterator[CommittedDatabase]:
    from django.db import connections

    shared = connections.settings["default"]["NAME"]
    with new_database(run) as database, blocker.unblock():  # type: ignore[attr-defined]
        _use(database.name)
        try:
            yield database
        finally:
            _use(shared)


@pytest.fixture
def committed_db(
    django_db_setup: None, run: Run, template: str, django_db_blocker: object
) -> Iterator[CommittedDatabase]:
    """For tests with several connections or processes; not together with `db`."""
    with _committed(run, django_db_blocker) as database:
        yield database


@pytest.fixture(scope="module")
def module_db(django_db_setup: None, run: Run, template: str, django_db_blocker: object) -> Iterator[CommittedDatabase]:
    """One `committed_db` for all tests of a module, which leave it as they found it."""
    with _committed(run, django_db_blocker) as database:
        yield database


@contextmanager
def _connected(run: Run, role: str) -> Iterator[psycopg.Connection]:
    from django.db import connections

    name = connections.settings["default"]["NAME"]
    with psycopg.connect(run.postgres.url(role, name), autocommit=True) as connection:
        yield connection


@pytest.fixture
def owner_connection(request: pytest.FixtureRequest, run: Run) -> Iterator[psycopg.Connection]:
    """The tables' owner in the test's database, outside the test's transaction, autocommit."""
    _database_of(request)
    with _connected(run, servers.OWNER) as connection:
        yield connection


@pytest.fixture
def superuser_connection(request: pytest.FixtureRequest, run: Run) -> Iterator[psycopg.Connection]:
    """The bootstrap superuser in the test's database, outside the test's transaction, autocommit."""
    _database_of(request)
    with _connected(run, servers.SUPERUSER) as connection:
        yield connection


@pytest.fixture
def app_connection(request: pytest.FixtureRequest, run: Run) -> Iterator[psycopg.Connection]:
    """A second connection of the application role, outside the test's transaction, autocommit."""
    _database_of(request)
    with _connected(run, servers.APP) as connection:
        yield connection


def _database_of(request: pytest.FixtureRequest) -> None:
    # Whichever database the test itself uses must be in place before we connect to it.
    name = "committed_db" if "committed_db" in request.fixturenames else "django_db_setup"
    request.getfixturevalue(name)


@pytest.fixture(scope="session")
def broker(run: Run) -> servers.Valkey:
    """The Valkey of this run."""
    with _alone(run, "valkey") as first:
        if first:
            run.valkey.initialise()
            run.valkey.wait(_start(run, run.valkey.program()))
    return run.valkey


@pytest.fixture
def valkey_url(broker: servers.Valkey) -> str:
    """An empty database of the broker, this worker's own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    url = broker.url(int(worker) + 1)
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def secrets_dir(run: Run, tmp_path: Path, settings: object) -> Path:
    """A copy of the run's key files for tests that add to them or take some away."""
    folder = copy_secrets(run, tmp_path / "secrets")
    settings.COUNTERFOIL_SECRETS_DIR = folder  # type: ignore[attr-defined]
    return folder


def copy_secrets(run: Run, folder: Path) -> Path:
    """Copy the run's key files to a new folder, into which no other worker of the run writes."""
    # The files of the guard, and heads while they are written, come and go as others use them.
    shutil.copytree(run.secrets, folder, ignore=shutil.ignore_patterns("*.sqlite*", ".*"))
    folder.chmod(0o700)
    return folder


@pytest.fixture(autouse=True)
def prompt_sequencer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is sealed by the time at which an executor asks for work, as if the sequencer had just been here.

    Only in this process; the product's own processes have a sequencer of their own. Not for tests marked `unsealed`.
    """
    if request.node.get_closest_marker("unsealed") is None:
        from tests.support.seals import seal_promptly

        seal_promptly(monkeypatch)


def _new_tenant(slug: str) -> UUID:
    from ledger.catalogue.operations import registration
    from ledger.record import operations

    at = datetime.now(UTC)
    return registration.create_tenant(
        tenant_id=operations.new_id(at), slug=slug, name=slug.title(), host="console.test", at=at
    ).id


@pytest.fixture
def tenant(db: None) -> UUID:
    """A tenant in the test's own transaction."""
    return _new_tenant("orchid")


@pytest.fixture
def other_tenant(db: None) -> UUID:
    """Somebody else's tenant."""
    return _new_tenant("willow")


class Stack:
    """The product's own processes on a committed database, with a broker of their own: to be used, killed, restarted.

    `start("web", "worker", "beat")`, `kill("worker")` (SIGKILL, with its children), `start("worker")` again.
    """

    def __init__(self, folder: Path, database: CommittedDatabase, broker: servers.Valkey) -> None:
        self.folder = folder
        self.port = servers.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        told = database.environment | {"REDIS_URL": broker.url(), "COUNTERFOIL_PUBLIC_URL": self.url}
        self.environment = dict(os.environ) | told
        for owners in ("DATABASE_OWNER_URL", "KEYS_DATABASE_OWNER_URL"):
            self.environment.pop(owners)
        self.sealing = self.environment | {
            "DATABASE_URL": database.sequencer_url,
            "KEYS_DATABASE_URL": "",
            # One sequencer leads for one signer state, and there are as many databases as stacks.
            "COUNTERFOIL_SIGNER_STATE": str(Path(os.environ["COUNTERFOIL_TEST_RUN"]) / f"{database.name}.sqlite"),
        }
        self.broker = broker
        self.children: dict[str, processes.Child] = {}

    def program(self, name: str) -> processes.Program:
        if name == "valkey":
            return self.broker.program()
        if name == "web":
            web = programs.web_program(port=self.port, environment=self.environment, log=self.folder)
            return replace(web, environment=dict(web.environment) | {"DJANGO_SETTINGS_MODULE": SETTINGS})
        if name == "sequencer":
            return programs.sequencer_program(environment=self.sealing, log=self.folder)
        make = {"worker": programs.worker_program, "beat": programs.beat_program}[name]
        return make(environment=self.environment, log=self.folder)

    def start(self, *names: str) -> None:
        """Start these and wait until the web process answers; with it comes what seals the log."""
        sealing = ("sequencer",) if "web" in names and "sequencer" not in self.children else ()
        for name in (*sealing, *names):
            self.run(self.program(name))
        if "valkey" in names:
            self.broker.wait(self.children["valkey"])
        if "web" in names:
            assert processes.wait_until(self.answers, within_s=60), self.log("web")

    def run(self, program: processes.Program) -> processes.Child:
        """Start any other program, an executor say; it ends with the test."""
        ours = program.argv[0] == sys.executable
        self.children[program.name] = forks().spawn(program) if ours else processes.spawn(program)
        return self.children[program.name]

    def kill(self, name: str) -> None:
        child = self.children.pop(name)
        os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()

    def stop(self, *names: str) -> None:
        processes.stop_children([self.children.pop(name) for name in names or list(self.children)])

    def answers(self) -> bool:
        assert self.children["web"].running(), self.log("web")
        try:
            httpx.get(f"{self.url}/livez", timeout=5)
        except httpx.TransportError:
            return False
        return True

    def log(self, name: str) -> str:
        """The last words of a process, for the message of a failed test."""
        return processes.tail_log(self.folder / f"{name}.log", 40)


@contextmanager
def new_stack(run: Run, folder: Path, database: CommittedDatabase, *, users: tuple[str, ...] = ()) -> Iterator[Stack]:
    """Nothing of the product runs yet, only a broker that survives being killed; `users` are its access rules."""
    broker = replace(
        run.valkey,
        folder=run.folder / f"broker-{uuid4().hex[:8]}",
        port=servers.free_port(),
        users=users,
        durable=True,
    )
    broker.initialise()
    started = Stack(folder, database, broker)
    try:
        started.start("valkey")
        yield started
    finally:
        started.stop()
        shutil.rmtree(broker.folder)


@pytest.fixture
def stack(run: Run, tmp_path: Path, committed_db: CommittedDatabase) -> Iterator[Stack]:
    """`stack.start("web", "worker")`, on a database of this test's own."""
    with new_stack(run, tmp_path, committed_db) as started:
        yield started
