"""Each unit's ExecStart for real, with Debian's PostgreSQL and Redis: it comes up, works and ends."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import psycopg
import pytest

from console.local import processes, servers
from console.local.installation import ROOT
from console.local.keys import ensure_keys, ensure_log_key
from tests.deploy.units import UNITS, WORD, Unit, examples, moved, on_this_machine, unit

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
REDIS = shutil.which("redis-server")
PATIENCE_S = 90
HOST = "console.example.org"
ROLES = ("owner", "app", "sequencer", "eraser", "auditor")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not BINARIES, reason="Debian's package postgresql is not installed"),
    pytest.mark.skipif(REDIS is None, reason="Debian's package redis-server is not installed"),
]


def until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(PATIENCE_S * 5):
        if holds():
            return
        time.sleep(0.2)
    raise AssertionError(f"{what} within {PATIENCE_S} s")


@dataclass
class Host:
    """A machine on which Counterfoil is installed as docs/deploy.md says, below one folder."""

    folder: Path
    account: processes.ServiceUser | None
    postgres: int = field(default_factory=servers.free_port)
    redis: int = field(default_factory=servers.free_port)
    children: list[processes.Child] = field(default_factory=list)

    def run(self, name: str, argv: list[str], **options: object) -> processes.Child:
        log = self.folder / f"{name}.log"
        child = processes.spawn(processes.Program(name=name, argv=argv, log=log, **options))  # type: ignore[arg-type]
        self.children.append(child)
        return child

    def start(self, name: str) -> tuple[Unit, processes.Child]:
        """What systemd would run for a unit, with its environment and nothing else of ours."""
        told = unit(name, self.folder)
        argv = [str(self.web_port()) if each == "8000" else each for each in told.argv]
        return told, self.run(name, argv, environment={"PATH": os.environ["PATH"]} | told.environment)

    def web_port(self) -> int:
        file = self.folder / "web-port"
        if not file.exists():
            file.write_text(str(servers.free_port()))
        return int(file.read_text())

    def said(self, name: str) -> str:
        return processes.tail_log(self.folder / f"{name}.log", 30)

    def end(self, told: Unit, child: processes.Child) -> float:
        """How long the unit took to end after systemd's signal, within its own limit."""
        at = time.monotonic()
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(told.stop_s) in (0, -signal.SIGTERM), self.said(told.name)
        return time.monotonic() - at


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    account = servers.service_user()
    folder = servers.private_folder(servers.SYSTEM_FOLDER if account else ROOT / "var", account) / "deploy-test"
    shutil.rmtree(folder, ignore_errors=True)
    servers.private_folder(folder, account)
    made = Host(folder, account)
    try:
        _databases(made)
        _settings(made)
        yield made
    finally:
        processes.stop_children(list(reversed(made.children)))
        shutil.rmtree(folder, ignore_errors=True)


def _databases(host: Host) -> None:
    """Debian's servers, and the roles that deploy/postgresql.sql makes."""
    data, words = host.folder / "data", host.folder / "word"
    words.write_text(WORD)
    words.chmod(0o644)
    as_account = processes.run_as_user(host.account)
    initdb = [BINARIES[-1] / "initdb", "-D", data, "-A", "scram-sha-256", "-U", "postgres", f"--pwfile={words}"]
    subprocess.run(initdb, check=True, capture_output=True, cwd="/", **as_account)
    listen = ["-c", f"port={host.postgres}", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    host.run("postgres", [str(BINARIES[-1] / "postgres"), "-D", str(data), *listen], account=host.account)
    redis = [
        "--port",
        str(host.redis),
        "--bind",
        "127.0.0.1",
        "--requirepass",
        WORD,
        "--appendonly",
        "no",
        "--save",
        "",
    ]
    host.run("redis", [str(REDIS), *redis, "--maxmemory-policy", "noeviction"])
    admin = servers.postgres_url(role="postgres", password=WORD, port=host.postgres, database="postgres")
    until(lambda: _answers(admin), "PostgreSQL answers")
    values = [part for role in ROLES for part in ("-v", f"{role}_password={WORD}")]
    psql = [BINARIES[-1] / "psql", admin, *values, "-f", ROOT / "deploy" / "postgresql.sql"]
    subprocess.run(psql, check=True, capture_output=True, cwd="/")


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=1).close()
    except psycopg.OperationalError:
        return False
    return True


