"""Weak claims: what could be a fact as well is a claim only about an action that it names (R-CG-18).

1. It is about the action of which it names most, if that is enough.
2. Else it is a claim where it tells as present what only a tool of the session brings about, and nothing was read; or
   where it tells a result, and nothing on record came to a good end.
"""

from __future__ import annotations

from reviews.rules.guard.binding.agreeing import among
from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.binding.fitting import verb_score
from reviews.rules.guard.binding.relating import RELATED, has_read, holding, related, tool_of
from reviews.rules.guard.binding.sums import steps_of
from reviews.rules.guard.codes import Kind, Violation, is_settled_well, violation_of
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Record
from reviews.rules.guard.text.values import compare
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary


def weak(claim: Claim, ground: Ground) -> Bound | None:
    """What could be a fact as well is a claim only about an action that it names (rule 5)."""
    scored = [(related(claim, record, ground), record) for record in steps_of(ground)]
    if claim.rule == "was done" and not claim.verbs <= english().sets["generic"] | claim.words:
        scored = [(score, record) for score, record in scored if _may_mean(claim, record, ground)]
    best = max((score for score, _ in scored), default=0)
    if best < RELATED:
        return _unbacked(claim, ground) or _unsaid(claim, [record for _, record in scored])
    bound = among(claim, [record for score, record in scored if score == best], None)
    wrong = bound is not None and bound.code is Violation.WRONG_TARGET
    if bound is not None and bound.code is not None and _may_be_of_another_reading(bound, ground):
        return None
    if bound is not None and wrong and (_is_read(claim, ground) or _is_of_another(claim, bound.records, ground)):
        return None
    return bound


def _may_be_of_another_reading(bound: Bound, ground: Ground) -> bool:
    """Whether it speaks of what a reading failed to show, and another reading of the same tool came to its end."""
    failed = {record.tool for record in bound.records}
    came = {each.tool for each in ground.reads if is_settled_well(each)}
    return bool(failed) and failed <= came


def _is_of_another(claim: Claim, records: tuple[Record, ...], ground: Ground) -> bool:
    """Whether the ids that a claim in weak words names are all those of other successes."""
    others = [holding(each) for each in ground.records if each not in records and is_settled_well(each)]
    named = [value for value in (*claim.values, *claim.cited) if value.sort == "id"]
    return bool(named) and all(any(compare(value, own) == 1 for own in others) for value in named)


def _is_read(claim: Claim, ground: Ground) -> bool:
    """Whether a reading on record names what a claim in weak words names: its values may be those that were read."""
    return any(related(claim, record, ground) >= RELATED for record in ground.reads if not record.stale)


def _may_mean(claim: Claim, record: Record, ground: Ground) -> bool:
    """Whether the verb of a passive may be said of the action's tool."""
    tool = tool_of(record.tool, ground)
    if tool is None:
        return True
    own = vocabulary(tool)
    return bool(verb_score(claim.verbs, own) or claim.verbs & own.nouns or claim.nouns & own.verbs)


def _unsaid(claim: Claim, records: list[Record]) -> Bound | None:
    """A message that tells a result, of an agent none of whose actions is done, and that says so nowhere."""
    if claim.kind is Kind.FAILED and len(records) == 1 and not any(map(is_settled_well, records)):
        return Bound(violation_of(Kind.FAILED, records[0]), tuple(records))
    if claim.kind is not Kind.DONE or not claim.result or not records or any(map(is_settled_well, records)):
        return None
    return Bound(violation_of(Kind.DONE, records[-1]), (records[-1],))


IN_SHORT = "done, told in short"


def _is_told_of_now(claim: Claim) -> bool:
    """Whether it tells what is so now, for the reader."""
    now = {"is", "are", "'s", "now"} & claim.words and {"your", "now", "you", "'s"} & claim.words
    return claim.rule in {"state", "was done"} and bool(now)


def _unbacked(claim: Claim, ground: Ground) -> Bound | None:
    """ "Your routine is live": the condition that a tool here brings about, where nothing was read and nothing done."""
    if claim.kind is not Kind.DONE or has_read(ground) or not (_is_told_of_now(claim) or claim.rule == IN_SHORT):
        return None
    for tool in ground.tools:
        own = vocabulary(tool)
        meant = verb_score(claim.verbs | claim.meaning, own) and claim.nouns & own.nouns
        if tool.mutating and tool.disclosed and meant and all(record.tool != tool.name for record in ground.records):
            return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.")
    return None
