"""Relating: how much of what an action holds the words of a claim name.

1. A value that the action holds, and a word of its target or arguments, tell most; then the nouns and the verb of its
   tool.
"""

from __future__ import annotations

from reviews.rules.guard.binding.fitting import verb_score
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.text.values import Held, compare
from reviews.rules.guard.words.vocabulary import vocabulary

RELATED = 2


def related(claim: Claim, record: Record, ground: Ground) -> int:
    """How much a claim names of what an action holds."""
    own = holding(record)
    tool = tool_of(record.tool, ground)
    score = 0
    for value in claim.values:
        if value.sort != "number" and compare(value, own) == 1:
            score += 2
    for word in claim.nouns & own.words:
        if len(word) > 2 and not word.isdigit():
            score += 2
    if tool is not None:
        vocab = vocabulary(tool)
        score += len(claim.nouns & vocab.nouns) + 2 * bool(claim.verbs & vocab.verbs)
        score += verb_score(claim.verbs | claim.meaning, vocab) > 0
    return score


def holding(record: Record) -> Held:
    """The values that a record holds, its evidence among them."""
    return record.held


def tool_of(name: str | None, ground: Ground) -> Tool | None:
    """The disclosed tool of this name."""
    return ground.disclosed.get(name) if name is not None else None


def has_read(ground: Ground) -> bool:
    """Whether anything on record is a reading."""
    return bool(ground.reads)


def is_mutating(record: Record, ground: Ground) -> bool:
    """Whether an action is of a tool that changes something."""
    return record.tool in ground.changing
