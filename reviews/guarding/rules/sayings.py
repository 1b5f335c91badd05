"""Sayings: finds the words of a contract in a sentence, and whether they are true of an action (R-CG-02, R-CG-17).

1. The default saying of a tool is its `done` words beside one of its `object` words: true when the action is
   reconciled, uncontradicted and evidenced (`codes`). A done word that begins like an object (`refunded`, `refund`) is
   beside it. Where the contract names no object, the target must be named. Without all that a match `is_bare`.
2. A saying of its own stands by its words alone, of what was done and of what comes of it. It is true where its
   expression holds over the answer (`so`), the read-back (`sa`), the request (`sr`) and the compared fields (`fields`).
   Where that cannot be told, it is left alone.
3. The deed of a done word may be told as a thing that was carried out (`the cancellation has been processed`): its noun
   stands near the beginning of the sentence, and a word of completion behind it. What is only started or requested so
   (`is_start`) needs no more than that the action was taken on.
4. Words are compared as a reader sees them, in lower case, whole words only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, Truth
from reviews.guarding.rules import wording
from reviews.guarding.rules.folding import fold
from reviews.guarding.rules.records import Record, Tool

MOST_BEFORE = 5
"""So many words may stand before the noun of a deed."""
SHORTEST = 5
_IRREGULAR = {"paid": ("payment",), "bought": ("purchase",), "sold": ("sale",), "undone": ("undoing",)}
_NO_DEEDS = frozenset(("issue", "process", "order", "item", "set", "complete", "request", "not", "charge"))
_PLACE = re.compile(r"(?:double\()?(?:so|sa|sr)(?:\.\w+|\[size\([\w.]+\) - 1\])*\.(\w+)\)?")
VARIABLES = ("fields", "sa", "so", "sr")


@dataclass(frozen=True, slots=True)
class Match:
    """A tool's words in a sentence: their position, and their condition; empty for the default saying."""

    tool: Tool
    words: str
    when: str
    start: int
    end: int
    is_bare: bool = False
    is_deed: bool = False
    is_start: bool = False


class Phrases:
    """The words of several tools, for searching in one pass."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._meant: dict[str, list[tuple[Tool, str]]] = {}
        for tool in tools:
            explicit = {_fold_word(word) for saying in tool.sayings for word in saying.words}
            for saying in tool.sayings:
                for word in saying.words:
                    self._add(word, tool, saying.when)
            for word in tool.done:
                if _fold_word(word) not in explicit:
                    self._add(word, tool, "")
        words = sorted(self._meant, key=len, reverse=True)
        self._words = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])") if words else None
        self._word_parts = _shortest(words)
        self._objects = {tool.object: _any_of(tool.object) for tool in tools if tool.object}
        self._deeds: dict[str, list[Tool]] = {}
        for tool in tools:
            for noun in {noun for word in tool.done for noun in deed_nouns(_fold_word(word))} if tool.mutating else ():
                self._deeds.setdefault(noun, []).append(tool)
        self._nouns = _any_of(tuple(self._deeds)) if self._deeds else None
        self._noun_parts = _shortest(map(_fold_word, self._deeds))

    def _add(self, word: str, tool: Tool, when: str) -> None:
        if _fold_word(word):
            self._meant.setdefault(_fold_word(word), []).append((tool, when))

    def may_stand_in(self, text: str) -> bool:
        """Return True if any of the words may occur in a text in lower case."""
        # A plain search for the parts comes first: it costs a tenth of the pattern, and most sentences hold none.
        if self._words is not None and any(map(text.__contains__, self._word_parts)) and self._words.search(text):
            return True
        if self._nouns is None or not any(map(text.__contains__, self._noun_parts)):
            return False
        return self._nouns.search(text) is not None and wording.may_complete(text)

    def matches(self, sentence: str, named: frozenset[str]) -> list[Match]:
        """Return the words in a sentence in lower case; `named` are the tools whose targets it names
        (rules 1 and 2).
        """
        found = []
        for place in self._words.finditer(sentence) if self._words is not None else ():
            for tool, when in self._meant[place.group()]:
                bare = not when and not self._is_about(tool, place.group(), sentence, named)
                found.append(Match(tool, place.group(), when, place.start(), place.end(), bare))
        return found or self._completed_deeds(sentence)

    def _completed_deeds(self, sentence: str) -> list[Match]:
        """Return the deeds that a sentence reports as carried out (rule 3)."""
        noun = self._nouns.search(sentence) if self._nouns is not None else None
        end = wording.completion(sentence, noun.end()) if noun is not None else None
        if noun is None or end is None or len(sentence[: noun.start()].split()) > MOST_BEFORE:
            return []
        is_start = wording.is_start(sentence, noun.end(), end)
        tools = self._deeds.get(noun[1]) or self._deeds.get(noun.group(), [])
        return [Match(tool, noun[1], "", noun.start(), end, is_deed=True, is_start=is_start) for tool in tools]

    def has_object(self, tool: Tool, sentence: str) -> bool:
        """Return whether a sentence in lower case names a tool's object."""
        objects = self._objects.get(tool.object)
        return objects is not None and objects.search(sentence) is not None

    def _is_about(self, tool: Tool, words: str, sentence: str, named: frozenset[str]) -> bool:
        objects = self._objects.get(tool.object)
        if objects is None or tool.name in named:
            return tool.name in named
        return self.has_object(tool, sentence) or any(words.startswith(each.lower()) for each in tool.object)


