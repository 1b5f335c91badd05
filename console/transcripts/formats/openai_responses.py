"""Items of OpenAI's Responses API: messages, `function_call` and `function_call_output`, MCP calls, commands.

Session files of programs that keep these items on lines of their own (`payload`) hold notes of the program's own
between them; those say nothing.
"""

from __future__ import annotations

from typing import Any

from console.transcripts.formats.content import name_of, parse_answer_content, text_of
from console.transcripts.formats.openai_chat import ROLES
from console.transcripts.records import AGENT, SYSTEM, TOOL, TranscriptAnswer, TranscriptCall, TranscriptTurn

NAME = "openai-responses"
_CALLS = frozenset({"function_call", "custom_tool_call"})
_COMMANDS = {"local_shell_call": "local_shell", "shell_call": "shell", "apply_patch_call": "apply_patch"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", *(f"{kind}_output" for kind in _COMMANDS)})
_SILENT = frozenset(
    {
        *("reasoning", "web_search_call", "file_search_call", "computer_call", "computer_call_output", "compaction"),
        *("code_interpreter_call", "image_generation_call", "item_reference", "mcp_approval_request"),
        *("mcp_approval_response", "session_meta", "turn_context", "event_msg", "compacted"),
    }
)
_KINDS = frozenset({*_CALLS, *_COMMANDS, *_OUTPUTS, *_SILENT, "mcp_call", "mcp_list_tools"})


def fits(item: dict[str, Any]) -> bool:
    """Whether an item is of this format."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    return item.get("role") in ROLES if kind == "message" else kind in _KINDS


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in an item."""
    kind = item["type"]
    call_id = name_of(item.get("call_id") or item.get("id"))
    if kind == "message":
        return TranscriptTurn(number, ROLES[item["role"]], text_of(item.get("content")))
    if kind in _CALLS:
        arguments = item.get("arguments", item.get("input", {}))
        return TranscriptTurn(number, AGENT, calls=(TranscriptCall(call_id, name_of(item.get("name")), arguments),))
    if kind in _COMMANDS:
        asked = item.get("action", item.get("operation", {}))
        return TranscriptTurn(number, AGENT, calls=(TranscriptCall(call_id, _COMMANDS[kind], asked),))
    if kind in _OUTPUTS:
        return TranscriptTurn(
            number, TOOL, answers=(TranscriptAnswer(call_id, "", parse_answer_content(item.get("output"))),)
        )
    if kind == "mcp_list_tools":
        listed = item.get("tools")
        tools = tuple(one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
        return TranscriptTurn(number, SYSTEM, tools=tools)
    if kind != "mcp_call":
        return TranscriptTurn(number, SYSTEM)
    name, error = name_of(item.get("name")), item.get("error")
    answer = TranscriptAnswer(call_id, name, error or parse_answer_content(item.get("output")), bool(error))
    return TranscriptTurn(
        number, AGENT, calls=(TranscriptCall(call_id, name, item.get("arguments")),), answers=(answer,)
    )
