"""Report templates: the sentence with which a contract reports that its action is done, `Refunded {sa.amount | money}`.

1. A place is `target` or a path below `sa` (the system of record), `so` (the tool's answer) or `sr` (the request), with
   at most one filter: `money` (minor units as people read them, by the `currency` beside them or the one named).
2. A template has a value for each of its places or is not used: no line is told with a hole in it.
3. `report` is one template, or one for each language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledger.catalogue.rules.money import format_money, is_currency

ROOTS: Final = ("sa", "so", "sr")
FILTERS: Final = ("money",)
DEFAULT_LANGUAGE: Final = "en"
_PLACE = re.compile(r"\{([^{}]*)\}")
_FORM = re.compile(r"\s*(target|(?:sa|so|sr)(?:\.[A-Za-z_][\w-]*)+)\s*(?:\|\s*([a-z]+)(?:\s+([A-Z]{3}))?\s*)?")


def read(report: str | Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """The templates of a contract's `report`, by language."""
    if not report:
        return ()
    return ((DEFAULT_LANGUAGE, report),) if isinstance(report, str) else tuple(sorted(report.items()))


def faults(template: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Describe the faults of a template, given the properties of the arguments' schema."""
    if "{" in _PLACE.sub("", template) or "}" in _PLACE.sub("", template):
        yield "A brace stands alone; a place is written {target}, or {sa.amount | money}."
    for place in _PLACE.findall(template):
        found = _FORM.fullmatch(place)
        if found is None:
            yield f"`{{{place}}}` is no place: target, or a path below sa, so or sr, and at most one filter."
        elif found[2] and found[2] not in FILTERS:
            yield f"`{found[2]}` is no filter (known: {', '.join(FILTERS)})."
        elif found[1].startswith("sr.") and (name := found[1].split(".")[1]) not in arguments:
            yield f"sr has no field `{name}` (known: {', '.join(sorted(arguments)) or 'none'})."


def render(template: str, target: str, sources: Mapping[str, Mapping[str, Any]]) -> str:
    """The sentence with its values; empty if one of them is missing (rule 2)."""
    missing = False

    def value(match: re.Match[str]) -> str:
        nonlocal missing
        text = _value(match[1], target, sources)
        missing = missing or not text
        return text

    made = _PLACE.sub(value, template)
    return "" if missing else made


def at_path(source: object, path: tuple[str, ...]) -> Any:
    """The value at a path of names; None if there is none."""
    for name in path:
        if not isinstance(source, Mapping) or name not in source:
            return None
        source = source[name]
    return source


def as_text(value: object) -> str:
    """A value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{round(value, 2):g}" if value == int(value) else f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(as_text(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {as_text(each)}" for name, each in value.items())
    return " ".join(str(value).split())


def _value(place: str, target: str, sources: Mapping[str, Mapping[str, Any]]) -> str:
    found = _FORM.fullmatch(place)
    if found is None:
        return ""
    if found[1] == "target":
        return target
    root, *path = found[1].split(".")
    value = at_path(sources.get(root, {}), tuple(path))
    if found[2] == "money":
        beside = at_path(sources.get(root, {}), (*path[:-1], "currency"))
        currency = found[3] or (beside if is_currency(beside) else None)
        return format_money(value, currency) or as_text(value)
    return as_text(value)
