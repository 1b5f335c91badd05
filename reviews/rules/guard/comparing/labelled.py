"""What is told as the result, or under the name of an argument, in the place of its value (C-15).

1. "The grade of A-", "seat: 14C": what stands behind the name of an argument is told of that argument, where it looks
   like a value: it has a figure, or is written large.
2. "Marked Closed Won", "set to High": what a change of a condition came to is told of the argument that holds a
   condition (a stage, a status, a priority), where it is written large.
3. "Branch redis-bump", "the spring-eu list": a name of several parts beside the name of an argument is told of it.
"""

from __future__ import annotations

import re

from reviews.rules.guard.comparing.slots import Slot, Told, stands_in
from reviews.rules.guard.records import Record

CONDITIONS = frozenset(
    {"stage", "status", "priority", "severity", "tier", "plan", "level", "category", "mode", "label", "role", "class"}
)
_TO = re.compile(
    r"\b(?:marked|moved|set|changed|switched|bumped|raised|lowered|downgraded|upgraded|put|transitioned|flipped)"
    r"(?:\s(?:as|to|in|into|on|down to|up to))?\s(?:the\s)?([A-Z][\w-]*(?:\s[A-Z][\w-]*)?)"
)


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def labelled(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 1."""
    for slot in slots:
        if len(slot.name) < 4 or not slot.name.isalpha() or slot.name not in told.about:
            continue
        if stands_in(slot.value, told.whole):
            continue
        named = re.search(rf"\b{slot.name}\s?(?:of|is|is now|now|as|to|:|=|-)\s?([\w.,+-]+)", told.shown, re.IGNORECASE)
        value = _THOUSANDS.sub("", named[1].rstrip(".,")) if named else ""
        if (
            value.lower() != slot.value
            and _is_value(value)
            and _is_value(slot.shown)
            and told.is_strange(value.lower())
        ):
            return slot.name
    return None


_PARTED = r"([a-z0-9]+(?:[-_./][a-z0-9]+)+)"


def codes(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 3."""
    for slot in slots:
        if len(slot.name) < 4 or not slot.name.isalpha() or slot.name not in told.about or " " in slot.value:
            continue
        named = re.search(rf"\b{slot.name}\s{_PARTED}(?![\w@])|(?<![\w@]){_PARTED}\s{slot.name}\b", told.about)
        value = (named[1] or named[2]) if named else ""
        if value and told.is_strange(value) and not stands_in(slot.value, told.whole):
            return slot.name
    return None


def _is_value(text: str) -> bool:
    """Whether a word is a code or a grade rather than a word: it has a figure, or is written large and short."""
    return any(each.isdigit() for each in text) or (len(text) < 5 and text[:1].isupper() and text.upper() == text)


def complements(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 2."""
    held = [slot for slot in slots if slot.name.rpartition("_")[2] in CONDITIONS]
    if len(held) != 1 or stands_in(held[0].value, told.whole):
        return None
    match = _TO.search(told.shown)
    return held[0].name if match and told.is_strange(match[1].lower()) else None
