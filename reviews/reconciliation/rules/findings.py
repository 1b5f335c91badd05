"""Findings of the readings for each wanted effect and each predicate (layers 3 and 4 of `reconcile`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reviews.observations.rules import observe
from reviews.reconciliation.rules import predicates
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.predicates import PredicateOrigin, PredicateOutcome, PredicateResult
from reviews.reconciliation.rules.reading import ReadEffect, Reading, reading_bindings
from reviews.reconciliation.rules.verdict import EffectFinding, EffectStatus


def run_bindings(inputs: RunInputs, reading: Reading | None) -> dict[str, Mapping[str, Any]]:
    """The bindings of expressions for one run."""
    required = inputs.facts.required_effects
    return {
        "si": inputs.si,
        "sr": inputs.sr,
        "so": observe.observation_bindings(inputs.observation),
        "sa": reading_bindings(reading, required),
        "scope": inputs.scope,
        "pre": reading_bindings(inputs.baseline, required),
    }


def effect_findings(inputs: RunInputs, readings: tuple[Reading, ...]) -> tuple[EffectFinding, ...]:
    """Return the finding for every wanted effect over these readings."""
    return tuple(effect_finding(inputs, readings, name) for name in inputs.facts.required_effects)


def effect_finding(inputs: RunInputs, readings: tuple[Reading, ...], name: str) -> EffectFinding:
    """One effect over these readings."""
    # A further source may know some of the effects only; one that nobody was asked about cannot be told.
    asked = [reading for reading in readings if reading.tells_of(name) or not reading.name] or readings
    seen = [reading.effect(name) for reading in asked]
    found = {_effect_status(effect, mutating=inputs.facts.mutating) for effect in seen}
    count = max(effect.count for effect in seen)
    if len(found) == 1:
        return EffectFinding(name, found.pop(), count)
    for one in (EffectStatus.DUPLICATE, EffectStatus.UNTOLD):
        if one in found:
            return EffectFinding(name, one, count)
    both = EffectStatus.ABSENT in found
    return EffectFinding(name, EffectStatus.DIVERGENT if both else EffectStatus.PENDING, count)


def _effect_status(effect: ReadEffect, *, mutating: bool) -> EffectStatus:
    if effect.present is None:
        return EffectStatus.UNTOLD
    if not effect.present:
        return EffectStatus.ABSENT
    # What is only looked up may well be there more than once.
    if effect.count > 1 and mutating:
        return EffectStatus.DUPLICATE
    return EffectStatus.PENDING if effect.pending else EffectStatus.PRESENT


def evaluate_predicates(inputs: RunInputs, readings: tuple[Reading, ...]) -> tuple[PredicateResult, ...]:
    """Every predicate over each of these readings."""
    return tuple(result for reading in readings for result in evaluate_on_source(inputs, reading))


def evaluate_on_source(inputs: RunInputs, reading: Reading) -> tuple[PredicateResult, ...]:
    """Return the predicates that apply to one reading's source."""
    # An agent's predicates were compiled over the primary source; an alternate that stands in for it answers them too.
    stands_in = not reading.name or not inputs.facts.mutating
    return predicates.evaluate(
        reading,
        bindings=run_bindings(inputs, reading),
        contract=inputs.facts.predicates_of(reading.name),
        added=inputs.added_predicates if stands_in else (),
        target_resource=inputs.target_resource,
    )


def decisive_discrepancies(
    findings: tuple[EffectFinding, ...], results: tuple[PredicateResult, ...]
) -> set[Discrepancy]:
    """The discrepancies that are decisive wherever they are seen."""
    seen = set()
    if any(one.origin is PredicateOrigin.SCOPE and one.holds is PredicateOutcome.FALSE for one in results):
        seen.add(Discrepancy.WRONG_TARGET_MODIFIED)
    if any(one.found is EffectStatus.DUPLICATE for one in findings):
        seen.add(Discrepancy.DUPLICATE_SIDE_EFFECT)
    return seen


def predicate_discrepancies(results: tuple[PredicateResult, ...]) -> set[Discrepancy]:
    """The class of false predicates, if there are any."""
    false = any(one.holds is PredicateOutcome.FALSE and one.origin is not PredicateOrigin.SCOPE for one in results)
    return {Discrepancy.VALUE_MISMATCH} if false else set()
