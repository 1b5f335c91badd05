"""Chat messages as OpenAI's API has them: roles, `tool_calls`, and answers of the role `tool`.

Relatives are read too: the older `function_call`, calls that carry their name and arguments themselves (tau2), and
`<tool_call>` marks inside the text of models that were trained on those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

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

NAME = "openai-chat"
ROW = FormatRow(
    NAME,
    "OpenAI's chat messages and what many programs write in their shape (magentic and LiteLLM among them)",
    "`role` with `content`, `tool_calls` or `function_call`",
    "`tool_calls[]`: `function.name`, `custom.name` or `name`, `function.arguments`, `custom.input` or `arguments`, "
    "id `id`; `function_call`; `<tool_call>` marks in the text",
    "`role` `tool` or `function`: `content`, call `tool_call_id`",
    "failed: `error` `true`, succeeded: `error` `false`",
)
ROLES = {
    "assistant": AGENT,
    "model": AGENT,
    "agent": AGENT,
    "user": USER,
    "human": USER,
    "system": SYSTEM,
    "developer": SYSTEM,
    "tool": TOOL,
    "function": TOOL,
}
_MARKED = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is a message of this format."""
    return item.get("role") in ROLES and ("content" in item or "tool_calls" in item or "function_call" in item)


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in a message."""
    role = ROLES[item["role"]]
    if role == TOOL:
        call_id = name_of(item.get("tool_call_id") or item.get("id"))
        mark = item.get("error") if isinstance(item.get("error"), bool) else None
        answer = TranscriptAnswer(call_id, name_of(item.get("name")), parse_answer_content(item.get("content")), mark)
        return TranscriptTurn(number, role, answers=(answer,))
    text = text_of(item.get("content"))
    calls = tuple(calls_of(item)) if role == AGENT else ()
    if role == AGENT and not calls and "<tool_call>" in text:
        calls = tuple(_marked_calls(text))
        text = _MARKED.sub("", text).strip()
    return TranscriptTurn(number, role, text, calls)


def calls_of(item: dict[str, Any]) -> Iterator[TranscriptCall]:
    """The calls of a message, in their order."""
    listed = item.get("tool_calls")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            yield _call(one)
    legacy = item.get("function_call")
    if isinstance(legacy, dict):
        yield TranscriptCall("", name_of(legacy.get("name")), legacy.get("arguments"))


def _call(one: dict[str, Any]) -> TranscriptCall:
    inner = one.get("function") or one.get("custom")
    free = isinstance(one.get("custom"), dict) and isinstance(one["custom"].get("input"), str)
    inner = inner if isinstance(inner, dict) else one
    name = name_of(inner.get("name") or (one["function"] if isinstance(one.get("function"), str) else ""))
    arguments = inner.get("arguments", inner.get("args", inner.get("input", inner.get("kwargs"))))
    return TranscriptCall(name_of(one.get("id")), name, {} if arguments in (None, "") else arguments, free)


def _marked_calls(text: str) -> Iterator[TranscriptCall]:
    for found in _MARKED.findall(text):
        try:
            value = orjson.loads(found)
        except ValueError:
            yield TranscriptCall("", "", found)
            continue
        yield TranscriptCall("", name_of(value.get("name")), value.get("arguments", {}))
