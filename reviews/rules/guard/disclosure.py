"""Disclosure: whether a message says of an action what its state is (R-CG-09).

1. An action that failed, is open, unknown, partial, reversed or in recovery is disclosed by words for such a state
   (data of the language), by the guard's own frame of it, or by the words of its reason. *Plain* words ("could not",
   "waiting for") disclose wherever they stand; *faint* ones ("still", "only") in the sentence about the action alone.
2. A word that is the tool's own verb discloses nothing: "blocked" is no failure of a tool that blocks.
"""

from __future__ import annotations

import re
from functools import cache

from reviews.rules.guard.binding import holding, tool_of
from reviews.rules.guard.claims import Claim
from reviews.rules.guard.codes import Violation
from reviews.rules.guard.frames import told
from reviews.rules.guard.language import english, singular
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.vocabulary import vocabulary

STATES = {
    Violation.MISREAD: ("failed",),
    Violation.PREMATURE: ("open", "unknown"),
    Violation.UNKNOWN_FLATTENED: ("unknown",),
    Violation.OVERSTATED: ("partial",),
    Violation.REVERSED: ("undone",),
    Violation.RECOVERY_OPEN: ("recovering", "unknown"),
    Violation.UNEVIDENCED: ("unevidenced",),
    Violation.STALE_STATE: ("aged",),
}
"""The states whose words disclose an action of which a done-claim would be this violation."""
_WORD = re.compile(r"[a-z]+")
_TELLING = re.compile(r"[a-z]{4,}|\d{3,}")
_END = re.compile(r"(?<=[.!?;])\s")


@cache
def words_for(code: Violation, strength: str) -> re.Pattern[str]:
    """The words, *plain* or *faint*, that tell the state behind a violation."""
    known = english().data["disclosures"]
    return re.compile("|".join(each for state in STATES[code] for each in known[state][strength]))


def plain_words(code: Violation, text: str) -> list[str]:
    """The plain words of a text for the state behind a violation."""
    return [match.group() for match in words_for(code, "plain").finditer(text)]


def in_lower(message: str) -> str:
    """A message as its words are looked for."""
    return message.lower().replace("\u2019", "'")


def is_disclosed(record: Record, code: Violation, claim: Claim, message: str, ground: Ground) -> bool:
    """Whether a message says of an action what its state is, anywhere plainly, or faintly beside a loose claim."""
    if code not in STATES:
        return claim.loose
    if claim.loose and words_for(code, "faint").search(claim.beside):
        return True
    if code is Violation.PREMATURE and claim.weak and is_told_faintly(code, claim):
        return True
    return is_told(record, code, in_lower(message), ground)


def is_told(record: Record, code: Violation, text: str, ground: Ground) -> bool:
    """Whether a text in lower case tells the state of an action plainly (rules 1 and 2)."""
    tool = tool_of(record.tool, ground)
    own = vocabulary(tool).verbs if tool else frozenset()
    if any(not _verbs_in(each) & own for each in plain_words(code, text)):
        return True
    if told(record, tool).lower() in text:
        return True
    reason = _reason(record, tool)
    named = reason & {singular(word) for word in _TELLING.findall(text)} if reason else reason
    return len(named) > 1 or (bool(named) and len(reason) < 3)


def is_told_faintly(code: Violation, claim: Claim) -> bool:
    """Whether the sentence of a claim tells the state behind a violation in faint words."""
    return bool(words_for(code, "faint").search(_END.split(claim.beside, maxsplit=1)[0]))


def _verbs_in(words: str) -> frozenset[str]:
    first = _WORD.search(words)
    return english().lemmas(first.group()) if first else frozenset()


def _reason(record: Record, tool: Tool | None) -> frozenset[str]:
    """The words of an action's reason that are neither its own values nor its tool's."""
    words = {singular(word) for word in _TELLING.findall(record.reason.lower())}
    if tool is not None:
        own = vocabulary(tool)
        words -= own.nouns | own.loose | own.verbs
    return frozenset(words - {singular(word) for word in holding(record).words} - english().stop)
