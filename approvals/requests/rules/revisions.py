"""Field-by-field differences between two payloads, as they are rendered.

1. Fields are compared by their path, as they are rendered: what a reader could not tell apart is marked, so it differs.
2. A field that came or went is a change, with None on the side where it is not.
3. Long values are folded like everywhere; their digest is part of what is shown, so folding hides no change.
4. In a heading amounts stand as money, long values are cut and no more than three fields are named: the table has all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from approvals.requests.rules.rendering import Field, render_payload
from ledger.catalogue.rules.money import decimal_places, format_money, to_decimal

_NAMED = 3
_LONGEST = 60


@dataclass(frozen=True)
class FieldChange:
    """One field that differs, with its old and its new value."""

    path: str
    label: str
    old: str | None
    new: str | None

    def document(self) -> dict[str, Any]:
        """The form for the record and the agent."""
        return {"path": self.path, "label": self.label, "old": self.old, "new": self.new}


def field_changes(before: object, after: object) -> tuple[FieldChange, ...]:
    """Return every field that differs between two payloads, in the order of the new one, removed fields last."""
    old, new = _by_path(render_payload(before)), _by_path(render_payload(after))
    paths = [*new, *(path for path in old if path not in new)]
    return tuple(
        FieldChange(path, (new.get(path) or old[path]).label, _field_text(old.get(path)), _field_text(new.get(path)))
        for path in paths
        if _key(old.get(path)) != _key(new.get(path))
    )


def summarise_changes(before: object, after: object) -> str:
    """Summarise the changes in one line (rule 4): "amount 20.50 EUR → 18.00 EUR; reason late → damaged"."""
    found = field_changes(before, after)
    told = [
        f"{_dotted_path(each.path)} {_brief(each.old, before, each)} → {_brief(each.new, after, each)}"
        for each in found[:_NAMED]
    ]
    more = len(found) - _NAMED
    return "; ".join([*told, *([f"{more} more field{'s' if more > 1 else ''}"] if more > 0 else [])])


def _dotted_path(path: str) -> str:
    return path[1:].replace("/", ".") or "payload"


def _brief(said: str | None, payload: Any, change: FieldChange) -> str:
    if said is None:
        return "(none)"
    text = as_money(payload, change.path) or said
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def as_money(payload: object, path: str) -> str:
    """The value at a path of a payload as money, if it is an amount with a currency; else empty."""
    *above, name = path.split("/")[1:] or [""]
    for step in above:
        payload = _part(payload, step)
    return format_money(_part(payload, name), _part(payload, "currency")) if name.endswith("amount") else ""


def money_difference(before: object, after: object) -> str:
    """The change of the amount of a payload, in words; empty if it cannot be determined."""
    sides = [(_part(each, "amount"), _part(each, "currency")) for each in (before, after)]
    old, new = (to_decimal(*side) for side in sides)
    currency = sides[0][1]
    if old is None or new is None or old == new or currency != sides[1][1]:
        return ""
    minor = int((abs(new - old)).scaleb(decimal_places(currency)).to_integral_value())
    return f"{format_money(minor, currency)} {'more' if new > old else 'less'}"


def _part(value: object, step: str) -> Any:
    if isinstance(value, list):
        return value[int(step)] if step.isdecimal() and int(step) < len(value) else None
    return value.get(step) if isinstance(value, Mapping) else None


def _by_path(fields: Iterable[Field]) -> dict[str, Field]:
    return {field.path: field for field in fields}


def _key(field: Field | None) -> tuple[str, str] | None:
    # 1 and "1" are shown alike and are not the same.
    return (field.kind, field.full) if field is not None else None


def _field_text(field: Field | None) -> str | None:
    if field is None:
        return None
    return field.display if field.kind in ("text", "integer", "boolean") else f"{field.display} ({field.kind})".strip()
