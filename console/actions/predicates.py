"""The variables of predicates, given contract and check: the one place that combines both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.contract import Contract
from ledger.record.rules.refusals import Refused
from reviews.checks import catalogue

OBSERVED: Final[dict[str, Any]] = {
    "properties": {
        "status": {},
        "success": {},
        "error": {"properties": {"code": {}, "message": {}, "phase": {}}},
        "side_effects": {},
        "evidence": {},
    }
}
"""What expressions see of a tool's answer (`observe.observation_bindings`)."""

SCOPE: Final[dict[str, Any]] = {
    "properties": dict.fromkeys(
        ("tenant", "principal", "action_id", "target", "trace_id", "executed_at", "idempotency_key")
    )
}
"""What expressions see of the scope that an action is authorised for."""


def typed_variables(arguments_schema: Mapping[str, Any], verification: Mapping[str, Any] | None) -> dict[str, Any]:
    """The variables of a predicate with the schemas that are known, so that a misspelt field is refused (D13).

    Only what was intended (`si`) has no fixed fields.
    """
    typed: dict[str, Any] = dict.fromkeys(expressions.VARIABLES)
    typed |= {"sr": arguments_schema, "so": OBSERVED, "scope": SCOPE}
    if verification is not None:
        check = catalogue.check_for(verification["pattern"])
        # A lookup that its check refuses has no fields to know; the refusal says what is wrong with it.
        state = None if check.validate(dict(verification)) else check.typed_fields(verification.get("lookup", {}))
        typed |= {"sa": state, "pre": state}
    return typed


def predicate_fault(text: str, typed: Mapping[str, Any]) -> str | None:
    """The reason why a predicate does not compile over these variables, or None."""
    try:
        expressions.compile(text, typed)
    except Refused as refusal:
        return refusal.detail
    return None


def agent_predicate_fault(contract: Contract, text: str) -> str | None:
    """The reason why a predicate that an agent adds to a contract does not compile, or None."""
    verification = contract.verification.document if contract.verification else None
    return predicate_fault(text, typed_variables(contract.arguments_schema, verification))
