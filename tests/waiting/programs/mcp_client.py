"""A client of the Python SDK of MCP that speaks tasks: it keeps the id of its task."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.mcp.held.calls import EXTENSION, ask, begin
from tests.waiting.programs.client import PAUSE_S, Folder, say

folder = Folder()
told = folder.told


async def turn() -> dict[str, Any]:
    """Connect, and ask until the task has ended."""
    async with Client(streamable_http_client(told["gateway"]), extensions=[advertise(EXTENSION)]) as client:
        task_id = folder.kept().get("task_id")
        if task_id is None:
            task_id = (await begin(client, told["tool"], told["arguments"]))["taskId"]
            folder.keep(task_id=task_id)
        while (task := await ask(client.session, "tasks/get", task_id))["status"] == "working":
            await anyio.sleep(PAUSE_S)
        return task


async def main() -> None:
    while True:
        try:
            with anyio.fail_after(30):
                task = await turn()
                break
        except (OSError, ExceptionGroup, MCPError) as fault:
            say(type(fault).__name__, str(fault)[:200])
            await anyio.sleep(PAUSE_S)
    result = types.CallToolResult.model_validate(task["result"])
    word: Any = (result.meta or {})["io.counterfoil/call"]
    approval = word.get("approval", {})
    text = " ".join([str(approval.get("reason", "")), *(getattr(block, "text", "") for block in result.content)])
    folder.heard(str(approval.get("decision", "")), text, done=bool(word["report"]["completed"]))


anyio.run(main)
