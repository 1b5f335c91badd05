"""From the answers of a described system to one effect: pure.

1. What the answer does not say is unknown: a state that is missing or not listed, a wanted value whose field is not
   there, a list of which not all was read. Unknown is neither success nor absence.
2. An object counts unless it failed. Several that count are a duplicate, whatever the state of others.
3. An amount is compared as money: a whole number counts minor units, a text whole units.
4. An effect that is a change (`set`) is there if at least one wanted value is; if some are missing, that is a
   difference, and if all are, nothing has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ledger.catalogue.rules import money
from reviews.reconciliation.rules.reading import ReadEffect
from reviews.systems.rules.description import Description

MISSING: Final = object()
"""The value at a JSON Pointer that leads nowhere."""
PRESENT: Final = frozenset({"terminal", "pending", "undone", "other"})
_MAX_INT: Final = 2**53 - 1
_COMPARED: Final = ("amount", "currency", "customer")

Thing = Mapping[str, Any]


@dataclass
class FoundObjects:
    """The objects of one effect; `whole` is False if there may be others."""

    things: list[Thing] = field(default_factory=list)
    whole: bool = True
    target: bool | None = None


def value_at(document: Any, pointer: str) -> Any:
    """The value at a JSON Pointer (RFC 6901), or `MISSING`."""
    found = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return MISSING
    return found


def text_of(value: Any) -> str | None:
    """A value as text; None if it is missing, null or no scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | Decimal) else None


def answers_as(part: Mapping[str, Any] | None, *, status: int, headers: Mapping[str, str], document: Any) -> bool:
    """Return whether an answer is the described one."""
    if part is None or status != part["status"]:
        return False
    named = all(text_of(value_at(document, at)) == value for at, value in part.get("where", {}).items())
    return named and ("header" not in part or part["header"].lower() in headers)


def pointer_of(description: Description, name: str) -> str:
    """The JSON Pointer of a field, which may be given by its name or as a pointer."""
    return name if name.startswith("/") else description.fields[name]


def matches(description: Description, thing: Thing, wanted: Mapping[str, str]) -> bool | None:
    """Return whether an object has these values; None where it is not shown so that one could tell.

    Every object shows its id and the members at its top; a member of one of them, such as a key among its metadata, may
    be missing, but not what holds it.
    """
    if value_at(thing, description.fields["id"]) is MISSING:
        return None
    is_match = True
    for name, value in wanted.items():
        pointer = pointer_of(description, name)
        found, holder = value_at(thing, pointer), pointer.rpartition("/")[0]
        if found is MISSING and (not holder or value_at(thing, holder) is MISSING):
            return None
        is_match = is_match and found is not MISSING and text_of(found) == value
    return is_match


def effect_of(
    name: str, part: Mapping[str, Any], found: FoundObjects, description: Description, states: Mapping[str, str]
) -> ReadEffect:
    """The effect that the objects show; `part` is the lookup with its values, `states` the kind of each state."""
    kinds = [states.get(_state(description, thing), "") for thing in found.things]
    counted = [thing for thing, kind in zip(found.things, kinds, strict=True) if kind in PRESENT]
    unknown = "" in kinds or not found.whole
    if part.get("expect") == "absent":
        gone = False if counted else None if unknown else True
        return ReadEffect(name=name, present=gone, count=int(bool(gone)))
    # What cannot be told is shown first, so that a person sees why.
    strange = [thing for thing, kind in zip(found.things, kinds, strict=True) if not kind]
    shown = tuple(shown_fields(description, part, thing, states) for thing in strange or counted or found.things)
    present = _is_present(part, counted, unknown=unknown, description=description)
    return ReadEffect(
        name=name,
        present=present,
        count=len(counted) if present else 0,
        fields=shown[0] if shown else {},
        pending=bool(present) and "pending" in kinds,
        scope={
            kind: tuple(dict.fromkeys(text_of(value_at(thing, description.fields[at])) for thing in counted))
            for kind, at in (("tenant", part.get("tenant_field")), ("target", part.get("target_field")))
            if at is not None
        },
        instances=shown if present and not unknown and len(shown) > 1 else (),
    )


def _is_present(
    part: Mapping[str, Any], counted: Sequence[Thing], *, unknown: bool, description: Description
) -> bool | None:
    if len(counted) > 1:
        return True
    if unknown:
        return None
    if not counted:
        return False
    held = held_values(description, counted[0], part.get("set", {}))
    compared = [_equals(description, counted[0], each, part[each]) for each in _COMPARED if each in part]
    if None in held or None in compared:
        return None
    return any(held) if held else True


