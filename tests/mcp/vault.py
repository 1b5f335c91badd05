"""An MCP server that never answers: `python vault.py FOLDER` keeps files in FOLDER/kept, or loses them.

Each call is noted in FOLDER/calls. FOLDER/mode says what becomes of it: `kept` (written, and then silence), `lost`
(only silence), `late` (silence, and written after a while, whoever has gone by then), else it is written and answered.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

SILENCE_S = 60.0
LATE_S = 2.0
FILE = {
    "type": "object",
    "required": ["path", "content"],
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
}


def server(folder: Path) -> Server[Any]:
    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name="write_file", description="Write a file.", input_schema=FILE)]
        )

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        told = params.arguments or {}
        with (folder / "calls").open("a") as file:
            file.write(json.dumps({"tool": params.name, "arguments": told}) + "\n")
        mode = (folder / "mode").read_text()
        if mode == "late":
            # Nothing is heard meanwhile, not even that whoever asked has gone.
            time.sleep(LATE_S)
        if mode != "lost":
            (folder / "kept" / told["path"]).write_text(told["content"])
            (folder / "written").touch()
        if mode:
            await anyio.sleep(SILENCE_S)
        return types.CallToolResult(content=[types.TextContent(type="text", text="written")])

    return Server("vault", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def main(folder: Path) -> None:
    made = server(folder)
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
