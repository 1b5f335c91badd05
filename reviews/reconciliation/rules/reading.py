"""A reading: the answer of an authoritative system (R-VD-09, R-CP-14).

A check makes it, the rules judge it. It answers what was found, where (`source`, `pointer`), how fresh
that is (`consistency`, `freshness`), and which of the pattern's failure indicators fired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson


class Consistency(StrEnum):
    """The relation of a source to the last committed write (reviews/recovery/rules/recovery_table.json)."""

    PRIMARY = "PRIMARY"
    STRONG = "STRONG"
    REPLICA = "REPLICA"
    CACHE = "CACHE"
    STALE_ENDPOINT = "STALE_ENDPOINT"
    UNDECLARED = "UNDECLARED"


DECISIVE = frozenset({Consistency.PRIMARY, Consistency.STRONG})
"""Only these can establish success, or absence (R-VD-09)."""

NOT_FRESH = "freshness_not_guaranteed"


@dataclass(frozen=True, kw_only=True)
class ReadEffect:
    """One effect that the contract wants, as found.

    `present` None means that it could not be told. `pending` means committed at the authority while
    systems fed by it lag; with `present` None, accepted there and not carried out yet. `scope` holds, per declared
    kind ("tenant", "target"), every distinct value found on what the action wrote, so that one stray row among many
    is seen. `instances` are the fields of each of `count`, where the check can show them all. `strayed` names the
    places beside the wanted ones at which the source shows the same effect.
    """

    name: str
    present: bool | None
    count: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    pending: bool = False
    scope: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    instances: tuple[Mapping[str, Any], ...] = ()
    strayed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One answer of one authoritative source.

    `context` holds what was found beside the effects (an audit trail, a consumer's result); expressions
    see it at the top of `sa`. `name` is the further source that it comes from; the primary one has none.
    `not_applicable` names the pattern's parameters that nobody asked about, with the reason (R-CP-15). `origin` is what
    is known of which source it is (`independence`); None before such was kept. `caveat` is a sentence for people: why
    the source can settle nothing, where that is not in how it answered.
    """

    source: str
    consistency: Consistency
    freshness: str
    observed_at: datetime
    pointer: str
    effects: tuple[ReadEffect, ...]
    target: Mapping[str, Any] | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    indicators: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, Any] | None = None
    caveat: str = ""

    @property
    def trusted_as(self) -> Consistency:
        """The consistency that it may be given: a source that cannot prove freshness has declared none."""
        return Consistency.UNDECLARED if NOT_FRESH in self.indicators else self.consistency

    @property
    def is_strong(self) -> bool:
        """Return whether it can decide anything (R-VD-09)."""
        return self.trusted_as in DECISIVE

    def effect(self, name: str) -> ReadEffect:
        """Return the effect of that name; undecidable if the source reported nothing about it."""
        found = (effect for effect in self.effects if effect.name == name)
        return next(found, ReadEffect(name=name, present=None))

    def tells_of(self, name: str) -> bool:
        """Return True if the source was queried about that effect; a further source need not cover all of them."""
        return any(effect.name == name for effect in self.effects)


def reading_bindings(reading: Reading | None, required: tuple[str, ...]) -> dict[str, Any]:
    """The reading as expressions see it (`sa`, or `pre` for the one before execution).

    The fields of the first required effect that the source knows stand at the top, all effects under `effects`, the
    target under `target`. What could not be told has no key at all, so that whatever asks for it is undecidable.
    """
    if reading is None:
        return {}
    effects = {effect.name: _shown_effect(effect) for effect in reading.effects}
    first = next((effects[name] for name in required if name in effects), {})
    target = {} if reading.target is None else {"target": dict(reading.target)}
    # What the check itself says comes last: no field of the source can pose as it.
    return {**first, **reading.context, **target, "effects": effects}


def _shown_effect(effect: ReadEffect) -> dict[str, Any]:
    if effect.present is None:
        return {}
    return {**effect.fields, "exists": effect.present, "count": effect.count}


def parse_reading(document: Mapping[str, Any]) -> Reading:
    """Return the reading from its JSON, the inverse of `dataclasses.asdict`; `shown` is ignored."""
    document = {name: part for name, part in document.items() if name != "shown"}
    effects = tuple(
        ReadEffect(
            **{
                **each,
                "scope": {name: tuple(found) for name, found in each["scope"].items()},
                "instances": tuple(each.get("instances", ())),
                "strayed": tuple(each.get("strayed", ())),
            }
        )
        for each in document["effects"]
    )
    return Reading(
        **{
            **document,
            "consistency": Consistency(document["consistency"]),
            "observed_at": datetime.fromisoformat(document["observed_at"]),
            "effects": effects,
            "indicators": tuple(document["indicators"]),
        }
    )


def to_json_default(value: object) -> Any:
    """Return the JSON form of a value without a JSON type: a set as its sorted members, anything else as text."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)


def serialize_readings(readings: tuple[Reading, ...]) -> tuple[bytes, tuple[str, ...]]:
    """Return the readings as JSON, and the types that JSON does not represent exactly; empty for our own checks."""
    unfit: list[str] = []

    def noted(value: object) -> Any:
        unfit.append(type(value).__name__)
        return to_json_default(value)

    return orjson.dumps(readings, default=noted), tuple(sorted(set(unfit)))
