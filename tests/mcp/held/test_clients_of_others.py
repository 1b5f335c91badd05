"""Clients that others wrote wait for a held call: as a task, over a page of the console, and over a restart."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import contextmanager
from subprocess import PIPE

import pytest

from console.local.processes import wait_until
from tests.peers.support import environment

pytestmark = pytest.mark.long
FASTMCP = ("fastmcp==4.1.4", "fastmcp-tasks==4.1.4")
TYPESCRIPT = ("@modelcontextprotocol/client@2.4.0",)
WITHIN_S = 60
PAGES = "https://console.example.org/t/attic/approvals"
PYTHON_CLIENT = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp_tasks.client import call_tool_task

async def main(url):
    async with Client(url) as client:
        task = await call_tool_task(client, "keep_note", {"text": "Milk"})
        print(task.task_id, flush=True)
    while True:
        try:
            async with Client(url) as client:
                task._client = client
                result = await asyncio.wait_for(task.result(), 5)
                print(json.dumps([block.text for block in result.content]), flush=True)
                return
        except Exception as fault:
            print(type(fault).__name__, str(fault)[:200], file=sys.stderr, flush=True)
            await asyncio.sleep(0.5)

asyncio.run(main(sys.argv[1]))
"""
SIMPLE_CLIENT = """
import asyncio, json, sys
import fastmcp_tasks.client
from fastmcp import Client

async def main(url):
    async with Client(url) as client:
        result = await client.call_tool("keep_note", {"text": "Milk"})
        print(json.dumps([block.text for block in result.content]), flush=True)

asyncio.run(main(sys.argv[1]))
"""
NODE_CLIENT = """
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
const [url, opens] = process.argv.slice(-2);
const capabilities = opens === "yes" ? { elicitation: { url: {} } } : {};
const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode: "auto" } });
if (opens === "yes") client.setRequestHandler("elicitation/create", async (request) => {
  console.log(request.params.url);
  return { action: "accept" };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const result = await client.callTool({ name: "keep_note", arguments: { text: "Milk" } });
console.log(JSON.stringify({ tools, result, version: client.getNegotiatedProtocolVersion() }));
await client.close();
"""


@contextmanager
def listening(bench, log):
    started = bench.parameters()
    port = int(bench.settings["gateway"]["listen"].rpartition(":")[2])
    argv = [started.command, *started.args]
    with environment.running(argv, log, ready=environment.listens(port), environment=started.env) as child:
        yield child


@pytest.fixture
def address(bench, desk):
    desk.held = {"notes.keep_note"}
    port = environment.free_port()
    bench.told(gateway={"listen": f"127.0.0.1:{port}", "hold_s": 2.0})
    return f"http://127.0.0.1:{port}/mcp"


def _approve_once_held(desk):
    def approve():
        if wait_until(lambda: bool(desk.actions), within_s=WITHIN_S):
            desk.approve()

    approving = threading.Thread(target=approve)
    approving.start()
    return approving


def test_a_fastmcp_client_that_knows_nothing_of_approvals_gets_the_answer(bench, desk, address, tmp_path):
    python = environment.peer_python(FASTMCP)
    with listening(bench, tmp_path / "log"):
        approving = _approve_once_held(desk)
        answer = subprocess.run(
            [python, "-c", SIMPLE_CLIENT, address], capture_output=True, text=True, timeout=WITHIN_S, cwd=tmp_path
        )
        approving.join()
    assert answer.returncode == 0, answer.stderr
    texts = json.loads(answer.stdout)
    assert texts[0] == "kept: Milk"
    assert texts[-1].startswith("Counterfoil: It is COMPLETED.")
    assert desk.server.to(next(iter(desk.actions))), "It was asked about as a task."
    assert (len(desk.actions), len(bench.calls), desk.one.starts) == (1, 1, 1)


def test_a_fastmcp_client_waits_over_a_restart_of_the_gateway(bench, desk, address, tmp_path):
    python = environment.peer_python(FASTMCP)
    argv = [python, "-c", PYTHON_CLIENT, address]
    with subprocess.Popen(argv, stdout=PIPE, stderr=PIPE, text=True, cwd=tmp_path) as client:
        try:
            with listening(bench, tmp_path / "first") as gateway:
                assert client.stdout
                task_id = client.stdout.readline().strip()
                assert [task_id] == list(desk.actions)
                gateway.process.kill()
                gateway.process.wait()
            # While no gateway is there, a person decides.
            desk.approve()
            assert bench.calls == []
            with listening(bench, tmp_path / "second"):
                out, errors = client.communicate(timeout=WITHIN_S)
        finally:
            client.kill()
    assert client.returncode == 0, errors
    assert json.loads(out)[0] == "kept: Milk"
    assert (len(desk.actions), len(bench.calls), desk.one.starts) == (1, 1, 1)


def _node(address, opens, folder):
    installed = environment.peer_node(TYPESCRIPT)
    script = installed / "task_client.mjs"
    script.write_text(NODE_CLIENT)
    answer = subprocess.run(
        ["node", str(script), address, opens],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
    )
    assert answer.returncode == 0, answer.stderr
    *shown, last = answer.stdout.splitlines()
    return shown, json.loads(last)


def test_a_client_of_the_newer_typescript_sdk_keeps_the_handle(bench, desk, address, tmp_path):
    with listening(bench, tmp_path / "log"):
        shown, told = _node(address, "no", tmp_path)
    assert (told["version"], shown) == ("2026-07-28", [])
    assert told["tools"][:-3] == sorted(told["tools"][:-3])
    assert told["result"]["_meta"]["io.counterfoil/call"]["status"] == "waiting"
    assert told["result"]["_meta"]["io.counterfoil/call"]["action_id"] in desk.actions
    assert bench.calls == []


def test_a_client_of_the_newer_typescript_sdk_is_sent_to_the_page_and_gets_the_answer(bench, desk, address, tmp_path):
    bench.told(gateway={"decide_at": PAGES, "hold_s": 20.0})
    with listening(bench, tmp_path / "log"):
        approving = _approve_once_held(desk)
        shown, told = _node(address, "yes", tmp_path)
        approving.join()
    assert shown == [f"{PAGES}/app-1"]
    assert told["result"]["content"][0]["text"] == "kept: Milk"
    assert told["result"]["_meta"]["io.counterfoil/call"]["report"]["completed"] is True
    assert (len(desk.actions), len(bench.calls), desk.one.starts) == (1, 1, 1)
