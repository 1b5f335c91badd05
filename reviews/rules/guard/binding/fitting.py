"""Fitting: how well the words of a claim fit what may be said of a tool.

1. A claim phrase of the tool, its own verb, or a verb of the same sense is what a claim says that was done; the things
   of the tool are what it was done to.
2. Without a verb of the tool there is no fit, but for a verb that may be said of everything ("handled the refund").
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Tool
from reviews.rules.guard.words.language import Language, english
from reviews.rules.guard.words.nominal import carried, verbs_of
from reviews.rules.guard.words.vocabulary import Vocabulary, vocabulary

FITS = 2
SURE = 3


def fit(claim: Claim, tool: Tool) -> int:
    """How well the words of a claim fit what may be said of a tool."""
    return _fit(claim.verbs, claim.nouns, claim.words, vocabulary(tool), english())


@lru_cache(maxsize=16384)
def _fit(
    verbs: frozenset[str], nouns: frozenset[str], words: frozenset[str], own: Vocabulary, language: Language
) -> int:
    score = 3 if any(phrase <= words for phrase in own.phrases) else 0
    score += verb_score(verbs, own)
    made = carried(verbs, nouns, language)
    if not score and (nouns & own.verbs or made & own.verbs or made & _verbs_in(own, language)):
        score = 3
    if not score and not verbs & language.sets["generic"]:
        return 0
    direct = nouns & own.nouns
    if score == SYNONYM and not direct and _names_other_things(nouns, own, language):
        return 1
    score += 2 * min(2, len(direct))
    if not direct and own.kin & kin_of(nouns, language):
        score += 1
    return score


def _verbs_in(own: Vocabulary, language: Language) -> frozenset[str]:
    """The verbs that the things of a tool are made of: the correction of "issue bill correction"."""
    return frozenset(verb for noun in own.nouns for verb in verbs_of(noun, language))


SYNONYM = 2


def _names_other_things(nouns: frozenset[str], own: Vocabulary, language: Language) -> bool:
    """Whether a claim names things, and none of them is of a kind with what the tool is for."""
    known = kin_of(nouns, language)
    return bool(known) and bool(own.kin) and not known & own.kin and not nouns & own.loose


def verb_score(verbs: Iterable[str], own: Vocabulary) -> int:
    """3 for a verb of the tool's own, 2 for one of the same sense, else 0."""
    if any(verb in own.verbs for verb in verbs):
        return 3
    return 2 if any(verb in own.synonyms for verb in verbs) else 0


def kin_of(nouns: Iterable[str], language: Language) -> frozenset[str]:
    """The kinds of things that these nouns are."""
    return frozenset(each for noun in nouns for each in language.kin.get(noun, ()))
