"""Notes of a coding agent's hooks in shadow mode, laid over the session that the client recorded itself.

1. A note names a call of the session by its id, the registered tool for the command, and what the system showed right
   after it. The recorded call becomes a call of that tool; the agent's words are then judged by its contract.
2. The system was read by the hook, not by the agent: this outranks the tool's own answer.
3. Notes name no command and no prompt; a call without a note stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from counterfoil_transcripts.reading.records import Transcript, TranscriptTurn
from ledger.record.rules.refusals import Refused


class UnreadableNotes(Refused):
    """The notes of the hooks cannot be read."""

    code = "UNREADABLE_NOTES"


@dataclass(frozen=True, slots=True)
class SystemReading:
    """A system's state after a call: whether it is as requested, and a description."""

    as_asked: bool
    text: str


@dataclass(frozen=True, slots=True)
class HookNote:
    """One call as seen by the hook; `reading` is None if the system was not read."""

    tool: str
    arguments: Mapping[str, Any]
    reading: SystemReading | None = None


def read_notes(files: Iterable[Path]) -> dict[str, HookNote]:
    """The notes by the client's own id of the call; a later line about a call adds the reading."""
    found: dict[str, HookNote] = {}
    for file in files:
        try:
            lines = [orjson.loads(line) for line in file.read_bytes().splitlines() if line.strip()]
            for line in lines:
                call_id = line.get("call_id")
                if not call_id or not line.get("tool"):
                    continue
                shown = line.get("shown")
                reading = SystemReading(bool(shown["as_asked"]), str(shown["text"])) if shown else None
                before = found.get(call_id)
                reading = reading or (before.reading if before is not None else None)
                found[call_id] = HookNote(str(line["tool"]), dict(line.get("arguments") or {}), reading)
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as problem:
            raise UnreadableNotes(f"{file} cannot be read as notes of hooks: {problem}.") from None
    return found


def apply_notes(
    conversation: Transcript, notes: Mapping[str, HookNote], contracts: Mapping[str, Mapping[str, Any]]
) -> Transcript:
    """The conversation with each noted call as a call of its registered tool (rule 1).

    A conversation that lists its tools is given the contracts of those that were noted in it.
    """
    noted = {call.id for turn in conversation.turns for call in turn.calls} & notes.keys()
    if not noted:
        return conversation
    named = {notes[call_id].tool for call_id in noted}
    more = tuple(contracts[name] for name in sorted(named) if name in contracts) if conversation.tools else ()
    turns = tuple(_noted_turn(turn, notes) for turn in conversation.turns)
    return replace(conversation, turns=turns, tools=(*conversation.tools, *more))


def _noted_turn(turn: TranscriptTurn, notes: Mapping[str, HookNote]) -> TranscriptTurn:
    calls = tuple(
        replace(call, tool=notes[call.id].tool, arguments=dict(notes[call.id].arguments)) if call.id in notes else call
        for call in turn.calls
    )
    return replace(turn, calls=calls)