@lru_cache(maxsize=4096)
def deed_nouns(done: str) -> frozenset[str]:
    """Return the possible nouns for a done word (`cancelled`: cancellation); forms that do not exist do no harm."""
    if not done.endswith("ed") or " " in done or len(done) < SHORTEST:
        return frozenset(_IRREGULAR.get(done, ()))
    if done.endswith("ied"):
        return frozenset({f"{done[:-3]}y", f"{done[:-3]}ication"})
    stem = done[:-2]
    nouns = {f"{stem}{end}" for end in ("", "e", "ing", "ation", "ion", "ition", "ment", "al", "ure")}
    if stem[-1] == stem[-2]:
        nouns |= {stem[:-1], f"{stem}ing"}
    return frozenset(nouns) - _NO_DEEDS


@lru_cache(maxsize=4096)
def phrases_of(tools: tuple[Tool, ...]) -> Phrases:
    """Return the words of these tools, prepared once."""
    return Phrases(tools)


def holds(when: str, record: Record) -> bool | None:
    """Return True if the condition of a saying holds for an action; None if that cannot be decided."""
    try:
        expression = expressions.compile(when, dict.fromkeys(VARIABLES))
    except BadExpression:
        return None
    truth = expressions.evaluate(expression, bindings(record)).truth
    return None if truth is Truth.UNDECIDABLE else truth is Truth.TRUE


def sides_of(when: str, record: Record) -> str:
    """Return the sides of a condition, as of `payment is 0`; empty if it does not compare a field."""
    expression = expressions.compile(when, dict.fromkeys(VARIABLES))
    place = _PLACE.fullmatch(expression.sides[0].text) if expression.sides is not None else None
    if expression.sides is None or place is None:
        return ""
    value = expressions.display_value(expression.sides[0], bindings(record))
    name = place[1].replace("_", " ")
    return f"{name} is {str(value).removesuffix('.0')}" if value is not None else ""


def bindings(record: Record) -> dict[str, Mapping[str, Any]]:
    """The variables of an action that conditions of sayings can use."""
    compared = {each.name: {"asked": each.asked, "shown": each.shown, "same": each.same} for each in record.fields}
    shown = {"so": record.answer, "sa": record.reading, "sr": record.arguments, "fields": compared}
    return {name: without_fractions(value) for name, value in shown.items()}


def without_fractions(value: object) -> Any:
    """A value as expressions can carry it: whole numbers as integers, fractions as text (`double(so.fee) > 0.0`)."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, Mapping):
        return {str(name): without_fractions(each) for name, each in value.items()}
    return [without_fractions(each) for each in value] if isinstance(value, list | tuple) else value


def _shortest(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that contain no other of them: a text without these contains none of the others."""
    kept: list[str] = []
    for word in sorted(filter(None, words), key=len):
        if not any(each in word for each in kept):
            kept.append(word)
    return tuple(kept)


def _fold_word(word: str) -> str:
    return " ".join(fold(word).lower.split())


def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    folded = sorted(filter(None, map(_fold_word, words)), key=len, reverse=True)
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, folded))})(?:e?s)?(?!\w)")
