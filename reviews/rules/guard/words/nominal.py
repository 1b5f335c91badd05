"""Nominalised verbs: "sent the cancellation" is "cancelled", "put the suspension forward" is "suspended".

1. A noun that is made of a verb by an ending is that verb where a light verb carries it: one that says no more than
   that something was done, asked for, entered or sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from reviews.rules.guard.words.language import Language

_ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mission", ("mit",)),
    ("ication", ("y",)),
    ("ation", ("", "e", "ate")),
    ("ition", ("e", "")),
    ("sion", ("d", "t", "de", "se")),
    ("tion", ("t", "te", "e")),
    ("ment", ("",)),
    ("ance", ("", "e")),
    ("sal", ("se",)),
    ("al", ("", "e")),
    ("ure", ("", "e")),
    ("ery", ("er",)),
)
_LIGHT = frozenset({"send", "enter", "make", "log", "post", "apply", "file", "register", "lodge", "record"})


def carried(verbs: frozenset[str], nouns: Iterable[str], language: Language) -> frozenset[str]:
    """The verbs that the nouns of a claim with a light verb are made of (rule 1)."""
    if not verbs or not verbs <= _LIGHT | language.sets["generic"] | language.sets["requests"]:
        return frozenset()
    return frozenset(verb for noun in nouns for verb in verbs_of(noun, language))


def verbs_of(noun: str, language: Language) -> frozenset[str]:
    """The verbs that a noun is made of by its ending."""
    for ending, stems in _ENDINGS:
        if noun.endswith(ending) and len(noun) > len(ending) + 2:
            root = noun.removesuffix(ending)
            roots = [root, root[:-1]] if root[-1] == root[-2] else [root]
            made = {one + stem for one in roots for stem in stems}
            return frozenset(verb for verb in made if verb in language.lemmas(verb))
    return frozenset()
