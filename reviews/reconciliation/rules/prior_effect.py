"""Detects by a reading whether the effect of an action that has not started exists already.

This is asked after a restore, when the record may have lost an attempt.

1. Only a strong reading tells. A lookup by the idempotency key never does: the lost attempt had another key.
2. If every required effect is absent, it was not done.
3. If one is present, it may have been done; unless all are, and a predicate of the contract is false of them: then it
   is something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ledger.catalogue.rules.contract import Contract
from reviews.reconciliation.rules import predicates
from reviews.reconciliation.rules.predicates import PredicateOrigin, PredicateOutcome
from reviews.reconciliation.rules.reading import Reading, reading_bindings


class PriorEffect(StrEnum):
    """The state of the effect before the action runs."""

    ABSENT = "absent"
    PRESENT = "present"
    UNTOLD = "untold"


def prior_effect(
    reading: Reading, contract: Contract, bindings: Mapping[str, Mapping[str, Any]], target_resource: str
) -> PriorEffect:
    """Judge the contract's effects by a reading of the primary source (rules 1 to 3)."""
    effects = [reading.effect(name).present for name in contract.required_effects]
    if not reading.is_strong or not effects or None in effects or _names_key(contract):
        return PriorEffect.UNTOLD
    if not any(effects):
        return PriorEffect.ABSENT
    if all(effects) and _is_something_else(reading, contract, bindings, target_resource):
        return PriorEffect.ABSENT
    return PriorEffect.PRESENT


def _is_something_else(
    reading: Reading, contract: Contract, bindings: Mapping[str, Mapping[str, Any]], target_resource: str
) -> bool:
    shown = {**bindings, "sa": reading_bindings(reading, contract.required_effects), "pre": {}}
    results = predicates.evaluate(
        reading, bindings=shown, contract=contract.predicates, added=(), target_resource=target_resource
    )
    return any(each.holds is PredicateOutcome.FALSE for each in results if each.origin is PredicateOrigin.CONTRACT)


def _names_key(contract: Contract) -> bool:
    return contract.verification is not None and "scope.idempotency_key" in str(contract.verification.document)
