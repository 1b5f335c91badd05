"""Sayings: which words of a contract stand in a sentence, and whether they are true of an action (R-CG-02, R-CG-17).

1. The default saying of a tool is its `done` words beside one of its `object` words: true when the action is
   reconciled, uncontradicted and evidenced (`codes`). A done word that begins like an object (`refunded`, `refund`) is
   beside it. Where the contract names no object, the target must be named. Without all that a match `is_bare`.
2. A saying of its own stands by its words alone, and is true where its expression holds over the answer (`so`), the
   read-back (`sa`), the request (`sr`) and the compared fields (`fields`). Where that cannot be told, it is left alone.
3. Words are compared as a reader sees them, in lower case, whole words only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, Truth
from reviews.guarding.rules.folding import fold
from reviews.guarding.rules.records import Record, Tool

VARIABLES = ("fields", "sa", "so", "sr")


@dataclass(frozen=True, slots=True)
class Match:
    """A tool's words in a sentence: where they stand there, and the condition on them; empty for the default saying."""

    tool: Tool
    words: str
    when: str
    start: int
    end: int
    is_bare: bool = False


class Phrases:
    """The words of several tools, to be looked for in one pass."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._meant: dict[str, list[tuple[Tool, str]]] = {}
        for tool in tools:
            explicit = {_folded(word) for saying in tool.sayings for word in saying.words}
            for saying in tool.sayings:
                for word in saying.words:
                    self._add(word, tool, saying.when)
            for word in tool.done:
                if _folded(word) not in explicit:
                    self._add(word, tool, "")
        words = sorted(self._meant, key=len, reverse=True)
        self._words = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])") if words else None
        self._objects = {tool: _any_of(tool.object) for tool in tools if tool.object}

    def _add(self, word: str, tool: Tool, when: str) -> None:
        if _folded(word):
            self._meant.setdefault(_folded(word), []).append((tool, when))

    def may_stand_in(self, text: str) -> bool:
        """Whether any of the words stands in a text in lower case."""
        return self._words is not None and self._words.search(text) is not None

    def matches(self, sentence: str, named: frozenset[str]) -> list[Match]:
        """The words in a sentence in lower case; `named` are the tools whose targets it names (rules 1 and 2)."""
        found = []
        for place in self._words.finditer(sentence) if self._words is not None else ():
            for tool, when in self._meant[place.group()]:
                bare = not when and not self._is_about(tool, place.group(), sentence, named)
                found.append(Match(tool, place.group(), when, place.start(), place.end(), bare))
        return found

    def has_object(self, tool: Tool, sentence: str) -> bool:
        """Whether a sentence in lower case speaks of a tool's object."""
        objects = self._objects.get(tool)
        return objects is not None and objects.search(sentence) is not None

    def _is_about(self, tool: Tool, words: str, sentence: str, named: frozenset[str]) -> bool:
        objects = self._objects.get(tool)
        if objects is None or tool.name in named:
            return tool.name in named
        return self.has_object(tool, sentence) or any(words.startswith(each.lower()) for each in tool.object)


@lru_cache(maxsize=4096)
def phrases_of(tools: tuple[Tool, ...]) -> Phrases:
    """The words of these tools, made ready once."""
    return Phrases(tools)


def holds(when: str, record: Record) -> bool | None:
    """Whether the condition of a saying holds for an action; None where that cannot be told."""
    try:
        expression = expressions.compile(when, dict.fromkeys(VARIABLES))
    except BadExpression:
        return None
    truth = expressions.evaluate(expression, bindings(record)).truth
    return None if truth is Truth.UNDECIDABLE else truth is Truth.TRUE


def sides_of(when: str, record: Record) -> str:
    """What the left side of a condition comes to, as `payment is 0`; empty where it is no comparison of a field."""
    expression = expressions.compile(when, dict.fromkeys(VARIABLES))
    if expression.sides is None or not re.fullmatch(r"(?:so|sa|sr)(?:\.\w+)+", expression.sides[0].text):
        return ""
    value = expressions.display_value(expression.sides[0], bindings(record))
    name = expression.sides[0].text.rpartition(".")[2].replace("_", " ")
    return f"{name} is {value}" if value is not None else ""


def bindings(record: Record) -> dict[str, Mapping[str, Any]]:
    """What the conditions of sayings see of an action."""
    compared = {each.name: {"asked": each.asked, "shown": each.shown, "same": each.same} for each in record.fields}
    shown = {"so": record.answer, "sa": record.reading, "sr": record.arguments, "fields": compared}
    return {name: without_fractions(value) for name, value in shown.items()}


def without_fractions(value: Any) -> Any:
    """A value as expressions can carry it: whole numbers as integers, fractions as text (`double(so.fee) > 0.0`)."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, Mapping):
        return {str(name): without_fractions(each) for name, each in value.items()}
    return [without_fractions(each) for each in value] if isinstance(value, list | tuple) else value


def _folded(word: str) -> str:
    return " ".join(fold(word).lower.split())


def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    folded = sorted(filter(None, map(_folded, words)), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, folded))})(?:e?s)?(?!\w)")
