"""A contract document against everything that is known here: its shape, its predicates, and the check of its pattern.

It needs no database, so that an author can ask before anything is registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.api import predicates
from ledger.rules import contract as contracts
from ledger.rules.contract import Contract
from reviews.checks import catalogue


def validated(document: dict[str, Any]) -> Contract:
    """The contract that a document makes, with its findings; `BadContract` names every fault."""
    return contracts.validate(
        document,
        compile_predicate=lambda text: predicates.fault(text, variables(document)),
        check_verification=_verification_faults,
        compile_for=lambda source, text: predicates.fault(
            text, predicates.variables(document["arguments_schema"], source)
        ),
    )


def variables(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the predicates of a document may speak of."""
    return predicates.variables(document["arguments_schema"], document.get("verification"))


def _verification_faults(verification: dict[str, Any]) -> list[str]:
    return catalogue.check_for(verification["pattern"]).validate(verification)