def _settings(host: Host) -> None:
    """The environment files of the examples, and the key files; one folder of keys for each that has its own."""
    etc, lib = host.folder / "etc" / "counterfoil", host.folder / "var" / "lib"
    etc.mkdir(parents=True)
    for name in ("counterfoil", "counterfoil-sequencer", "counterfoil-witness"):
        (lib / name).mkdir(parents=True, mode=0o700)
    for keys in (etc / "secrets", etc / "eraser", lib / "counterfoil-sequencer"):
        ensure_keys(keys)
    ensure_log_key(lib / "counterfoil-sequencer")
    shutil.copy(lib / "counterfoil-sequencer" / "log_key.pub", etc / "secrets")

    for name, values in examples().items():
        lines = [
            f"{key}={on_this_machine(moved(value, host.folder), postgres=host.postgres, broker=host.redis)}\n"
            for key, value in values.items()
        ]
        (etc / name).write_text("".join(lines))


def asked(host: Host, path: str, **headers: str) -> tuple[int, str]:
    """What the web process answers, without following where it leads."""

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *args: object, **named: object) -> None:
            return None

    request = Request(f"http://127.0.0.1:{host.web_port()}{path}", headers={"Host": HOST} | headers)
    try:
        with build_opener(Stay).open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as answer:
        return answer.code, answer.headers.get("Location", "")
    except OSError as problem:
        return 0, str(problem)


def test_the_prepare_and_partitions_units_succeed_also_when_repeated(host: Host):
    for name in ("prepare", "partitions", "partitions"):
        _, child = host.start(name)
        assert child.process.wait(PATIENCE_S) == 0, host.said(name)


def test_the_sequencer_unit_leads_and_stops_on_request(host: Host):
    told, child = host.start("sequencer")
    state = host.folder / "var/lib/counterfoil-sequencer/guard.sqlite"

    def leads() -> bool:
        with suppress(sqlite3.Error), closing(sqlite3.connect(state)) as opened:
            return opened.execute("SELECT until FROM leader").fetchone()[0] > 0
        return False

    until(lambda: leads() or not child.running(), "the sequencer leads")
    assert child.running(), host.said("sequencer")
    host.end(told, child)
    host.start("sequencer")


def test_the_web_unit_is_healthy_and_trusts_its_proxy(host: Host):
    told, child = host.start("web")
    until(lambda: asked(host, "/livez")[0] == 200 or not child.running(), "the web process answers")
    assert child.running(), host.said("web")
    status, where = asked(host, "/sign-in")
    assert (status, where) == (301, f"https://{HOST}/sign-in")
    assert asked(host, "/sign-in", **{"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"})[0] == 200
    host.end(told, child)


@pytest.mark.parametrize("name", ["worker", "bulk"])
def test_a_worker_unit_answers_its_health_check_and_stops_on_request(host: Host, name: str):
    told, child = host.start(name)
    ping = [sys.executable, "-m", "celery", "--app", "console.celery", "inspect", "ping", "--timeout", "5"]

    def answers() -> bool:
        done = subprocess.run(ping, cwd=ROOT, env={"PATH": os.environ["PATH"]} | told.environment, capture_output=True)
        return done.returncode == 0

    until(lambda: answers() or not child.running(), "the worker answers")
    assert child.running(), host.said(name)
    host.end(told, child)


@pytest.mark.parametrize("name", ["beat", "eraser"])
def test_a_periodic_unit_stays_up_and_stops_on_request(host: Host, name: str):
    told, child = host.start(name)
    time.sleep(8)
    assert child.running(), host.said(name)
    host.end(told, child)


def test_the_witness_needs_neither_database_nor_broker(host: Host):
    (host.folder / "etc/counterfoil/witnessed.logs").write_text("")
    told, child = host.start("witness")
    time.sleep(4)
    assert child.running(), host.said("witness")
    child.process.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert child.running(), host.said("witness")
    host.end(told, child)


def test_every_unit_is_covered_by_a_test():
    run = {"prepare", "partitions", "sequencer", "web", "worker", "beat", "eraser", "witness"}
    assert {file.stem.removeprefix("counterfoil-") for file in UNITS.glob("*.service")} == run
    assert moved("/opt/counterfoil/x", Path("/y")) == f"{ROOT}/x"
