"""Causatives: who has somebody do a thing says that it brought the thing about ("I had our supplier switch it").

1. "Had", "have" or "got", somebody with an article or a possessive, and a base form that has an object of its own or
   a place behind it: the verb is what was brought about. "Had a quick look at it" has no such form.
"""

from __future__ import annotations

from reviews.rules.guard.reading.views import View

_SOMEBODY = frozenset({"a", "an", "the", "our", "my", "your", "his", "her", "their", "one"})
_DEFINITE = _SOMEBODY - {"a", "an", "one"}


def got_done(view: View, at: int) -> frozenset[str]:
    """The verb of what somebody got or had done: "got the meeting moved"."""
    if not view.is_in(at, "determiners"):
        return frozenset()
    for index in range(at + 1, min(at + 7, len(view.words))):
        verbs = view.lemmas(index, "participle") - view.language.sets["inert"]
        after = view.words[index + 1 : index + 2]
        if verbs and (not after or view.is_in(index + 1, "after_verb")):
            return verbs
    return frozenset()


def brought_about(view: View, at: int) -> frozenset[str]:
    """The verb of what somebody is made to do, where such a one is named at a place (rule 1)."""
    if view.words[at : at + 1] and view.words[at] not in _SOMEBODY:
        return frozenset()
    definite = view.words[at : at + 1] and view.words[at] in _DEFINITE
    for index in range(at + 2, min(at + 6, len(view.words) - 1)):
        if view.is_in(index, "determiners") or view.is_in(index, "after_verb"):
            return frozenset()
        verbs = view.lemmas(index, "base") - view.language.sets["inert"] - view.language.sets["looks"]
        acted_on = view.is_in(index + 1, "determiners") or view.is_in(index + 1, "pronouns")
        if verbs and (acted_on or (definite and view.words[index + 1] in {"to", "from", "into"})):
            return verbs
    return frozenset()
