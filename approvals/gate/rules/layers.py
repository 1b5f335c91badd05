"""The seven layers of checks, and the layer of each refusal code (R-TC-15).

| layer | asks |
|---|---|
| syntax | can the call and its arguments be read at all |
| schema | do the arguments have the names, types and values of the contract |
| semantics | do they name the target that is claimed, compile, and rest on reads that still hold |
| permissions | is the agent registered, its pin alive and restated, the tool in its contract |
| policy | does the autonomy boundary, the approval policy or a stop forbid the call |
| budget | are there calls, money, readings and iterations left |
| confirmation | is what the call builds on or repeats settled, or its failure acknowledged |

They are names, not an order: the gate checks in the order of authority, so that no answer reveals what an earlier one
hides. A fault inside the gate belongs to none. One code may come from two layers: a value that the schema forbids and
a target that the arguments do not name are both ARGUMENT_HALLUCINATION; the refusal then says itself which it is.
"""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """A layer of checks."""

    SYNTAX = "syntax"
    SCHEMA = "schema"
    SEMANTICS = "semantics"
    PERMISSIONS = "permissions"
    POLICY = "policy"
    BUDGET = "budget"
    CONFIRMATION = "confirmation"


_LAYERS = {
    "UNPARSEABLE_ARGUMENTS": Layer.SYNTAX,
    "SCHEMA_DRIFT": Layer.SCHEMA,
    "TYPE_COERCION": Layer.SCHEMA,
    "ARGUMENT_HALLUCINATION": Layer.SCHEMA,
    "STALE_STATE_READ": Layer.SEMANTICS,
    "PHANTOM_TOOL": Layer.PERMISSIONS,
    "UNDISCLOSED_TOOL": Layer.PERMISSIONS,
    "ASK_DRIFT": Layer.PERMISSIONS,
    "PIN_EXPIRED": Layer.PERMISSIONS,
    "AGENT_NOT_REGISTERED": Layer.PERMISSIONS,
    "CAPABILITY_NOT_REGISTERED": Layer.PERMISSIONS,
    "OUTSIDE_AUTONOMY": Layer.POLICY,
    "TARGET_FROZEN": Layer.POLICY,
    "BUDGET_EXCEEDED": Layer.BUDGET,
    "ITERATION_LIMIT": Layer.BUDGET,
    "UNRESOLVED_DEPENDENCY": Layer.CONFIRMATION,
    "DUPLICATE_BLOCKED": Layer.CONFIRMATION,
}

CODES = frozenset({*_LAYERS, "GATE_FAULT"})
"""Every code that a refused call can carry."""


def layer_of(code: str) -> str:
    """The layer of a refusal code; empty for an error of the gate itself."""
    return _LAYERS.get(code, "")
