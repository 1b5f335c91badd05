"""Session logs of the Model Context Protocol: JSON-RPC messages of both directions, one item each.

Only `tools/call` and its answers are calls; a `tools/list` answer brings tool definitions; the rest is passed over.
"""

from __future__ import annotations

from typing import Any

from console.transcripts.formats.content import answer_of, name_of
from console.transcripts.records import AGENT, SYSTEM, TOOL, Answer, Call, Turn

NAME = "mcp"


def fits(item: dict[str, Any]) -> bool:
    """Whether an item is a JSON-RPC message."""
    return item.get("jsonrpc") == "2.0" and ("method" in item or "result" in item or "error" in item)


def turn(item: dict[str, Any], number: int) -> Turn:
    """The turn in a message."""
    call_id = name_of(item.get("id"))
    if item.get("method") == "tools/call":
        asked = item.get("params")
        asked = asked if isinstance(asked, dict) else {}
        arguments = asked.get("arguments")
        return Turn(number, AGENT, calls=(Call(call_id, name_of(asked.get("name")), _object(arguments)),))
    if "method" in item:
        return Turn(number, SYSTEM)
    if item.get("error") is not None:
        return Turn(number, TOOL, answers=(Answer(call_id, "", {"error": item["error"]}, True, loose=True),))
    result = item.get("result")
    if not isinstance(result, dict):
        return Turn(number, TOOL, answers=(Answer(call_id, "", result, None, loose=True),))
    if isinstance(result.get("tools"), list):
        return Turn(number, SYSTEM, tools=tuple(one for one in result["tools"] if isinstance(one, dict)))
    mark = result.get("isError")
    content = result.get("structuredContent") or answer_of(result.get("content", result))
    failed = mark if isinstance(mark, bool) and mark else None
    return Turn(number, TOOL, answers=(Answer(call_id, "", content, failed, loose=True),))


def _object(arguments: Any) -> Any:
    return {} if arguments is None else arguments
