"""The parts of a recorded conversation, whatever its format.

A turn is one message: words, calls that it makes, answers that it brings. Calls keep their arguments as recorded, an
object or a text of JSON, so that the gate judges what the agent sent and not a reader's interpretation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AGENT, USER, SYSTEM, TOOL = "agent", "user", "system", "tool"


@dataclass(frozen=True, slots=True)
class TranscriptCall:
    """One call as the agent made it; `id` ties its answer to it, and may be empty or that of another call.

    `free_text`: the tool takes whatever text it is given, so that `arguments` is no JSON that went wrong.
    """

    id: str
    tool: str
    arguments: Any
    free_text: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptAnswer:
    """The answer to a call. `failed` is the recording's own mark (is_error, status), None if it has none.

    `loose`: the format's answers share one stream with answers to other things, so one that fits no call is no fault.
    """

    call_id: str
    tool: str
    content: Any
    failed: bool | None = None
    loose: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One message of a conversation. `number` is its position in the recording, from 0."""

    number: int
    role: str
    text: str = ""
    calls: tuple[TranscriptCall, ...] = ()
    answers: tuple[TranscriptAnswer, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    asks: str = ""
    """The id of a request that is no call: its answer is no call's."""


@dataclass(frozen=True, slots=True)
class TranscriptFault:
    """Something in a file that could not be read: where, and why."""

    file: str
    conversation: str
    path: str
    reason: str
    passed_over: bool = False
    """Whether it is well formed and only of no known kind, so that it may hold anything."""

    @property
    def line(self) -> str:
        """The fault as one line for people."""
        where = f", conversation {self.conversation}" if self.conversation else ""
        return f"{self.file}{where}, {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Transcript:
    """One recorded conversation. `tools` are its own tool definitions; `unread`: parts or lines of it could not be
    read, so that calls may be missing.
    """

    file: str
    id: str
    path: str
    format: str
    turns: tuple[TranscriptTurn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[TranscriptFault, ...] = field(default=())
    unread: bool = False
