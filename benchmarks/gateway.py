"""A tool call through the MCP gateway, against the same call straight to the server.

The server is a process of its own (stdio) on both sides, and its tool does nothing. Through the gateway each call is
proposed, claimed, started under its grant, sent, and reported, over HTTP to one web process as `up` starts it; nothing
waits for a verdict.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from benchmarks.figures import Figure, Rate, sized, spent_ms
from benchmarks.keepalive import Wire
from benchmarks.stand import Stand

SECONDS = sized(3.0, tiny=0.2)
ADDED_MS = 30.0
AGENT = "clerk"
SERVER = '''
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def keep_note(text: str) -> str:
    """Keep a note."""
    return text
server.run()
'''
Call = Callable[[], Awaitable[Any]]


def measure(stand: Stand, rounds: int) -> list[Figure]:
    keys = stand.founded("gateway")["keys"]
    with stand.web("gateway") as port, tempfile.TemporaryDirectory() as folder:
        return [anyio.run(_measured, port, keys, Path(folder), rounds)]


async def _measured(port: int, keys: dict[str, str], folder: Path, rounds: int) -> Figure:
    from counterfoil.mcp import serving
    from counterfoil.mcp.settings import load_settings

    command = [sys.executable, "-c", SERVER]
    config = folder / "gateway.toml"
    config.write_text(_settings(port, command, folder))
    told = {"COUNTERFOIL_AGENT_KEY": keys["agent"], "COUNTERFOIL_EXECUTOR_KEY": keys["exec"]}
    async with Client(StdioServerParameters(command=command[0], args=command[1:]), cache=None) as direct:
        _register(port, keys["oper"], (await direct.list_tools()).tools)
        settings = load_settings(config, environment=dict(os.environ) | told)
        async with serving.open_gateway(settings) as (face, _), Client(face, cache=None) as gated:
            ours, peer = [], []
            for number in range(-1, rounds):
                pair = (await _rate(lambda: _kept(gated)), await _rate(lambda: _kept(direct)))
                if number >= 0:
                    ours.append(pair[0])
                    peer.append(pair[1])
    extra = tuple(
        Rate.of(1000 / one - 1000 / other, spent_ms=one.cpu_ms - other.cpu_ms, operations=1)
        for one, other in zip(ours, peer, strict=True)
    )
    limit = (ADDED_MS,) * rounds
    return Figure(name="gateway, added to a call: 30 ms", unit="ms", ours=extra, peer=limit, aim=1, most=True)


async def _rate(call: Call) -> Rate:
    spent, begun, made = spent_ms(), time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        await call()
        made += 1
    return Rate.of(made / (time.perf_counter() - begun), spent_ms=spent_ms() - spent, operations=made)


async def _kept(client: Client) -> None:
    result = await client.call_tool("keep_note", {"text": uuid4().hex})
    word = (result.meta or {}).get("io.counterfoil/call", {"status": "answered"})
    if result.is_error or word["status"] != "answered":
        raise SystemExit(f"benchmarks: a call did not go through: {result}")


def _register(port: int, key: str, tools: list[types.Tool]) -> None:
    from counterfoil.mcp import drafts

    operator = Wire(port, Authorization=f"Bearer {key}")
    (tool,) = tools
    document = drafts.draft_contract(tool, server="bench").document
    document |= {
        "side_effect_class": "EPHEMERAL_WRITE",
        "reversibility": "REVERSIBLE",
        "target_resource": "note/{text}",
    }
    operator.post("/api/v1/contracts", document)
    operator.post("/api/v1/agents", {"agent_id": AGENT, "version": "1", "tools": [document["name"]]})


def _settings(port: int, command: list[str], folder: Path) -> str:
    return "\n".join(
        [
            f'[console]\nurl = "http://127.0.0.1:{port}"\nissuer = "http://localhost:8000"\nagent_id = "{AGENT}"',
            '[session]\ngoal = "Keep notes."',
            f'[server]\nname = "bench"\ncommand = {json.dumps(command)}',
            f'[gateway]\nsettle_s = 0\nrelist_s = 3600\nstate = "{folder}"',
        ]
    )
