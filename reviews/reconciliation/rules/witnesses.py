"""Witnesses: sources that only testify, and may speak against the one that decides (layer 8 of `reconcile`)."""

from __future__ import annotations

from dataclasses import replace

from reviews.reconciliation.rules.discrepancies import Discrepancy, pointed_to
from reviews.reconciliation.rules.facts import Inputs
from reviews.reconciliation.rules.findings import finding, grave, predicates_of, predicates_over
from reviews.reconciliation.rules.predicates import Holds
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.verdict import (
    GRAVE,
    MAX_ATTEMPTS,
    SEEN,
    EffectFinding,
    Found,
    Result,
    Verdict,
    deadline,
    mismatch,
    unverifiable,
    waiting,
)


def heard(inputs: Inputs, verdict: Verdict, found: tuple[EffectFinding, ...], readings: tuple[Reading, ...]) -> Verdict:
    """The verdict, unless a source that testifies speaks against it; what is grave anywhere is grave."""
    pointed = pointed_to({key for reading in readings for key in reading.indicators})
    every = tuple(one for reading in readings for one in _told(inputs, reading))
    serious = (pointed & GRAVE) | grave(every, predicates_over(inputs, readings))
    if serious and verdict.discrepancy not in GRAVE:
        return mismatch(inputs, serious, found)
    if claims_all(verdict):
        against = [reading.name for reading in readings if not _bears_out(inputs, reading)]
    elif claims_none(verdict):
        against = [reading.name for reading in readings if any(one.found in SEEN for one in _told(inputs, reading))]
    else:
        return verdict
    return _disagreeing(inputs, against) if against else verdict


def claims_all(verdict: Verdict) -> bool:
    """Whether the verdict says that all that was wanted is so."""
    return verdict.result is Result.SUCCESS or verdict.discrepancy is Discrepancy.NO_OP_SUCCESS


def claims_none(verdict: Verdict) -> bool:
    """Whether the verdict says that nothing happened."""
    return verdict.result is Result.ABSENT or verdict.discrepancy is Discrepancy.NO_OP_FAILURE


def _bears_out(inputs: Inputs, reading: Reading) -> bool:
    there = all(one.found is Found.PRESENT for one in _told(inputs, reading))
    fitting = all(one.holds in {Holds.TRUE, Holds.NOT_APPLICABLE} for one in predicates_of(inputs, reading))
    return there and fitting and not reading.indicators


def _told(inputs: Inputs, reading: Reading) -> tuple[EffectFinding, ...]:
    """What one further source says of the effects that it knows; one that knows none has told nothing."""
    known = [name for name in inputs.facts.required_effects if reading.tells_of(name)]
    return tuple(finding(inputs, (reading,), name) for name in known or inputs.facts.required_effects)


def _disagreeing(inputs: Inputs, against: list[str]) -> Verdict:
    """Sources that disagree: one may lag, so it is looked at again; in the end nobody can tell which is right."""
    reason = f"The sources disagree: {', '.join(against)} does not bear out what the primary one says."
    if inputs.at >= deadline(inputs) or inputs.attempts >= MAX_ATTEMPTS:
        return unverifiable(reason)
    return replace(waiting(inputs, reason, Discrepancy.UNVERIFIABLE_STATE), doubt=True)
