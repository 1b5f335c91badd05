"""The detector of strict mode: which sentences of a message look like reports that something was done.

A linear model over words, pairs of words and pieces of words, trained by `python -m tests.guard.train_detector` on the
project's own corpus; its weights are data beside this file. It looks at the words alone: it knows no record and judges
no truth. Whoever is in strict mode is asked to cite what it finds.

1. Numbers, ids, addresses and amounts count as such, whatever they are: no weight belongs to a value.
2. A sentence scores the sum of the weights of its features over the square root of their number, and the bias. What
   scores `threshold` or more is a report; a question is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from math import sqrt
from typing import Any, Final

from reviews.guarding.rules.folding import fold
from reviews.guarding.rules.segments import sentences

Span = tuple[int, int]
_TOKEN: Final = re.compile(
    r"(?P<mail>[\w.+-]+@[\w.-]+)|(?P<money>[$€£]\s?\d[\d.,]*|\d[\d.,]*\s?(?:[€£]|(?:usd|eur|gbp|chf|euros?|dollars?)\b))"
    r"|(?P<id>#?(?=[\w/.-]*\d)[a-z_][\w/.-]*[\w]|#\w+)|(?P<number>\d[\d.,:]*)|(?P<word>[^\W\d_]+(?:['\u2019][^\W\d_]+)?)"
    r"|(?P<mark>[?!:])"
)
SHORTEST: Final = 5
_PIECES: Final = (3, 4)
# fmt: off
_GRAMMAR: Final = frozenset((
    "i", "we", "you", "he", "she", "it", "they", "me", "us", "your", "my", "our", "their", "his", "her", "its",
    "the", "a", "an", "this", "that", "these", "those", "all", "both", "no", "not", "never", "is", "are", "was",
    "were", "be", "been", "being", "am", "has", "have", "had", "having", "do", "does", "did", "will", "would",
    "shall", "should", "can", "could", "may", "might", "must", "i've", "we've", "i'll", "we'll", "i'd", "you'll",
    "you'd", "it's", "that's", "there's", "you've", "don't", "doesn't", "didn't", "can't", "won't", "couldn't",
    "isn't", "haven't", "hasn't", "wasn't", "weren't", "and", "or", "but", "if", "once", "when", "while", "until",
    "unless", "before", "after", "because", "since", "so", "as", "than", "to", "of", "in", "on", "at", "for",
    "from", "with", "by", "about", "into", "under", "over", "out", "up", "off", "now", "already", "just", "also",
    "yet", "still", "again", "then", "soon", "here", "there", "what", "which", "who", "how", "why", "where",
    "please", "let", "ask", "need", "want", "like", "sorry", "thanks", "thank", "successfully", "done", "sent",
    "paid", "made", "set", "gone", "put", "found", "looked", "checked", "get", "got",
))
# fmt: on


def features(sentence: str) -> list[str]:
    """The features of a sentence in lower case, each once (rule 1)."""
    tokens = [_normal(found) for found in _TOKEN.finditer(sentence)]
    return list(dict.fromkeys(_features(tokens)))


def score(sentence: str, weights: Mapping[str, float], bias: float) -> float:
    """The likelihood that a sentence in lower case is a report (rule 2)."""
    found = features(sentence)
    return bias + sum(weights.get(each, 0.0) for each in found) / sqrt(len(found) or 1)


def reports_in(message: str) -> tuple[Span, ...]:
    """The spans of the sentences that look like reports."""
    model = _model()
    folded, weights, bias = fold(message), model["weights"], model["bias"]
    return tuple(
        folded.span(each.start, each.end)
        for each in sentences(folded)
        if not each.question and score(folded.lower[each.start : each.end], weights, bias) >= model["threshold"]
    )


@lru_cache(maxsize=1)
def _model() -> dict[str, Any]:
    model: dict[str, Any] = json.loads(files("reviews.guarding.rules").joinpath("detector_weights.json").read_bytes())
    return model


def _normal(found: re.Match[str]) -> str:
    kind = found.lastgroup
    return found.group().replace("\u2019", "'") if kind in ("word", "mark") else f"<{kind}>"


def _features(tokens: list[str]) -> Iterator[str]:
    yield from (f"first {each}" for each in tokens[:1])
    yield f"length {min(len(tokens), 24) // 4}"
    before = "^"
    for token in tokens:
        yield token
        yield f"{before} {token}"
        if token.isalpha() and len(token) >= SHORTEST:
            yield from (f"-{token[-size:]}" for size in _PIECES)
            yield f"{token[:4]}-"
        before = token
    shape = ["^", *map(_shape, tokens), "$"]
    for size in (2, 3, 4):
        yield from (" ".join(shape[at : at + size]) for at in range(len(shape) - size + 1))


def _shape(token: str) -> str:
    """Return a function word unchanged, and the ending of any other word."""
    if token in _GRAMMAR or not token.isalpha():
        return token
    return next((f"~{end}" for end in ("ed", "ing", "s", "en") if token.endswith(end) and len(token) > SHORTEST), "~")
