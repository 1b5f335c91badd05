"""Near-duplicates: payloads that are nearly equal, and the difference between them.

1. Payloads are compared field by field, nested fields by their path.
2. They are near when what differs weighs at most two, and at most half of the fields differ. A plain field weighs one;
   a free text that differs weighs half, since agents word the same wish in many ways.
3. A field that names the target says what it is about: another order is another matter, so it weighs three. Where the
   two names are one keystroke apart it may be a slip, and weighs one.
4. What differs is named with both values, so that a person sees at once whether it is a repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MOST_DIFFERENT = 2.0
_TEXT_IS_FREE_FROM = 24
_SHOWN = 40


def describe_difference(mine: Mapping[str, Any], other: Mapping[str, Any], *, target: str = "") -> str | None:
    """Describe the difference of two nearly equal payloads; None if they are not nearly equal."""
    ours, theirs = dict(_fields(mine)), dict(_fields(other))
    names = list(dict.fromkeys([*ours, *theirs]))
    differing = [name for name in names if ours.get(name) != theirs.get(name)]
    weight = sum(_weight(ours.get(name), theirs.get(name), target) for name in differing)
    if not names or weight > _MOST_DIFFERENT or 2 * len(differing) > len(names):
        return None
    if not differing:
        return "the same payload"
    return "; ".join(f"{name} {_shorten(theirs.get(name))} instead of {_shorten(ours.get(name))}" for name in differing)


def _fields(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _weight(ours: Any, theirs: Any, target: str) -> float:
    if ours not in (None, "") and str(ours) in target:
        return 1.0 if _differ_by_one_character(str(ours), str(theirs)) else 3.0
    free = all(isinstance(one, str) and (" " in one or len(one) >= _TEXT_IS_FREE_FROM) for one in (ours, theirs))
    return 0.5 if free else 1.0


def _differ_by_one_character(one: str, other: str) -> bool:
    """Return whether one inserted, missing or different character turns one text into the other."""
    if len(one) > len(other):
        one, other = other, one
    start = next((place for place, letter in enumerate(one) if letter != other[place]), len(one))
    rest = other[start + 1 :]
    return one[start:] == rest or one[start + 1 :] == rest


def _shorten(value: Any) -> str:
    if value is None:
        return "nothing"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
