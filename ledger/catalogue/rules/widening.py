"""Finds where a JSON Schema accepts more than the one before; in doubt it reports a widening.

A schema is narrower where it says more, and wider where it says less. What cannot be compared keyword by keyword
(branches, references, conditions, patterns) counts as wider as soon as it differs: a needless report is better than a
missed one. Titles, descriptions, examples and defaults admit nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_SAYS_NOTHING = frozenset(
    {"$comment", "$id", "$schema", "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly"}
)
_AT_MOST = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
_AT_LEAST = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_NESTED = frozenset({"items", "additionalProperties", "propertyNames", "contains", "unevaluatedProperties"})
_ADDING_WIDENS = frozenset({"patternProperties", "prefixItems", "$defs", "$anchor", "$dynamicAnchor", "else", "then"})
"""Keywords that can make a schema admit more by being there; every other one only refuses more."""


def widenings(before: object, after: object, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, widening) for each place where `after` may admit what `before` refused."""
    old, new = _plain(before), _plain(after)
    if old == new:
        return
    if old is False:
        yield path, "takes values where none were taken"
    elif new is False or old is True:
        return
    elif new is True:
        yield path, "takes any value"
    else:
        yield from _in_objects(old, new, path)


def _plain(schema: Any) -> Any:
    """Return a schema without the parts that admit nothing; an empty one accepts anything, as `true` does."""
    if not isinstance(schema, Mapping):
        return schema is not False
    said = {
        name: part
        for name, part in schema.items()
        if name not in _SAYS_NOTHING and not (name in _NESTED - {"contains"} and _plain(part) is True)
    }
    return said or True


def _in_objects(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    yield from _properties(old, new, path)
    for keyword in sorted((old.keys() | new.keys()) - {"properties"}):
        if keyword not in new:
            open_now = keyword == "additionalProperties"
            yield f"{path}/{keyword}", "unknown arguments are let through" if open_now else f"`{keyword}` is gone"
        elif keyword not in old:
            if keyword in _ADDING_WIDENS:
                yield f"{path}/{keyword}", f"`{keyword}` is new"
        elif keyword in _NESTED:
            yield from widenings(old[keyword], new[keyword], f"{path}/{keyword}")
        elif old[keyword] != new[keyword] and _looser(keyword)(old[keyword], new[keyword]):
            yield f"{path}/{keyword}", f"`{keyword}` is {_short(new[keyword])}, was {_short(old[keyword])}"


def _properties(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """A new argument widens the schema; a removed one falls under the rule for unknown arguments."""
    known, wanted = old.get("properties", {}), new.get("properties", {})
    others = new.get("additionalProperties", True)
    for name in sorted(known.keys() | wanted.keys()):
        here = f"{path}/properties/{name.replace('~', '~0').replace('/', '~1')}"
        if name in known:
            yield from widenings(known[name], wanted.get(name, others), here)
        elif old.get("additionalProperties", True) is False:
            yield here, f"takes a new argument `{name}`"
        else:
            yield from widenings(old.get("additionalProperties", True), wanted[name], here)


def _looser(keyword: str) -> Callable[[Any, Any], bool]:
    """The test whether a changed value of a keyword refuses less."""
    if keyword in _AT_MOST:
        return lambda old, new: _number(new) > _number(old)
    if keyword in _AT_LEAST:
        return lambda old, new: _number(new) < _number(old)
    return _LOOSER.get(keyword, lambda old, new: True)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _types(value: Any) -> set[str]:
    named = {value} if isinstance(value, str) else set(value)
    # Every integer is a number.
    return named | {"integer"} if "number" in named else named


def _lists_more(old: Any, new: Any) -> bool:
    return any(each not in old for each in new)


_LOOSER: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda old, new: not _types(new) <= _types(old),
    "enum": _lists_more,
    "required": lambda old, new: not set(old) <= set(new),
    "uniqueItems": lambda old, new: bool(old) and not new,
}


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
