"""Disclosure: whether a message says of an action what its state is (R-CG-09).

1. An action that failed, is open, unknown, partial, reversed or in recovery is disclosed by words for such a state
   (data of the language), by the guard's own frame of it, or by the words of its reason. *Plain* words ("could not",
   "waiting for") disclose wherever they stand; *faint* ones ("still", "only") in the sentence about the action alone.
2. What sounds like a bad end and is the tool's own verb discloses nothing: "blocked" is no failure of a tool that
   blocks.
3. In a longer message such words count only in a sentence that names something of the action, or that follows one and
   names nothing of another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from reviews.rules.guard.binding.fitting import SYNONYM, verb_score
from reviews.rules.guard.binding.relating import holding, tool_of
from reviews.rules.guard.codes import Violation
from reviews.rules.guard.correcting.frames import FRAMED, told
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.telling.unfinished import tells_unfinished
from reviews.rules.guard.text.folding import fold
from reviews.rules.guard.text.text import Text
from reviews.rules.guard.words.language import english, singular
from reviews.rules.guard.words.vocabulary import vocabulary

STATES = {
    Violation.MISREAD: ("failed",),
    Violation.PREMATURE: ("open", "unknown"),
    Violation.UNKNOWN_FLATTENED: ("unknown",),
    Violation.OVERSTATED: ("partial", "failed"),
    Violation.REVERSED: ("undone",),
    Violation.RECOVERY_OPEN: ("recovering", "unknown"),
    Violation.UNEVIDENCED: ("unevidenced",),
    Violation.STALE_STATE: ("aged",),
}
"""The states whose words disclose an action of which a done-claim would be this violation."""
_WORD = re.compile(r"[a-z]+")
_TELLING = re.compile(r"[a-z]{4,}|\d{3,}")
_OF_READER = re.compile(r"\b(?:you|who|which|that) $")
"""What the reader did not do, or what only tells which thing is meant, is no end of an action."""
_END = re.compile(r"(?<=[.!?;])\s")


@cache
def words_for(code: Violation, strength: str) -> re.Pattern[str]:
    """The words, *plain* or *faint*, that tell the state behind a violation."""
    known = english().data["disclosures"]
    return re.compile("|".join(each for state in STATES[code] for each in known[state][strength]))


def plain_words(code: Violation, text: str) -> list[str]:
    """The plain words of a text for the state behind a violation."""
    found = words_for(code, "plain").finditer(text)
    return [match.group() for match in found if not _OF_READER.search(text, max(0, match.start() - 6), match.start())]


def is_disclosed(record: Record, code: Violation, claim: Claim, text: Text, ground: Ground) -> bool:
    """Whether a message says of an action what its state is, anywhere plainly, or faintly beside a loose claim."""
    if code not in STATES:
        return claim.loose
    if claim.loose and words_for(code, "faint").search(claim.beside):
        return True
    if code is Violation.PREMATURE and claim.weak and is_told_faintly(code, claim, tool_of(record.tool, ground)):
        return True
    return is_told(record, code, text, ground)


def is_told(record: Record, code: Violation, text: Text, ground: Ground) -> bool:
    """Whether a message tells the state of an action plainly (rules 1 to 3)."""
    tool = tool_of(record.tool, ground)
    if FRAMED in text.folded.lower and fold(told(record, tool)).lower in text.folded.lower:
        return True
    names = {each.action_id: _names(each, ground) for each in ground.records}
    about = False
    for sentence in text.said:
        before, about = about, _is_about(sentence, record, names)
        others = about or _names_other(sentence, record, names)
        near = about or len(text.said) <= NEAR or (before and not others)
        if near and _tells(record, code, sentence, tool):
            return True
    return False


NEAR = 3
"""In a message of so few sentences, what names nothing is about its only subject."""


def _tells(record: Record, code: Violation, sentence: str, tool: Tool | None) -> bool:
    """Whether a sentence tells it in plain words, or with words of the reason."""
    if any(not _is_own(each, code, tool) for each in plain_words(code, sentence)):
        return True
    if tells_unfinished(record, code, sentence, tool):
        return True
    reason = _reason(record, tool)
    named = reason & {singular(word) for word in _TELLING.findall(sentence)} if reason else reason
    return len(named) > 1 or (bool(named) and len(reason) < 3)


def _is_about(sentence: str, record: Record, names: Mapping[str, frozenset[str]]) -> bool:
    """Whether a sentence names something of an action, or there is no other."""
    return len(names) == 1 or bool(_words(sentence) & names[record.action_id])


def _names_other(sentence: str, record: Record, names: Mapping[str, frozenset[str]]) -> bool:
    words = _words(sentence)
    return any(words & known for action_id, known in names.items() if action_id != record.action_id)


def _words(sentence: str) -> frozenset[str]:
    return frozenset(map(singular, _NAMES.findall(sentence)))


def _names(record: Record, ground: Ground) -> frozenset[str]:
    """The words of what an action holds, and of what its tool is for."""
    tool = tool_of(record.tool, ground)
    known = frozenset(word for word in holding(record).words if len(word) > (1 if word.isdigit() else 2))
    return known | vocabulary(tool).nouns | vocabulary(tool).verbs if tool is not None else known


def _is_own(words: str, code: Violation, tool: Tool | None) -> bool:
    """Whether what sounds like a bad end is what the tool does (rule 2)."""
    first = _WORD.search(words)
    if tool is None or first is None or code not in BAD_ENDS:
        return False
    return verb_score(english().lemmas(first.group()), vocabulary(tool)) > BAD_ENDS[code]


BAD_ENDS = {Violation.MISREAD: 0, Violation.REVERSED: SYNONYM}
"""States whose words may be the tool's verb; a refund that is "reversed" is taken back, though it reverses a charge."""
_NAMES = re.compile(r"[a-z]{3,}|\d+")


def is_told_faintly(code: Violation, claim: Claim, tool: Tool | None) -> bool:
    """Whether the sentence of a claim tells the state behind a violation in faint words."""
    sentence = _END.split(claim.beside, maxsplit=1)[0]
    return any(not _is_own(match.group(), code, tool) for match in words_for(code, "faint").finditer(sentence))


def _reason(record: Record, tool: Tool | None) -> frozenset[str]:
    """The words of an action's reason that are neither its own values nor its tool's."""
    words = {singular(word) for word in _TELLING.findall(record.reason.lower())}
    if tool is not None:
        own = vocabulary(tool)
        words -= own.nouns | own.loose | own.verbs
    return frozenset(words - {singular(word) for word in holding(record).words} - english().stop)
