"""A gateway in a process of its own, between real git and git's own backend, before a real console."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.local.processes import wait_until
from console.local.servers import free_port
from counterfoil.gateway.held import HeldRequest, read_held
from counterfoil.gateway.sealing import HeldKeys
from ledger.key_files import write_private
from tests.client.gateway import killing
from tests.conftest import Stack
from tests.mcp.conftest import toml
from tests.mcp.house import House, console, founded
from tests.support.outside import git_server
from tests.support.outside.forking import ForkedProcess, gateway_forks
from tests.support.outside.git_server import QUIET, GitServer

CREDENTIAL = "real:s3cret-of-the-host"
REPOSITORY = "team/app.git"
LONG_S = 60.0
DONE = "Done, and confirmed in the system of record."


@dataclass(eq=False)
class Gateway:
    """One gateway with its settings; `start` and `kill` its process."""

    folder: Path
    house: House
    host: GitServer
    agent: str
    front: dict[str, Any] = field(default_factory=dict)
    child: ForkedProcess | None = None
    token: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    verify: ssl.SSLContext | bool = True

    def __post_init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = self.folder / "gateway.toml"
        self.state = self.folder / "state"
        self.keys = self.state / "held.keys"
        self.settings: dict[str, dict[str, Any]] = {
            "console": {"url": self.house.stack.url, "executor_id": f"gateway-{self.agent}"},
            "gateway": {
                "listen": f"127.0.0.1:{self.port}",
                "state": str(self.state),
                "pages": f"{self.house.stack.url}/t/{self.house.tenant}",
                "agents_run_as": "nobody",
                "hold_s": 0.5,
                "beat_s": 0.3,
                "settle_s": 15.0,
                "send_s": 10,
            },
            f"agents.{self.agent}": {"goal": "Keep the app in order."},
            "hosts.forge": {
                "url": self.host.url,
                "credential_file": str(self.folder / "forge.credential"),
                "repositories": ["team/*"],
            },
        }
        write_private(self.folder / "forge.credential", CREDENTIAL + "\n")

    @property
    def environment(self) -> dict[str, str]:
        keys = self.house.known["keys"]
        return os.environ | {
            "COUNTERFOIL_AGENT_KEY": keys["agent"],
            "COUNTERFOIL_EXECUTOR_KEY": keys["exec"],
            "COUNTERFOIL_OPERATOR_KEY": keys["oper"],
            **self.variables,
        }

    def program(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """One of the gateway's other programs."""
        self.config.write_text(toml(self.settings))
        told = ["-m", "counterfoil.gateway", words[0], "--config", str(self.config), *words[1:]]
        return gateway_forks().run_raw(told, self.environment, timeout=LONG_S)

    def prepare(self) -> Gateway:
        ran = self.program("register")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        self.token = self.program("token", self.agent).stdout.decode().strip()
        assert self.token.startswith("cf_gate_")
        return self

    def start(self, **front: Any) -> Gateway:
        """Start the process; `kill_at` ends it with SIGKILL once it has written that state."""
        kill_at = front.pop("kill_at", "")
        self.settings["gateway"] |= front
        self.config.write_text(toml(self.settings))
        if self.child is not None:
            self.child.wait(LONG_S)
        words = [killing.__file__, kill_at, "serve", "--config", str(self.config)]
        log = self.folder / "gateway.log"
        self.child = gateway_forks().start(words, self.environment, out=log, err=log)
        assert wait_until(self.answers, within_s=LONG_S), self.log
        return self

    def answers(self) -> bool:
        assert self.child is not None
        assert self.child.poll() is None, self.log
        try:
            return httpx.get(f"{self.url}/", timeout=5, verify=self.verify).status_code == 401
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(LONG_S)

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text()

    @property
    def held(self) -> list[HeldRequest]:
        return list(read_held(self.state, HeldKeys(self.keys)))

    @property
    def address(self) -> str:
        scheme, _, place = self.url.partition("://")
        return f"{scheme}://agent:{self.token}@{place}/forge/{REPOSITORY}"

    @property
    def pushes(self) -> int:
        """The pushes that reached the host."""
        return sum(each.startswith("POST") and each.endswith("/git-receive-pack") for each in self.host.seen)


