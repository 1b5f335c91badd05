"""Sayings suggested from recordings: words of agents about a tool's calls, and what its answers showed.

1. A word is taken from the agent's message right after a call that succeeded, where the agent speaks of no other change
   in it. Only words of effects are looked at: those that end like a participle, and a few of money, without those that
   tell the call itself (`cancelled`).
2. A condition is over one field of the answer, or of the last member of a list in it: a number above or below zero, a
   truth, one of few texts.
3. A word with a condition is suggested where the condition held whenever the word was used, in at least `CONVERSATIONS`
   conversations and of `TARGETS` different targets; where it failed at least `FEWEST` times without the word; and
   where words that have nothing to do with it would fall together so in no more than `BY_CHANCE` of all cases: else
   anything could be the reason.
4. A suggestion is a proposal for a person. The audit with contracts that hold it shows what it would do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any

from counterfoil_transcripts.acts import AuditedAct
from counterfoil_transcripts.audit import ConversationAudit
from counterfoil_transcripts.offers import guard_tool
from counterfoil_transcripts.reading.records import AGENT
from reviews.guarding.rules.folding import fold
from reviews.observations.rules.observe import ReportedStatus

FEWEST = 3
CONVERSATIONS = 5
TARGETS = 3
"""A word is used in so many conversations or more, and of so many different targets; fewer are an accident."""
BY_CHANCE = 0.05
MOST_WORDS = 8
MOST_TEXTS = 6
_WORD = re.compile(r"[a-z]{4,}")
_EFFECT = re.compile(r"(?:ed|paid|sent|free|given|taken|held|added)\b|\b(?:refund|charge|credit|payment|fee)s?\b")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SENTENCE = re.compile(r"[^.!?\n]+")
_OPEN = re.compile(r"\b(?:would|can|could|not|if|may|once|please)\b|n't|\?")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Words of a tool with the condition of their use: the number of uses with it, and of absences without it."""

    tool: str
    words: tuple[str, ...]
    when: str
    used: int
    silent: int

    def document(self) -> dict[str, Any]:
        """The saying in a contract's form."""
        return {"words": list(self.words), "when": self.when}


@dataclass(frozen=True, slots=True)
class _Heard:
    """One successful call: the effect words in the message after it, and the conditions true of its answer."""

    words: frozenset[str]
    holds: frozenset[str]
    conversation: int
    target: str


def suggest_sayings(conversations: Iterable[ConversationAudit]) -> list[Suggestion]:
    """The sayings that the recordings support, by tool."""
    heard: dict[str, list[_Heard]] = defaultdict(list)
    for number, one in enumerate(conversations):
        for act, text in _with_next_message(one):
            told = frozenset(_words(text)) - _deed_words(act)
            heard[act.call.tool].append(_Heard(told, frozenset(_conditions(act)), number, act.verdict.target_resource))
    return [each for tool in sorted(heard) for each in _of_tool(tool, heard[tool])]


def _of_tool(tool: str, heard: list[_Heard]) -> Iterator[Suggestion]:
    words = {word for each in heard for word in each.words}
    by_condition: dict[str, list[_Fit]] = defaultdict(list)
    for word in sorted(words):
        # A word that the answer's own text has says no more than that text.
        conditions = {when for each in heard for when in each.holds if word not in when}
        fits = [fit for when in sorted(conditions) if (fit := _fit(word, when, heard)) is not None]
        if fits:
            best = max(fits, key=lambda each: (each.used, each.silent, each.when))
            by_condition[best.when].append(best)
    for when, found in sorted(by_condition.items()):
        most = sorted(found, key=lambda each: -each.used)[:MOST_WORDS]
        yield Suggestion(tool, tuple(each.word for each in most), when, most[0].used, most[0].silent)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The counts of a word and a condition: used with it, and neither."""

    word: str
    when: str
    used: int
    silent: int


def _fit(word: str, when: str, heard: list[_Heard]) -> _Fit | None:
    uses = [each for each in heard if word in each.words]
    silent = sum(word not in each.words and when not in each.holds for each in heard)
    if silent < FEWEST or any(when not in each.holds for each in uses):
        return None
    if len({each.conversation for each in uses}) < CONVERSATIONS or len({each.target for each in uses}) < TARGETS:
        return None
    return _Fit(word, when, len(uses), silent) if _chance(len(uses), silent, len(heard)) <= BY_CHANCE else None


def _chance(uses: int, silent: int, calls: int) -> float:
    """The probability that all uses fall on calls where the condition holds, if the two are independent."""
    return comb(calls - silent, uses) / comb(calls, uses)


def _with_next_message(conversation: ConversationAudit) -> Iterator[tuple[AuditedAct, str]]:
    """Each successful change with the agent's next message, if no other change is between them (rule 1)."""
    changes = [act for act in conversation.acts if act.mutating and act.told is not None]
    spoken = [turn for turn in conversation.conversation.turns if turn.role == AGENT and turn.text.strip()]
    for act in changes:
        if act.told is None or act.told.status is not ReportedStatus.SUCCESS or act.answered_at is None:
            continue
        said = next((turn for turn in spoken if turn.number > act.answered_at), None)
        if said is None:
            continue
        before = max((turn.number for turn in spoken if turn.number < act.answered_at), default=-1)
        if sum(before < each.turn < said.number for each in changes) == 1:
            yield act, said.text


def _deed_words(act: AuditedAct) -> frozenset[str]:
    """The words that describe the call itself, and not its effect."""
    done = guard_tool(act.contract, act.call.tool).done if act.contract is not None else ()
    return frozenset(word for each in done for word in each.lower().split())


def _words(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(fold(text).lower):
        if not _OPEN.search(sentence):
            yield from (word for word in _WORD.findall(sentence) if _EFFECT.search(word))


def _conditions(act: AuditedAct) -> Iterator[str]:
    """The conditions that hold of an answer (rule 2)."""
    content = act.told.content if act.told is not None else None
    for name, value in content.items() if isinstance(content, Mapping) else ():
        if not _NAME.fullmatch(str(name)):
            continue
        yield from _holding(f"so.{name}", value)
        if isinstance(value, list) and value and isinstance(value[-1], Mapping):
            for inner, each in value[-1].items():
                if _NAME.fullmatch(str(inner)):
                    yield from _holding(f"so.{name}[size(so.{name}) - 1].{inner}", each)


def _holding(place: str, value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        yield place if value else f"!{place}"
    elif isinstance(value, int | float) and value:
        yield f"double({place}) {'>' if value > 0 else '<'} 0.0"
    elif isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w ()-]{1,40}", value):
        yield f'{place} == "{value}"'
