"""Fine-tuning conversations of the `from` and `value` kind, with `function_call` and `observation` turns."""

from __future__ import annotations

from typing import Any

from counterfoil_transcripts.reading.formats import openai_chat
from counterfoil_transcripts.reading.formats.content import name_of, parse_answer_content
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

NAME = "sharegpt"
ROW = FormatRow(
    NAME,
    "fine-tuning data of the ShareGPT kind",
    "`from` and `value`",
    "`from` `function_call`: `value.name`, `value.arguments`, id none; `<tool_call>` marks in the text",
    "`from` `observation`: `value`, by place",
    "not stated",
)
_ROLES = {
    "human": USER,
    "user": USER,
    "gpt": AGENT,
    "assistant": AGENT,
    "system": SYSTEM,
    "observation": TOOL,
    "tool": TOOL,
    "function_response": TOOL,
    "function_call": AGENT,
}


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is a message of this format."""
    return item.get("from") in _ROLES and "value" in item


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in a message."""
    role, value = _ROLES[item["from"]], item["value"]
    if role == TOOL:
        return TranscriptTurn(number, role, answers=(TranscriptAnswer("", "", parse_answer_content(value)),))
    if item["from"] == "function_call":
        asked = parse_answer_content(value)
        if isinstance(asked, dict):
            return TranscriptTurn(
                number, role, calls=(TranscriptCall("", name_of(asked.get("name")), asked.get("arguments", {})),)
            )
        return TranscriptTurn(number, role, calls=(TranscriptCall("", "", value),))
    said = {"role": "assistant" if role == AGENT else "user", "content": value}
    read = openai_chat.turn(said, number)
    return TranscriptTurn(number, role, read.text, read.calls)
