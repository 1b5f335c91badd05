"""Sayings suggested from recordings: words that agents used of a tool's calls, and what its answers then showed.

1. A word is taken from the agent's message right after a call that succeeded, where the agent speaks of no other change
   in it. Only words of effects are looked at: those that end like a participle, and a few of money.
2. A condition is over one field of the answer: a number above or below zero, a truth, one of few texts.
3. A word with a condition is suggested where the condition held each time that the word was used, at least `FEWEST`
   times, and where it failed at least `FEWEST` times without the word: else anything could be the reason.
4. A suggestion is a proposal for a person. `audit_transcripts` with contracts that hold it shows what it would do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from console.transcripts.acts import AuditedAct
from console.transcripts.audit import ConversationAudit
from console.transcripts.records import AGENT
from reviews.guarding.rules.folding import fold
from reviews.observations.rules.observe import ReportedStatus

FEWEST = 3
MOST_WORDS = 8
MOST_TEXTS = 6
_WORD = re.compile(r"[a-z]{4,}")
_EFFECT = re.compile(r"(?:ed|paid|sent|free|given|taken|held|added)\b")
_SENTENCE = re.compile(r"[^.!?\n]+")
_OPEN = re.compile(r"\b(?:will|would|can|could|not|if|may|once|please)\b|n't|\?")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Words of a tool with the condition under which they were used: so often with it, so often missing without it."""

    tool: str
    words: tuple[str, ...]
    when: str
    used: int
    silent: int

    def document(self) -> dict[str, Any]:
        """The saying as a contract has it."""
        return {"words": list(self.words), "when": self.when}


@dataclass(frozen=True, slots=True)
class _Heard:
    """One call that succeeded: the words of effect in the message behind it, and what holds of its answer."""

    words: frozenset[str]
    holds: frozenset[str]


def suggest_sayings(conversations: Iterable[ConversationAudit]) -> list[Suggestion]:
    """The sayings that the recordings bear out, by tool."""
    heard: dict[str, list[_Heard]] = defaultdict(list)
    for one in conversations:
        for act, text in _followed(one):
            heard[act.call.tool].append(_Heard(frozenset(_words(text)), frozenset(_conditions(act))))
    return [each for tool in sorted(heard) for each in _of_tool(tool, heard[tool])]


def _of_tool(tool: str, heard: list[_Heard]) -> Iterator[Suggestion]:
    words = {word for each in heard for word in each.words}
    by_condition: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for word in sorted(words):
        # A word that the answer's own text has says no more than that text.
        conditions = {when for each in heard for when in each.holds if word not in when}
        best = max((_fit(word, when, heard) for when in conditions), default=None)
        if best is not None and best[0] > 0:
            by_condition[best[2]].append((word, best[0], best[1]))
    for when, found in sorted(by_condition.items()):
        most = sorted(found, key=lambda each: -each[1])[:MOST_WORDS]
        yield Suggestion(tool, tuple(each[0] for each in most), when, most[0][1], most[0][2])


def _fit(word: str, when: str, heard: list[_Heard]) -> tuple[int, int, str]:
    """How often a word was used with a condition, and how often neither was there; zero where it was used without."""
    used = sum(word in each.words and when in each.holds for each in heard)
    without = sum(word in each.words and when not in each.holds for each in heard)
    silent = sum(word not in each.words and when not in each.holds for each in heard)
    return (used, silent, when) if not without and used >= FEWEST and silent >= FEWEST else (0, 0, when)


def _followed(one: ConversationAudit) -> Iterator[tuple[AuditedAct, str]]:
    """Each change that succeeded with the next message of the agent, where no other change stands between (rule 1)."""
    changes = [act for act in one.acts if act.mutating and act.told is not None]
    spoken = [turn for turn in one.conversation.turns if turn.role == AGENT and turn.text.strip()]
    for act in changes:
        if act.told is None or act.told.status is not ReportedStatus.SUCCESS or act.answered_at is None:
            continue
        said = next((turn for turn in spoken if turn.number > act.answered_at), None)
        if said is None:
            continue
        before = max((turn.number for turn in spoken if turn.number < act.answered_at), default=-1)
        if sum(before < each.turn < said.number for each in changes) == 1:
            yield act, said.text


def _words(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(fold(text).lower):
        if not _OPEN.search(sentence):
            yield from (word for word in _WORD.findall(sentence) if _EFFECT.search(word))


def _conditions(act: AuditedAct) -> Iterator[str]:
    """The conditions that hold of an answer (rule 2)."""
    content = act.told.content if act.told is not None else None
    for name, value in content.items() if isinstance(content, Mapping) else ():
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
            continue
        if isinstance(value, bool):
            yield f"so.{name}" if value else f"!so.{name}"
        elif isinstance(value, int | float) and value:
            yield f"double(so.{name}) {'>' if value > 0 else '<'} 0.0"
        elif isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w ()-]{1,40}", value):
            yield f'so.{name} == "{value}"'
