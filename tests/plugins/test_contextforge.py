"""The plug-in in a real ContextForge gateway, between the official client and an API, before a real console."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from console.local.processes import wait_until
from console.local.servers import free_port
from tests.plugins.conftest import Shelf, environment_of, needs_environment, note

pytestmark = needs_environment("contextforge")
UPSTREAM = Path(__file__).with_name("upstream.py")
PURGE = {"path": "notes/today.md"}
ANN = "ann@example.com"


class Gateway:
    """ContextForge with its database, the API behind it, and what it is started with."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.python = environment_of("contextforge")
        self.folder = shelf.folder / "gateway"
        self.folder.mkdir()
        self.port, self.upstream_port = free_port(), free_port()
        self.log = self.folder / "log"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = os.environ | shelf.keys
        self.environment |= {
            "DATABASE_URL": f"sqlite:///{self.folder}/gateway.db",
            "CACHE_TYPE": "memory",
            "JWT_SECRET_KEY": secrets.token_urlsafe(48),
            "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(48),
            "PLATFORM_ADMIN_EMAIL": ANN,
            "PLATFORM_ADMIN_PASSWORD": f"Aa1-{secrets.token_urlsafe(24)}",
            "SSRF_ALLOW_LOCALHOST": "true",
            "PLUGINS_ENABLED": "true",
            "PLUGINS_CONFIG_FILE": str(self.folder / "plugins.yaml"),
            "PLUGINS_PLUGIN_TIMEOUT": "60",
            "PLUGINS_FAIL_ON_PLUGIN_ERROR": "true",
        }
        self.token = ""

    def _configure(self, **changes: str) -> None:
        """Write the gateway's plug-in file, as docs/decide.md shows it; JSON is YAML."""
        plugin = {
            "name": "Counterfoil",
            "kind": "counterfoil_contextforge.CounterfoilPlugin",
            "hooks": ["tool_pre_invoke", "tool_post_invoke"],
            "mode": "sequential",
            "on_error": "fail",
            "config": {
                "settings": str(self.shelf.settings("contextforge", timeout_s=8)),
                "tools": {"documents-write": "write_document", "documents-delete": "delete_document"},
            },
        } | changes
        (self.folder / "plugins.yaml").write_text(json.dumps({"plugins": [plugin], "plugin_dirs": []}))

    def start(self, **changes: str) -> None:
        """Start what is not running; `changes` are to the plug-in's settings."""
        if "upstream" not in self.processes:
            self._run("upstream", sys.executable, str(UPSTREAM), str(self.shelf.root), str(self.upstream_port))
        if "gateway" not in self.processes:
            self._configure(**changes)
            address = ["--host", "127.0.0.1", "--port", str(self.port)]
            self._run("gateway", str(self.python.with_name("mcpgateway")), *address)
        assert wait_until(self._answers, within_s=180), self.log.read_text()[-3000:]

    def create_token(self) -> None:
        command = ["-m", "mcpgateway.utils.create_jwt_token", "--username", ANN, "--exp", "600", "--admin"]
        command += ["--secret", self.environment["JWT_SECRET_KEY"]]
        made = subprocess.run(
            [str(self.python), *command], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        self.token = made.stdout.split()[-1]

    def add_tool(self, name: str) -> None:
        tool = {
            "name": name,
            "url": f"http://127.0.0.1:{self.upstream_port}/{name}",
            "integration_type": "REST",
            "request_type": "POST",
            "description": f"{name}.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
        made = httpx.post(self.address("/tools"), json={"tool": tool}, headers=self.headers, timeout=60)
        assert made.is_success, made.text

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def stop(self, *names: str) -> None:
        for name in self.processes.keys() & names:
            process = self.processes.pop(name)
            process.kill()
            process.wait()

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """A call by the official client: whether it was answered with the tool's result, and the text."""

        async def main() -> tuple[bool, str]:
            async with httpx2.AsyncClient(headers=self.headers, timeout=90) as http:
                transport = streamable_http_client(self.address("/mcp/"), http_client=http)
                async with Client(transport, mode="legacy") as client:
                    try:
                        answer = await client.call_tool(tool, arguments)
                    except MCPError as refused:
                        return False, refused.error.message
                    return not answer.is_error, "".join(part.text for part in answer.content)  # type: ignore[union-attr]

        return anyio.run(main)

    def _run(self, name: str, *command: str) -> None:
        with self.log.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log
            )

    def _answers(self) -> bool:
        assert self.processes["gateway"].poll() is None, self.log.read_text()[-9000:]
        try:
            return httpx.get(self.address("/health"), timeout=5).is_success
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def installed(shelf: Shelf) -> Iterator[Gateway]:
    made = Gateway(shelf)
    try:
        made.start()
        made.create_token()
        for name in ("documents-write", "documents-delete", "documents-purge"):
            made.add_tool(name)
        yield made
    finally:
        made.stop(*list(made.processes))


@pytest.fixture
def gateway(installed: Gateway) -> Gateway:
    """The gateway, running; a test may have stopped it."""
    installed.start()
    return installed


def test_an_allowed_call_reaches_the_tool_once_and_its_answer_is_reported(gateway: Gateway, shelf: Shelf):
    assert gateway.call("documents-write", note("notes/today.md"))[0] is True
    assert gateway.call("documents-write", note("notes/failed.md", "Fail.")) == (False, "HTTP 500")
    named = [each["path"] for each in shelf.calls()]
    assert (named.count("notes/today.md"), named.count("notes/failed.md")) == (1, 1)
    # What the API said is evidence; both wrote their document, which the worker finds.
    for action in shelf.house.operator.items("/actions", limit="2"):
        shelf.until(action["action_id"], "RECONCILED_SUCCESS")
        events = shelf.events(action["action_id"])
        assert (events.count("execution_started"), events.count("lease_ended")) == (1, 0)


def test_a_refused_call_never_reaches_the_tool_and_its_caller_reads_why(gateway: Gateway, shelf: Shelf):
    before = shelf.calls()
    ran, told = gateway.call("documents-purge", PURGE)
    assert (ran, "PHANTOM_TOOL" in told, "Not executed. There is no tool `documents-purge`." in told) == (
        False,
        True,
        True,
    )
    assert shelf.calls() == before


def test_a_call_that_waits_runs_after_the_approval_and_once_also_after_a_restart(gateway: Gateway, shelf: Shelf):
    old = shelf.lay("notes/old.md")
    wish = {"path": "notes/old.md", "reason": "It is out of date."}
    ran, told = gateway.call("documents-delete", wish)
    [task] = re.findall(r"Not executed yet \(task ([0-9a-f-]{36})\)", told)
    assert (ran, old.exists()) == (False, True)
    gateway.stop("gateway")
    gateway.start()
    assert gateway.call("documents-delete", wish) == (False, told)
    shelf.house.decide("approve", "It may go.")
    # The vote is sealed in the log before anything starts on it.
    assert wait_until(lambda: gateway.call("documents-delete", wish)[0], within_s=60)
    assert not old.exists()
    shelf.until(task, "RECONCILED_SUCCESS")
    assert shelf.events(task).count("execution_started") == 1


def test_a_gateway_that_dies_under_a_call_leaves_it_unknown_and_the_worker_reads_it_back(
    gateway: Gateway, shelf: Shelf
):
    def call() -> None:
        with suppress(Exception):
            gateway.call("documents-write", note("notes/died.md", "Hang."))

    calling = threading.Thread(target=call)
    calling.start()
    assert wait_until(lambda: (shelf.root / "notes" / "died.md").exists(), within_s=60)
    gateway.stop("gateway", "upstream")
    calling.join()
    action = shelf.newest()["action_id"]
    shelf.until(action, "RECONCILED_SUCCESS")
    events = shelf.events(action)
    assert (events.count("execution_started"), events.count("lease_ended")) == (1, 1)


def test_the_gateway_does_not_start_with_a_plug_in_that_could_not_block(installed: Gateway):
    for changes in ({"mode": "audit"}, {"on_error": "ignore"}):
        installed.stop("gateway")
        with pytest.raises(AssertionError, match="else a call would pass undecided"):
            installed.start(**changes)
    installed.stop("gateway")
