"""Judges a dry run of a contract's lookup: one reading of an effect that is known to be there, one of one that is not.

1. A reading that did not come, does not prove that it is current, or cannot tell of an effect, is a finding: no answer
   is never a pass.
2. The present sample is found, once, in this tenant and at its target; every predicate over it can be decided and
   holds. Predicates over what only a real call has (`si`, `so`, `pre`) are not asked.
3. The absent sample is not found: a lookup that finds it would confirm what never happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from ledger.catalogue.rules import expressions
from reviews.reconciliation.rules import predicates
from reviews.reconciliation.rules.predicates import PredicateOutcome
from reviews.reconciliation.rules.reading import ReadEffect, Reading, reading_bindings

_OF_A_CALL: Final = frozenset({"si", "so", "pre"})


class Sample(StrEnum):
    """The effect of a dry run's call, as its author knows it to be."""

    PRESENT = "present"
    ABSENT = "absent"


def dry_run_findings(
    sample: Sample,
    reading: Reading,
    *,
    bindings: Mapping[str, Mapping[str, Any]],
    required: tuple[str, ...],
    asked: tuple[str, ...],
    target_resource: str,
) -> Iterator[str]:
    """The findings of one reading (rules 1 to 3); `asked` are the contract's predicates, none means that it passed."""
    if not reading.is_strong:
        yield f"{reading.source} does not prove that it is current ({reading.trusted_as}), so it decides nothing."
    found = [reading.effect(name) for name in required]
    for effect in found:
        yield from _effect_findings(sample, effect)
    if sample is Sample.PRESENT and all(effect.present for effect in found):
        seen = {**bindings, "sa": reading_bindings(reading, required)}
        told = tuple(text for text in asked if not expressions.variables_of((text,)) & _OF_A_CALL)
        results = predicates.evaluate(reading, bindings=seen, contract=told, added=(), target_resource=target_resource)
        for each in results:
            if each.holds in (PredicateOutcome.FALSE, PredicateOutcome.UNDECIDABLE):
                word = "does not hold" if each.holds is PredicateOutcome.FALSE else "cannot be decided"
                yield f"`{each.text}` {word}{f': {each.reason}' if each.reason else ''}"


def _effect_findings(sample: Sample, effect: ReadEffect) -> Iterator[str]:
    if effect.present is None:
        yield f"Whether `{effect.name}` is there cannot be told."
    elif sample is Sample.PRESENT and not effect.present:
        yield f"`{effect.name}` was not found, and the sample names one that is there."
    elif sample is Sample.PRESENT and effect.count > 1:
        yield f"`{effect.name}` was found {effect.count} times: the lookup does not single one out."
    elif sample is Sample.ABSENT and effect.present:
        yield f"`{effect.name}` was found, and the sample names one that is not there: the lookup is too wide."
