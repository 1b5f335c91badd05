"""Streamable HTTP on both sides, and the process as an MCP client starts it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import anyio
import httpx
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from console.local.servers import free_port
from counterfoil.mcp.settings import load_settings
from tests.mcp import servers
from tests.mcp.conftest import word

NOTE = {"text": "Milk"}
TOKEN = "a-token-of-the-test"


@contextmanager
def _http_server(folder) -> Iterator[str]:
    """The tests' server over streamable HTTP."""
    port = free_port()
    config = uvicorn.Config(servers.server().streamable_http_app(), port=port, log_level="error", ws="none")
    server = uvicorn.Server(config)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(servers, "FOLDER", folder)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _listening(bench) -> Iterator[str]:
    """The gateway as a process that listens."""
    port = free_port()
    bench.told(gateway={"listen": f"127.0.0.1:{port}"})
    bench.keys = {"COUNTERFOIL_MCP_TOKEN": TOKEN}
    started = bench.parameters()
    with bench.log.open("a") as log:
        process = subprocess.Popen([started.command, *started.args], env=started.env, stderr=log)
        try:
            _until_answered(f"http://127.0.0.1:{port}/mcp", process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(30)


def _until_answered(url, process):
    for _ in range(600):
        assert process.poll() is None
        try:
            assert httpx.post(url, timeout=5).status_code == 401
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the gateway does not listen")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_with_the_token_passes_over_http_on_both_sides(bench, desk, mode):
    async def main(url):
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return await client.call_tool("keep_note", NOTE)

    with _http_server(bench.folder) as upstream:
        del bench.settings["server"]["command"]
        bench.told(server={"url": upstream})
        with _listening(bench) as url:
            result = anyio.run(main, url)
    assert word(result)["report"]["completed"] is True
    assert [call["tool"] for call in bench.calls] == ["keep_note"]
    assert desk.one.starts == 1


def test_a_request_about_a_task_needs_no_session_and_no_header_that_says_otherwise(bench):
    task_id = "0b8e2a3e-0000-4000-8000-000000000000"
    told = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": task_id, "_meta": told}}
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tasks/get",
    }
    unknown, mismatch = (400, -32602), (400, -32020)
    names = {task_id: unknown, f" {task_id}  ": unknown, None: unknown, "another": mismatch, "": mismatch}
    found = {}
    with _listening(bench) as url:
        for name in names:
            connection = HTTPConnection(url.split("/")[2], timeout=30)
            connection.request("POST", "/mcp", json.dumps(body), headers | ({} if name is None else {"Mcp-Name": name}))
            answer = connection.getresponse()
            assert answer.getheader("Mcp-Session-Id") is None
            found[name] = (answer.status, json.loads(answer.read())["error"]["code"])
            connection.close()
    assert found == names


def test_the_command_names_a_missing_setting_in_one_line(bench):
    bench.settings["console"]["agent_id"] = ""
    started = bench.parameters()
    answer = subprocess.run([started.command, *started.args], env=started.env, capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.strip() == "counterfoil-mcp: Not set: console.agent_id (COUNTERFOIL_AGENT_ID)."
    assert answer.stdout == ""


def test_a_server_that_does_not_start_is_reported_in_one_line(bench):
    bench.told(server={"command": [sys.executable, "-c", "raise SystemExit(3)"]})
    started = bench.parameters()
    answer = subprocess.run([started.command, *started.args], env=started.env, capture_output=True, text=True)
    assert answer.returncode == 1
    assert "the server could not be used" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_settings_in_the_guide_are_valid(tmp_path):
    text = (servers.Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    found = [block.partition("```")[0] for block in text.split("```toml\n")[1:]]
    assert found
    for name in ("agent.key", "executor.key"):
        (tmp_path / name).write_text("cf_key")
        (tmp_path / name).chmod(0o600)
    for number, block in enumerate(found):
        file = tmp_path / f"{number}.toml"
        file.write_text(block.replace("/etc/counterfoil", str(tmp_path)))
        assert load_settings(file, environment={}).server.name
