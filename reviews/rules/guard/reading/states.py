"""States: how a chunk tells a condition that something is in (… is live, … are with the customer, … gone)."""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.passives import by_others
from reviews.rules.guard.reading.views import Said, View

IN_THE_POST = (("in", "the", "post"), ("in", "the", "mail"))
MENTION = "mention"
ARROWS = frozenset({"\u2192", "->", "=>"})


def condition(view: View) -> Said | None:
    """… is live, … are with the customer, label ready, … gone."""
    words = view.words
    soon = "should" in words and any(word in view.language.sets["reached"] or word == "now" for word in words)
    others = words[0] in view.language.sets["others"] and not (view.is_in(1, "be") and "now" in words)
    if (view.has("modals") and not soon) or view.has("open") or view.agent() >= 0 or others:
        return None
    if (view.before_colon and len(words) > 1 and not view.has("be")) or by_others(view, 0):
        return None
    for index in range(len(words)):
        if _is_condition(view, index):
            return Said(Kind.DONE, "state", _of_condition(view, index), index, weak=True)
    told = len(words) > 1 or view.ticked or view.mark in ARROWS
    return Said(Kind.DONE, MENTION, frozenset(), 0, weak=True) if told else None


def _of_condition(view: View, index: int) -> frozenset[str]:
    return view.language.lemmas(view.words[index]) if view.is_in(index, "states") else frozenset()


def _is_condition(view: View, index: int) -> bool:
    """Whether the word at a place tells a condition: live; a go; in the post; is off; now runs; in your inbox."""
    words = view.words
    opens = index > 0 or view.mark in {":", "\u2014", "\u2192"}
    if opens and view.is_in(index, "states") and not _is_before_noun(view, index):
        return True
    if words[index : index + 2] == ("a", "go") or words[index : index + 3] in IN_THE_POST:
        return True
    if not index:
        return False
    if words[index] == "now":
        return bool(view.lemmas(index + 1, "third")) or view.is_in(index - 1, "be")
    if view.is_in(index, "be"):
        return view.is_in(view.skip(index + 1), "particles")
    return view.is_in(index, "reached") and words[index - 1] not in {"a", "and"}


def _is_before_noun(view: View, index: int) -> bool:
    """ "a current account", "disabled accounts": it tells which thing is meant, and no condition."""
    if index + 1 >= len(view.words) or view.is_in(index - 1, "be") or view.is_in(index - 1, "adverbs"):
        return False
    after = view.words[index + 1]
    return (
        view.kinds[index + 1] == "word"
        and not any(view.is_in(index + 1, name) for name in ("after_verb", "determiners", "adverbs", "be", "others"))
        and after not in {"until", "till", "without", "within", "ref", "no"}
    )
