"""Detects the format of a recorded message. The most specific marks are tried first; one
conversation may mix formats, one message may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil_transcripts.reading.formats import (
    anthropic,
    claude_code,
    langchain,
    mcp_log,
    openai_chat,
    openai_responses,
    sharegpt,
)
from counterfoil_transcripts.reading.formats.content import unread_parts
from counterfoil_transcripts.reading.formats.declared import DECLARED, MAGENTIC_ONE
from counterfoil_transcripts.reading.formats.places import DeclaredFormat
from counterfoil_transcripts.reading.formats.rows import FormatRow, declared_row
from counterfoil_transcripts.reading.records import TranscriptTurn

Unread = list[tuple[str, str]]
"""The place in a message and the kind of each part that was not read."""


@dataclass(frozen=True, slots=True)
class WrittenFormat:
    """A format with a reader of its own: its name, its recognition of an item, and the turn in an item."""

    name: str
    fits: Callable[[dict[str, Any]], bool]
    turn: Callable[[dict[str, Any], int], TranscriptTurn]
    row: FormatRow

    def read(self, item: dict[str, Any], number: int) -> tuple[TranscriptTurn, Unread]:
        """The turn in an item, and its parts that nobody reads."""
        unread = list(unread_parts(_body(item)))
        if self.name == anthropic.NAME and item.get("tool_calls"):
            unread.append((".tool_calls", "of another format than the message"))
        return self.turn(item, number), unread


Format = WrittenFormat | DeclaredFormat


def _own_readers(*modules: Any) -> tuple[WrittenFormat, ...]:
    return tuple(WrittenFormat(one.NAME, one.fits, one.turn, one.ROW) for one in modules)


_FIRST: tuple[Format, ...] = _own_readers(mcp_log, claude_code, langchain)
_LAST: tuple[Format, ...] = (*_own_readers(anthropic, openai_responses, openai_chat, sharegpt), MAGENTIC_ONE)
FORMATS: tuple[Format, ...] = (*_FIRST, *DECLARED, *_LAST)
NAMES = tuple(one.name for one in FORMATS)
_TELLING = {name: place for place, name in enumerate(NAMES)} | {MAGENTIC_ONE.name: -1}


def _by_field() -> dict[str, tuple[DeclaredFormat, ...]]:
    found: dict[str, dict[str, DeclaredFormat]] = {}
    for one in DECLARED:
        for mark in one.marks:
            found.setdefault(mark.field, {})[one.name] = one
    return {name: tuple(some.values()) for name, some in found.items()}


_BY_FIELD = _by_field()
"""The declared formats that a field of an item may be a mark of."""


def row_of(one: Format) -> FormatRow:
    """The format's row in the tables of the guide."""
    return declared_row(one) if isinstance(one, DeclaredFormat) else one.row


def format_of(item: object) -> Format | None:
    """The format of one message, or None if none matches."""
    if not isinstance(item, dict) or not all(isinstance(item.get(name), str | None) for name in ("role", "type")):
        return None
    for one in _FIRST:
        if one.fits(item):
            return one
    for name in item:
        if name in _BY_FIELD and (name != "content" or isinstance(item[name], list)):
            for each in _BY_FIELD[name]:
                if each.fits(item):
                    return each
    return next((one for one in _LAST if one.fits(item)), None)


def is_message(item: object) -> bool:
    """Return whether an item is a message of any format."""
    return format_of(item) is not None


def dominant_format(names: set[str]) -> str:
    """The name of a conversation whose messages have these formats: the one with the plainest marks."""
    return min(names, key=lambda name: _TELLING[name], default="unknown")


def _body(message: dict[str, Any]) -> Mapping[str, Any]:
    """The message in the envelope of its format."""
    inner = next((message[name] for name in ("kwargs", "data", "message") if isinstance(message.get(name), dict)), None)
    return message if inner is None or "role" in message else inner
