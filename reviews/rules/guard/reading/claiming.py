"""Claiming: a claim made of what a pattern found in a chunk, and of the words that stand around it.

1. A claim's words are those of its chunk, and of the label before it ("Refund: issued"); in a table, of its first cell.
2. A weak claim counts only in a message that tells of nothing open, failed or denied; else it is loose. What cites a
   receipt, sums up, was done "by us" or has come about always counts.
3. It is the speaker's own doing where a rule for that found it, or where it stands alone as a report of no past time
   and of no rule of the house.
"""

from __future__ import annotations

from itertools import pairwise

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.acting import TOOK
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.spoken import CLOCK, Spoken
from reviews.rules.guard.reading.states import MENTION
from reviews.rules.guard.reading.tenses import RESULTS, Tense, is_perfect, tense
from reviews.rules.guard.reading.views import NONE, Said
from reviews.rules.guard.text.tokens import Chunk
from reviews.rules.guard.text.values import Value

BY_SPEAKER = frozenset(
    {
        *("I have done", "and did", "did it", TOOK, "looked", "I did", "promised", "promised too"),
        *("under way", "doing now", "says done"),
    }
)
"""Rules that find what the speaker says of itself."""
LOOSE = frozenset({MENTION, "state", "done, told in short", "was done"})
"""Rules whose weak claims count only in a message without doubt (rule 2)."""
_LABELS = frozenset({":", "\u2014", "-", "\u2192", "->", "=>", "|", "("})
_BY_US = frozenset({("by", "me"), ("by", "us")})
_NOW = frozenset({"has", "have", "'s", "now"})
_POINTING = frozenset({"it", "them", "one", "that"})
_ENDING = frozenset({"finish", "complete", "succeed"})
_MR = frozenset({"mr"})


def bare_claim(spoken: Spoken, start: int, end: int) -> Claim:
    """A claim that names nothing ("Done."): it is about all that was attempted."""
    span = spoken.folded.span(start, end)
    quote = spoken.message[span[0] : span[1]]
    return Claim(*span, quote, Kind.DONE, "says done", whole=True, beside=spoken.beside)


def claim_of(spoken: Spoken, found: Said, index: int, *, alone: bool = False, doubt: int = 0) -> Claim:
    """The claim of a chunk (rules 1 to 3); `alone` without what stands around it."""
    part = spoken.parts[index]
    start, own, words, known, singulars = _told_in(spoken, index, alone=alone)
    span = spoken.folded.span(start, part.end)
    quote = spoken.message[span[0] : span[1]]
    nouns = singulars - spoken.language.stop
    nouns -= found.verbs if found.rule != TOOK else frozenset(part.words[found.at : found.at + 1])
    if "mr" in nouns and "Mr" in quote:
        nouns -= _MR
    done = found.kind is Kind.DONE
    whole = done and _is_whole(spoken, words, own, found) and not CLOCK.match(words[0])
    cited = () if alone else _cited(spoken, index)
    ours, perfect = _is_by_us(part), _is_perfect(spoken, found, part)
    return Claim(
        *span,
        quote=quote,
        kind=found.kind,
        rule=found.rule,
        verbs=_phrasal(spoken, part) or found.verbs,
        nouns=nouns,
        words=known,
        meaning=_meaning(spoken, found, part),
        values=own,
        cited=cited,
        hints=() if alone or own else _hints(spoken, index),
        listed=() if alone else _listed(spoken, index),
        whole=whole,
        weak=found.weak,
        loose=_is_loose(found, doubt) and not (whole or cited or ours or perfect),
        agency=_has_agency(spoken, found, index),
        follows=not spoken.is_past(part) and spoken.language.sets["policy"].isdisjoint(part.known),
        tense=_tense(spoken, found, part),
        ours=ours,
        perfect=perfect,
        result=_is_result(found, part) and doubt < SURELY,
        beside=spoken.beside,
    )


SURELY = 2
"""So much doubt has a message that says that something is open, failed, unknown or denied."""


def _is_loose(found: Said, doubt: int) -> bool:
    """Whether the doubt in a message is enough for what is weak (rule 2)."""
    return found.weak and found.rule in LOOSE and doubt >= (1 if found.rule == MENTION else SURELY)


def _is_result(found: Said, part: Chunk) -> bool:
    """Whether it tells what something came to: it is …, you are now …, it has …."""
    return found.weak and (found.rule in {"state", "went through"} or "now" in part.known)


Words = tuple[int, tuple[Value, ...], tuple[str, ...], frozenset[str], frozenset[str]]


def _told_in(spoken: Spoken, index: int, *, alone: bool) -> Words:
    """Where a claim begins, its values, its words, the words as a set, and without their plural endings (rule 1)."""
    part = spoken.parts[index]
    start, own = part.start, spoken.values_of(part)
    words, known, singulars = part.words, part.known, part.singulars
    further = []
    if index and not alone and part.mark in _LABELS:
        before = spoken.parts[index - 1]
        further.append(before)
        start = before.start if part.mark != "(" else start
        own += spoken.values_of(before)
    if spoken.sentence.block.kind == "row" and index and not alone:
        further.append(spoken.parts[0])
        own += tuple([value for value in spoken.values_of(spoken.parts[0]) if value not in own])
    for each in further:
        words, known, singulars = words + each.words, known | each.known, singulars | each.singulars
    return start, own, words, known, singulars


