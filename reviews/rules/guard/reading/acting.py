"""Acting: how a chunk says that the speaker or its team did something (I have …ed, we …ed, and …ed)."""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.causatives import brought_about, got_done
from reviews.rules.guard.reading.views import PARTICIPLES, Said, View, acts

GOES_ON = "goes on"
TOOK = "took"
ACHIEVED = (
    ("managed", "to"),
    ("was", "able", "to"),
    ("were", "able", "to"),
    ("been", "able", "to"),
    ("made", "sure", "to"),
)
"""What comes before the verb of something that was done in the end."""


def acted(view: View) -> Said | None:
    """I have …ed, we …ed, our team has …ed, and a second verb after one."""
    agent = view.agent()
    if agent < 0:
        return _acted_too(view)
    words = view.words
    if _tells_which(view, agent):
        return None
    at = view.skip(agent + 1)
    perfect = words[at : at + 1] in (("have",), ("has",))
    if not perfect and words[at : at + 1] in (("took",), ("gave",), ("had",)):
        return _had_done(view, at) or _with_noun(view, at)
    if words[at : at + 1] == ("did",):
        return None if "all" in words[:agent] else Said(Kind.DONE, "I did", frozenset({"do"}), at, agent=True)
    return _perfect(view, view.skip(at + 1)) if perfect else _simple(view, at)


def _tells_which(view: View, agent: int) -> bool:
    """ "The total is what we quoted", "the notes I made were short": it tells which thing is meant."""
    words = view.words
    if agent > 1 and words[agent - 1] == "what":
        return True
    named = agent > 1 and view.is_in(0, "determiners") and bool(view.lemmas(agent + 1, "past") & {"make", "give"})
    return named and view.has_from("be", agent + 2)


def _perfect(view: View, at: int) -> Said | None:
    """I have …ed; gone ahead and …ed; been through …; had a look."""
    words = view.words
    if words[at : at + 2] in (("gone", "ahead"), ("went", "ahead")):
        at = view.skip(at + 2)
        if at >= len(words):
            return Said(Kind.DONE, GOES_ON, frozenset(), at, agent=True)
    if (verb := _achieved(view, at)) >= 0:
        return _own(view, verb, view.lemmas(verb, "base"))
    if words[at : at + 1] == ("been",):
        at = view.skip(at + 1)
        through = words[at : at + 1] == ("through",)
        return Said(Kind.DONE, "looked", frozenset({"look"}), at, agent=True) if through else None
    if words[at : at + 1] == ("had",):
        return _had_done(view, at) or _with_noun(view, at)
    at = _late(view, at)
    return _own(view, at, view.lemmas(at, *PARTICIPLES, "unknown") or view.lemmas(at, "base"))


def _simple(view: View, at: int) -> Said | None:
    """I …ed; I managed to …; I went ahead and …ed."""
    if (verb := _achieved(view, at)) >= 0:
        return _own(view, verb, view.lemmas(verb, "base"))
    if view.words[at : at + 2] == ("went", "ahead"):
        return _perfect(view, at)
    if view.words[at : at + 1] == ("got",) and (verbs := got_done(view, at + 1)):
        return _own(view, at, verbs)
    if view.words[at : at + 2] in (("am", "done"), ("are", "done")) and (verbs := view.lemmas(at + 2, "gerund")):
        return _own(view, at, verbs)
    found = _own(view, at, view.lemmas(at, *PARTICIPLES, "unknown"))
    if found is None and at and view.words[at - 1] in {"i", "we"} and view.is_in(at + 1, "determiners"):
        verbs = view.lemmas(at, "base") - view.language.sets["looks"] - view.language.sets["intransitive"]
        return Said(Kind.DONE, "I do", verbs, at, weak=True, agent=True) if acts(view, verbs) else None
    return found


def _achieved(view: View, at: int) -> int:
    """Where the verb stands of what somebody managed, was able or made sure to do; else -1."""
    for phrase in ACHIEVED:
        if view.words[at : at + len(phrase)] == phrase:
            return view.skip(at + len(phrase))
    return -1


def _own(view: View, at: int, verbs: frozenset[str]) -> Said | None:
    if verbs == {"go"}:
        if view.words[at + 1 : at + 2] not in (("through",), ("over",)):
            return None
        verbs = frozenset({"look"})
    after = view.words[at + 1] if at + 1 < len(view.words) else ""
    if (verbs == {"run"} and after == "into") or (verbs <= {"reach", "hit"} and after != "out"):
        return None  # What somebody runs into or reaches is no act of its own.
    if verbs == {"leave"} and view.is_in(at + 1, "pronouns"):
        return None
    told = "tell" in verbs and view.words[at + 1 : at + 2] in (("you",), ("u",))
    if told or "alone" in view.words or not acts(view, verbs):
        return None
    return Said(Kind.DONE, "I have done", verbs, at, agent=True)


def _late(view: View, at: int) -> int:
    """ "I have the invitation already sent": the participle behind its object, where there is one."""
    late = range(at + 1, len(view.words))
    found = (index for index in late if view.lemmas(index, "participle") and view.is_in(index - 1, "adverbs"))
    return at if view.lemmas(at, *PARTICIPLES) else next(found, at)


def _with_noun(view: View, at: int) -> Said | None:
    """had a look, took a snapshot, gave her a ring."""
    tail = view.words[at + 1 : at + 5]
    things = [view.language.singular(word) for word in tail]
    verbs = frozenset(lemma for thing in things for lemma in view.language.lemmas(thing) if lemma == thing)
    if view.words[at] == "had" and not any(word in {"a", "another"} for word in tail):
        return None
    return (
        Said(Kind.DONE, TOOK, verbs | view.lemmas(at, "past"), at, agent=True)
        if verbs or view.words[at] != "had"
        else None
    )


def _had_done(view: View, at: int) -> Said | None:
    """had our supplier switch it."""
    verbs = (brought_about(view, at + 1) or got_done(view, at + 1)) if view.words[at] == "had" else frozenset()
    return Said(Kind.DONE, "I have done", verbs, at, agent=True) if acts(view, verbs) else None


def _acted_too(view: View) -> Said | None:
    prior = view.prior
    if prior is None or not prior.agent:
        return None
    at = view.skip(0)
    perfect = view.words[at : at + 1] in (("have",), ("has",))
    if prior.kind is not Kind.DONE and not perfect:
        return None
    if perfect:
        at = _late(view, view.skip(at + 1))
    if view.words[at : at + 1] == ("had",):
        return _with_noun(view, at)
    verbs = view.lemmas(at, *PARTICIPLES)
    if view.mark == ")" and not view.lead:
        return None
    return Said(Kind.DONE, "and did", verbs, at, agent=True) if acts(view, verbs) else None
