"""The variables that the conditions of an approval policy can use.

| name | holds |
|---|---|
| `contract` | the tool's contract with its defaults filled in: class, rank, reversibility, effect domain, and so on |
| `args` | the arguments as they were validated |
| `amount` | `minor` (in the smallest unit of its currency) and `currency`, when the arguments name an amount of money |
| `target` | `resource`, as the contract renders it; `kind` and `name`, before and after its first slash |
| `agent` | its id, version and model tier |
| `session` | calls made, accepted and refused so far, undisclosed tools tried, restated goals that drifted |
| `now` | the time in UTC: `date`, `hour`, `minute`, `weekday` ("mon" to "sun") |

A name outside these tables is refused when the policy is released. What is not there in a call (no amount, a left-out
argument) makes the condition undecidable, and that holds the call: a comparison with nothing is never true, and never
a pass.

An amount is what the arguments `amount` and `currency` say: an integer counts the smallest unit, a decimal text is
read exactly, and anything that cannot be read exactly is no amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from approvals.policy.rules.allowed_hours import DAYS
from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.money import decimal_places, is_currency

_DECIMAL = re.compile(r"(-?)(\d{1,15})(?:\.(\d{1,6}))?", re.ASCII)

_TEXT = {"type": "string"}
_INTEGER = {"type": "integer"}
_TRUTH = {"type": "boolean"}


def _fields(**fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


VARIABLES: dict[str, Mapping[str, Any] | None] = {
    "contract": _fields(
        name=_TEXT,
        version=_TEXT,
        side_effect_class=_TEXT,
        rank=_INTEGER,
        reversibility=_TEXT,
        effect_domain=_TEXT,
        operation_kind=_TEXT,
        mutating=_TRUTH,
        externally_visible=_TRUTH,
        pivot=_TRUTH,
        verifiable=_TRUTH,
        approval_required=_TRUTH,
    ),
    "args": None,
    "amount": _fields(minor=_INTEGER, currency=_TEXT),
    "target": _fields(resource=_TEXT, kind=_TEXT, name=_TEXT),
    "agent": _fields(id=_TEXT, version=_TEXT, model_tier=_TEXT),
    "session": _fields(
        calls=_INTEGER, accepted=_INTEGER, refused=_INTEGER, undisclosed_attempts=_INTEGER, drifts=_INTEGER
    ),
    "now": _fields(date=_TEXT, hour=_INTEGER, minute=_INTEGER, weekday=_TEXT),
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts about one call. `agent` and `session` hold the fields of the table above."""

    at: datetime
    args: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    agent: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, int] = field(default_factory=dict)

    @property
    def misbehaved(self) -> bool:
        """Return whether the session tried undisclosed tools, or drifted from its goal."""
        return bool(self.session.get("undisclosed_attempts") or self.session.get("drifts"))


def compile_condition(text: str) -> expressions.Expression:
    """Compile a condition over these variables; raise `BadExpression` if it is invalid."""
    return expressions.compile(text, VARIABLES)


def bindings(contract: Contract, facts: Facts) -> dict[str, Mapping[str, Any]]:
    """The variables for one call."""
    kind, _, name = facts.target.partition("/")
    moment = facts.at.astimezone(UTC)
    return {
        "contract": _contract(contract),
        "args": facts.args,
        "amount": money_amount(facts.args),
        "target": {"resource": facts.target, "kind": kind, "name": name},
        "agent": facts.agent,
        "session": facts.session,
        "now": {
            "date": moment.date().isoformat(),
            "hour": moment.hour,
            "minute": moment.minute,
            "weekday": DAYS[moment.weekday()],
        },
    }


def money_amount(args: Mapping[str, Any]) -> dict[str, Any]:
    """The amount of money in the arguments, in the smallest unit; empty if there is none."""
    worth, currency = args.get("amount"), args.get("currency")
    if not is_currency(currency):
        return {}
    code = str(currency).upper()
    if isinstance(worth, int) and not isinstance(worth, bool):
        return {"minor": worth, "currency": code}
    found = _DECIMAL.fullmatch(worth) if isinstance(worth, str) else None
    if found is None:
        return {}
    part = (found[3] or "").rstrip("0")
    if len(part) > decimal_places(code):
        return {}
    minor = int(found[2] + part.ljust(decimal_places(code), "0"))
    return {"minor": -minor if found[1] else minor, "currency": code}


def _contract(contract: Contract) -> dict[str, Any]:
    return {
        "name": contract.name,
        "version": contract.version,
        "side_effect_class": str(contract.side_effect_class),
        "rank": contract.side_effect_class.rank,
        "reversibility": str(contract.reversibility),
        "effect_domain": str(contract.effect_domain),
        "operation_kind": contract.operation_kind,
        "mutating": contract.mutating,
        "externally_visible": contract.externally_visible,
        "pivot": contract.pivot,
        "verifiable": contract.verifiable,
        "approval_required": contract.approval_required,
    }
