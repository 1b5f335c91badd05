"""Failures: how a chunk says that something could not be done or has failed."""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.views import Said, View

STOPPED = "stopped or failed"


def failed(view: View) -> Said | None:
    """I could not …, … failed, … did not go through."""
    words = view.words
    for index, word in enumerate(words):
        if _is_unable(view, index):
            return Said(Kind.FAILED, "unable to", view.lemmas(index + 2, "base"), index + 2)
        if word == "could" and words[index + 1 : index + 2] == ("not",):
            verb = view.skip(index + 2)
            verb = verb + 1 if words[verb : verb + 1] == ("be",) else verb
            return Said(Kind.FAILED, "could not", view.lemmas(verb, "base", "participle"), verb)
        if word == "did" and words[index + 1 : index + 2] == ("not",) and view.is_in(index + 2, "succeeds"):
            return Said(Kind.FAILED, "did not succeed", frozenset(), index + 2)
        if word in view.language.sets["failures"] and _is_predicate(view, index) and view.ticked is not True:
            if word in view.language.sets["meant"]:
                return Said(Kind.FAILED, STOPPED, view.lemmas(index, "past"), index)
            return Said(Kind.FAILED, "failed", _gerund_before(view, index), index)
        if word in view.language.sets["undone"] and view.has("be", index) and "by" in words[index:]:
            return Said(Kind.FAILED, "undone", frozenset(), index)
    return None


def _is_unable(view: View, index: int) -> bool:
    """Unable to, failed to; I was not able to, I have not managed to."""
    if view.words[index + 1 : index + 2] != ("to",):
        return False
    denied_before = "not" in view.words[:index] and view.agent() >= 0
    return view.words[index] in {"unable", "failed"} or (view.words[index] in {"able", "managed"} and denied_before)


def _gerund_before(view: View, index: int) -> frozenset[str]:
    """Publishing … failed."""
    return view.lemmas(0, "gerund") if index else frozenset()


def _is_predicate(view: View, index: int) -> bool:
    """Whether a word tells a failure that has come about: not "without errors", and not what will or may be refused."""
    if view.has("negators", index) or view.has("modals", index) or "will" in view.words[:index]:
        return False
    before, sets = view.words[index - 1] if index else "", view.language.sets
    if before in {"without", "zero", "0"} or before in sets["determiners"] or before in sets["others"]:
        return False
    following = view.words[index + 1] if index + 1 < len(view.words) else ""
    return following not in sets["determiners"] or index == 0
