"""Slots: the arguments of an action, and the words in which another value could stand in their place (C-15).

1. Free text (a body, a reason, a query) holds values and is no slot.
2. Words stand in a text as whole words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from reviews.rules.guard.records import Record
from reviews.rules.guard.text.values import leaves
from reviews.rules.guard.words.language import english

FREE = frozenset({"text", "body", "message", "note", "reason", "sql", "query", "content", "comment", "description"})
MOST = 120
COUNTS: dict[str, int] = english().data["reading"]["numbers"]
_TENS = "|".join(word for word, number in COUNTS.items() if number >= 20)
NUMERAL = rf"(?:(?:{_TENS})[- ](?:{'|'.join(list(COUNTS)[:9])})|{'|'.join(sorted(COUNTS, key=len, reverse=True))})"
"""A number in words: "seven", "thirty-six"."""


@dataclass(frozen=True)
class Slot:
    """One argument of an action: its name, its value as told, in lower case."""

    name: str
    value: str
    shown: str


@dataclass(frozen=True)
class Told:
    """What is said of an action: the words about it, and the whole message, in lower case; all that is on record."""

    about: str
    whole: str
    held: str
    shown: str

    def is_strange(self, text: str) -> bool:
        """Whether no record holds these words (rule 3)."""
        return not stands_in(text, self.held)


def slots_of(record: Record) -> Iterator[Slot]:
    """The slots of an action: its arguments and the parts of its target (rule 1)."""
    for name, leaf in leaves(record.arguments):
        text = str(leaf)
        if isinstance(leaf, bool) or not text or len(text) > MOST or name.lower() in FREE:
            continue
        yield Slot(name.lower(), text.lower(), text)
    for part in record.target.split("/")[1:]:
        yield Slot("", part.lower(), part)


def stands_in(part: str, text: str) -> bool:
    """Whether words stand in a text (rule 2)."""
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if not (text[at - 1 : at].isalnum() and part[0].isalnum()) and not (
            text[end : end + 1].isalnum() and part[-1].isalnum()
        ):
            return True
        at = text.find(part, at + 1)
    return False


def decimal_of(text: str) -> Decimal | None:
    """A figure as a number; none where it is none."""
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None


def numbers_in(text: str) -> set[Decimal]:
    """The numbers of a text, in figures and in words."""
    return {counted(each) for each in _FIGURES.findall(text)}


_FIGURES = re.compile(rf"\d{{1,3}}(?:[, ]\d{{3}})+(?!\d)|\d+(?:\.\d+)?|\b{NUMERAL}\b")


def counted(text: str) -> Decimal:
    """A number in figures or in words."""
    if text[0].isalpha():
        return Decimal(sum(COUNTS[part] for part in re.split("[- ]", text)))
    return Decimal(text.replace(",", "").replace(" ", ""))
