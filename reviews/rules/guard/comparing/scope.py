"""Scope: how far the words about a claim reach beyond its own clause (C-15).

1. A claim reaches over what stands beside it without a verb: "Physio cancelled: 3 July 14:00", "Leave filed. 20 to 31
   July." A clause with a verb of its own tells of something else, but for the one that a colon opens.
2. It ends where another claim begins, and leaves out what is said of the reader.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from reviews.rules.guard.words.language import english

_CUT = re.compile(r"[,;:()]|\s[-\u2013\u2014]\s|\b(?:and|but|so|which|who|because|while|since|as|if|where|when|that)\b")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_OF_READER = frozenset({"you", "your", "they", "their", "she", "he"})
_FINITE = frozenset(
    {"will", "did", "do", "does", "'s", "has", "have", "had", "stays", "remains", "can", "please", "let"}
)


def scope(message: str, start: int, end: int, ends: Sequence[tuple[int, int]], until: int) -> str:
    """The words about the claim of a span: up to `until`, where another claim begins (rules 1 and 2)."""
    place = bisect_right(ends, start, key=lambda each: each[0]) - 1
    if place < 0:
        return message[start:end]
    last = min(max(end, ends[place][1]), max(until, end))
    text = message[start:end] + _beside(message[end:last])
    before = message[ends[place][0] : start]
    if before and len(before) < MOST and not _has_verb(before):
        text = before + text
    for begin, stop in ends[place + 1 : place + 3]:
        following = message[begin:stop]
        if begin >= until or len(following) > MOST or _is_apart(following):
            break
        text += f" . {following}"
    return text


MOST = 80
"""Words without a verb that are longer are no addition to a claim."""


def _beside(text: str) -> str:
    """The additions behind a clause, up to the first with a verb of its own."""
    kept = at = 0
    mark = ""
    for match in [*_CUT.finditer(text), None]:
        stop = match.start() if match else len(text)
        piece = text[at:stop]
        if mark not in {":", ""} and _is_apart(piece):
            break
        kept = stop
        if match is None:
            break
        at, mark = match.end(), match.group().strip()
    return text[:kept]


def _is_apart(piece: str) -> bool:
    """Whether a piece tells or asks something of its own."""
    return piece.rstrip().endswith("?") or _has_verb(piece) or bool(_OF_READER & set(_WORD.findall(piece.lower())))


def _has_verb(text: str) -> bool:
    """Whether a piece has a finite verb, as far as its words tell."""
    language = english()
    finite = language.sets["be"] | language.sets["modals"] | _FINITE
    for word in _WORD.findall(text.lower()):
        if word in finite or word.endswith(("'s", "'re", "'ve", "'ll", "n't")):
            return True
        forms = language.forms.get(word, ())
        if any(form.kinds & {"past", "third"} and "participle" not in form.kinds for form in forms):
            return word not in language.kin or not any("third" in form.kinds for form in forms)
    return False
