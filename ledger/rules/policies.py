"""The four kinds of policy and what a new tenant starts with.

Policies are data with versions (D10): `autonomy` (what an agent may propose at all), `approval` (who must agree, and
for how long), `verification` (how long to look), `recovery` (which row of the table decides). Each entry of the ledger
names the four versions in force (R-LE-13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.rules import schemas
from ledger.rules.refusals import Refused

POLICY_KINDS = ("autonomy", "approval", "verification", "recovery")

_DEFAULTS: dict[str, dict[str, Any]] = {
    "autonomy": {"boundary": "disclosed_tools"},
    "approval": {
        "version": "1",
        "decide_within_s": 86_400,
        "release_within_s": 3_600,
        "grant_life_s": 120,
        "step_up": "C",
    },
    "verification": {"lease_s": 60},
    "recovery": {
        "table": "built-in",
        "automatic": ["COMPENSATING", "FORWARD_RECOVERY", "ROLLED_BACK"],
        "hold": [],
    },
}


_VERSION: dict[str, Any] = {"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$"}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "autonomy": {"boundary": {"enum": ["disclosed_tools"]}},
    "verification": {"lease_s": {"type": "integer", "minimum": 5, "maximum": 3600}},
    # The rows themselves are checked by `reviews`, which owns their vocabulary.
    "recovery": {
        "table": {"anyOf": [{"const": "built-in"}, {"type": "array", "minItems": 1, "maxItems": 500}]},
        "automatic": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": ["COMPENSATING", "FORWARD_RECOVERY", "ROLLED_BACK"]},
        },
        "hold": {"type": "array", "uniqueItems": True, "maxItems": 500, "items": {"type": "string", "maxLength": 16}},
    },
}


class BadPolicy(Refused):
    """The policy is not valid."""

    code = "BAD_POLICY"
    status = 422


def check(kind: str, document: Mapping[str, Any]) -> None:
    """Nothing if this may be a policy of the kind; an unknown name is refused, so that no misspelt limit is silent.

    Of approval policies only the version is looked at here: `approvals` owns their rules.
    """
    schema: dict[str, Any] = {"type": "object", "properties": {"version": _VERSION} | _SCHEMAS.get(kind, {})}
    schema["additionalProperties"] = kind not in _SCHEMAS
    faults = [
        {"path": "".join(f"/{part}" for part in fault.instance_path), "code": "SCHEMA", "detail": fault.message[:300]}
        for fault in schemas.compiled(schema).iter_errors(dict(document))
    ]
    if faults:
        raise BadPolicy(errors=faults)


def default_policy(kind: str) -> dict[str, Any]:
    """The document of version 1 of a kind of policy."""
    return dict(_DEFAULTS[kind])
