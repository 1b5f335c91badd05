"""What readings say of each wanted effect, and of each predicate (layers 3 and 4 of `reconcile`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reviews.observations.rules import observe
from reviews.reconciliation.rules import predicates
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.facts import Inputs
from reviews.reconciliation.rules.predicates import Holds, Origin, PredicateResult
from reviews.reconciliation.rules.reading import Effect, Reading, shown
from reviews.reconciliation.rules.verdict import EffectFinding, Found


def bindings(inputs: Inputs, reading: Reading | None) -> dict[str, Mapping[str, Any]]:
    """What expressions see of one run."""
    required = inputs.facts.required_effects
    return {
        "si": inputs.si,
        "sr": inputs.sr,
        "so": observe.bindings(inputs.observation),
        "sa": shown(reading, required),
        "scope": inputs.scope,
        "pre": shown(inputs.baseline, required),
    }


def effects(inputs: Inputs, readings: tuple[Reading, ...]) -> tuple[EffectFinding, ...]:
    """Every wanted effect over these readings."""
    return tuple(finding(inputs, readings, name) for name in inputs.facts.required_effects)


def finding(inputs: Inputs, readings: tuple[Reading, ...], name: str) -> EffectFinding:
    """One effect over these readings."""
    # A further source may know some of the effects only; one that nobody was asked about cannot be told.
    asked = [reading for reading in readings if reading.tells_of(name) or not reading.name] or readings
    seen = [reading.effect(name) for reading in asked]
    found = {_found(effect, mutating=inputs.facts.mutating) for effect in seen}
    count = max(effect.count for effect in seen)
    if len(found) == 1:
        return EffectFinding(name, found.pop(), count)
    for one in (Found.DUPLICATE, Found.UNTOLD):
        if one in found:
            return EffectFinding(name, one, count)
    both = Found.ABSENT in found
    return EffectFinding(name, Found.DIVERGENT if both else Found.PENDING, count)


def _found(effect: Effect, *, mutating: bool) -> Found:
    if effect.present is None:
        return Found.UNTOLD
    if not effect.present:
        return Found.ABSENT
    # What is only looked up may well be there more than once.
    if effect.count > 1 and mutating:
        return Found.DUPLICATE
    return Found.PENDING if effect.pending else Found.PRESENT


def predicates_over(inputs: Inputs, readings: tuple[Reading, ...]) -> tuple[PredicateResult, ...]:
    """Every predicate over each of these readings."""
    return tuple(result for reading in readings for result in predicates_of(inputs, reading))


def predicates_of(inputs: Inputs, reading: Reading) -> tuple[PredicateResult, ...]:
    """The predicates that are asked of one reading's source."""
    # An agent's predicates were compiled over the primary source; an alternate that stands in for it answers them too.
    stands_in = not reading.name or not inputs.facts.mutating
    return predicates.evaluate(
        reading,
        bindings=bindings(inputs, reading),
        contract=inputs.facts.predicates_of(reading.name),
        added=inputs.added_predicates if stands_in else (),
        target_resource=inputs.target_resource,
    )


def grave(found: tuple[EffectFinding, ...], results: tuple[PredicateResult, ...]) -> set[Discrepancy]:
    """What is decisive at once, wherever it is seen."""
    seen = set()
    if any(one.origin is Origin.SCOPE and one.holds is Holds.FALSE for one in results):
        seen.add(Discrepancy.WRONG_TARGET_MODIFIED)
    if any(one.found is Found.DUPLICATE for one in found):
        seen.add(Discrepancy.DUPLICATE_SIDE_EFFECT)
    return seen


def wrong(results: tuple[PredicateResult, ...]) -> set[Discrepancy]:
    """The class of false predicates, if there are any."""
    false = any(one.holds is Holds.FALSE and one.origin is not Origin.SCOPE for one in results)
    return {Discrepancy.VALUE_MISMATCH} if false else set()
