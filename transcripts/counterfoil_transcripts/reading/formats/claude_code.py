"""Session files of Claude Code, and its `stream-json`: one line for each part of a message, each with an envelope.

1. The envelope names the session, and the message in it is one of Anthropic's, of which each block has a line.
2. What the program writes itself (notes to the model, a summary of what was cut off, errors of the API in the
   agent's place) is nobody's word; lines that hold no message (snapshots, titles, results) say nothing.
3. A subagent's lines are a conversation of their own.
4. The tools that were offered are known by name alone, where the session's first line lists them.
"""

from __future__ import annotations

from typing import Any

from counterfoil_transcripts.reading.formats import anthropic
from counterfoil_transcripts.reading.formats.openai_chat import ROLES
from counterfoil_transcripts.reading.formats.rows import FormatRow
from counterfoil_transcripts.reading.records import SYSTEM, TranscriptTurn

NAME = "claude-code"
ROW = FormatRow(
    NAME,
    "session files of Claude Code, and its `stream-json`",
    "`type` with `sessionId` or `uuid`, and a `message` of Anthropic's; a subagent is a conversation of its own",
    "`message.content[]` `tool_use`: `name`, `input`, id `id`",
    "`message.content[]` `tool_result`: `content`, call `tool_use_id`",
    "failed: `is_error` `true`, succeeded: `is_error` `false`",
    "a line with the `uuid` and the message of an earlier one",
)
_SPOKEN = frozenset({"user", "assistant"})
_NOTES = frozenset(
    {
        *("system", "summary", "result", "progress", "attachment", "queue-operation", "last-prompt", "mode", "tag"),
        *("file-history-snapshot", "file-history-delta", "permission-mode", "custom-title", "ai-title", "agent-name"),
        *("cost-state", "pr-link", "stream_event", "rate_limit_event"),
    }
)
_MARKS = ("sessionId", "session_id", "uuid", "leafUuid", "messageId")
_BY_THE_PROGRAM = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is a line of a session file."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if not any(isinstance(item.get(mark), str) for mark in _MARKS):
        return False
    message = item.get("message")
    return kind in _NOTES if message is None else kind in _SPOKEN and isinstance(message, dict) and _is_role(message)


def _is_role(message: dict[str, Any]) -> bool:
    return isinstance(message.get("role"), str) and message["role"] in ROLES


def says_nothing(item: object) -> bool:
    """Return whether a line belongs to no session and holds no message."""
    return isinstance(item, dict) and fits(item) and item["type"] in _NOTES and not session_of(item)


def session_of(item: dict[str, Any]) -> str:
    """The session of a line; a subagent's is its own (rule 3)."""
    session = str(item.get("sessionId") or item.get("session_id") or "")
    apart = item.get("isSidechain") is True or bool(item.get("parent_tool_use_id"))
    name = item.get("agentId") or item.get("parent_tool_use_id") or ""
    return f"{session} (subagent {name})".replace(" )", ")") if apart else session


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in a line."""
    message = item.get("message")
    if item["type"] not in _SPOKEN or not isinstance(message, dict):
        listed = item.get("tools")
        names = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
        return TranscriptTurn(number, SYSTEM, tools=tuple({"name": name} for name in names))
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if any(item.get(mark) is True for mark in _BY_THE_PROGRAM):
        return TranscriptTurn(number, SYSTEM)
    return anthropic.turn({"role": message["role"], "content": blocks}, number)
