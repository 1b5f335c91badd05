"""Under way: how a chunk says that the speaker, or the system for it, is at it now."""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.views import NONE, PARTICIPLES, Said, View, acts


def under_way(view: View) -> Said | None:
    """I am …ing, … is being …, …ing now."""
    words = view.words
    found = _at_it(view)
    if found is not None:
        return found
    for index, word in enumerate(words):
        if (
            word == "being"
            and index
            and view.words[index - 1] in view.language.sets["be"] | view.language.sets["adverbs"]
        ):
            verbs = view.lemmas(view.skip(index + 1), *PARTICIPLES)
            return Said(Kind.ONGOING, "being done", verbs, index) if acts(view, verbs) else None
    start = view.skip(0)
    verbs = view.lemmas(start, "gerund")
    now = any(word in view.language.sets["time_words"] for word in words[start + 1 :])
    again = view.prior is not None and view.prior.kind is Kind.ONGOING and view.prior.agent
    if acts(view, verbs) and (now or again) and not _has_finite(view, start + 1):
        return Said(Kind.ONGOING, "doing now", verbs, start, agent=True)
    return None


def _at_it(view: View) -> Said | None:
    """I am …ing, our team is …ing, I have started …ing; "I'm doing well" is no work."""
    words, agent = view.words, view.agent()
    if agent < 0:
        return None
    at = view.skip(agent + 1)
    if words[at : at + 1] in (("am",), ("are",)) or (words[at : at + 1] == ("is",) and view.is_in(agent, "teams")):
        verb = view.skip(at + 1)
        verbs = view.lemmas(verb, "gerund")
        if verbs == {"do"} and (verb + 1 == len(words) or words[verb + 1] in _MOODS):
            return None
        if acts(view, verbs):
            return Said(Kind.ONGOING, "under way", verbs, at + 1, agent=True)
    if (verbs := _begun(view, at)) and acts(view, verbs):
        return Said(Kind.ONGOING, "under way", verbs, at, agent=True)
    return None


_MOODS = frozenset({"well", "fine", "good", "great", "okay", "ok", "alright"})


def _begun(view: View, at: int) -> frozenset[str]:
    """ "I have started moving it", "I am in the process of moving it"."""
    if view.words[at : at + 1] in (("have",), ("am",), ("are",)):
        at = view.skip(at + 1)
    if view.words[at : at + 4] == ("in", "the", "process", "of"):
        return view.lemmas(at + 4, "gerund")
    return view.lemmas(at + 1, "gerund") if view.words[at : at + 1] in (("started",), ("begun",), ("began",)) else NONE


def _has_finite(view: View, index: int) -> bool:
    return any(
        word in view.language.sets["be"] or word in {"has", "will", "would", "failed", "loses", "did"}
        for word in view.words[index:]
    )
