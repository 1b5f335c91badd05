"""Patterns: how a chunk says that something was done, is under way, was promised or has failed.

Each pattern is a small function over the words of one chunk; the words that it asks for are data of the language. The
first that fits names the rule. A pattern is *weak* where its words alone could as well be a fact that was read, or an
adjective: such a claim counts only if it can be tied to an action on record.
"""

from __future__ import annotations

from collections.abc import Callable

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.acting import acted
from reviews.rules.guard.reading.failures import failed
from reviews.rules.guard.reading.passives import passive, went_through
from reviews.rules.guard.reading.promises import promised
from reviews.rules.guard.reading.reports import reported
from reviews.rules.guard.reading.shorts import bare_verb, telegraphic
from reviews.rules.guard.reading.states import condition
from reviews.rules.guard.reading.under_way import under_way
from reviews.rules.guard.reading.views import Said, View


def _after_failure(view: View) -> bool:
    """ "It was returned and booked back": what goes on from a failure claims nothing."""
    return view.prior is not None and view.prior.kind is Kind.FAILED and view.lead == "and" and view.agent() < 0


def denied(view: View) -> bool:
    """Whether a chunk says that something did not happen."""
    negated = any(
        word in view.language.sets["negators"]
        and view.words[index + 1 : index + 2] != ("longer",)
        and not _is_of_a_thing(view, index)
        and not _is_of_others(view, index)
        for index, word in enumerate(view.words)
    )
    return negated or (view.words[:2] == ("have", "yet")) or "yet to" in " ".join(view.words)


def _is_of_a_thing(view: View, index: int) -> bool:
    """ "At no cost", "with no downtime": what is denied is beside what was done."""
    return view.words[index] == "no" and index > 0 and view.words[index - 1] in {"at", "with", "in", "by"}


def _is_of_others(view: View, index: int) -> bool:
    """ "I set up a folder you do not have to see": what is denied is said of another subject than the speaker."""
    return 0 <= view.agent() < index - 3 and view.is_in(index - 2, "others") and view.is_in(index - 1, "auxiliaries")


def _is_asked(view: View) -> bool:
    """ "Kindly supply …", "please send …": the reader is asked to do it."""
    return view.words[0] in {"kindly", "please"} and bool(view.lemmas(1, "base")) and not view.is_in(1, "be")


def said(view: View) -> Said | None:
    """What a chunk says, by the first pattern that fits; what is denied or only possible says nothing."""
    missed = failed(view)
    if missed is not None:
        return missed
    if denied(view) or _after_failure(view) or _is_asked(view):
        return None
    for pattern in PATTERNS:
        found = pattern(view)
        if found is not None:
            return found
    return None


PATTERNS: tuple[Callable[[View], Said | None], ...] = (
    promised,
    under_way,
    acted,
    went_through,
    passive,
    bare_verb,
    telegraphic,
    reported,
    condition,
)
