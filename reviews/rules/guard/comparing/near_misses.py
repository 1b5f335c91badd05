"""Near misses: values so near to an action's own that they stand in its place, and names behind a mark (C-15).

1. A figure of the same digits in another order ("1.0817" for "1.0871") is the action's own figure, told wrongly, even
   where the message names the right one for something else.
2. A name with one letter more, less or other than the action's ("Elena" for "Helena") is told in its place.
3. What stands behind a sign (#channel, @handle) is of the sort of what an argument has behind that sign.
4. "name=4096": what is set under a name is that name's value in the argument.
5. Hours of a window ("between 8 and 12") are those of the argument that is a window of whole hours.
6. Quoted words on, in or as an argument ("with 'Get well' on the card") are those that the argument holds.
"""

from __future__ import annotations

import re

from reviews.rules.guard.comparing.slots import Slot, Told, stands_in
from reviews.rules.guard.records import Record
from reviews.rules.guard.words.language import english

_FIGURE = re.compile(r"(?<![\w.,:/#-])\d[\d,]*(?:\.\d+)?(?![\w]|[.,:/-]\d)")
_DIGITS = re.compile(r"(?<![\w.,:/-])\d[\d,]*(?:\.\d+)?(?![\w/-]|[.,:]\d)")
FEWEST = 3
"""Fewer digits are often another figure that has the same ones."""


def transposed(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 1."""
    named = [each for each in _plain(_FIGURE.findall(told.about)) if told.is_strange(each)]
    if not named:
        return None
    known = set(_plain(_DIGITS.findall(told.held)))
    for name, text in (*((slot.name, slot.value) for slot in slots), *(("count", each) for each in record.evidence)):
        for own in _plain(_DIGITS.findall(text)):
            if any(_is_transposed(each, own) and each not in known for each in named):
                return name or "target"
    return None


def _plain(found: list[str]) -> list[str]:
    figures = (each.replace(",", "") for each in found)
    return [each for each in figures if sum(map(str.isdigit, each)) >= FEWEST]


def _is_transposed(one: str, other: str) -> bool:
    return one != other and len(one) == len(other) and one.find(".") == other.find(".") and sorted(one) == sorted(other)


_LARGE = re.compile(r"(?<![.!?:]\s)(?<![\n#@/])\b[A-Z\u00c0-\u00de][a-z\u00df-\u00ff]{3,}\b")


def near_letters(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 2."""
    people = english().sets["recipient"] | english().sets["appointed"]
    for slot in slots:
        if slot.name not in people or slot.shown == slot.value:
            continue
        own = [word for word in slot.value.split() if len(word) > NEAR and not stands_in(word, told.whole)]
        for match in _LARGE.finditer(told.shown) if own else ():
            word = match.group().lower()
            if match.start() and any(_is_near(word, each) for each in own) and told.is_strange(word):
                return slot.name
    return None


NEAR = 4
"""Shorter names differ in a letter and are others."""


def _is_near(one: str, other: str) -> bool:
    """Whether two words differ in one letter that the one has and the other has not, or has otherwise."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    short, long = sorted((one, other), key=len)
    same = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


_SIGNED = re.compile(r"(?<![\w#@/])[#@][a-z][\w-]+")


def signed(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 3."""
    named = [each for each in _SIGNED.findall(told.about) if told.is_strange(each[1:])]
    for slot in slots if named else ():
        own = _SIGNED.fullmatch(slot.value)
        if own and not stands_in(slot.value[1:], told.whole) and any(each[0] == slot.value[0] for each in named):
            return slot.name or "target"
    return None


_SET = re.compile(r"(?<![\w-])-{0,2}([a-z][\w.-]+)=([\w.-]*\w)")


def settings(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 4."""
    named = dict(_SET.findall(told.about))
    for slot in slots if named else ():
        for name, value in _SET.findall(slot.value):
            if named.get(name, value) != value and told.is_strange(f"{name}={named[name]}"):
                return slot.name
    return None


_WINDOW = re.compile(r"(\d{1,2})(?::00)?\s?(?:-|\u2013|to)\s?(\d{1,2})(?::00)?")
_HOURS = re.compile(
    r"\b(?:between|from)\s(\d{1,2})\s(?:and|to|till|until)\s(\d{1,2})\b(?!\s?(?:[%.:/]\d|of\b|[a-z]+s\b))"
)


def windows(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 5."""
    named = [(int(one), int(other)) for one, other in _HOURS.findall(told.about)]
    for slot in slots if named else ():
        own = _WINDOW.fullmatch(slot.value)
        if not own or not any(part in slot.name for part in ("window", "slot", "time", "hours")):
            continue
        if all((one - int(own[1])) % 12 or (other - int(own[2])) % 12 for one, other in named):
            return slot.name
    return None


_QUOTED = re.compile(r"(?<!\w)[\"'\u2018\u201c]([^\"'\u2018\u201c\u2019\u201d\n]{4,80})[\"'\u2019\u201d](?!\w)")


def inscriptions(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 6."""
    for match in _QUOTED.finditer(told.about):
        behind = told.about[match.end() : match.end() + 30]
        before = told.about[max(0, match.start() - 30) : match.start()]
        for slot in slots:
            if len(slot.name) < 4 or not slot.name.isalpha() or " " not in slot.value:
                continue
            placed = re.match(rf"\W*(?:on|in|as)\s(?:the|your|its|his|her)\s{slot.name}\b", behind)
            opened = re.search(rf"\b{slot.name}\s?(?:says|reads|saying|reading|is|:|to|as|now)?\s?$", before)
            if (placed or opened) and told.is_strange(match[1].strip(" .,")) and not stands_in(slot.value, told.whole):
                return slot.name
    return None
