"""Apply contradicting readings of non-deciding sources to the verdict (layer 8 of `reconcile`)."""

from __future__ import annotations

from dataclasses import replace

from reviews.reconciliation.rules.discrepancies import Discrepancy, indicated_discrepancies
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.findings import (
    decisive_discrepancies,
    effect_finding,
    evaluate_on_source,
    evaluate_predicates,
)
from reviews.reconciliation.rules.predicates import PredicateOutcome
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.verdict import (
    GRAVE,
    MAX_ATTEMPTS,
    SEEN,
    EffectFinding,
    EffectStatus,
    Verdict,
    VerificationResult,
    mismatch_verdict,
    pending_verdict,
    unverifiable_verdict,
    waiting_deadline,
)


def apply_witnesses(
    inputs: RunInputs, verdict: Verdict, findings: tuple[EffectFinding, ...], readings: tuple[Reading, ...]
) -> Verdict:
    """Return the verdict, unless an independent source contradicts it; a grave finding of any source counts."""
    pointed = indicated_discrepancies({key for reading in readings for key in reading.indicators})
    every = tuple(one for reading in readings for one in _source_findings(inputs, reading))
    serious = (pointed & GRAVE) | decisive_discrepancies(every, evaluate_predicates(inputs, readings))
    if serious and verdict.discrepancy not in GRAVE:
        return mismatch_verdict(inputs, serious, findings)
    if confirms_all(verdict):
        against = [reading.name for reading in readings if not _bears_out(inputs, reading)]
    elif confirms_absence(verdict):
        against = [
            reading.name for reading in readings if any(one.found in SEEN for one in _source_findings(inputs, reading))
        ]
    else:
        return verdict
    return _disagreeing(inputs, against) if against else verdict


def confirms_all(verdict: Verdict) -> bool:
    """Return True if the verdict is that all wanted effects exist."""
    return verdict.result is VerificationResult.SUCCESS or verdict.discrepancy is Discrepancy.NO_OP_SUCCESS


def confirms_absence(verdict: Verdict) -> bool:
    """Return True if the verdict is that nothing happened."""
    return verdict.result is VerificationResult.ABSENT or verdict.discrepancy is Discrepancy.NO_OP_FAILURE


def _bears_out(inputs: RunInputs, reading: Reading) -> bool:
    there = all(one.found is EffectStatus.PRESENT for one in _source_findings(inputs, reading))
    fitting = all(
        one.holds in {PredicateOutcome.TRUE, PredicateOutcome.NOT_APPLICABLE}
        for one in evaluate_on_source(inputs, reading)
    )
    return there and fitting and not reading.indicators


def _source_findings(inputs: RunInputs, reading: Reading) -> tuple[EffectFinding, ...]:
    """Return one further source's findings on the effects that it covers."""
    known = [name for name in inputs.facts.required_effects if reading.tells_of(name)]
    return tuple(effect_finding(inputs, (reading,), name) for name in known or inputs.facts.required_effects)


def _disagreeing(inputs: RunInputs, against: list[str]) -> Verdict:
    """Return the verdict for sources that disagree: read again, because one may lag; undecidable in the end."""
    reason = f"The sources disagree: {', '.join(against)} does not bear out what the primary one says."
    if inputs.at >= waiting_deadline(inputs) or inputs.attempts >= MAX_ATTEMPTS:
        return unverifiable_verdict(reason)
    return replace(pending_verdict(inputs, reason, Discrepancy.UNVERIFIABLE_STATE), doubt=True)
