"""An MCP server that keeps notes as files and counts: `python notes_server.py FOLDER EFFECTS`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

FOLDER, EFFECTS = Path(sys.argv[1]), Path(sys.argv[2])
FILE = {
    "type": "object",
    "required": ["path", "content"],
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
}


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="keep_note", description="Keep a note.", input_schema=FILE)])


async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    told = params.arguments or {}
    line = os.open(EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(line, f"{json.dumps({'name': told['path'].removesuffix('.md')})}\n".encode())
    os.close(line)
    (FOLDER / told["path"]).write_text(told["content"])
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"kept: {told['path']}")])


async def main() -> None:
    server: Server[Any] = Server("notes", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
