"""Passives: how a chunk says that something was done, and not by whom (… has been …ed, … went through)."""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.views import Said, View, acts


def passive(view: View) -> Said | None:
    """… has been …ed, … was …ed, … got …ed, … is …ed."""
    for index, word in enumerate(view.words):
        if word not in view.language.sets["be"] or (index == 0 and word != "been"):
            continue
        at = view.skip(index + 1)
        if view.words[at : at + 1] == ("been",):
            at = view.skip(at + 1)
        known = ("participle", "unknown") if word in {"been", "being"} else ("participle",)
        verbs = view.lemmas(at, *known) or _unmarked(view, at)
        if not verbs or "did" in view.words[:index] or view.words[at : at + 2] == ("turned", "down"):
            continue
        if view.words[index - 1] in {"had", "to"} or view.words[index - 2 : index - 1] in (("had",),):
            return None
        perfect = "been" in view.words[index - 1 : at] or word in {"got"} or "successfully" in view.words
        if _is_not_told(view, index, at, perfect=perfect):
            return None
        if acts(view, verbs):
            return Said(Kind.DONE, "was done", verbs, at, weak=not perfect)
    return None


def _is_not_told(view: View, index: int, at: int, *, perfect: bool) -> bool:
    """A passive that is possible, still to come, a rule, or by somebody else."""
    word = view.words[index]
    if word in {"get", "gets"} or "still" in view.words[:at] or view.has("modals", index):
        return True
    now = word in {"is", "are"}
    others = _has_other_subject(view, index) and not now and not (perfect and _is_patient(view, index))
    if others or by_others(view, at + 1):
        return True
    return now and not perfect and view.has("policy")


def _has_other_subject(view: View, index: int) -> bool:
    """Whether somebody else is the subject: not in "the letter you asked for has been sent", where it tells which."""
    at = next((each for each in range(index - 1, -1, -1) if view.is_in(each, "others")), -1)
    if at <= 0:
        return at == 0
    return not any(view.lemmas(each, "past", "base") for each in range(at + 1, index))


def _is_patient(view: View, index: int) -> bool:
    """ "You have been moved", "she has been taken out": who is named before a perfect passive did not do it."""
    at = index - 1
    while at > 0 and (view.is_in(at, "adverbs") or view.words[at] in {"has", "have"}):
        at -= 1
    return at == 0 and view.words[index] == "been"


def _unmarked(view: View, at: int) -> frozenset[str]:
    """ "all photo is restore", "the service is restart already": a participle without its ending."""
    verbs = view.lemmas(at, "base")
    if at + 1 < len(view.words) and view.words[at + 1] != "already":
        return frozenset()
    return verbs if verbs and view.words[at] not in view.language.sets["states"] else frozenset()


def went_through(view: View) -> Said | None:
    """… went through, … has gone out, … is on its way."""
    words = view.words
    for index in range(1, len(words) - 1):
        if words[index] in {"went", "gone", "go", "got"} and words[index + 1] in {
            "through",
            "out",
            "live",
            "up",
            "in",
            "over",
        }:
            if view.has("modals", index) or view.has("others", index) or "wrong" in words:
                return None
            return Said(Kind.DONE, "went through", frozenset({"go"}), index)
    return None


def by_others(view: View, index: int) -> bool:
    """Whether somebody else is named who did it; "by hand", "by Friday" and "by us" name nobody else."""
    for at in range(index, len(view.words) - 1):
        if view.words[at] == "by":
            word = view.words[at + 1]
            named = word not in view.language.sets["by_us"] and (view.kinds[at + 1] == "word" or word[0] == "0")
            return named and not _is_measure(view, at + 1)
    return False


def _is_measure(view: View, at: int) -> bool:
    """ "Off by one", "by Friday", "by restarting it": a measure, a time or a means, and nobody who acts."""
    word = view.words[at]
    means = bool(view.lemmas(at, "gerund"))
    return means or word in view.language.data["reading"]["numbers"] or view.is_in(at, "calendar")
