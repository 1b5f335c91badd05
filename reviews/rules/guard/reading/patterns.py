"""Patterns: how a chunk says that something was done, is under way, was promised or has failed.

Each pattern is a small function over the words of one chunk; the words that it asks for are data of the language. The
first that fits names the rule. A pattern is *weak* where its words alone could as well be a fact that was read, or an
adjective: such a claim counts only if it can be tied to an action on record.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.causatives import brought_about
from reviews.rules.guard.reading.promises import promised
from reviews.rules.guard.reading.reports import reported
from reviews.rules.guard.reading.views import Said, View, acts, goes_on

IN_THE_POST = (("in", "the", "post"), ("in", "the", "mail"))
GOES_ON = "goes on"
STOPPED = "stopped or failed"
MENTION = "mention"
TOOK = "took"
ARROWS = frozenset({"\u2192", "->", "=>"})
PARTICIPLES = frozenset({"past", "participle"})


def _after_failure(view: View) -> bool:
    """ "It was returned and booked back": what goes on from a failure claims nothing."""
    return view.prior is not None and view.prior.kind is Kind.FAILED and view.lead == "and" and view.agent() < 0


def denied(view: View) -> bool:
    """Whether a chunk says that something did not happen."""
    negated = any(
        word in view.language.sets["negators"]
        and view.words[index + 1 : index + 2] != ("longer",)
        and not _is_of_others(view, index)
        for index, word in enumerate(view.words)
    )
    return negated or (view.words[:2] == ("have", "yet")) or "yet to" in " ".join(view.words)


def _is_of_others(view: View, index: int) -> bool:
    """ "I set up a folder you do not have to see": what is denied is said of another subject than the speaker."""
    return 0 <= view.agent() < index - 3 and view.is_in(index - 2, "others") and view.is_in(index - 1, "auxiliaries")


def _is_asked(view: View) -> bool:
    """ "Kindly supply …", "please send …": the reader is asked to do it."""
    return view.words[0] in {"kindly", "please"} and bool(view.lemmas(1, "base")) and not view.is_in(1, "be")


def said(view: View) -> Said | None:
    """What a chunk says, by the first pattern that fits; what is denied or only possible says nothing."""
    failed = _failed(view)
    if failed is not None:
        return failed
    if denied(view) or _after_failure(view) or _is_asked(view):
        return None
    for pattern in PATTERNS:
        found = pattern(view)
        if found is not None:
            return found
    return None


def _failed(view: View) -> Said | None:
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
    if view.has("negators", index) or view.has("modals", index):
        return False
    before = view.words[index - 1] if index else ""
    if before in view.language.sets["determiners"] or before in view.language.sets["others"]:
        return False
    following = view.words[index + 1] if index + 1 < len(view.words) else ""
    return following not in view.language.sets["determiners"] or index == 0


def _ongoing(view: View) -> Said | None:
    """I am …ing, … is being …, …ing now."""
    words = view.words
    agent = view.agent()
    if agent >= 0:
        at = view.skip(agent + 1)
        if words[at : at + 1] in (("am",), ("are",)) or (words[at : at + 1] == ("is",) and view.is_in(agent, "teams")):
            verbs = view.lemmas(view.skip(at + 1), "gerund")
            if acts(view, verbs):
                return Said(Kind.ONGOING, "under way", verbs, at + 1, agent=True)
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


def _has_finite(view: View, index: int) -> bool:
    return any(
        word in view.language.sets["be"] or word in {"has", "will", "would", "failed", "loses", "did"}
        for word in view.words[index:]
    )


def _acted(view: View) -> Said | None:
    """I have …ed, we …ed, our team has …ed, and a second verb after one."""
    agent = view.agent()
    if agent < 0:
        return _acted_too(view)
    words = view.words
    if agent > 1 and words[agent - 1] == "what":
        return None  # "The total is what we quoted": it tells which thing is meant.
    at = view.skip(agent + 1)
    perfect = words[at : at + 1] in (("have",), ("has",))
    if not perfect and words[at : at + 1] in (("took",), ("gave",), ("had",)):
        return _had_done(view, at) or _with_noun(view, at)
    if words[at : at + 1] == ("did",):
        return None if "all" in words[:agent] else Said(Kind.DONE, "I did", frozenset({"do"}), at, agent=True)
    return _perfect(view, view.skip(at + 1)) if perfect else _simple(view, at)


def _perfect(view: View, at: int) -> Said | None:
    """I have …ed; gone ahead and …ed; been through …; had a look."""
    words = view.words
    if words[at : at + 2] in (("gone", "ahead"), ("went", "ahead")):
        at = view.skip(at + 2)
        if at >= len(words):
            return Said(Kind.DONE, GOES_ON, frozenset(), at, agent=True)
    if words[at : at + 1] == ("been",):
        at = view.skip(at + 1)
        through = words[at : at + 1] == ("through",)
        return Said(Kind.DONE, "looked", frozenset({"look"}), at, agent=True) if through else None
    if words[at : at + 1] == ("had",):
        return _had_done(view, at) or _with_noun(view, at)
    at = _late(view, at)
    return _own(view, at, view.lemmas(at, *PARTICIPLES, "unknown") or view.lemmas(at, "base"))


def _simple(view: View, at: int) -> Said | None:
    """I …ed; I managed to …."""
    if view.words[at : at + 2] == ("managed", "to"):
        return _own(view, at, view.lemmas(at + 2, "base"))
    found = _own(view, at, view.lemmas(at, *PARTICIPLES, "unknown"))
    if found is None and at and view.words[at - 1] in {"i", "we"} and view.is_in(at + 1, "determiners"):
        verbs = view.lemmas(at, "base") - view.language.sets["looks"] - view.language.sets["intransitive"]
        return Said(Kind.DONE, "I do", verbs, at, weak=True, agent=True) if acts(view, verbs) else None
    return found


def _own(view: View, at: int, verbs: frozenset[str]) -> Said | None:
    if verbs == {"go"}:
        if view.words[at + 1 : at + 2] not in (("through",), ("over",)):
            return None
        verbs = frozenset({"look"})
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
    verbs = brought_about(view, at + 1) if view.words[at] == "had" else frozenset()
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


def _passive(view: View) -> Said | None:
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
        perfect = "been" in view.words[index - 1 : at] or word in {"got"}
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
    if others or _by_others(view, at + 1):
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


def _went(view: View) -> Said | None:
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


def _by_others(view: View, index: int) -> bool:
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


def _bare_verb(view: View) -> Said | None:
    """Pushed to main; sent; - [x] removed from vpn."""
    at = view.skip(0)
    verbs = view.lemmas(at, *PARTICIPLES)
    if verbs and view.is_in(at, "base_is_past") and not view.ticked:
        return None
    if not verbs and view.ticked and view.first:
        verbs = view.lemmas(at, "base")
    if not acts(view, verbs) or _by_others(view, at + 1) or _is_of_itself(view, verbs, at):
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
    if view.words[at + 1 : at + 2] == ("to",) or (view.first and view.is_in(at + 1, "determiners")):
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


def _telegraphic(view: View) -> Said | None:
    """Snapshot taken; ticket 48211 opened; auth restarted."""
    for index in range(1, len(view.words)):
        verbs = view.lemmas(index, "participle")
        if not verbs or view.is_in(index - 1, "determiners") or view.has("others", index):
            continue
        if view.has("be", index) or view.has("modals", index) or _by_others(view, index + 1):
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


def _has_done(view: View, verbs: frozenset[str], index: int) -> bool:
    """ "Ken has merged it": somebody else acts; "the order has shipped" tells what a thing came to."""
    at = index - 1
    while at >= 0 and view.is_in(at, "adverbs"):
        at -= 1
    sets = view.language.sets
    return at >= 0 and view.words[at] in {"has", "have"} and not verbs <= sets["intransitive"] | sets["moves_itself"]


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


def _has_verb(view: View, index: int) -> bool:
    """ "The courier marked it as delivered", "days taken are …": the clause has another verb."""
    sets = view.language.sets
    if any(word in sets["be"] | sets["modals"] | {"will", "has", "have"} for word in view.words[index + 1 :]):
        return True
    return any(
        view.lemmas(at, "past") and view.is_in(at + 1, "determiners") and not view.lemmas(at, "base")
        for at in range(1, index)
    )


def _state(view: View) -> Said | None:
    """… is live, … are with the customer, label ready, … gone."""
    words = view.words
    soon = "should" in words and any(word in view.language.sets["reached"] or word == "now" for word in words)
    others = words[0] in view.language.sets["others"] and not (view.is_in(1, "be") and "now" in words)
    if (view.has("modals") and not soon) or view.has("open") or view.agent() >= 0 or others:
        return None
    if (view.before_colon and len(words) > 1 and not view.has("be")) or _by_others(view, 0):
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


PATTERNS: tuple[Callable[[View], Said | None], ...] = (
    promised,
    _ongoing,
    _acted,
    _went,
    _passive,
    _bare_verb,
    _telegraphic,
    reported,
    _state,
)
