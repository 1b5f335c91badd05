"""Paths to the fields of recorded items.

A path names fields from an item or a part on (`toolUse.input`). A number is a place in a list, and `[id=tool.id]` the
element whose `id` is the value at `tool.id`. A path that begins with `=` stands for the rest of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

_SELECTOR = re.compile(r"\[(\w+)=([\w.]+)\]")


def pieces(item: Mapping[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    """The parts at a place, each with its path; the item itself if the place is empty."""
    if not at:
        yield "", item
        return
    found = value_at(item, (at,))
    if isinstance(found, list):
        for number, piece in enumerate(found):
            yield f".{at}[{number}]", piece
    elif isinstance(found, str | dict):
        yield f".{at}", found


def value_at(piece: Any, paths: tuple[str, ...]) -> Any:
    """The first value that stands at one of the paths; None if none does."""
    for path in paths:
        if path[:1] == "=":
            return path[1:]
        found = piece
        for key in _keys(path):
            found = _step(found, key, piece)
            if found is None:
                break
        else:
            return found
    return None


def _step(found: Any, key: str | tuple[str, str], piece: Any) -> Any:
    if isinstance(found, dict) and isinstance(key, str):
        return found.get(key)
    if not isinstance(found, list):
        return None
    if isinstance(key, tuple):
        wanted = value_at(piece, (key[1],))
        return next((one for one in found if isinstance(one, dict) and one.get(key[0]) == wanted), None)
    return found[int(key)] if key.isdigit() and int(key) < len(found) else None


@lru_cache(maxsize=1024)
def _keys(path: str) -> tuple[str | tuple[str, str], ...]:
    """The steps of a path."""
    found: list[str | tuple[str, str]] = []
    for step in re.findall(r"\[[^]]*\]|[^.\[\]]+", path):
        chosen = _SELECTOR.fullmatch(step)
        found.append((chosen[1], chosen[2]) if chosen else step)
    return tuple(found)


def snake_case(name: str) -> str:
    """A name in the spelling of Python."""
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name)
