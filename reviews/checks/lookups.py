"""Lookups: the part of a contract that defines where to look, checked at registration and filled in for each run."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, NoValue
from reviews.checks.interface import LOOKUP_VARIABLES, CheckFailed, SystemAccess
from reviews.readback.rules.shapes import FORMATS, Schema, Shape, object_schema
from reviews.reconciliation.rules.reading import Reading

_MAX_INT = 2**53 - 1


def lookup_effects(verification: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the effects that a lookup can find."""
    found = verification.get("lookup", {}).get("effects")
    return found if isinstance(found, dict) else {}


def fill_template(text: str, bindings: Mapping[str, Mapping[str, Any]]) -> str | int | bool:
    """Return the value of one lookup parameter, without which no lookup is possible."""
    given = {name: bindings.get(name, {}) for name in LOOKUP_VARIABLES}
    try:
        found: str | int | bool = expressions.evaluate_value(text, given)
    except (NoValue, BadExpression) as problem:
        raise CheckFailed(f"The lookup cannot be filled in: {problem.detail}", retryable=False) from None
    return found


def literal(value: str) -> str:
    """The expression whose value is this text."""
    return json.dumps(value, ensure_ascii=False)


def to_json_value(value: object) -> Any:
    """Return a value of a source as JSON without fractions: a non-integer becomes text and loses no digit."""
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
    """Return every tenant and target in what was found, if the lookup names the fields that hold them."""
    things = list(found)
    kinds = {kind: part[f"{kind}_field"] for kind in ("tenant", "target") if f"{kind}_field" in part}
    return {kind: tuple(dict.fromkeys(to_json_value(one.get(name)) for one in things)) for kind, name in kinds.items()}


def _decimal(value: Decimal) -> int | str:
    # A column without decimal places holds integers; one with them is text for every value, 12.00 as well.
    if not value.is_finite() or value.as_tuple().exponent != 0:
        return f"{value:f}" if value.is_finite() else str(value)
    return int(to_json_value(int(value))) if abs(value) <= _MAX_INT else str(value)


def state_schema(fields: dict[str, Any], effect_names: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON Schema of `sa` from its top-level fields and those of each effect."""
    found = {"exists": {"type": "boolean"}, "count": {"type": "integer"}}
    listed = {name: {"type": "object", "properties": {**parts, **found}} for name, parts in effect_names.items()}
    return {
        "type": "object",
        "properties": {**fields, **found, "effects": {"type": "object", "properties": listed}},
    }


class LookupCheck(ABC):
    """A check by a lookup: the shape of the lookup is a JSON Schema, which says what is wrong with one at registration.

    `part` is the shape of what tells how to find one effect, `beside` that of what may stand beside the effects.
    `fields` are those that every effect shows. `needs` has the words of a lookup, or the fields that a predicate
    compares, by which a parameter of the pattern is checked; one that is always looked at has none (R-CP-15).
    `settings` are the members of a system's settings that the check reads; None where it does not declare them. Without
    `required_settings` it cannot read.
    """

    pattern: str
    settings: Mapping[str, Schema] | None = None
    required_settings: tuple[str, ...] = ()
    part: Schema
    beside: Mapping[str, Schema] = {}
    fields: Mapping[str, Any] = {}
    needs: Mapping[str, tuple[str, ...]] = {}
    formats: Mapping[str, Callable[[str], str]] = FORMATS

    @cached_property
    def shape(self) -> Shape:
        """The shape of a lookup."""
        effects = {"type": "object", "additionalProperties": self.part, "fault": "must be an object."}
        return Shape(object_schema({}, {"effects": effects, **self.beside}), self.formats)

    def fields_of(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields that one effect shows."""
        return self.fields

    def fields_beside(self, lookup: Mapping[str, Any]) -> Mapping[str, Any]:
        """The names that expressions see beside the fields of the first effect."""
        return {}

    def typed_fields(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of each effect, and at the top those of the first."""
        parts = {name: dict(self.fields_of(part)) for name, part in lookup.get("effects", {}).items()}
        first = next(iter(parts.values()), dict(self.fields))
        return state_schema({**first, **self.fields_beside(lookup)}, parts)

    def validate(self, verification: Mapping[str, Any]) -> list[str]:
        """The faults of the lookup, each with its place."""
        return self.shape.faults("lookup", verification.get("lookup", {}))

    def locate(self, *, kind: str, operation: str, target: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The part of a lookup that finds what a claim names; None where these do not lead to it in this system."""
        return None

    @abstractmethod
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the system, as `interface.Check` says."""


def refuse_unlisted(name: str, allowed: Iterable[str] | None, kind: str) -> None:
    """Raise `CheckFailed` for anything that an administrator's list of readable things does not name."""
    if allowed is not None and name not in allowed:
        raise CheckFailed(f"{name} is not among the {kind} that may be read.", retryable=False)
