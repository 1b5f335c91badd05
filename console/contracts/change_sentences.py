"""The changes between two versions of a contract, in words: pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_PARTS: Final = {
    "arguments_schema": "Arguments",
    "claims": "Completion phrases",
    "operation_kind": "Operation",
    "recovery": "Recovery",
    "required_effects": "Required effects",
    "side_effect_class": "Side-effect class",
    "target_template": "Target",
    "verification": "Verification",
    "verification/lookup": "What is read back",
    "verification/pattern": "Check pattern",
    "verification/polling": "Times of reading",
    "verification/predicates": "Checks",
    "verification/sources": "Further sources",
    "verification/system": "System of record",
}
_ARGUMENT = ("arguments_schema", "properties")


def change_sentence(change: Mapping[str, str]) -> str:
    """Describe one difference from `diff_documents`: its path, and both values as JSON or nothing."""
    path = [step.replace("~1", "/").replace("~0", "~") for step in change["path"].split("/") if step]
    before, after = change["before"], change["after"]
    if tuple(path[:2]) == _ARGUMENT and len(path) > 2:
        named = f"Argument {path[2]}"
        if len(path) == 3 and not (before and after):
            return f"{named} is new." if after else f"{named} is gone."
        return f"{named}{_inside(path[3:])}{_change_text(before, after)}"
    if path == ["arguments_schema", "required"]:
        return f"Required arguments{_change_text(before, after)}"
    known = next((size for size in (2, 1) if "/".join(path[:size]) in _PARTS and len(path) >= size), 0)
    if known:
        return f"{_PARTS['/'.join(path[:known])]}{_inside(path[known:])}{_change_text(before, after)}"
    head = path[0].replace("_", " ").capitalize() if path else "The document"
    return f"{head}{_inside(path[1:])}{_change_text(before, after)}"


def _inside(path: list[str]) -> str:
    return f", {' '.join(path).replace('_', ' ')}" if path else ""


def _change_text(before: str, after: str) -> str:
    if not before:
        return f": added {_values_text(after)}."
    if not after:
        return f": {_values_text(before)} was removed."
    then, now = json.loads(before), json.loads(after)
    if isinstance(then, list) and isinstance(now, list):
        gone = [_value(each) for each in then if each not in now]
        come = [_value(each) for each in now if each not in then]
        told = [f"{' and '.join(come)} added"] * bool(come) + [f"{' and '.join(gone)} removed"] * bool(gone)
        return f": {'; '.join(told) or 'in another order'}."
    return f": {_value(then)} became {_value(now)}."


def _values_text(text: str) -> str:
    value = json.loads(text)
    return " and ".join(_value(each) for each in value) if isinstance(value, list) and value else _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value or "an empty text"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
