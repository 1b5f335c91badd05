"""What differs between two versions of a contract, place by place: pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_NOTHING = object()


def diff_documents(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every place where two documents differ: its path, what stood there and what stands there now."""
    return [
        {"path": path or "/", "before": _text(before), "after": _text(after)}
        for path, before, after in _differences("", old, new)
    ]


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() | new.keys()):
            step = name.replace("~", "~0").replace("/", "~1")
            yield from _differences(f"{path}/{step}", old.get(name, _NOTHING), new.get(name, _NOTHING))
    # 1 and true are equal in Python and not in JSON.
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _text(value: Any) -> str:
    return "" if value is _NOTHING else json.dumps(value, ensure_ascii=False, sort_keys=True)
