"""Replacement: the message with the console's lines in place of replaced sentences, and everything else verbatim.

1. Only the span of a contradicted sentence is replaced. A line is told once: where a second sentence would give way to
   the same line, it goes without one.
2. A citation outside such a sentence is filled with what the record holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reviews.guarding.rules.effects import MoneyEffect
from reviews.guarding.rules.receipt import Line, difference, title
from reviews.guarding.rules.records import Record, Tool

_GAPS = re.compile(r"[ \t]{2,}")


class Replacement(NamedTuple):
    """A span of the message, and the text that replaces it."""

    span: tuple[int, int]
    text: str
    is_line: bool


def rewritten(message: str, changes: Iterable[Replacement]) -> str:
    """The message with its changes made (rules 1 and 2); of two that overlap the first one counts."""
    made: list[str] = []
    told: set[str] = set()
    at = 0
    for change in sorted(changes, key=lambda each: (each.span[0], not each.is_line)):
        start, end = change.span
        if start < at:
            continue
        before = message[at:start]
        if change.is_line and change.text in told:
            made.append(before.rstrip(" "))
        else:
            made.append(before)
            made.append(_separate(made, change.text) if start == end and change.is_line else change.text)
        if change.is_line:
            told.add(change.text)
        at = end
    made.append(message[at:])
    return "".join(made)


def _separate(made: Sequence[str], text: str) -> str:
    """Return a line for the end of a message, separated from the text before it."""
    return f"\n{text}" if "".join(made).strip() else text


def differing_line(record: Record, names: Iterable[str]) -> str:
    """The replacement for a sentence that states the requested value where another is shown."""
    wanted = set(names)
    return " ".join(difference(each).text for each in record.differing if each.name in wanted)


def untrue_line(record: Record, words: str, sides: str) -> str:
    """The replacement for a sentence that is untrue of a successful action."""
    detail = f": {sides}" if sides else ""
    return f"The record does not show “{words}” for {title(record)}{detail}."


def direction_line(record: Record, effect: MoneyEffect) -> str:
    """Return the replacement for a sentence that reverses the direction of an amount."""
    other = "charged" if effect.direction < 0 else "paid back"
    return f"The record shows for {title(record)}: {effect.amount:.2f} {effect.words}, not {other}."


def phantom_line(tool: Tool, objects: Sequence[str]) -> str:
    """The replacement for a sentence about an action that was never attempted."""
    what = f" ({objects[0]})" if objects else ""
    if not tool.disclosed:
        return f"Not done{what}: there is no tool for that here, and no such action is on record."
    return f"Not done{what}: no such action is on record."


def foreign_line(line: Line, sort: str) -> str:
    """The replacement for a sentence that names another amount, address or id than the action has."""
    return f"{line.text} No other {sort} is on record for it."
