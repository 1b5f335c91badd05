"""Unfinished: grammar and the record's own words that tell what has not come to its end (R-CG-09).

1. What is told in the progressive is under way: "still going out", "cordoned and draining". The verb is the tool's, or
   one that says no more than that something runs. Before a noun it is none ("closing tasks"), nor behind a preposition
   ("thanks for sending").
2. A part is told as open where a sentence names what only the open parts of a partial action hold, and denies it or
   says that it is left: "Lotte: not moved", "the $40.00 for the gift card is still open".
3. Fewer than the whole are told: "of the 36 homes, 28 got it".
4. A thing of the tool is denied: "so no viewing there".
"""

from __future__ import annotations

import re
from decimal import Decimal

from reviews.rules.guard.binding.fitting import verb_score
from reviews.rules.guard.codes import Violation
from reviews.rules.guard.comparing.slots import NUMERAL, counted
from reviews.rules.guard.records import Record, Tool
from reviews.rules.guard.words.language import english, singular
from reviews.rules.guard.words.vocabulary import vocabulary

_RUNNING = re.compile(r"(?<![\w'-])([a-z]+ing)\b")
_HELPED = re.compile(r"(?:\b(?:is|are|am|still|and|currently|now|just)|'s|'re|'m)(?: [a-z]+ly)? $")
"""What stands before a progressive."""
_OPENS = re.compile(r"(?:^|[|,;:()]) ?$")
_CLOSES = re.compile(r"\W*$|\W*[|;]|\W*\b(?:now|as we speak|at the moment|right now|at present)\b")
_OBJECT = re.compile(r" (?:the|your|a|an|it|them|this|that|both|all|her|his|their) ")
_GENERIC = frozenset({"run", "go", "process", "progress", "proceed"})
_STARTING = frozenset({"activate", "boot", "enable", "launch", "restart", "resume", "set", "start", "turn"})
"""What such a tool brings about runs then: "is running" tells its end."""
_LEFT = re.compile(
    r"(?<!you )(?<!which )(?<!who )(?:\b(?:not|never|without|still|open|remains?|except|waits?|waiting|outstanding"
    r"|pending|failed|fails?|cannot|skipped|needs?|refused|rejected|bounced|declined)\b|\b[a-z]+n't\b)"
)
_TOKEN = re.compile(r"[a-z]{3,}|\d[\d.,]*\d\d")
_OF = re.compile(rf"\b(?:out )?of (?:the |your |all |all the )?(\d[\d,]*|{NUMERAL})\b")
_FIGURE = re.compile(rf"(?<![\w.,:/$€£#-])(\d[\d,]*|{NUMERAL})\b(?![.:/%-]\d|%)")
_NONE = re.compile(r"\bno ([a-z]{3,})(?: ([a-z]{3,}))?\b")


def tells_unfinished(record: Record, code: Violation, sentence: str, tool: Tool | None) -> bool:
    """Whether a sentence tells that an action is not at its end (rules 1 to 4)."""
    if code is Violation.PREMATURE:
        return is_progressing(sentence, tool)
    if code is Violation.OVERSTATED:
        return _names_open_part(sentence, record) or _counts_fewer(sentence)
    return code is Violation.MISREAD and tool is not None and _denies_thing(sentence, tool)


def is_progressing(sentence: str, tool: Tool | None) -> bool:
    """Whether a sentence tells in the progressive what the tool does (rule 1)."""
    if "ing" not in sentence:
        return False
    gerunds = english().of_kinds(("gerund",))
    for match in _RUNNING.finditer(sentence):
        verbs = gerunds.get(match[1])
        if not verbs or not _is_progressive(sentence, match.start(), match.end()):
            continue
        generic = verbs & _GENERIC and not (tool is not None and _STARTING & vocabulary(tool).verbs)
        if generic or (tool is not None and verb_score(verbs, vocabulary(tool))):
            return True
    return False


def _is_progressive(sentence: str, start: int, end: int) -> bool:
    """Whether the word at a place is helped by "is" or "still", opens a clause with its object, or closes one."""
    before = sentence[max(0, start - 24) : start]
    if before.endswith("up and "):
        return False
    if _HELPED.search(before):
        return True
    return bool(_CLOSES.match(sentence, end) or (_OPENS.search(before) and _OBJECT.match(sentence, end)))


def _names_open_part(sentence: str, record: Record) -> bool:
    """Rule 2."""
    if not record.open or not _LEFT.search(sentence):
        return False
    done = _tokens(" ".join(record.done)) | english().stop
    return not (_tokens(" ".join(record.open)) - done).isdisjoint(_tokens(sentence))


def _tokens(text: str) -> set[str]:
    return {singular(word) for word in _TOKEN.findall(text.lower())}


def _counts_fewer(sentence: str) -> bool:
    """Rule 3."""
    for match in _OF.finditer(sentence):
        whole = counted(match[1])
        others = {
            counted(each[1]) for each in _FIGURE.finditer(sentence) if not match.start() <= each.start() < match.end()
        }
        if whole > 1 and any(Decimal(0) <= each < whole for each in others):
            return True
    return False


def _denies_thing(sentence: str, tool: Tool) -> bool:
    """Rule 4."""
    own = vocabulary(tool).nouns
    return any(singular(word) in own for words in _NONE.findall(sentence) for word in words)
