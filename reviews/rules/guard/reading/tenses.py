"""Tenses: when a result is told to have come about, and whether it is told of one thing or as a rule.

1. "Has been sent" and "is sent now" tell what has just come about; "is closed" tells a condition, "was sent" a story,
   and "ticket opened" reports without a verb that has a tense.
2. A rule has a subject without an article in the plural, or any one of its sort ("late requests are returned", "a new
   ticket is created"), in the plain present, or stands beside a condition. It tells of no one thing; what has a number
   is one thing ("a refund of 59 euros is on its way").
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from reviews.rules.guard.words.language import Language


class Tense(StrEnum):
    """How a result is told (rules 1 and 2)."""

    FRESH = "fresh"
    CONDITION = "condition"
    STORY = "story"
    SHORT = "short"
    RULE = "rule"


RESULTS = frozenset({"state", "was done", "went through", "did", "done, told in short", "being done"})
"""Rules whose words tell a result, and not who brought it about."""
_PERFECT = frozenset({"has", "have", "been", "went", "being"})
_PRESENT = frozenset({"is", "are", "'s", "am", "remains", "stays"})
_PAST = frozenset({"was", "were", "got"})
_FRESH = frozenset({"now", "already", "just", "today", "hereby"})


def tense(words: Sequence[str], at: int, language: Language, *, beside_condition: bool) -> Tense:
    """The tense of a result whose predicate stands at a place."""
    before = set(words[max(0, at - 4) : at + 1])
    if before & _PERFECT or (before & _PRESENT and set(words) & _FRESH):
        return Tense.FRESH
    if before & _PAST:
        return Tense.STORY
    if not before & _PRESENT:
        return Tense.SHORT
    return Tense.RULE if beside_condition or _is_any(words[: at + 1], language) else Tense.CONDITION


def is_perfect(words: Sequence[str], at: int, lead: str) -> bool:
    """Whether a result is told in the present perfect: "has been sent", "has gone out"; "that has been sent" is none.

    "Was successfully sent" reports like it. What follows "that" or "which" tells which thing is meant.
    """
    before = words[max(0, at - 4) : at + 1]
    if "successfully" in words and not (_PAST | _PRESENT).isdisjoint(before):
        return True
    if not {"has", "have", "'s"} & set(before) or not {"been", "gone", "went"} & set(before):
        return False
    return lead not in {"that", "which", "who", "whose"} or words[0] not in {"has", "have"}


def _is_any(words: Sequence[str], language: Language) -> bool:
    """Whether the subject is any one of its sort (rule 2)."""
    subject = next((words[:index] for index, word in enumerate(words) if word in _PRESENT), ())
    if words[0] in {"a", "an"}:
        return all(word.isalpha() for word in subject)
    definite = any(word in language.sets["determiners"] or not word.isalpha() for word in subject)
    return bool(subject) and not definite and subject[-1].endswith("s") and "are" in words
