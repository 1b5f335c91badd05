"""What predicates may speak of, once contract and check are known: the one place that knows both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.rules import expressions
from ledger.rules.contract import Contract
from ledger.rules.refusals import Refused
from reviews.checks import catalogue


def variables(arguments_schema: Mapping[str, Any], verification: Mapping[str, Any] | None) -> dict[str, Any]:
    """The variables of a predicate with the schemas that are known, so that a misspelt field is refused (D13)."""
    typed: dict[str, Any] = dict.fromkeys(expressions.VARIABLES)
    typed["sr"] = arguments_schema
    if verification is not None:
        typed["sa"] = catalogue.check_for(verification["pattern"]).typed_fields(verification["lookup"])
    return typed


def fault(text: str, typed: Mapping[str, Any]) -> str | None:
    """Why a predicate does not compile over these variables, or None."""
    try:
        expressions.compile(text, typed)
    except Refused as refusal:
        return refusal.detail
    return None


def added_fault(contract: Contract, text: str) -> str | None:
    """Why a predicate that an agent adds to a contract does not compile, or None."""
    verification = contract.verification.document if contract.verification else None
    return fault(text, variables(contract.arguments_schema, verification))
