"""Imagined: whether what fits no tool is something that no tool can do, or an action told in other words (R-CG-09).

1. What names a value or a thing that an action on record holds is about that action, whatever its verb.
2. Who says that it did something is taken at its word. What is told without a doer is a fact unless it has just come
   about, was done for the reader ("on your behalf"), or nothing was read; a condition ("are ordered") is one always.
3. What somebody or something does by itself ("the connection dropped"), what was left or kept as it was, and a lone
   participle that adds to what was told before ("…, masked") is no act that a tool would be needed for.
"""

from __future__ import annotations

from reviews.rules.guard.binding.relating import RELATED, related
from reviews.rules.guard.codes import Kind, is_settled_well
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.tenses import Tense
from reviews.rules.guard.records import Ground, Record
from reviews.rules.guard.words.language import english

UNSPOKEN = frozenset({"was done", "went through", "did", "done, told in short", "being done"})
"""Rules whose words do not say who did it."""
_KEPT = frozenset({"keep", "leave"})
_THOUGHT = frozenset({"note", "register"})


def meant_by(claim: Claim, ground: Ground) -> list[Record]:
    """The actions that a claim names, though no tool fits its words: those that come to a good end, if any (rule 1)."""
    scored = [(related(claim, record, ground), record) for record in ground.records]
    best = max((score for score, _ in scored), default=0)
    if best < RELATED:
        return []
    named = [record for score, record in scored if score == best]
    return list(filter(is_settled_well, named)) or named


def is_said_by_the_speaker(claim: Claim, has_read: bool) -> bool:
    """Whether the speaker says that it did it: only then is what no tool can do imagined, and else a fact (rule 2)."""
    if claim.rule in {"extractor", "stated"}:
        return True
    if claim.rule not in UNSPOKEN:
        return claim.agency
    if {"behalf", "your"} <= claim.words:
        return True
    known = any(map(english().lemmas, claim.verbs)) or not claim.verbs
    return claim.agency and known and not has_read


def is_no_act(claim: Claim) -> bool:
    """Whether it is told of what needs no tool (rules 2 and 3)."""
    if claim.kind is not Kind.DONE:
        return False
    if claim.verbs and (claim.verbs <= _KEPT or claim.verbs <= _THOUGHT):
        return True
    if claim.rule in UNSPOKEN and claim.tense is Tense.CONDITION:
        return True
    by_itself = claim.verbs <= english().sets["intransitive"]
    return (claim.rule == "did" and len(claim.words) < 3) or (claim.rule == "done, told in short" and by_itself)