def _phrasal(spoken: Spoken, part: Chunk) -> frozenset[str]:
    """The verbs that a verb with its particle means: "called off" is "cancel"."""
    if spoken.language.particles.isdisjoint(part.known):
        return NONE
    return frozenset(spoken.language.phrasal(list(part.words))) - part.known


def _meaning(spoken: Spoken, found: Said, part: Chunk) -> frozenset[str]:
    """The verbs that bring about the condition that a chunk tells."""
    if found.rule != "state":
        return NONE
    known = spoken.language.data["reading"]["conditions"]
    return frozenset(verb for word in part.words[found.at :] for verb in known.get(word, ()))


def _has_agency(spoken: Spoken, found: Said, index: int) -> bool:
    """Whether the speaker says that it did it, or it is a report that stands alone, of no past time (rule 3)."""
    part, fenced = spoken.parts[index], spoken.sentence.block.fenced
    if found.rule in BY_SPEAKER or _is_by_us(part):
        return not fenced
    if fenced or spoken.has_past or not spoken.known.isdisjoint(spoken.language.sets["policy"]):
        return False
    own = found.rule in {"did", "done, told in short"} and (index == 0 or part.mark != "")
    own = own and not any(each.lead in {"while", "when"} for each in spoken.parts[index + 1 : index + 2])
    if own or found.rule not in {"was done", "went through"}:
        return own
    perfect = not _NOW.isdisjoint(part.words[max(0, found.at - 3) : found.at])
    told = part.lead not in spoken.language.sets["reasons"] and not spoken.is_relative(index)
    return perfect and told and not spoken.instructs


def _is_by_us(part: Chunk) -> bool:
    """Whether it was done "by us"."""
    return "by" in part.known and not _BY_US.isdisjoint(pairwise(part.words))


def _is_perfect(spoken: Spoken, found: Said, part: Chunk) -> bool:
    """Whether it reports what has come about: no reason, no instruction."""
    if found.rule not in RESULTS or part.lead in spoken.language.sets["reasons"]:
        return False
    return is_perfect(part.words, found.at, part.lead) and not spoken.instructs


def _tense(spoken: Spoken, found: Said, part: Chunk) -> Tense | None:
    """When the result came about that a chunk tells without its doer."""
    if found.rule not in RESULTS or part.lead in spoken.language.sets["reasons"]:
        return None
    conditional = spoken.language.sets["conditional"]
    beside = any(each.lead in conditional for each in spoken.parts)
    return tense(part.words, found.at, spoken.language, beside_condition=beside)


def _is_whole(spoken: Spoken, words: tuple[str, ...], own: tuple[Value, ...], found: Said) -> bool:
    """Whether it is about all that was asked for: every step, both of them, end to end."""
    if found.rule in {MENTION, "I have done", "and did"}:
        return False
    sets = spoken.language.sets
    if (found.verbs & sets["intransitive"] and not _is_ended(found)) or any(
        value.sort in {"id", "money", "email"} for value in own
    ):
        return False
    subject = words[: found.at + 1] if found.rule == "was done" else words
    whole = sets["whole"].intersection(subject)
    if whole == {"all"} and "at all" in " ".join(words):
        return False
    return bool(whole) or words.count("end") > 1


def _is_ended(found: Said) -> bool:
    """ "Both jobs finished", "every step went through"."""
    return found.rule == "went through" or found.verbs <= _ENDING


def _listed(spoken: Spoken, index: int) -> tuple[Value, ...]:
    """The ids that are listed behind a claim, the last with "and": "I removed c1 and c2", "both, c1 and c2"."""
    if not spoken.values:
        return ()
    found: tuple[Value, ...] = ()
    for part in spoken.parts[index + 1 :]:
        ids = _ids(spoken, part) if len(part.tokens) <= 2 else ()
        if not ids or not (part.lead == "and" or part.mark == ","):
            return ()
        found += ids
        if part.lead == "and":
            return found
    return ()


def _hints(spoken: Spoken, index: int) -> tuple[Value, ...]:
    """The values of the chunk before, for a pronoun: "412 was a duplicate, so I closed it"."""
    if not index or _POINTING.isdisjoint(spoken.parts[index].known):
        return ()
    return spoken.values_of(spoken.parts[index - 1])


def _cited(spoken: Spoken, index: int) -> tuple[Value, ...]:
    """The ids in the bracket or the apposition right behind a claim: "(re_81)", "ref RS-19"."""
    if not spoken.values or index + 1 >= len(spoken.parts):
        return ()
    following = spoken.parts[index + 1]
    if following.mark not in {"(", ","} or len(following.tokens) > 4:
        return ()
    return _ids(spoken, following)


def _ids(spoken: Spoken, part: Chunk) -> tuple[Value, ...]:
    return tuple([value for value in spoken.values_of(part) if value.sort == "id"])
