"""Where the messages stand in what was recorded around them.

1. A conversation is a list of messages, or an object that holds one under a usual name, at most `DEPTH` objects deep:
   `messages`, `traj`, `conversations`, LangGraph's `values` and `channel_values`, a request with its response.
2. Extra fields are passed over, except an id and the tools that were offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from console.transcripts.formats import claude_code
from console.transcripts.formats.content import name_of
from console.transcripts.formats.detect import is_message

DEPTH = 4
LISTS = (
    *("messages", "traj", "trajectory", "conversations", "conversation", "chat_history", "history", "turns"),
    *("items", "events", "transcript", "dialogue", "chat", "log", "message_history", "input"),
)
_INNER = (
    *("values", "channel_values", "checkpoint", "state", "data", "request", "body", "sample", "record", "trace"),
    *("conversation", "thread", "inputs", "run", "result", "log", "json", "payload", "kwargs"),
)
_IDS = ("conversation_id", "session_id", "sessionId", "thread_id", "id", "task_id", "trace_id", "run_id", "name")
_WRAPPERS = ("message", "data", "payload", "msg", "body", "record", "event", "rpc", "raw", "content", "item")


@dataclass(frozen=True, slots=True)
class MessageList:
    """The messages of one conversation as recorded, its id where it has one, and the tools offered in it."""

    messages: list[Any]
    id: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()


def find_messages(value: Any) -> MessageList | None:
    """The conversation in a value, or None when it holds none."""
    if isinstance(value, list):
        return MessageList(value) if _is_list_of_messages(value) else None
    if not isinstance(value, dict) or is_message(value):
        return None
    found = _messages(value, 0) or _response(value)
    return None if found is None else MessageList(found, conversation_id_of(value), tool_definitions_of(value))


def find_conversations(value: Any) -> list[Any] | None:
    """The conversations in a list of them, or None when it is no such list."""
    if not isinstance(value, list) or not value or _is_list_of_messages(value):
        return None
    return value if any(find_messages(one) is not None for one in value[:20]) else None


def unwrap_message(item: Any) -> Any:
    """The message inside a line that says when and which way it went; the item itself where it is one."""
    if not isinstance(item, dict) or is_message(item):
        return item
    for name in _WRAPPERS:
        inner = _read(item.get(name))
        if is_message(inner):
            return inner
    return item


def session_id_of(item: Any) -> str:
    """Which session a line says that it belongs to; empty where it says nothing."""
    if not isinstance(item, dict):
        return ""
    if claude_code.fits(item):
        return claude_code.session_of(item)
    return next((name_of(item[name]) for name in _IDS[:4] if item.get(name)), "")


def conversation_id_of(value: Mapping[str, Any]) -> str:
    """The id that a conversation carries; a trial of one task keeps both numbers."""
    found = next((name_of(value[name]) for name in _IDS if name_of(value.get(name))), "")
    trial = name_of(value.get("trial"))
    return f"{found} (trial {trial})" if found and trial else found


def tool_definitions_of(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The tool definitions that stand beside the messages, as a list or as a text of JSON."""
    for name in ("tools", "functions", "available_tools"):
        listed = _read(value.get(name))
        if isinstance(listed, list):
            return tuple(one for one in listed if isinstance(one, dict))
    inner = (value.get(name) for name in ("request", "body", "info", "state"))
    return next((found for one in inner if isinstance(one, dict) and (found := tool_definitions_of(one))), ())


def _messages(value: dict[str, Any], depth: int) -> list[Any] | None:
    for name in LISTS:
        listed = _read(value.get(name))
        if isinstance(listed, list) and _is_list_of_messages(listed):
            return [*listed, *_answered(value)]
    if depth < DEPTH:
        for name in _INNER:
            inner = value.get(name)
            found = _messages(inner, depth + 1) if isinstance(inner, dict) and not is_message(inner) else None
            if found is not None:
                return [*found, *_answered(value)]
    return None


def _answered(value: dict[str, Any]) -> list[Any]:
    """What a model answered to the messages, where a request and its response were recorded together."""
    response = value.get("response", value)
    if not isinstance(response, dict):
        return []
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return [choices[0].get("message")] if is_message(choices[0].get("message")) else []
    if isinstance(output, list) and _is_list_of_messages(output):
        return output
    return [response] if response is not value and is_message(response) else []


def _response(value: dict[str, Any]) -> list[Any] | None:
    """What was asked in words and answered in items, in one object of OpenAI's Responses API."""
    asked, output = value.get("input"), value.get("output")
    if not isinstance(output, list) or not _is_list_of_messages(output):
        return None
    return [{"role": "user", "content": asked}, *output] if isinstance(asked, str) else output


def _is_list_of_messages(value: list[Any]) -> bool:
    return any(is_message(one) or is_message(unwrap_message(one)) for one in value[:5])


def _read(value: Any) -> Any:
    """A value that was written as a text of JSON inside JSON, read; anything else as it is."""
    if not isinstance(value, str) or value[:1] not in {"{", "["}:
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value
