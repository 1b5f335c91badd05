"""Items of OpenAI's Responses API: messages, `function_call` and `function_call_output`, MCP calls, commands.

Session files of programs that keep these items on lines of their own (`payload`) hold notes of the program's own
between them; those say nothing.
"""

from __future__ import annotations

import re
from typing import Any

from counterfoil_transcripts.reading.formats.content import name_of, parse_answer_content, text_of
from counterfoil_transcripts.reading.formats.openai_chat import ROLES
from counterfoil_transcripts.reading.formats.rows import FormatRow
from counterfoil_transcripts.reading.records import (
    AGENT,
    SYSTEM,
    TOOL,
    TranscriptAnswer,
    TranscriptCall,
    TranscriptTurn,
)

NAME = "openai-responses"
ROW = FormatRow(
    NAME,
    "OpenAI's Responses API, and the session files of Codex in both forms (bare items; `type` and `payload`)",
    "`type` `message`, `function_call`, `custom_tool_call`, `shell_call`, `apply_patch_call`, `mcp_call` and their kin",
    "`function_call`: `name`, `arguments`, id `call_id`; `custom_tool_call`: `name`, `input` as it is; `shell_call`, "
    "`local_shell_call`, `computer_call`: `action`; `apply_patch_call`: `operation`; `code_interpreter_call`: `code`; "
    "`mcp_call`: `name`, `arguments`, id `id`",
    "`*_output`: `output`, call `call_id`; `mcp_call`: `output` or `error`; `code_interpreter_call`: `outputs`",
    "failed: `output.metadata.exit_code` or `outcome.exit_code` or a line `Process exited with code` or `Exit code:` "
    "other than 0, `outcome.type` `timeout`, `status` `failed`, `error`; in Codex's events `patch_apply_end` `success` "
    "`false`, `mcp_tool_call_end` `Err` or `isError`; succeeded: exit code 0, `status` `completed` of a patch",
    "`event_msg` and `compacted`, which repeat items; each `session_meta` begins a session",
)
_CALLS = frozenset({"function_call", "custom_tool_call"})
_COMMANDS = {
    **{"local_shell_call": "local_shell", "shell_call": "shell", "apply_patch_call": "apply_patch"},
    "computer_call": "computer",
}
_CODE = "code_interpreter_call"
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", *(f"{kind}_output" for kind in _COMMANDS)})
_SILENT = frozenset(
    {
        *("reasoning", "web_search_call", "file_search_call", "image_generation_call", "item_reference"),
        *("mcp_approval_request", "mcp_approval_response", "tool_search_call", "tool_search_output"),
        *("additional_tools", "configuration_update", "compaction", "compaction_trigger", "context_compaction"),
        *("session_meta", "turn_context", "event_msg", "compacted", "ghost_snapshot"),
    }
)
# What a program of the agent's machine writes before the output of a command.
_HEAD = re.compile(r"(?:Chunk ID|Exit code|Wall time|Process |Original token count|Total output lines)")
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)
_RUNNING = re.compile(r"^Process running", re.MULTILINE)
_KINDS = frozenset({*_CALLS, *_COMMANDS, *_OUTPUTS, *_SILENT, "mcp_call", "mcp_list_tools", _CODE})


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is of this format."""
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
        free = kind == "custom_tool_call" and isinstance(arguments, str)
        called = TranscriptCall(call_id, name_of(item.get("name")), arguments, free)
        return TranscriptTurn(number, AGENT, calls=(called,))
    if kind in _COMMANDS:
        asked = item.get("action", item.get("operation", {}))
        return TranscriptTurn(number, AGENT, calls=(TranscriptCall(call_id, _COMMANDS[kind], asked),))
    if kind in _OUTPUTS:
        content, failed = _outcome(item)
        return TranscriptTurn(number, TOOL, answers=(TranscriptAnswer(call_id, "", content, failed),))
    if kind == "mcp_list_tools":
        listed = item.get("tools")
        tools = tuple(one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
        return TranscriptTurn(number, SYSTEM, tools=tools)
    if kind == _CODE:
        ended = item.get("status") in ("completed", "failed")
        failed = True if item.get("status") == "failed" else None
        told = TranscriptAnswer(call_id, kind.removesuffix("_call"), item.get("outputs"), failed)
        made = TranscriptCall(call_id, told.tool, item.get("code") or {}, isinstance(item.get("code"), str))
        return TranscriptTurn(number, AGENT, calls=(made,), answers=(told,) if ended else ())
    if kind != "mcp_call":
        return TranscriptTurn(number, SYSTEM)
    name, error = name_of(item.get("name")), item.get("error")
    failed = bool(error) or item.get("status") in ("failed", "incomplete")
    content = error or parse_answer_content(item.get("output"))
    is_open = content is None and item.get("status") in ("calling", "in_progress")
    answers = () if is_open else (TranscriptAnswer(call_id, name, content, failed),)
    return TranscriptTurn(number, AGENT, calls=(TranscriptCall(call_id, name, item.get("arguments")),), answers=answers)


def _outcome(item: dict[str, Any]) -> tuple[Any, bool | None]:
    """The content of an output, and whether it failed, if the item says so.

    The sign is an exit code in its metadata or in the lines before the output, a status, or the outcome of each
    command.
    """
    output = parse_answer_content(item.get("output"))
    if isinstance(item.get("output"), list):
        codes = [code for one in item["output"] if (code := _exit_code(one)) is not None]
        return output, any(codes) if codes else None
    code, text = _exit_code(output), output.get("output", "") if isinstance(output, dict) else output
    if isinstance(output, str):
        head, mark, rest = output.partition("Output:\n")
        if mark and _HEAD.match(head):
            ended = _EXIT.search(head)
            code, text = int(ended[1]) if ended else None, rest
            if _RUNNING.search(head):
                return {"status": "running", "output": rest}, None
    if code is not None:
        return {"exit_code": code, "output": text}, None
    if item["type"] != "function_call_output" and item.get("status") == "failed":
        return output, True
    # Of a patch the status is its outcome; of any other output it says that the item itself is complete.
    return output, False if (item["type"], item.get("status")) == ("apply_patch_call_output", "completed") else None


def _exit_code(output: Any) -> int | None:
    """The exit code in an output; for a command that was cut off in time, a failing one."""
    if not isinstance(output, dict):
        return None
    outcome = output.get("outcome")
    if isinstance(outcome, dict):
        return 124 if outcome.get("type") == "timeout" else _exit_code(outcome)
    inner = output.get("metadata")
    code = (inner if isinstance(inner, dict) else output).get("exit_code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None
