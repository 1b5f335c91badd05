"""The steps of a start on one machine, in their order. `console/local/up.py` holds the rules."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from console.brokers.addresses import NoAnswer, WrongServerAddress, read_address
from console.local import live_example, programs
from console.local.forking import ForkerGone, Forks
from console.local.installation import (
    DATABASE,
    KEYS_DATABASE,
    ROOT,
    EmbeddedServers,
    Installation,
    embedded_servers,
    save_environment,
)
from console.local.live_example import ShopAddresses
from console.local.processes import Child, ProcessFailed, Program, Supervisor, spawn, tail_log
from console.local.servers import APP, ERASER, OWNER, SEQUENCER, ServerFailed

PREPARE_WITHIN_S = 300.0
OWNERS = ("DATABASE_OWNER_URL", "KEYS_DATABASE_OWNER_URL")
ERASERS = ("DATABASE_ERASER_URL", "KEYS_DATABASE_ERASER_URL")
OTHER_ROLES = frozenset({*OWNERS, *ERASERS, "DATABASE_SEQUENCER_URL"})
"""Addresses that only one process each is told."""
ANSWER_WITHIN_S = 60.0
SHARED_SERVERS = {"REDIS_URL": "Redis or Valkey", "BROKER_URL": "a broker"}
NOWHERE = "postgresql://none:none@127.0.0.1:1/none"
OUTSIDE = (*OWNERS, "DATABASE_SEQUENCER_URL", "KEYS_DATABASE_URL", *ERASERS)


@dataclass(kw_only=True)
class Startup:
    """The state of one start; each step adds to it."""

    installation: Installation
    supervisor: Supervisor
    port: int
    example: bool
    agent: bool
    outside: frozenset[str] = field(default_factory=lambda: frozenset(os.environ["COUNTERFOIL_OUTSIDE"].split()))
    servers: EmbeddedServers | None = None
    environment: dict[str, str] = field(default_factory=dict)
    sign_in: dict[str, Any] = field(default_factory=dict)
    forks: Forks | None = None
    shop_forks: Forks | None = None
    shop_environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.environment["COUNTERFOIL_PUBLIC_URL"]

    @property
    def local_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tenant(self) -> str:
        return live_example.TENANT if self.example else "main"

    def begin(self) -> None:
        self.check_outside()
        self.load_programs()
        self.start_servers()
        self.environment = self.addresses()
        save_environment(self.installation, self.environment)
        self.prepare()
        self.collect_static_files()
        # What owns tables is started, and never forked: what it was told is gone with it.
        self.supervisor.spawn = self.fork
        self.start_web()
        self.start_product()
        if self.example:
            self.start_example()

    def end(self) -> None:
        self.supervisor.stop_all()
        for each in (self.forks, self.shop_forks):
            if each is not None:
                each.close()

    # The processes that the others are forked from

    def load_programs(self) -> None:
        """Begin to load what the programs of the product share, and those of the example's shop, while servers start.

        Neither is told an address: each fork reads its own from a file. The shop's has no key of the console either.
        """
        if sys.platform != "linux":
            # Elsewhere the system's own libraries may not be used in a process that was forked and not started.
            return
        folder, log = self.installation.run, self.installation.log / "forking.log"
        told = {name: value for name, value in os.environ.items() if name not in (*OTHER_ROLES, "KEYS_DATABASE_URL")}
        told |= {"DATABASE_URL": NOWHERE, "REDIS_URL": "redis://127.0.0.1:1/0", "PYTHONUNBUFFERED": "1"}
        told.pop("BROKER_URL", None)
        self.forks = Forks(programs.PRELOADED, environment=told | self.static_environment(), folder=folder, log=log)
        if self.example:
            shop = live_example.base_environment()
            self.shop_forks = Forks(live_example.PRELOADED, environment=shop, folder=folder, log=log)

    def fork(self, program: Program) -> Child:
        """Fork a program of Python; start it, at the price of its memory, if nothing is there to be forked."""
        forks = self.forks if "DJANGO_SETTINGS_MODULE" in program.environment else self.shop_forks
        if forks is None or program.argv[0] != sys.executable:
            return spawn(program)
        try:
            return forks.spawn(program)
        except ForkerGone:
            return spawn(program)

    # Servers

    def start_servers(self) -> None:
        """Start our own servers, unless both are external; the example's shop always uses our own."""
        if self.outside >= {"DATABASE_URL", "REDIS_URL"} and not self.example:
            return
        users = live_example.broker_users(live_example.shop_passwords(self.installation)) if self.example else ()
        self.servers = embedded_servers(self.installation, users=users)
        postgres, valkey = self.servers.postgres, self.servers.valkey
        postgres.stop_orphan()
        postgres.initialise()
        valkey.initialise()
        database, broker = self.supervisor.start(postgres.program()), self.supervisor.start(valkey.program())
        postgres.wait(database)
        valkey.wait(broker)
        postgres.make_roles()
        postgres.make_database(DATABASE)
        postgres.make_database(KEYS_DATABASE)

    def addresses(self) -> dict[str, str]:
        """The addresses for commands and processes of the product; addresses from outside win."""
        own: dict[str, str] = {}
        if self.servers is not None:
            own = {
                "DATABASE_URL": self.servers.postgres.url(APP, DATABASE),
                "DATABASE_OWNER_URL": self.servers.postgres.url(OWNER, DATABASE),
                "KEYS_DATABASE_URL": self.servers.postgres.url(APP, KEYS_DATABASE),
                "KEYS_DATABASE_OWNER_URL": self.servers.postgres.url(OWNER, KEYS_DATABASE),
                "DATABASE_SEQUENCER_URL": self.servers.postgres.url(SEQUENCER, DATABASE),
                "DATABASE_ERASER_URL": self.servers.postgres.url(ERASER, DATABASE),
                "KEYS_DATABASE_ERASER_URL": self.servers.postgres.url(ERASER, KEYS_DATABASE),
                "REDIS_URL": self.servers.valkey.url(),
            }
        told = {
            "COUNTERFOIL_SECRETS_DIR": os.environ["COUNTERFOIL_SECRETS_DIR"],
            "COUNTERFOIL_PUBLIC_URL": os.environ.get("COUNTERFOIL_PUBLIC_URL", f"http://localhost:{self.port}"),
            "COUNTERFOIL_EXPORTS": os.environ["COUNTERFOIL_EXPORTS"],
        }
        return own | {name: os.environ[name] for name in self.elsewhere()} | told

    def elsewhere(self) -> list[str]:
        """The configured external addresses; an owner's address alone is ignored. Keys go where the record goes."""
        outside = OUTSIDE if "DATABASE_URL" in self.outside else ()
        return [*sorted(self.outside), *outside]

    def check_outside(self) -> None:
        """Check the configured external addresses before anything is started."""
        missing = [name for name in self.elsewhere() if name not in os.environ]
        if missing:
            raise ServerFailed(f"DATABASE_URL is set: set {missing[0]} too; see docs/deploy.md.")
        for name in self.elsewhere():
            if name in SHARED_SERVERS:
                _check_answer(name, os.environ[name])
            else:
                _check_database(name, os.environ[name])

    # The product

    def prepare(self) -> None:
        owner = self.product_environment() | {name: self.environment[name] for name in OWNERS}
        prepare = programs.manage_program("prepare_database", environment=owner, log=self.installation.log)
        self.supervisor.finish(prepare, within_s=PREPARE_WITHIN_S)
        self.supervisor.go_on()
        self.sign_in = self.first_people()

    def collect_static_files(self) -> None:
        """Compress the static files and name them after their content; only if their sources have changed.

        The stamp is written last: if we die before, they are collected again.
        """
        if "COUNTERFOIL_STATIC_ROOT" in os.environ:
            return
        stamp, wanted = self.installation.run / "static-files", _static_sources()
        if stamp.exists() and stamp.read_text() == wanted and self.installation.static.is_dir():
            return
        stamp.unlink(missing_ok=True)
        collect = programs.manage_program(
            *("collectstatic", "--noinput", "--clear", "--verbosity=0", "--skip-checks"),
            environment=self.product_environment() | self.static_environment(),
            log=self.installation.log,
        )
        self.supervisor.finish(collect, within_s=PREPARE_WITHIN_S)
        self.supervisor.go_on()
        stamp.write_text(wanted)

    def static_environment(self) -> dict[str, str]:
        return {"COUNTERFOIL_STATIC_ROOT": os.environ.get("COUNTERFOIL_STATIC_ROOT") or str(self.installation.static)}

    def first_people(self) -> dict[str, Any]:
        """The first sign-in details and keys: created once, and kept in a private file.

        `bootstrap` writes its secrets before it commits. If we die in between or right after, the draft is there, and
        it counts only if the tenant is there too.
        """
        file = self.installation.sign_in_file(self.tenant)
        draft = file.with_suffix(".draft")
        if not file.exists():
            if not self.tenant_exists():
                self.bootstrap(draft)
            elif not draft.exists():
                return self.strangers()
            draft.rename(file)
        known: dict[str, Any] = json.loads(file.read_text())
        return known

    def tenant_exists(self) -> bool:
        with psycopg.connect(self.environment["DATABASE_URL"]) as connection:
            found = connection.execute("SELECT 1 FROM ledger_tenant WHERE slug = %s", [self.tenant])
            return found.fetchone() is not None

    def bootstrap(self, draft: Path) -> None:
        # Whoever tries the console on one machine sees the guard as it is without strict mode (docs/guard.md).
        words = ["bootstrap", "--tenant", self.tenant, "--messages", "pass", "--json"]
        words += live_example.founding_words() if self.example else []
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            answer = subprocess.run(
                [sys.executable, *programs.MANAGE, *words],
                env=self.product_environment() | {"PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        if answer.returncode != 0:
            raise ProcessFailed(f"The tenant {self.tenant} could not be made: {_last_line(answer.stderr)}")

    def strangers(self) -> dict[str, Any]:
        """Report that the tenant was created elsewhere: its people know their passwords, but the example has
        no keys.
        """
        if self.example:
            raise ProcessFailed(
                f"The tenant {self.tenant} is of another installation with other keys: use --no-example."
            )
        return {"people": [], "keys": {}}

    def product_environment(self) -> dict[str, str]:
        """Return the product's environment, never with the address of another role: no permanent process may change a
        table, or seal the log.
        """
        known = dict(os.environ) | self.environment | {"PYTHONUNBUFFERED": "1"}
        return {name: value for name, value in known.items() if name not in OTHER_ROLES}

    def start_web(self) -> None:
        environment, log = self.product_environment() | self.static_environment(), self.installation.log
        web = self.supervisor.start(programs.web_program(port=self.port, environment=environment, log=log))
        if not self.supervisor.wait(lambda: self.answers(web), within_s=ANSWER_WITHIN_S):
            raise ProcessFailed(
                f"The web process did not answer within {ANSWER_WITHIN_S:.0f} s; see {web.program.log}."
            )

    def answers(self, web: Child) -> bool:
        if not web.running():
            raise ProcessFailed(f"The web process stopped: {tail_log(web.program.log, 2)}\nSee {web.program.log}.")
        try:
            urllib.request.urlopen(f"{self.local_url}/livez", timeout=5).close()
        except urllib.error.HTTPError as refusal:
            return refusal.code < 500
        except OSError:
            return False
        return True

    def start_product(self) -> None:
        environment, log = self.product_environment(), self.installation.log
        background = environment | {
            "DATABASE_URL": self.environment["DATABASE_SEQUENCER_URL"],
            "DATABASE_ERASER_URL": self.environment["DATABASE_ERASER_URL"],
            "KEYS_DATABASE_URL": self.environment["KEYS_DATABASE_ERASER_URL"],
        }
        self.supervisor.start(programs.background_program(environment=background, log=log))
        # What takes long has a worker of its own: a reading never waits for an export.
        self.supervisor.start(programs.worker_program(environment=environment, log=log, queues="due,tick"))
        self.supervisor.start(
            programs.worker_program(environment=environment, log=log, processes=1, name="bulk", queues="bulk")
        )

    # The example

    def start_example(self) -> None:
        assert self.servers is not None
        shop = ShopAddresses(installation=self.installation, postgres=self.servers.postgres, broker=self.servers.valkey)
        shop.make()
        keys = self.sign_in["keys"]
        setup = shop.setup_environment(console_url=self.url, keys=keys)
        for name in ("setup", "register"):
            self.supervisor.finish(shop.program(name, setup), within_s=90)
        self.shop_environment = shop.environment(console_url=self.url, keys=keys)
        for name in ("consumer", "executor", *(["agent"] if self.agent else [])):
            self.supervisor.start(shop.program(name, self.shop_environment))

    def welcome(self) -> str:
        people = [f"    {row['username']:<28} {row['password']}" for row in self.sign_in["people"]]
        kept = self.installation.sign_in_file(self.tenant)
        lines = [f"Counterfoil is ready: {self.url}"]
        lines += ["  sign in as", *people, f"  these and the keys are kept in {kept}"] if people else []
        return "\n".join([*lines, f"  logs are in {self.installation.log}", "  Ctrl-C stops everything"])


def _static_sources() -> str:
    """The digest of the sources of static files: our own, and the versions of the packages that bring others."""
    packages = sorted(each.name for each in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    found = hashlib.sha256("\n".join(packages).encode())
    for file in sorted((ROOT / "console" / "static").rglob("*")):
        if file.is_file():
            found.update(f"{file.name}\n".encode() + file.read_bytes())
    return found.hexdigest()


def _check_database(name: str, url: str) -> None:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            version = connection.info.server_version // 10000
    except psycopg.Error as error:
        raise ServerFailed(f"{name} does not lead to a database: {_first_line(error)}") from None
    if not 15 <= version <= 18:
        raise ServerFailed(f"{name} leads to PostgreSQL {version}: 15 to 18 is needed.")


def _check_answer(name: str, url: str) -> None:
    try:
        read_address(name, url).ask(within_s=5.0)
    except (WrongServerAddress, NoAnswer) as error:
        raise ServerFailed(f"{name} does not lead to {SHARED_SERVERS[name]}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _last_line(text: str) -> str:
    return text.strip().rsplit("\n", 1)[-1]
