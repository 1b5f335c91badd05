"""A sentence read chunk by chunk: what it claims, what it states or denies, and what it tells as current.

1. A chunk without a subject goes on with the one before it; a condition and what somebody is said to have said claim
   nothing.
2. In a fenced block only what the speaker says in the first person is its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.acting import GOES_ON
from reviews.rules.guard.reading.claiming import bare_claim, claim_of
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.patterns import denied, said
from reviews.rules.guard.reading.spoken import Spoken
from reviews.rules.guard.reading.states import MENTION
from reviews.rules.guard.reading.views import Said, View
from reviews.rules.guard.text.tokens import Chunk

TOLD = "told beside an open end"
_SPACES = re.compile(r"[^\w' ]+")
_NUMBER = r"\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten"
_OF = re.compile(
    rf"\b({_NUMBER}|none|half|most|some|only|one) (?:out )?of (?:(?:the|your|his|her|their|our) )?({_NUMBER})\b"
)


def claims_of(spoken: Spoken, doubt: int) -> Iterator[Claim]:
    """The claims of a sentence (rules 1 and 2), in a message of so much doubt (`claiming`)."""
    sentence = spoken.sentence
    block = sentence.block
    if block.ticked is False and block.kind == "item" and _is_boxed(spoken):
        return
    bare = _SPACES.sub("", spoken.text).strip()
    if bare in spoken.language.bare and not sentence.question and not block.fenced:
        yield bare_claim(spoken, sentence.start, sentence.end)
        return
    yield from _read(spoken, doubt)


def _is_boxed(spoken: Spoken) -> bool:
    """Whether an item has a box to tick."""
    start = spoken.sentence.block.start
    return "[" in spoken.folded.lower[max(0, start - 5) : start]


def _read(spoken: Spoken, doubt: int) -> Iterator[Claim]:
    prior: Said | None = None
    fenced = spoken.sentence.block.fenced
    for index, part in enumerate(spoken.parts):
        if spoken.conditional[index] or spoken.is_reported(index):
            prior = None
            continue
        if not fenced and _is_bare(spoken, part, index):
            yield bare_claim(spoken, part.start, part.end)
            prior = Said(Kind.DONE, "bare", frozenset(), 0, agent=True)
            continue
        found = said(spoken.view(index, prior))
        if found is not None and _counts(spoken, found, index):
            yield claim_of(spoken, found, index, doubt=doubt)
        if found is None or found.rule not in {MENTION, "state"}:
            prior = found
        elif spoken.tells(part):
            prior = None


def _is_bare(spoken: Spoken, part: Chunk, index: int) -> bool:
    language = spoken.language
    if len(part.words) > language.longest_bare or (index and part.mark not in {",", ":", "\u2014"}):
        return False
    bare = _SPACES.sub("", " ".join(part.words)).strip()
    return language.contracted(bare) in language.bare


def _counts(spoken: Spoken, found: Said, index: int) -> bool:
    if found.rule == GOES_ON or (found.kind is Kind.PROMISED and _is_offered(spoken, index)):
        return False
    return not _is_part(spoken, index) and _is_ours(spoken, found)


def _is_offered(spoken: Spoken, index: int) -> bool:
    """ "I will write it after you confirm", "say which, and I'll book it": a promise that waits for the reader."""
    parts, language = spoken.parts, spoken.language
    following = parts[index + 1 : index + 2]
    awaits = following and following[0].lead in language.sets["conditional"]
    if awaits and following[0].words[0] in {"you", "u"}:
        return True
    if not index or parts[index].lead not in {"and", "which", "who"}:
        return False
    head = next((part for part in reversed(parts[:index]) if not part.lead), parts[0])
    return head.words[0] in language.of_kinds(("base",)) and not spoken.tells(head)


def _is_ours(spoken: Spoken, found: Said) -> bool:
    """Whether it is the speaker's own (rule 2)."""
    return not spoken.sentence.block.fenced or found.rule in {"I have done", "promised"}


def _is_part(spoken: Spoken, index: int) -> bool:
    """Whether it says how much of a whole was done: "1 of 3" tells that not all was."""
    if "of" not in spoken.known:
        return False
    text = " ".join(word for part in spoken.parts[index : index + 2] for word in part.words)
    return " of " in text and any(one != other for one, other in _OF.findall(text))


def stated_in(spoken: Spoken, *, denials: bool) -> Iterator[Claim]:
    """The chunks that plainly state something: nothing conditional, denied, possible, reported or told to do.

    With `denials` those that deny something, alone.
    """
    block = spoken.sentence.block
    if block.fenced or block.ticked is False:
        return
    for index, part in enumerate(spoken.parts):
        conditional = spoken.conditional[index]
        if conditional:
            continue
        view = spoken.view(index)
        if denied(view):
            yield claim_of(spoken, Said(Kind.FAILED, TOLD, _verbs(spoken, part), 0, weak=True), index)
            continue
        if denials or spoken.is_reported(index) or _is_possible(view) or _is_of_others(view):
            continue
        if part.words[0] in {"will", "your"} and "will" in part.known:
            continue
        yield claim_of(spoken, Said(Kind.DONE, TOLD, _verbs(spoken, part), 0, weak=True), index)


def _verbs(spoken: Spoken, part: Chunk) -> frozenset[str]:
    found = (lemma for word in part.words for lemma in spoken.language.lemmas(word))
    return frozenset(found) - spoken.language.sets["inert"]


def _is_possible(view: View) -> bool:
    """Whether something is only possible: "I can", "you may"; "Ana can see the logs now" tells what she can do now."""
    if not view.has("modals"):
        return False
    told = {"can", "may"} & set(view.words) and not {"i", "we", "you", "u"} & set(view.words)
    return not told or len(set(view.words) & view.language.sets["modals"]) > 1


def _is_of_others(view: View) -> bool:
    """Whether somebody else acts: "you asked", "they sent"; "you are booked" and "you have got it" tell a state."""
    others = view.language.sets["others"]
    at = next((index for index, word in enumerate(view.words) if word in others), -1)
    if at < 0:
        return False
    told = view.is_in(at + 1, "be") or view.words[at + 1 : at + 3] == ("have", "got")
    return view.words[at] not in {"you", "u"} or not told


def currents_in(spoken: Spoken, own: list[Claim]) -> Iterator[Claim]:
    """What is told as current: it must not rest on a reading that is out of date (R-CG-08)."""
    sets = spoken.language.sets
    if not sets["hedged"].isdisjoint(spoken.known):
        return
    for index, part in enumerate(spoken.parts):
        start, end = spoken.folded.span(part.start, part.end)
        if any(claim.start < end and start < claim.end and not claim.weak for claim in own):
            continue
        if _is_spoken_of(spoken, part) or part.lead in sets["conditional"]:
            continue
        if not sets["present"].isdisjoint(part.words[1:] if part.lead == "" else part.words):
            found = Said(Kind.DONE, "told as current", frozenset(), 0)
            claim = claim_of(spoken, found, index, alone=True)
            yield replace(claim, state=True, whole=False, weak=False, beside="")


def _is_spoken_of(spoken: Spoken, part: Chunk) -> bool:
    """Whether somebody is the subject, or something is only possible or still open: no condition is told."""
    sets, words = spoken.language.sets, part.words
    owned = words[:2] == ("we", "have") and bool(words[2:3]) and words[2][0].isdigit()
    if (words[0] in sets["others"] or words[0] in sets["agent"]) and not owned:
        return True
    return not sets["modals"].isdisjoint(part.known) or bool((sets["open"] & part.known) - {"still"})
