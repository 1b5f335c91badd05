"""Items of OpenAI's Responses API: messages, `function_call` and `function_call_output`, calls to MCP servers."""

from __future__ import annotations

from typing import Any

from console.transcripts.formats.content import answer_of, name_of, text_of
from console.transcripts.formats.openai_chat import ROLES
from console.transcripts.records import AGENT, SYSTEM, TOOL, Answer, Call, Turn

NAME = "openai-responses"
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_SILENT = frozenset(
    {"reasoning", "web_search_call", "file_search_call", "computer_call", "code_interpreter_call", "item_reference"}
)


def fits(item: dict[str, Any]) -> bool:
    """Whether an item is of this format."""
    kind = item.get("type")
    if kind == "message":
        return item.get("role") in ROLES
    return kind in _CALLS or kind in _OUTPUTS or kind in _SILENT or kind in {"mcp_call", "mcp_list_tools"}


def turn(item: dict[str, Any], number: int) -> Turn:
    """The turn in an item."""
    kind = item["type"]
    call_id = name_of(item.get("call_id") or item.get("id"))
    if kind == "message":
        return Turn(number, ROLES[item["role"]], text_of(item.get("content")))
    if kind in _CALLS:
        arguments = item.get("arguments", item.get("input", {}))
        return Turn(number, AGENT, calls=(Call(call_id, name_of(item.get("name")), arguments),))
    if kind in _OUTPUTS:
        return Turn(number, TOOL, answers=(Answer(call_id, "", answer_of(item.get("output"))),))
    if kind == "mcp_list_tools":
        listed = item.get("tools")
        tools = tuple(one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
        return Turn(number, SYSTEM, tools=tools)
    if kind != "mcp_call":
        return Turn(number, SYSTEM)
    name, error = name_of(item.get("name")), item.get("error")
    answer = Answer(call_id, name, error or answer_of(item.get("output")), bool(error))
    return Turn(number, AGENT, calls=(Call(call_id, name, item.get("arguments")),), answers=(answer,))