def held_values(description: Description, thing: Thing, wanted: Mapping[str, str]) -> list[bool | None]:
    """Return for each wanted value whether the object has it; None where the object does not show the field."""
    found = [(value_at(thing, pointer_of(description, name)), value) for name, value in wanted.items()]
    return [None if has is MISSING else (text_of(has) or "") == value for has, value in found]


def _equals(description: Description, thing: Thing, name: str, wanted: Any) -> bool | None:
    value = text_of(value_at(thing, description.fields[name]))
    if value is None:
        return None
    if name == "currency":
        return value.upper() == str(wanted).upper()
    if name != "amount":
        return value == str(wanted)
    has, currency = amount_of(description, thing), text_of(value_at(thing, description.fields["currency"]))
    asked = money.to_decimal(wanted, currency)
    return None if has is None or asked is None else has == asked


def amount_of(description: Description, thing: Thing) -> Decimal | None:
    """The amount of an object in whole units; None if it shows none."""
    value = value_at(thing, description.fields["amount"])
    currency = text_of(value_at(thing, description.fields["currency"]))
    is_minor = description.document["amount_in"] == "minor"
    if is_minor and isinstance(value, str):
        value = int(value) if re.fullmatch(r"-?[0-9]{1,15}", value) else None
    return money.to_decimal(value if is_minor else text_of(value), currency)


def shown_fields(
    description: Description, part: Mapping[str, Any], thing: Thing, states: Mapping[str, str]
) -> dict[str, Any]:
    """The fields of an object as expressions see them; what the object does not show has no key."""
    own = {name: value_at(thing, at) for name, at in part.get("fields", {}).items()}
    found = {name: value_at(thing, at) for name, at in description.fields.items() if name != "amount"}
    shown: dict[str, Any] = {name: _json(value) for name, value in own.items() if value is not MISSING}
    shown |= {name: text for name, value in found.items() if (text := text_of(value)) is not None}
    if "currency" in shown:
        shown["currency"] = shown["currency"].upper()
    if (moment := time_of(description, thing)) is not None:
        shown["time"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    if "amount" in description.fields and (amount := amount_of(description, thing)) is not None:
        minor = amount.scaleb(money.decimal_places(shown["currency"]))
        if minor == minor.to_integral_value():
            shown["amount"] = int(minor)
    return shown | {"state_kind": states.get(_state(description, thing), "unknown")}


def _json(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) > _MAX_INT else value


def _state(description: Description, thing: Thing) -> str:
    return text_of(value_at(thing, description.fields["state"])) or ""


def time_of(description: Description, thing: Thing) -> datetime | None:
    """The time of an object: seconds of the epoch, ISO 8601 or RFC 2822."""
    text = text_of(value_at(thing, description.fields["time"])) if "time" in description.fields else None
    if text is None:
        return None
    try:
        if text.isdecimal():
            return datetime.fromtimestamp(int(text), UTC)
        found = datetime.fromisoformat(text) if text[:4].isdecimal() else parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def indicators_of(
    part: Mapping[str, Any],
    found: FoundObjects,
    effect: ReadEffect,
    description: Description,
    states: Mapping[str, str],
    *,
    before: Mapping[str, Any],
    at: datetime,
) -> Iterator[str]:
    """The failure indicators of one effect; `before` is what a reading before the execution showed of it."""
    if part.get("expect") == "absent":
        return
    raised = set(_findings(part, found, effect, description, states, before=before, at=at))
    yield from (indicator for occasion, indicator in description.indicators.items() if occasion in raised)


def _findings(
    part: Mapping[str, Any],
    found: FoundObjects,
    effect: ReadEffect,
    description: Description,
    states: Mapping[str, str],
    *,
    before: Mapping[str, Any],
    at: datetime,
) -> Iterator[str]:
    if effect.count > 1:
        yield "duplicate"
    if effect.present is False and "version" in before and before["version"] != effect.fields.get("version"):
        yield "stale"
    within = part.get("settle_within_s", description.document.get("settles_within_s"))
    for thing in found.things:
        kind, moment = states.get(_state(description, thing), ""), time_of(description, thing)
        if kind == "undone" or (kind == "failed" and not effect.present):
            yield kind
        if kind == "pending" and within and moment is not None and at - moment > timedelta(seconds=within):
            yield "late"
        if kind not in PRESENT or not effect.present:
            continue
        compared = [_equals(description, thing, each, part[each]) for each in _COMPARED if each in part]
        if False in held_values(description, thing, part.get("set", {})) or False in compared:
            yield "differs"
