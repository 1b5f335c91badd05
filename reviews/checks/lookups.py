"""Lookups: the part of a contract that says where to look, checked at registration and filled in per run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, NoValue
from reviews.checks.interface import LOOKUP_VARIABLES, CheckFailed

RESERVED = frozenset({"exists", "count", "effects", "target", "audit", "downstream"})
_MAX_INT = 2**53 - 1


def text_faults(where: str, text: object) -> Iterator[str]:
    """The faults of one lookup parameter."""
    if not isinstance(text, str):
        yield f"{where} must be an expression."
        return
    try:
        expressions.check_value(text, LOOKUP_VARIABLES)
    except BadExpression as problem:
        yield f"{where}: {problem.detail}"


def map_faults(where: str, texts: object) -> Iterator[str]:
    """The faults of a map of lookup parameters, which must name at least one."""
    if not isinstance(texts, dict) or not texts:
        yield f"{where} must name at least one field and its expression."
        return
    for name, text in texts.items():
        yield from text_faults(f"{where}/{name}", text)


def unknown_name_faults(where: str, part: object, known: frozenset[str]) -> Iterator[str]:
    """Names that the pattern does not know: a misspelt one must not be passed over."""
    if not isinstance(part, dict):
        yield f"{where} must be an object."
        return
    for name in sorted(set(part) - known):
        yield f"{where} has an unknown field `{name}` (known: {', '.join(sorted(known))})."


def field_faults(where: str, names: object) -> Iterator[str]:
    """The faults of a list of fields to show."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        yield f"{where} must be a list of names."
        return
    for name in sorted(RESERVED & set(names)):
        yield f"{where}: `{name}` is what the check itself says, and cannot be a field."


def lookup_effects(verification: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The effects that a lookup tells how to find."""
    found = verification.get("lookup", {}).get("effects")
    return found if isinstance(found, dict) else {}


def fill_template(text: str, bindings: Mapping[str, Mapping[str, Any]]) -> str | int | bool:
    """The value of one lookup parameter; without one nothing can be looked up, now or later."""
    given = {name: bindings.get(name, {}) for name in LOOKUP_VARIABLES}
    try:
        found: str | int | bool = expressions.evaluate_value(text, given)
    except (NoValue, BadExpression) as problem:
        raise CheckFailed(f"The lookup cannot be filled in: {problem.detail}", retryable=False) from None
    return found


def to_json_value(value: object) -> Any:
    """A value of a source as JSON without fractions: what is no integer is text, and loses no digit."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_MAX_INT <= value <= _MAX_INT else str(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_value(item) for item in value]
    return repr(value) if isinstance(value, float) else str(value)


def scope_of(part: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Every tenant and target that stands on what was found, where the lookup says which fields hold them."""
    things = list(found)
    kinds = {kind: part[f"{kind}_field"] for kind in ("tenant", "target") if f"{kind}_field" in part}
    return {kind: tuple(dict.fromkeys(to_json_value(one.get(name)) for one in things)) for kind, name in kinds.items()}


def scope_faults(where: str, part: Mapping[str, Any], fields: Iterable[str]) -> Iterator[str]:
    """The faults of the fields that a lookup declares to hold tenant and target."""
    known = sorted(fields)
    for name in ("tenant_field", "target_field"):
        if name in part and part[name] not in known:
            yield f"{where}/{name} must be one of {', '.join(known)}."


def _decimal(value: Decimal) -> int | str:
    # A column without decimal places holds integers; one with them is text for every value, 12.00 as well.
    if not value.is_finite() or value.as_tuple().exponent != 0:
        return f"{value:f}" if value.is_finite() else str(value)
    return int(to_json_value(int(value))) if abs(value) <= _MAX_INT else str(value)


def state_schema(fields: dict[str, Any], effect_names: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The JSON Schema of `sa` from the fields at its top and those of each effect."""
    found = {"exists": {"type": "boolean"}, "count": {"type": "integer"}}
    listed = {name: {"type": "object", "properties": {**parts, **found}} for name, parts in effect_names.items()}
    return {
        "type": "object",
        "properties": {**fields, **found, "effects": {"type": "object", "properties": listed}},
    }


def lookup_faults(
    verification: Mapping[str, Any],
    part_faults: Callable[[str, Mapping[str, Any]], Iterable[str]],
    *,
    beside: frozenset[str] = frozenset(),
) -> list[str]:
    """The faults of a lookup: unknown names (known are the effects and `beside`), and those that
    `part_faults` finds.
    """
    found = list(unknown_name_faults("lookup", verification.get("lookup", {}), beside | {"effects"}))
    for name, part in lookup_effects(verification).items():
        found += part_faults(f"lookup/effects/{name}", part)
    return found


class UniformCheck(ABC):
    """A check whose effects all show the same fields."""

    fields: Mapping[str, Any]

    def typed_fields(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The fields, at the top and of each effect."""
        fields = dict(self.fields)
        return state_schema(fields, dict.fromkeys(lookup.get("effects", {}), fields))

    def validate(self, verification: Mapping[str, Any]) -> list[str]:
        return lookup_faults(verification, self.part_faults)

    @abstractmethod
    def part_faults(self, where: str, part: Any) -> Iterator[str]:
        """The faults of the part of the lookup that tells how to find one effect."""


def reads_faults(where: str, part: Any, *kinds: str, beside: frozenset[str] = frozenset()) -> Iterator[str]:
    """The faults of a part that says which kind of thing is read."""
    yield from unknown_name_faults(where, part, beside | {"reads"})
    if isinstance(part, dict) and part.get("reads") not in kinds:
        yield f"{where}/reads is {'either ' if len(kinds) > 1 else ''}{' or '.join(kinds)}."


def expectation_faults(where: str, part: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a part's expectation that its object is present or absent."""
    if part.get("expect", "present") not in ("present", "absent"):
        yield f"{where}/expect is either present or absent."


def thing_faults(
    where: str, part: Any, names: Sequence[str], wanted: Sequence[str], *, beside: Sequence[str] = ()
) -> Iterator[str]:
    """The faults of a part that names one object, and either its wanted values or that it is to be absent."""
    yield from unknown_name_faults(where, part, frozenset((*names, *wanted, *beside, "expect")))
    if not isinstance(part, dict):
        return
    for name in (*names, *(each for each in (*wanted, *beside) if each in part)):
        yield from text_faults(f"{where}/{name}", part.get(name))
    wrong = [*expectation_faults(where, part)]
    yield from wrong
    if not wrong and bool(part.keys() & {*wanted}) == (part.get("expect") == "absent"):
        yield f"{where} must have either the {' or the '.join(wanted)} that it should have, or expect absent."


def refuse_unlisted(name: str, allowed: Iterable[str] | None, kind: str) -> None:
    """`CheckFailed` for what an administrator's list of things that may be read does not name."""
    if allowed is not None and name not in allowed:
        raise CheckFailed(f"{name} is not among the {kind} that may be read.", retryable=False)