@dataclass
class Clone:
    """The agent's clone, whose remote is the gateway."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def push(self, *words: str, **popen: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", "push", *words],
            cwd=self.folder,
            env=os.environ | QUIET | self.variables,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            **popen,
        )

    def begin_push(self, *words: str) -> subprocess.Popen[str]:
        """A push in a process group of its own, which goes on."""
        return subprocess.Popen(
            ["git", "push", *words],
            cwd=self.folder,
            env=os.environ | QUIET,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def commit(self, text: str, *words: str) -> str:
        return git_server.commit(self.folder, text, *words)


@pytest.fixture(scope="package")
def started_console(template, run, tmp_path_factory) -> Iterator[Stack]:
    with console(run, tmp_path_factory.mktemp("console")) as stack:
        yield stack


@pytest.fixture(scope="module")
def house(started_console, tmp_path_factory, request) -> Iterator[House]:
    """A tenant of this module's own."""
    name = request.module.__name__.rpartition(".test_")[2].replace("_", "-")
    with founded(started_console, tmp_path_factory.mktemp("house"), name) as found:
        yield found


@pytest.fixture(scope="module")
def host(house, tmp_path_factory) -> Iterator[GitServer]:
    """The real host: git's own backend behind a password, which the console may read as the system `git`."""
    with git_server.served(tmp_path_factory.mktemp("served"), credential=CREDENTIAL) as server:
        user, _, password = CREDENTIAL.partition(":")
        write_private(
            house.credentials / "git.json", json.dumps({"user": user, "password": password, "url": server.url})
        )
        body = {"name": "git", "pattern": "git", "settings": {"url": server.url}}
        assert house.operator.post("/systems", body).status_code == 201
        yield server


@contextmanager
def new_gateway(
    house: House, host: GitServer, folder: Path, agent: str, hosts: dict[str, dict[str, Any]] | None = None
) -> Iterator[Gateway]:
    made = Gateway(folder, house, host, agent)
    if hosts:
        del made.settings["hosts.forge"]
        made.settings |= hosts
    made.prepare()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def gateway(house, host, tmp_path, request) -> Iterator[Gateway]:
    """A gateway with an agent of its own, not started."""
    agent = f"coder-{abs(hash(request.node.name)) % 10**8}"
    folder = tmp_path / "gateway"
    folder.mkdir()
    host.seen.clear()
    host.before_push = host.after_push = lambda: True
    with new_gateway(house, host, folder, agent) as made:
        yield made


@pytest.fixture
def clone(gateway, host, tmp_path) -> Clone:
    """A clone of a repository with one commit on main; its remote `origin` leads through the gateway."""
    new_repository(host)
    folder = tmp_path / "work"
    git_server.git(tmp_path, "clone", "-q", str(host.root / REPOSITORY), str(folder))
    git_server.git(folder, "remote", "set-url", "origin", gateway.address)
    return Clone(folder)


def new_repository(host: GitServer) -> None:
    """The repository anew, with one commit on main."""
    place = host.root / REPOSITORY
    if place.exists():
        place.rename(place.with_name(f"old-{place.stat().st_ino}-{len(list(place.parent.iterdir()))}"))
    host.repository(REPOSITORY)
    seed = host.root / f"seed-{place.stat().st_ino}"
    git_server.git(host.root, "clone", "-q", str(place), str(seed))
    git_server.commit(seed, "first")
    git_server.git(seed, "push", "-q", "origin", "HEAD:main")


def register_system(house: House, name: str, credential: Mapping[str, str], *, pattern: str = "") -> None:
    """Let the console read a system; its pattern has its name, if none is given."""
    write_private(house.credentials / f"{name}.json", json.dumps(credential))
    body = {"name": name, "pattern": pattern or name, "settings": {"url": credential["url"]}}
    assert house.operator.post("/systems", body).status_code == 201


def read_outcome(house: House, held: HeldRequest) -> str:
    """The console's outcome in words, once there is one."""

    def report() -> Any:
        return house.operator.get(f"/actions/{held.action_id}/report")

    ends = ("RECONCILED", "REVIEW", "FAILED")
    assert wait_until(lambda: house.state(held.action_id).startswith(ends), within_s=LONG_S), report()
    return str(report()["text"])
