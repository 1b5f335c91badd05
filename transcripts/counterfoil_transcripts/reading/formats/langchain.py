"""Messages as LangChain and LangGraph dump them.

Three spellings of one thing: `dumpd` (`{"lc": 1, "id": [..., "AIMessage"], "kwargs": {…}}`), `messages_to_dict`
(`{"type": "ai", "data": {…}}`), and `model_dump`, which checkpoints and the LangGraph server use (`{"type": "ai",
"content": …, "tool_calls": […]}`).
"""

from __future__ import annotations

from typing import Any

from counterfoil_transcripts.reading.formats import anthropic, openai_chat
from counterfoil_transcripts.reading.formats.content import name_of, parse_answer_content, text_of
from counterfoil_transcripts.reading.formats.rows import FormatRow
from counterfoil_transcripts.reading.records import (
    AGENT,
    SYSTEM,
    TOOL,
    USER,
    TranscriptAnswer,
    TranscriptCall,
    TranscriptTurn,
)

NAME = "langchain"
ROW = FormatRow(
    NAME,
    "LangChain and LangGraph: `dumpd`, `messages_to_dict`, `model_dump`, states and checkpoints",
    "`lc`, `id`, `kwargs`; `type` `human`, `ai`, `tool` with `data` or `content`",
    "`tool_calls[]` and `invalid_tool_calls[]`: `name`, `args`, id `id`; `additional_kwargs.tool_calls[]`; `tool_use`",
    "`type` `tool`: `content`, call `tool_call_id`",
    "failed: `status` `error`",
    "calls in `content` and `additional_kwargs` beside `tool_calls`",
)
_KINDS = {
    "human": USER,
    "ai": AGENT,
    "system": SYSTEM,
    "developer": SYSTEM,
    "tool": TOOL,
    "function": TOOL,
    "remove": SYSTEM,
}


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is a message of this format."""
    if "lc" in item:
        return _kind(item) in _KINDS and isinstance(item.get("kwargs"), dict)
    if item.get("role") is not None or _kind(item) not in _KINDS:
        return False
    return isinstance(item.get("data"), dict) or "content" in item


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in a message."""
    body = item["kwargs"] if "lc" in item else item["data"] if isinstance(item.get("data"), dict) else item
    role, content = _KINDS[_kind(item)], body.get("content")
    if role == TOOL:
        failed = True if body.get("status") == "error" else None
        answer = TranscriptAnswer(
            name_of(body.get("tool_call_id")), name_of(body.get("name")), parse_answer_content(content), failed
        )
        return TranscriptTurn(number, role, answers=(answer,))
    return TranscriptTurn(number, role, text_of(content), _calls(body, content) if role == AGENT else ())


def _calls(body: dict[str, Any], content: Any) -> tuple[TranscriptCall, ...]:
    listed = [*_dicts_of(body, "tool_calls"), *_dicts_of(body, "invalid_tool_calls")]
    calls = [TranscriptCall(name_of(one.get("id")), name_of(one.get("name")), one.get("args", {})) for one in listed]
    if not calls and isinstance(body.get("additional_kwargs"), dict):
        calls = list(openai_chat.calls_of(body["additional_kwargs"]))
    if not calls and isinstance(content, list):
        calls = anthropic.tool_calls(content)
    return tuple(calls)


def _dicts_of(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _kind(item: dict[str, Any]) -> str:
    if "lc" in item:
        path = item.get("id")
        name = path[-1] if isinstance(path, list) and path and isinstance(path[-1], str) else ""
    else:
        name = item["type"] if isinstance(item.get("type"), str) else ""
    return name.removesuffix("Chunk").removesuffix("Message").lower()
