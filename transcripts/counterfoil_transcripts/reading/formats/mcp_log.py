"""Session logs of the Model Context Protocol: JSON-RPC messages of both directions, one item each.

Only `tools/call` and its answers are calls; a `tools/list` answer brings tool definitions; the rest is passed over.
Both sides number their requests from 1, and a log may have a message twice, as it came and as it went on.
"""

from __future__ import annotations

from typing import Any

from counterfoil_transcripts.reading.formats.content import name_of, parse_answer_content
from counterfoil_transcripts.reading.formats.rows import FormatRow
from counterfoil_transcripts.reading.records import (
    AGENT,
    SYSTEM,
    TOOL,
    TranscriptAnswer,
    TranscriptCall,
    TranscriptTurn,
)

NAME = "mcp"
ROW = FormatRow(
    NAME,
    "session logs of MCP, JSON-RPC lines of both directions",
    "`jsonrpc` `2.0`",
    "`method` `tools/call`: `params.name`, `params.arguments`, id `id`",
    "`result.structuredContent` or `result.content` or `error`, call `id`",
    "failed: `error` or `result.isError` `true`",
    "a request or an answer that the log shows again",
)


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is a JSON-RPC message."""
    return item.get("jsonrpc") == "2.0" and ("method" in item or "result" in item or "error" in item)


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in a message."""
    call_id = name_of(item.get("id"))
    if item.get("method") == "tools/call":
        asked = item.get("params")
        asked = asked if isinstance(asked, dict) else {}
        arguments = asked.get("arguments")
        return TranscriptTurn(
            number, AGENT, calls=(TranscriptCall(call_id, name_of(asked.get("name")), _object(arguments)),)
        )
    if "method" in item:
        return TranscriptTurn(number, SYSTEM, asks=call_id)
    if item.get("error") is not None:
        return TranscriptTurn(
            number, TOOL, answers=(TranscriptAnswer(call_id, "", {"error": item["error"]}, True, loose=True),)
        )
    result = item.get("result")
    if not isinstance(result, dict):
        return TranscriptTurn(number, TOOL, answers=(TranscriptAnswer(call_id, "", result, None, loose=True),))
    if isinstance(result.get("tools"), list):
        return TranscriptTurn(number, SYSTEM, tools=tuple(one for one in result["tools"] if isinstance(one, dict)))
    mark = result.get("isError")
    content = result.get("structuredContent") or parse_answer_content(result.get("content", result))
    failed = mark if isinstance(mark, bool) and mark else None
    return TranscriptTurn(number, TOOL, answers=(TranscriptAnswer(call_id, "", content, failed, loose=True),))


def _object(arguments: Any) -> Any:
    return {} if arguments is None else arguments
