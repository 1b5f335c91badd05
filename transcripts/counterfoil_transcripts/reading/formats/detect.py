"""Detects the format of a recorded message. The most specific marks are tried first; one
conversation may mix formats.
"""

from __future__ import annotations

from collections.abc import Callable
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
from counterfoil_transcripts.reading.records import TranscriptTurn


@dataclass(frozen=True, slots=True)
class Format:
    """One format: its name, its recognition of an item, and the turn in an item."""

    name: str
    fits: Callable[[dict[str, Any]], bool]
    turn: Callable[[dict[str, Any], int], TranscriptTurn]


FORMATS = tuple(
    Format(one.NAME, one.fits, one.turn)
    for one in (mcp_log, claude_code, langchain, anthropic, openai_responses, openai_chat, sharegpt)
)
NAMES = tuple(one.name for one in FORMATS)
_TELLING = {name: place for place, name in enumerate(NAMES)}


def format_of(item: object) -> Format | None:
    """The format of one message, or None if none matches."""
    if not isinstance(item, dict) or not all(isinstance(item.get(name), str | None) for name in ("role", "type")):
        return None
    return next((one for one in FORMATS if one.fits(item)), None)


def is_message(item: object) -> bool:
    """Return whether an item is a message of any format."""
    return format_of(item) is not None


def dominant_format(names: set[str]) -> str:
    """The name of a conversation whose messages have these formats: the one with the plainest marks."""
    return min(names, key=lambda name: _TELLING[name], default="unknown")
