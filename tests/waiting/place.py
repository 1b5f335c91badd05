"""An installation with clients of each kind, whose calls wait for a person; and what its reviewer decides.

Whatever happens is counted at the other side: each effect is a line in the file `effects`, written by the executor's
handler, the MCP server or the git host itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from console.local import servers
from console.local.installation import ROOT
from console.local.processes import Child, Program, spawn, wait_until
from deploy.drills.installation import CannotRun, Installation, Shape, installation, kill
from ledger.key_files import write_private
from tests.mcp.conftest import toml
from tests.peers.support import environment as peers
from tests.support.outside import git_server
from tests.support.outside.git_server import QUIET, GitServer

TENANT = "drill"
DECIDE_WITHIN_S = 3 * 86_400
TYPESCRIPT = ("@modelcontextprotocol/client@2.4.0",)
POLICY = {
    "version": "1",
    "decide_within_s": DECIDE_WITHIN_S,
    "release_within_s": 86_400,
    "grant_life_s": 120,
    "step_up": "C",
    "rules": [],
}
PROGRAMS = Path(__file__).with_name("programs")
CONSOLE = ("web", "worker", "beat", "sequencer")
HEARS_WITHIN_S = 180.0
STEP_S = 0.25


@dataclass(frozen=True)
class Kind:
    """A kind of client: its program, and what acts for it."""

    name: str
    program: str
    acts: str
    """What is killed as its gateway: executors, mcp, git, or "" where the client itself acts."""


KINDS = (
    Kind("Python client library", "plain_client.py", "executors"),
    Kind("LangGraph with a checkpointer", "langgraph_client.py", "executors"),
    Kind("OpenAI Agents SDK", "openai_client.py", "executors"),
    Kind("MCP, Python SDK, tasks", "mcp_client.py", "mcp"),
    Kind("MCP, TypeScript SDK, handle", "mcp_client.mjs", "mcp"),
    Kind("coding agent with hooks", "coding_agent.py", ""),
    Kind("git behind the gateway", "git_client.py", "git"),
)


@dataclass
class Wish:
    """One call of one client, and how a person decides about it."""

    kind: Kind
    verdict: str
    name: str
    folder: Path
    while_away: bool
    """Decided before what was killed is there again."""
    child: Child | None = None

    @property
    def reason(self) -> str:
        return f"Decided about {self.name}."

    @property
    def heard(self) -> dict[str, Any] | None:
        file = self.folder / "heard.json"
        return json.loads(file.read_text()) if file.exists() else None


@dataclass
class Place:
    """The installation and what stands around it."""

    installation: Installation
    host: GitServer
    folder: Path
    children: dict[str, Child] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Kinds that cannot run here, with the reason."""
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    signed_in: tuple[httpx.Client, str] | None = None

    @property
    def effects(self) -> Path:
        return self.installation.effects

    @property
    def environment(self) -> dict[str, str]:
        """The environment of everything that is not the console: its clock, its keys, and a home of its own."""
        keys = self.installation.known["keys"]
        clock = self.installation.clock
        home = self.folder / "home"
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TMPDIR": str(home / "scratch"),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}",
            "COUNTERFOIL_AGENT_KEY": keys["agent"],
            "COUNTERFOIL_EXECUTOR_KEY": keys["exec"],
            **QUIET,
            **(clock.environment if clock else {}),
        }

    # What stands around the console

    def begin(self) -> None:
        (self.folder / "home/.claude").mkdir(parents=True)
        (self.folder / "home/scratch").mkdir()
        (self.folder / "notes").mkdir()
        operator = self.installation.machine("oper")
        self.installation.clients.append(operator)
        self._system(operator, "git", "git", {"url": self.host.url})
        self._system(operator, "notes", "filesystems", {"root": str(self.folder / "notes")})
        self._begin_mcp()
        self._begin_git()
        self._run(
            *("-m", "counterfoil.coding_agents", "onboard", "claude-code", "--enforce"),
            *("--url", self.installation.url, "--hold", "10"),
        )

    def _system(self, operator: httpx.Client, name: str, pattern: str, settings: dict[str, str]) -> None:
        folder = self.installation.folder / "secrets" / "systems" / TENANT
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(folder / f"{name}.json", json.dumps(settings))
        answer = operator.post("/systems", json={"name": name, "pattern": pattern, "settings": settings})
        assert answer.status_code == 201, answer.text

    def _run(self, *words: str) -> str:
        operator = {"COUNTERFOIL_OPERATOR_KEY": self.installation.known["keys"]["oper"]}
        ran = subprocess.run(
            [sys.executable, *words], env=self.environment | operator, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def _begin_mcp(self) -> None:
        folder, port = self.folder / "mcp", servers.free_port()
        folder.mkdir()
        settings = {
            "console": {"url": self.installation.url, "agent_id": "notes-clerk"},
            "session": {"goal": "Keep the notes in order.", "renew": True},
            "server": {
                "name": "notes",
                "command": [
                    sys.executable,
                    str(PROGRAMS / "notes_server.py"),
                    str(self.folder / "notes"),
                    str(self.effects),
                ],
            },
            "gateway": {"listen": f"127.0.0.1:{port}", "state": str(folder), "hold_s": 2.0, "settle_s": 8.0},
        }
        config = folder / "gateway.toml"
        config.write_text(toml(settings))
        words = ("--config", str(config), "--contracts", str(folder / "contracts"))
        self._run("-m", "counterfoil.mcp", "contracts", *words)
        draft = folder / "contracts" / "notes.keep_note.json"
        verification = {
            "pattern": "filesystems",
            "system": "notes",
            "lookup": {"effects": {"file": {"path": "sr.path", "expect": "present"}}},
            "predicates": ["sa.size == size(bytes(sr.content))"],
            "polling": {"first_after_s": 1, "backoff": 1.5, "max_interval_s": 4, "sla_s": 60},
            "settle_s": 1,
        }
        draft.write_text(json.dumps(json.loads(draft.read_text()) | {"verification": verification}))
        self._run("-m", "counterfoil.mcp", "register", *words)
        self.addresses["mcp"] = f"http://127.0.0.1:{port}/mcp"
        self._start("mcp", port, [sys.executable, "-m", "counterfoil.mcp", "--config", str(config)])

    def _begin_git(self) -> None:
        folder, port = self.folder / "gateway", servers.free_port()
        folder.mkdir()
        write_private(folder / "forge.credential", "real:secret\n")
        settings = {
            "console": {"url": self.installation.url, "executor_id": "gateway-coder"},
            "gateway": {
                "listen": f"127.0.0.1:{port}",
                "state": str(folder / "state"),
                "agents_run_as": "nobody",
                "hold_s": 10.0,
                "settle_s": 30.0,
                "sweep_s": 5,
            },
            "agents.coder": {"goal": "Keep the app in order."},
            "hosts.forge": {
                "url": self.host.url,
                "credential_file": str(folder / "forge.credential"),
                "repositories": ["team/*"],
            },
        }
        config = folder / "gateway.toml"
        config.write_text(toml(settings))
        self._run("-m", "counterfoil.gateway", "register", "--config", str(config))
        token = self._run("-m", "counterfoil.gateway", "token", "coder", "--config", str(config)).strip()
        self.addresses["git"] = f"http://agent:{token}@127.0.0.1:{port}/forge"
        self._start("git", port, [sys.executable, "-m", "counterfoil.gateway", "serve", "--config", str(config)])

    def _start(self, name: str, port: int, argv: list[str]) -> None:
        program = Program(name=name, argv=argv, log=self.folder / f"{name}.log", environment=self.environment)
        self.children[name] = spawn(program)
        self.addresses[f"{name} port"] = str(port)
        self._await(name)

    def _await(self, name: str) -> None:
        listening = peers.listens(int(self.addresses[f"{name} port"]))
        assert wait_until(listening, within_s=60, every_s=0.2), self.log(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    # Clients

    def wish(self, kind: Kind, verdict: str, *, while_away: bool) -> Wish:
        """A client that has not begun."""
        name = f"w{uuid4().hex[:10]}"
        folder = self.folder / "clients" / name
        folder.mkdir(parents=True)
        made = Wish(kind, verdict, name, folder, while_away)
        told: dict[str, Any] = {"name": name, "url": self.installation.url}
        told |= {"key": self.installation.known["keys"]["agent"], "agent": "clerk"}
        if kind.acts == "executors":
            (self.installation.documents / f"{name}.md").write_text("An outdated draft.")
            told |= {"tool": "delete_document", "arguments": {"path": f"{name}.md", "reason": "It is out of date."}}
        elif kind.acts == "mcp":
            arguments = {"path": f"{name}.md", "content": "Milk"}
            told |= {"tool": "keep_note", "arguments": arguments, "gateway": self.addresses["mcp"]}
        else:
            told |= {"home": str(self.folder / "home"), "work": str(self._repository(kind, made))}
            told["command"] = "git push --force origin HEAD:main"
        (folder / "told.json").write_text(json.dumps(told))
        self.wishes.append(made)
        return made

    def _repository(self, kind: Kind, wish: Wish) -> Path:
        """A clone with another history than its remote, whose pushes are counted by the host's own hook."""
        path, work = f"team/{wish.name}.git", wish.folder / "work"
        self.host.repository(path)
        bare = self.host.root / path
        git_server.git(wish.folder, "clone", "-q", str(bare), str(work))
        git_server.commit(work, "first")
        git_server.git(work, "push", "-q", "origin", "HEAD:main")
        git_server.commit(work, "another history", "--amend")
        address = f"{self.addresses['git']}/{path}" if kind.acts == "git" else f"{self.host.url}/{path}"
        git_server.git(work, "remote", "set-url", "origin", address)
        hook = bare / "hooks" / "post-receive"
        hook.write_text(f"#!/bin/sh\necho '{json.dumps({'name': wish.name})}' >> {self.effects}\n")
        hook.chmod(0o755)
        return work

    def start(self, wish: Wish) -> None:
        program = PROGRAMS / wish.kind.program
        argv = [sys.executable, str(program), str(wish.folder)]
        if program.suffix == ".mjs":
            argv = ["node", str(program), str(wish.folder), str(peers.peer_node(TYPESCRIPT))]
        wish.child = spawn(Program(name=wish.name, argv=argv, log=wish.folder / "log", environment=self.environment))

    # The person

    def waiting(self) -> dict[str, dict[str, Any]]:
        """What waits for the reviewer, by the name of its wish; each is looked at once."""
        reviewer, _ = self.reviewer
        items = reviewer.get("/api/v1/approvals", params={"state": "REQUESTED", "limit": 200}).json()["items"]
        for approval_id in (each["approval_id"] for each in items):
            if approval_id not in self.shown:
                self.shown[approval_id] = reviewer.get(f"/api/v1/approvals/{approval_id}").json()
        shown = [self.shown[each["approval_id"]] for each in items]
        return {wish.name: each for each in shown for wish in self.wishes if wish.name in json.dumps(each)}

    @property
    def reviewer(self) -> tuple[httpx.Client, str]:
        """The reviewer, who signs in again whenever their session is over."""
        if self.signed_in is None or self.signed_in[0].get("/api/v1/me").status_code != 200:
            self.signed_in = self.installation.person("reviewer")
        return self.signed_in

    def all_wait(self, wishes: list[Wish], *, within_s: float = HEARS_WITHIN_S) -> None:
        names = {each.name for each in wishes}
        if not wait_until(lambda: names <= self.waiting().keys(), within_s=within_s, every_s=1):
            late = [each for each in wishes if each.name not in self.waiting()]
            raise AssertionError("\n".join(f"{each.kind.name}: {self.client_log(each)}" for each in late[:5]))

    def client_log(self, wish: Wish) -> str:
        file = wish.folder / "log"
        return file.read_text()[-2000:] if file.exists() else ""

    def decide(self, wishes: list[Wish]) -> None:
        """The reviewer decides about these wishes."""
        reviewer, password = self.reviewer
        waiting = self.waiting()
        for wish in wishes:
            shown = waiting[wish.name]
            body = {
                "verdict": wish.verdict,
                "payload_hash": shown["covers"]["payload_hash"],
                "rendering_digest": shown["rendering_digest"],
                "without_reading": shown["target_unread"],
                "reason": wish.reason,
                "password": password,
            }
            path = f"/api/v1/approvals/{shown['approval_id']}/votes"
            answer = reviewer.post(path, json=body, headers={"Idempotency-Key": uuid4().hex})
            assert answer.status_code == 201, answer.text

    # What happens meanwhile

    def kill_console(self) -> None:
        for name in CONSOLE:
            kill(self.installation.children[name])

    def start_console(self) -> None:
        for name in CONSOLE:
            self.installation.restart(name)
        assert wait_until(lambda: bool(self.installation.readiness()), within_s=120, every_s=0.3)

    def kill_gateways(self) -> None:
        """The gateways, and the executors, which nobody starts again meanwhile."""
        for child in self.children.values():
            kill(child)
        self.installation.stop_executors()

    def start_gateways(self) -> None:
        self.installation.start_executors()
        for name, child in list(self.children.items()):
            self.children[name] = spawn(child.program)
        for name in self.children:
            self._await(name)

    def restart_gateways(self) -> None:
        self.kill_gateways()
        self.start_gateways()

    def kill_clients(self, wishes: list[Wish]) -> None:
        for child in (each.child for each in wishes if each.child is not None):
            kill(child)

    def a_day_passes(self) -> None:
        """24 hours for every process and the git host, half an hour at a time."""
        clock = self.installation.clock
        assert clock is not None
        for _ in range(48):
            clock.forward(1800)
            self.host.ahead_s += 1800
            time.sleep(STEP_S)

    # The end

    def await_word(self, wishes: list[Wish], *, within_s: float = HEARS_WITHIN_S) -> None:
        wait_until(lambda: all(each.heard is not None for each in wishes), within_s=within_s, every_s=0.5)

    def counts(self) -> Counter[str]:
        """The effects of each wish, as the other side counted them."""
        lines = self.effects.read_text().splitlines() if self.effects.exists() else []
        found = [json.loads(line) for line in lines]
        return Counter(each.get("name") or each["path"].removesuffix(".md") for each in found)

    def end(self) -> None:
        self.kill_clients(self.wishes)
        for child in self.children.values():
            kill(child)


@contextmanager
def opened(folder: Path) -> Iterator[Place]:
    """A place of its own. Raises `CannotRun` where this machine lacks a program."""
    policy = folder / "approval.json"
    policy.write_text(json.dumps(POLICY))
    shape = Shape(movable_clock=True, founding=("--policy", f"approval={policy}"))
    with ExitStack() as stack:
        (folder / "served").mkdir()
        host = stack.enter_context(git_server.served(folder / "served", credential=""))
        made = Place(stack.enter_context(installation(shape)), host, folder)
        stack.callback(made.end)
        made.begin()
        yield made


__all__ = ["KINDS", "CannotRun", "Kind", "Place", "Wish", "opened"]
