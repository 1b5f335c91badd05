"""What the record shows, to stand beside what the agent said of it: one line for each change since it last spoke.

The last try of a tool on a target stands for the earlier ones. Nothing in a recording is verified, and no line says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from console.transcripts.acts import AuditedAct, TrustRequirement, believed_state
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE, WORDS, Outcome

MOST_SAID = 2_000
MOST_LINES = 20
_LONGEST = 80
_TARGET = re.compile(r"([^/]+)/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """One message of the agent that follows a change, and what the record showed when it was said."""

    turn: int
    said: str
    lines: tuple[str, ...]


def receipt_view(turn: int, said: str, acts: Iterable[AuditedAct], trust: TrustRequirement) -> ReceiptView | None:
    """The view of one message after these calls; None where none of them was to change anything."""
    tries: dict[tuple[str, str], AuditedAct] = {}
    for act in acts:
        if act.mutating and (act.told is not None or act.turn < turn):
            key = act.call.tool, act.verdict.target_resource
            tries.pop(key, None)
            tries[key] = act
    if not tries:
        return None
    lines = [" ".join(_line(act, trust)) for act in tries.values()]
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return ReceiptView(turn, said[:MOST_SAID], (*lines[:MOST_LINES], *more))


def _line(act: AuditedAct, trust: TrustRequirement) -> Iterator[str]:
    yield f"{_outcome(act, trust)}: {_title(act)}."
    for one in act.differences:
        yield f"The {one.name.replace('_', ' ')} is {_short(one.shown)}; {_short(one.asked)} was asked for."
    reason = act.told.reason if act.told is not None else ""
    if not act.verdict.accepted and not reason:
        reason = act.verdict.message
    if reason:
        yield f"Reason: {_short(reason)}"


def _outcome(act: AuditedAct, trust: TrustRequirement) -> str:
    state = believed_state(act, trust)
    if state is None:
        return WORDS[Outcome.BLOCKED] if act.told is None else WORDS[Outcome.FAILED]
    if act.told is None:
        return "Called, no answer recorded"
    if state is State.RECONCILED_SUCCESS:
        return "Reported success, seen in a later read" if act.seen_by else "Reported success (unverified)"
    return WORDS[BY_STATE[state]]


def _title(act: AuditedAct) -> str:
    words = act.call.tool.replace("_", " ").replace(".", " ")
    found = _TARGET.fullmatch(act.verdict.target_resource)
    if found is None or "{" in found[2] or found[2] == act.call.tool:
        return words
    return f"{words} {found[2]}" if found[1] in words.split() else f"{words}, {found[1]} {found[2]}"


def _short(value: Any) -> str:
    text = (
        value if isinstance(value, str) else orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    )
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
