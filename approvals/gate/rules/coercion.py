"""Lossless coercion: a value in another type that says the same, where a contract takes it (C-38).

1. Only a contract that says `coercion: lossless` takes it, and only one that changes nothing may say so.
2. Converted are the parameters themselves, not what they hold: text to an integer or true or false, an integer to
   text, each only when writing it back gives exactly what was sent; and a wrapping object is taken off.
3. What comes out must fit the schema as a whole; else nothing was converted and the call is refused as it was sent.
4. Every conversion is on record, by parameter and types; no value is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from approvals.gate.rules import malformed
from ledger.catalogue.rules.contract import Contract

_MOST = 2**53 - 1
_TRUTHS = {"true": True, "false": False}

Conversion = Mapping[str, str]


def coerce_arguments(
    arguments: dict[str, Any], contract: Contract
) -> tuple[dict[str, Any], tuple[Conversion, ...]] | None:
    """The arguments as the contract wants them and what was converted, or None where that is not to be had."""
    if not contract.coerces or contract.mutating:
        return None
    declared = contract.arguments_schema.get("properties", {})
    wrapped = malformed.unwrap_arguments(arguments, declared)
    said: list[Conversion] = []
    if wrapped is not None:
        said.append({"path": f"/{malformed.safe_name(wrapped[0])}", "from": "wrapped", "to": "parameters"})
    plain = dict(wrapped[1] if wrapped else arguments)
    for name in sorted(plain.keys() & declared.keys()):
        wanted = declared[name].get("type") if isinstance(declared[name], Mapping) else None
        value = _converted(plain[name], wanted)
        if value is not None:
            said.append({"path": f"/{name}", "from": malformed.type_of(plain[name]), "to": str(wanted)})
            plain[name] = value
    return (plain, tuple(said)) if said and contract.arguments_validator.is_valid(plain) else None


def _converted(value: Any, wanted: Any) -> Any:
    """The same value in the wanted type, or None where there is none or it has that type already."""
    if wanted == "string":
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    if wanted == "boolean":
        return _TRUTHS.get(value)
    return _integer(value) if wanted in ("integer", "number") else None


def _integer(text: str) -> int | None:
    if len(text) > 17 or not text.isascii() or not text.removeprefix("-").isdecimal():
        return None
    number = int(text)
    return number if str(number) == text and abs(number) <= _MOST else None
