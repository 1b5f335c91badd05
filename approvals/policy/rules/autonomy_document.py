"""Validation of an autonomy policy: its schema, and every fault of a document with its path.

An unknown name is refused, so that a misspelt limit cannot silently be none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from approvals.policy.rules import policy_facts
from approvals.sessions.rules.pins import MAX_TTL_SECONDS
from ledger.catalogue.rules import schemas as rules_schemas
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.expressions import BadExpression

MOST = 2**53 - 1

_NAME = {"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z ._-]{0,63}$"}
_CURRENCY = "^[A-Z]{3}$"
_PATH = {"type": "string", "maxLength": 512, "pattern": "^(/[^/]+)+$"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": MOST}


def _names(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": 200, "uniqueItems": True}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


_SCOPE = {
    "agents": _names({"type": "string", "minLength": 1, "maxLength": 128}),
    "tools": _names({"type": "string", "minLength": 1, "maxLength": 128}),
    "side_effect_classes": _names({"enum": [str(kind) for kind in SideEffectClass]}),
}
_MONEY = _object(
    ["amount", "most"],
    amount=_PATH,
    currency=_PATH,
    most={
        "type": "object",
        "minProperties": 1,
        "maxProperties": 50,
        "propertyNames": {"pattern": _CURRENCY},
        "additionalProperties": _COUNT,
    },
    **{"in": {"type": "string", "pattern": _CURRENCY}},
)
SCHEMA: dict[str, Any] = _object(
    [],
    version={"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$"},
    boundary={"enum": ["disclosed_tools"]},
    outside={
        "type": "array",
        "maxItems": 200,
        "items": _object(
            ["name"],
            name=_NAME,
            when={"type": "string", "minLength": 1, "maxLength": 2000},
            reason={"type": "string", "minLength": 1, "maxLength": 300},
            **_SCOPE,
        ),
    },
    budgets={
        "type": "array",
        "maxItems": 50,
        "items": _object(
            ["name", "per"],
            name=_NAME,
            per={"enum": ["agent", "session"]},
            within={"enum": ["hour", "day"]},
            calls=_COUNT,
            readings=_COUNT,
            money=_MONEY,
            **_SCOPE,
        ),
    },
    # After how long without a call a session's pin is over (`approvals.sessions.rules.pins`).
    session=_object([], quiet_s={"type": "integer", "minimum": 1, "maximum": MAX_TTL_SECONDS}),
    # From when on an agent's calls are worth a look (`approvals.agents.rules.acceptance`).
    watch=_object(
        [],
        acceptance_floor_pct={"type": "integer", "minimum": 0, "maximum": 100},
        least_calls={"type": "integer", "minimum": 1, "maximum": 100_000},
        probing_names={"type": "integer", "minimum": 2, "maximum": 10_000},
        window_h={"type": "integer", "minimum": 1, "maximum": 168},
    ),
)


def faults(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every fault of a document; empty if it is valid."""
    return rules_schemas.schema_faults(SCHEMA, dict(document)) or list(_meaning(document))


def _meaning(document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for kind in ("outside", "budgets"):
        entries = document.get(kind, [])
        names = Counter(each["name"] for each in entries)
        for index, each in enumerate(entries):
            path = f"/{kind}/{index}"
            if names[each["name"]] > 1:
                yield _fault(f"{path}/name", "NAME_TAKEN", "Another entry has this name.")
            yield from _outside(path, each) if kind == "outside" else _budget(path, each)


def _outside(path: str, entry: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if not entry.keys() & {"when", *_SCOPE}:
        yield _fault(path, "INCOMPLETE", "An entry says what lies outside: agents, tools, classes or a condition.")
    if "when" in entry:
        try:
            policy_facts.compile_condition(entry["when"])
        except BadExpression as problem:
            yield _fault(f"{path}/when", problem.code, problem.detail)


def _budget(path: str, budget: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if (budget["per"] == "agent") != ("within" in budget):
        detail = "A budget per agent says within which time it counts, one per session lasts as long as the session."
        yield _fault(f"{path}/within", "INCOMPLETE", detail)
    if not budget.keys() & {"calls", "readings", "money"}:
        yield _fault(path, "INCOMPLETE", "A budget says what it counts: `calls`, `readings` or `money`.")
    money = budget.get("money", {})
    if money and ("in" in money) == ("currency" in money):
        detail = "Say where the currency stands (`currency`) or which one it is (`in`), and not both."
        yield _fault(f"{path}/money", "INCOMPLETE", detail)


def _fault(path: str, code: str, detail: str) -> dict[str, str]:
    return {"path": path, "code": code, "detail": detail}
