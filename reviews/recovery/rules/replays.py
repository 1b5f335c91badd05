"""Replays: an effect that is there more than once and is still the same one (RT-13, R-RP-13).

More than one trace of one operation is a duplicate. It is excused only where the contract says that the wanted state
may hold already, the lookup finds every trace by our own key, each of them alone satisfies every predicate and lies in
the authorised scope, and the source shows all of them. Everything else is RT-12 or RT-42.
"""

from __future__ import annotations

from dataclasses import replace

from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.findings import evaluate_on_source
from reviews.reconciliation.rules.predicates import PredicateOutcome
from reviews.reconciliation.rules.reading import ReadEffect, Reading
from reviews.reconciliation.rules.verdict import EffectFinding, EffectStatus

_FINE = frozenset({PredicateOutcome.TRUE, PredicateOutcome.NOT_APPLICABLE})


def replayed_effects(
    inputs: RunInputs, readings: tuple[Reading, ...], found: tuple[EffectFinding, ...]
) -> frozenset[str]:
    """The effects whose repetitions are replays."""
    if not inputs.facts.no_op_success_allowed or not inputs.facts.keyed:
        return frozenset()
    repeated = [one.name for one in found if one.found is EffectStatus.DUPLICATE]
    return frozenset(name for name in repeated if all(_alike(inputs, reading, name) for reading in readings))


def count_replays_once(found: tuple[EffectFinding, ...], excused: frozenset[str]) -> tuple[EffectFinding, ...]:
    """The findings with replays counted as one effect."""
    return tuple(replace(one, found=EffectStatus.PRESENT) if one.name in excused else one for one in found)


def _alike(inputs: RunInputs, reading: Reading, name: str) -> bool:
    effect = reading.effect(name)
    if effect.count < 2:
        return effect.present is True
    if len(effect.instances) != effect.count or any(len(values) > 1 for values in effect.scope.values()):
        return False
    return all(_holds(inputs, reading, effect, number) for number in range(effect.count))


def _holds(inputs: RunInputs, reading: Reading, effect: ReadEffect, number: int) -> bool:
    one = replace(effect, count=1, fields=effect.instances[number], instances=())
    others = tuple(one if each.name == effect.name else each for each in reading.effects)
    return all(result.holds in _FINE for result in evaluate_on_source(inputs, replace(reading, effects=others)))
