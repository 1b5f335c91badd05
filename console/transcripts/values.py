"""Asked and shown: the arguments of a call beside what an answer or a later read shows, field by field.

1. Fields are compared by name. The name is looked for in the whole answer, down to `DEPTH`; what stands highest counts,
   and a name that stands there with several values agrees where one of them does, else it tells nothing.
2. Texts are equal whatever their case and spacing, numbers whatever their spelling, a date and the time of that day.
3. A field of which nothing is shown is neither agreement nor difference. Nor are arguments that name no state of the
   thing (a reason, a page size): `_NO_STATE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DEPTH = 4
MOST = 3_000
_NO_STATE = frozenset(
    {
        *("reason", "note", "notes", "message", "comment", "limit", "page", "query", "format", "dry_run", "thought"),
        *("summary", "confirm", "force", "verbose", "timeout", "offset", "cursor", "fields", "password", "token"),
    }
)
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,10})?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One field: what was asked, what is shown, and where: `answer` or `read`."""

    field: str
    asked: Any
    shown: Any
    where: str = "answer"


@dataclass(frozen=True, slots=True)
class Compared:
    """How the arguments stand to what is shown."""

    differences: tuple[Difference, ...]
    agreeing: tuple[str, ...]


def compare(
    asked: Mapping[str, Any], shown: Any, *, where: str, relative: bool = False, of: frozenset[str] | None = None
) -> Compared:
    """The differences and agreements, of these names where `of` names some; `relative`: numbers are changes, and
    cannot be compared.
    """
    if not isinstance(shown, dict | list):
        return Compared((), ())
    levels = _levels(shown)
    differences: list[Difference] = []
    agreeing: list[str] = []
    for name, value in asked.items():
        if name in _NO_STATE or value in (None, "", [], {}) or (of is not None and name not in of):
            continue
        if relative and _number(value) is not None:
            continue
        found = next((level[name] for level in levels if name in level), [])
        if any(equal(value, one) for one in found):
            agreeing.append(name)
            continue
        told = [one for one in found if one is not None and _comparable(value, one)]
        if len(told) == 1:
            differences.append(Difference(name, value, told[0], where))
    return Compared(tuple(differences), tuple(agreeing))


def equal(first: Any, second: Any) -> bool:
    """Whether two values say the same (rule 2)."""
    if isinstance(first, bool) or isinstance(second, bool):
        return str(first).lower() == str(second).lower()
    if isinstance(first, dict) and isinstance(second, dict):
        return all(name in second and equal(value, second[name]) for name, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        return _same_list(first, second)
    one, other = _number(first), _number(second)
    if one is not None and other is not None:
        return abs(one - other) < 1e-9
    return _same_text(first, second)


def identifiers(value: Any, *, limit: int = 40) -> frozenset[str]:
    """The texts and numbers in some arguments that could name a thing, folded."""
    found = (_folded(one) for one in _scalars(value) if not isinstance(one, bool | float))
    return frozenset(one for one, _ in zip((one for one in found if len(one) >= 2), range(limit), strict=False))


def words_with_digits(text: str, *, limit: int = 400) -> set[str]:
    """The words of a text that could be identifiers, folded."""
    found = (one for one in re.split(r"[\s,;:!?()\[\]{}\"'<>`*]+", text[:20_000]) if one)
    named = (_folded(one.rstrip(".")) for one in found if any(character.isdigit() for character in one))
    return {one for one, _ in zip(named, range(limit), strict=False)}


def flat(value: Any, *, limit: int = 60) -> list[Any]:
    """The plain values in an answer, for whoever looks whether one of them was told."""
    return [one for one, _ in zip(_scalars(value), range(limit), strict=False)]


def _levels(shown: Any) -> list[dict[str, list[Any]]]:
    """For each depth, every name with the values that stand under it there."""
    levels: list[dict[str, list[Any]]] = []
    here, seen = [shown], 0
    while here and len(levels) <= DEPTH and seen < MOST:
        names: dict[str, list[Any]] = {}
        below: list[Any] = []
        for one in here:
            if isinstance(one, dict):
                for name, value in one.items():
                    names.setdefault(str(name), []).append(value)
                below.extend(value for value in one.values() if isinstance(value, dict | list))
            elif isinstance(one, list):
                below.extend(value for value in one if isinstance(value, dict | list))
            seen += 1
        levels.append(names)
        here = below[:MOST]
    return levels


def _comparable(asked: Any, shown: Any) -> bool:
    if isinstance(asked, dict):
        return isinstance(shown, dict) and bool(asked.keys() & shown.keys())
    if isinstance(asked, list):
        return isinstance(shown, list) and (not shown or _kinds(asked) == _kinds(shown))
    return not isinstance(shown, dict | list)


def _kinds(values: list[Any]) -> set[str]:
    return {"map" if isinstance(one, dict) else "list" if isinstance(one, list) else "plain" for one in values}


def _same_list(first: list[Any], second: list[Any]) -> bool:
    if len(first) != len(second):
        return False
    rest = list(second)
    for one in first:
        place = next((number for number, other in enumerate(rest) if equal(one, other)), None)
        if place is None:
            return False
        rest.pop(place)
    return True


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip().lstrip("$€£").replace(",", "")):
        return float(value.strip().lstrip("$€£").replace(",", ""))
    return None


def _same_text(first: Any, second: Any) -> bool:
    one, other = _folded(first), _folded(second)
    if one == other:
        return True
    return bool(_DAY.match(one) and _DAY.match(other)) and (
        one[:10] == other if len(other) == 10 else other[:10] == one
    )


def _folded(value: Any) -> str:
    return " ".join(str(value).split()).casefold().lstrip("#")


def _scalars(value: Any) -> Iterator[Any]:
    stack, seen = [value], 0
    while stack and seen < MOST:
        one = stack.pop()
        seen += 1
        if isinstance(one, dict):
            stack.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            stack.extend(reversed(one))
        elif one is not None:
            yield one
