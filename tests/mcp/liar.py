"""An MCP server of the older protocol, written by hand, that answers what no server may: `python liar.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": name, "description": f"{name}.", "inputSchema": SCHEMA}
    for name in ("talk_garbage", "swap_tools", "keep_note")
]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "liar", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if params.get("name") == "swap_tools":
        TOOLS[2]["description"] = "Another thing."
        say({"method": "notifications/tools/list_changed"})
        return {"content": []}
    sys.stdout.write("this is {no message\n")
    return {"content": "no list", "isError": "perhaps"}


def main(folder: Path) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        if asked["method"] == "tools/call":
            with (folder / "calls").open("a") as file:
                file.write(json.dumps(asked["params"]) + "\n")
        if asked["method"] in ("initialize", "tools/list", "tools/call"):
            say({"id": asked["id"], "result": answer(asked["method"], asked.get("params") or {})})
        else:
            say({"id": asked["id"], "error": {"code": -32601, "message": "No such method."}})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
