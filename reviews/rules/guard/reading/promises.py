"""Promises: what the speaker says that it will do.

1. A promise has the speaker as its subject, or none: it begins the sentence, or goes on from what the speaker did.
2. Its verb is the one behind "will": "will be calling", "will have it notarised", "will have a look" are calls, a
   notarisation and a look. What only keeps the reader informed ("I'll keep you posted") promises no action.
"""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.causatives import brought_about
from reviews.rules.guard.reading.views import Said, View, acts, goes_on


def promised(view: View) -> Said | None:
    """I will …, I am going to …, and a second verb after one."""
    if (people := _people_for_us(view)) is not None:
        return people
    agent = view.agent()
    if view.prior is not None and view.prior.kind is Kind.PROMISED and agent < 0 and view.lead in {"and", ""}:
        return _promised_too(view)
    if agent < 0 and not (goes_on(view) and view.words[:1] == ("will",)):
        return None
    at = _after_will(view, view.skip(agent + 1))
    if at < 0:
        return None
    verbs = _promised_verbs(view, at)
    return Said(Kind.PROMISED, "promised", verbs, at, agent=True) if acts(view, verbs) else None


_CONTACTS = frozenset({"call", "contact", "email", "phone", "reach", "ring", "text", "message"})


def _people_for_us(view: View) -> Said | None:
    """ "A specialist will call you": people of the house, who get in touch with the reader."""
    at = next((index for index, word in enumerate(view.words[:5]) if word == "will"), -1)
    if at < 2 or view.words[0] not in {"a", "an", "one", "another"} or not view.is_in(at - 1, "teams"):
        return None
    verb = view.skip(at + 1)
    verbs = view.lemmas(verb, "base") & _CONTACTS
    told = verbs and "you" in view.words[verb + 1 : verb + 4]
    return Said(Kind.PROMISED, "promised", verbs, verb, agent=True) if told else None


def _promised_too(view: View) -> Said | None:
    at = view.skip(0)
    if view.words[at : at + 1] == ("will",):
        at = view.skip(at + 1)
    verbs = _promised_verbs(view, at) & _known_verbs(view, at) if not view.has("others", at) else frozenset()
    if not verbs and view.lead == "and" and view.is_in(at + 1, "determiners") and _is_verb_like(view, at):
        verbs = frozenset({view.words[at]})
    acted = acts(view, verbs) and "alone" not in view.words
    return Said(Kind.PROMISED, "promised too", verbs, at, agent=True) if acted else None


def _known_verbs(view: View, at: int) -> frozenset[str]:
    """The verbs that a second promise may have: the word at a place, or what it has done ("have them delivered")."""
    if view.words[at : at + 1] == ("have",):
        return _promised_verbs(view, at)
    return view.lemmas(at, "base")


def _after_will(view: View, at: int) -> int:
    """The place behind "will" or "am going to", else -1."""
    words = view.words
    if words[at : at + 1] in (("will",), ("shall",)):
        return view.skip(at + 1)
    if words[at : at + 1] in (("am",), ("are",)) and words[at + 1 : at + 3] == ("going", "to"):
        return view.skip(at + 3)
    return -1


def _promised_verbs(view: View, at: int) -> frozenset[str]:
    """… call, … be calling, … have it notarised, … keep calling."""
    match view.words[at : at + 1]:
        case ("be",):
            return view.lemmas(at + 1, "gerund")
        case ("have",):
            late = range(at + 2, len(view.words))
            made = frozenset(verb for index in late for verb in view.lemmas(index, "participle", "unknown"))
            return brought_about(view, at + 1) or made or _had(view, at + 1)
        case ("keep",) | ("let",) if view.words[at + 1 : at + 2] == ("you",):
            return frozenset()
        case ("come",) | ("get",) if view.words[at + 1 : at + 3] == ("back", "to"):
            return frozenset()
        case ("keep",):
            return view.lemmas(at + 1, "gerund") or frozenset({"keep"})
    return view.lemmas(at, "base") or (frozenset({view.words[at]}) if _is_verb_like(view, at) else frozenset())


def _had(view: View, at: int) -> frozenset[str]:
    """have a look, have a word with her, have a technician at your door."""
    if not view.is_in(at, "determiners"):
        return frozenset()
    nouns = view.words[at + 1 : at + 3]
    if any(word in {"word", "chat", "talk"} for word in nouns):
        return frozenset({"speak"})
    looks = frozenset(word for word in nouns if word in view.language.sets["looks"])
    return looks or frozenset({"arrange"})


def _is_verb_like(view: View, at: int) -> bool:
    return (
        at < len(view.words)
        and view.kinds[at] == "word"
        and not any(
            view.is_in(at, name) for name in ("negators", "determiners", "modals", "be", "have", "agent", "others")
        )
    )
