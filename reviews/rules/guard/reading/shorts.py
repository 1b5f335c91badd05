"""Shorts: reports without a subject or without a verb that has a tense (Pushed to main; snapshot taken)."""

from __future__ import annotations

from itertools import pairwise

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.passives import by_others
from reviews.rules.guard.reading.views import PARTICIPLES, Said, View, acts, goes_on


def bare_verb(view: View) -> Said | None:
    """Pushed to main; sent; - [x] removed from vpn."""
    at = view.skip(0)
    verbs = view.lemmas(at, *PARTICIPLES)
    if verbs and view.is_in(at, "base_is_past") and not view.ticked:
        return None
    if not verbs and view.ticked and view.first:
        verbs = view.lemmas(at, "base")
    if not acts(view, verbs) or by_others(view, at + 1) or _is_of_itself(view, verbs, at):
        return None
    if _has_another_subject(view, at):
        return None
    if (
        view.lead in {"as", "which", "who", "that", "than"}
        or (view.mark == ")" and not view.lead)
        or (view.words[at + 1 : at + 2] == ("it",) and view.words[at] == "got")
    ):
        return None
    if (view.before_colon and len(view.words) > at + 1) or _describes(view, at):
        return None
    active = _is_active(view, at)
    agent = active or view.first or (view.prior is not None and view.prior.agent)
    weak = not active and _is_adjective(view, at)
    return Said(Kind.DONE, "did it" if active else "did", verbs, at, weak=weak, agent=agent)


def _has_another_subject(view: View, at: int) -> bool:
    """Whether a chunk without a subject has one before it that is not the speaker.

    A form that is no participle ("ran", "took") is active: it goes on from what the speaker did, or from a thing's own.
    """
    if view.prior is not None and view.prior.kind is Kind.FAILED:
        return True
    if any(pair in {("by", "me"), ("by", "us")} for pair in pairwise(view.words)):
        return False
    if not view.lemmas(at, "participle") and not (goes_on(view) or view.mark == ":" or view.ticked):
        return True
    return not view.first and view.prior is None and view.after_verb and view.mark not in {":", "("}


def _is_active(view: View, at: int) -> bool:
    """ "Replied to her, attached the contract": the verb has an object, so its subject is the speaker."""
    starts = view.first or view.mark == ":" or (view.prior is not None and view.prior.agent)
    spoke = view.words[at + 1 : at + 2] == ("to",) and view.is_in(at, "spoken_to")
    only_past = not view.lemmas(at, "participle")
    return starts and (view.is_in(at + 1, "determiners") or spoke or only_past)


def _is_of_itself(view: View, verbs: frozenset[str], at: int) -> bool:
    """Whether it is something that things do of themselves; "replied to …" is not."""
    has_object = view.is_in(at + 1, "determiners") and (view.first or not view.after_verb)
    if view.words[at + 1 : at + 2] == ("to",) or has_object:
        return False
    return verbs <= view.language.sets["intransitive"]


def _describes(view: View, at: int) -> bool:
    """ "Raised limits apply …", "Returned goods are …": a participle of a subject that has a verb of its own."""
    after = view.words[at + 1] if at + 1 < len(view.words) else ""
    if view.is_in(at + 1, "after_verb") or view.is_in(at + 1, "determiners") or not after:
        return False
    return any(
        word in view.language.sets["be"] | view.language.sets["modals"] | {"will", "has", "have", "do", "does"}
        or (index == at + 2 and bool(view.lemmas(index, "base")) and view.words[index - 1].endswith("s"))
        for index, word in enumerate(view.words[at + 2 :], at + 2)
    )


def _is_adjective(view: View, at: int) -> bool:
    """ "… , attached files": a participle before a noun, where no sentence begins."""
    if view.first or view.mark in {":", "\u2192", "->"} or at + 1 >= len(view.words):
        return False
    after = view.words[at + 1]
    return (
        view.kinds[at + 1] == "word"
        and after not in view.language.sets["after_verb"] | view.language.sets["determiners"]
    )


_LABELS = frozenset({"action", "actions", "step", "steps", "change", "changes", "work", "task", "tasks"})


def telegraphic(view: View) -> Said | None:
    """Snapshot taken; ticket 48211 opened; auth restarted; "actions taken:" only heads what follows."""
    if view.before_colon and len(view.words) == 2 and view.words[0] in _LABELS:
        return None
    for index in range(1, len(view.words)):
        verbs = view.lemmas(index, "participle")
        if not verbs or view.is_in(index - 1, "determiners") or view.has("others", index) or _is_left_over(view, index):
            continue
        if view.has("be", index) or view.has("modals", index) or by_others(view, index + 1):
            return None
        following = view.words[index + 1] if index + 1 < len(view.words) else ""
        if following and following not in view.language.sets["after_verb"]:
            continue
        if following in {"all", "both"} and index + 2 < len(view.words) and not view.is_in(index + 2, "after_verb"):
            return None
        if not acts(view, verbs) or view.agent() >= 0 or _has_verb(view, index) or _has_done(view, verbs, index):
            return None
        weak = verbs <= view.language.sets["intransitive"] and not view.ticked
        return Said(Kind.DONE, "done, told in short", verbs, index, weak=weak)
    return None


def _is_left_over(view: View, index: int) -> bool:
    """ "Nine days left", "as requested": what remains, and what only compares, is no deed."""
    return view.words[index] == "left" or view.words[index - 1] == "as"


def _has_done(view: View, verbs: frozenset[str], index: int) -> bool:
    """ "Ken has merged it": somebody else acts; "the order has shipped" tells what a thing came to."""
    at = index - 1
    while at >= 0 and view.is_in(at, "adverbs"):
        at -= 1
    sets = view.language.sets
    return at >= 0 and view.words[at] in {"has", "have"} and not verbs <= sets["intransitive"] | sets["moves_itself"]


def _has_verb(view: View, index: int) -> bool:
    """ "The courier marked it as delivered", "days taken are …": the clause has another verb."""
    sets = view.language.sets
    if any(word in sets["be"] | sets["modals"] | {"will", "has", "have"} for word in view.words[index + 1 :]):
        return True
    return any(
        view.lemmas(at, "past") and view.is_in(at + 1, "determiners") and not view.lemmas(at, "base")
        for at in range(1, index)
    )
