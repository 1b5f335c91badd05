"""Deeds: reports of a completed effect, found by the verbs of a language and tied to the changes on record.

1. The verbs, the forms in which they report and what leaves them open are data (`deeds.json`), one set for each
   language. In a language without one nothing is concluded.
2. `own` is a report in the first person (`I've sent the email`), also of a second verb behind it (`and updated it`);
   `passive` tells a result (`the order has been cancelled`); `whole` says that everything is done. `short` forms
   (`Email sent.`) are reports only where somebody asks for strictness, and a `state` (`your room is booked`) only
   after a change that failed: elsewhere it may have been read.
3. A deed is tied to a change by its verb: by the words of its tool, of an argument that names the real action, or of
   what its answer shows. A verb that fits any change (`processed`) is tied to each.
4. What is only written in the message (`I've created a summary`) is no deed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from reviews.guarding.rules.records import Record, Tool, leaves

_DATA: Mapping[str, Mapping[str, Any]] = json.loads(files("reviews.guarding.rules").joinpath("deeds.json").read_bytes())
_WORDS = re.compile(r"[^a-z0-9]+")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CLAUSE = re.compile(r"[,;:\u2014]| (?:but|however|although|though|because|since) ")
MOST_SHOWN = 200
LONGEST_WORD = 24


class Deed(NamedTuple):
    """A report in a sentence: its verb, its position, and its grammatical form."""

    verb: str
    start: int
    end: int
    form: str


class Promise(NamedTuple):
    """An announcement in the first person: its verb, and the words of tools that could do it."""

    verb: str
    abilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verbs:
    """The verbs of a language, made ready."""

    own: re.Pattern[str]
    passive: re.Pattern[str]
    state: re.Pattern[str]
    following: re.Pattern[str]
    new_subject: re.Pattern[str]
    whole: re.Pattern[str]
    short: re.Pattern[str]
    short_whole: re.Pattern[str]
    open: re.Pattern[str]
    open_after: re.Pattern[str]
    own_words: re.Pattern[str]
    own_words_of: frozenset[str]
    any_change: frozenset[str]
    families: Mapping[str, frozenset[str]]
    promise: re.Pattern[str]
    promise_open: re.Pattern[str]
    promises: Mapping[str, frozenset[str]]
    denied: re.Pattern[str]
    denied_passive: re.Pattern[str]

    def may_report(self, text: str, *, strict: bool) -> bool:
        """Return whether a text in lower case may hold a deed."""
        if strict or self.own.search(text) or self.passive.search(text):
            return True
        return "all " in text or "everything" in text

    def may_promise(self, text: str) -> bool:
        """Return whether a text in lower case may hold a promise."""
        return self.promise.search(text) is not None

    def deeds_in(self, sentence: str, *, strict: bool = False, after_failure: bool = False) -> list[Deed]:
        """The deeds that a sentence in lower case reports (rules 2 and 4)."""
        found = list(self._first_person(sentence))
        found += [_read_deed(each, "passive") for each in self.passive.finditer(sentence)]
        if after_failure:
            found += [_read_deed(each, "state") for each in self.state.finditer(sentence)]
        bare = sentence.strip(" *_#->\u2022")
        if whole := self.whole.search(bare) or (self.short_whole.search(bare) if strict else None):
            found.append(Deed("", whole.start(), whole.end(), "whole"))
        if strict and not found and (short := self.short.search(bare)):
            found.append(_read_deed(short, "short"))
        if not found or self.open_after.search(sentence):
            return []
        return [each for each in found if not self._is_open(sentence, each)]

    def _first_person(self, sentence: str) -> Iterator[Deed]:
        for first in self.own.finditer(sentence):
            yield _read_deed(first, "own")
            at = first.end()
            for each in self.following.finditer(sentence, first.end()):
                if self.new_subject.search(sentence, at, each.start()) or _ends(sentence, at, each.start()):
                    break
                yield _read_deed(each, "own")
                at = each.end()

    def _is_open(self, sentence: str, deed: Deed) -> bool:
        cuts = [each.end() for each in _CLAUSE.finditer(sentence, 0, deed.start) if each.group() != ","]
        if deed.form != "whole" and self.open.search(sentence, cuts[-1] if cuts else 0, deed.start):
            return True
        return deed.verb in self.own_words_of and self.own_words.match(sentence[deed.end :]) is not None

    def fits(self, deed: Deed, record: Record) -> bool:
        """Return True if a change can be what a deed reports (rule 3)."""
        if deed.verb in self.any_change or not deed.verb:
            return True
        return bool(self.families[deed.verb] & deed_words(record))

    def promises_in(self, sentence: str) -> list[Promise]:
        """The promises of a sentence in lower case that has no condition."""
        found = [Promise(each["verb"], self.promises[each["verb"]]) for each in self.promise.finditer(sentence)]
        return [] if found and (sentence.endswith("?") or self.promise_open.search(sentence)) else found

    def is_denied(self, sentence: str, record: Record, objects: Iterable[str]) -> bool:
        """Return True if a sentence in lower case states that exactly what a change did was not possible, or failed."""
        words = deed_words(record) | {word for each in objects for word in each.lower().split()}
        for found in self.denied.finditer(sentence):
            if found["base"] in words:
                return True
        for found in self.denied_passive.finditer(sentence):
            if found["object"] in words or (found["deed"] and self.families.get(found["deed"], frozenset()) & words):
                return True
        return False


@lru_cache(maxsize=32)
def verbs_of(language: str) -> Verbs | None:
    """Return the verbs of a language (`en`, `de-AT`); None if there is no list for it (rule 1)."""
    data = _DATA.get(language.lower()) or _DATA.get(language.lower().partition("-")[0])
    return _compile_verbs(data) if data is not None else None


def _compile_verbs(data: Mapping[str, Any]) -> Verbs:
    verbs, promises = _alternatives(data["verbs"]), _alternatives(data["promises"])

    def pattern(name: str) -> re.Pattern[str]:
        return re.compile(data[name].replace("VERBS", verbs).replace("PROMISES", promises))

    return Verbs(
        own=pattern("own"),
        passive=pattern("passive"),
        state=pattern("state"),
        following=pattern("and"),
        new_subject=pattern("new_subject"),
        whole=pattern("whole"),
        short=pattern("short"),
        short_whole=pattern("short_whole"),
        open=pattern("open"),
        open_after=pattern("open_after"),
        own_words=pattern("own_words"),
        own_words_of=frozenset(data["own_words_of"]),
        any_change=frozenset(data["any"]),
        families={verb: frozenset(words) for verb, words in data["verbs"].items()},
        promise=pattern("promise"),
        promise_open=pattern("promise_open"),
        promises={verb: frozenset(words) for verb, words in data["promises"].items()},
        denied=pattern("denied"),
        denied_passive=pattern("denied_passive"),
    )


def _alternatives(words: Iterable[str]) -> str:
    return "(?:" + "|".join(map(re.escape, sorted(words, key=len, reverse=True))) + ")"


def _read_deed(found: re.Match[str], form: str) -> Deed:
    return Deed(found["verb"], found.start(), found.end(), form)


def _ends(sentence: str, start: int, end: int) -> bool:
    """Return True if a clause with its own subject begins between two positions."""
    return any(mark in sentence[start:end] for mark in (";", ":", " i ", " we ", "'ve"))


@lru_cache(maxsize=4096)
def words_of(name: str) -> frozenset[str]:
    """The words of a tool's name, in lower case."""
    return frozenset(word for word in _WORDS.split(_CAPITAL.sub("_", name).lower()) if word)


def ability_words(tool: Tool) -> frozenset[str]:
    """Return the words for what a tool can do: those of its name, its description and its phrases."""
    return (
        words_of(tool.name) | words_of(tool.description[:MOST_SHOWN]) | words_of(" ".join((*tool.done, *tool.object)))
    )


def deed_words(record: Record) -> frozenset[str]:
    """Return the words for what a change did: those of its tool, of short arguments, and of its answer."""
    named = {word for each in leaves(record.arguments) if isinstance(each, str) for word in _short_words(each)}
    shown = {word for each in (*leaves(record.answer), *record.answer) for word in _short_words(str(each))}
    return words_of(record.tool) | named | {_stem(word) for word in shown} | shown


def _short_words(text: str) -> Iterable[str]:
    return words_of(text) if len(text) <= MOST_SHOWN else ()


def _stem(word: str) -> str:
    return word.removesuffix("ed").removesuffix("led") if len(word) <= LONGEST_WORD else word
