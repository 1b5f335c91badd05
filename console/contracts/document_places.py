"""The line of each part of a JSON text: pure."""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_OTHER: Final = re.compile(r"[^\s,\]}]+")


def line_of_each_part(text: str) -> dict[str, int]:
    """The line, from 1, on which each part of a valid JSON text begins, by its JSON pointer.

    A member of an object begins with its name. Names in a pointer stand as they are, as the faults of a contract name
    them.
    """
    found: dict[str, int] = {}
    _part(text, _skip(text, 0), "", found)
    return {pointer: text.count("\n", 0, place) + 1 for pointer, place in found.items()}


def line_of(pointer: str, lines: dict[str, int]) -> int:
    """The line of a part, or of the nearest part around it that is there."""
    while pointer and pointer not in lines:
        pointer = pointer.rpartition("/")[0]
    return lines.get(pointer, 1)


def _part(text: str, place: int, pointer: str, found: dict[str, int]) -> int:
    """Record where a part and each of its parts begins; return the position after it."""
    found.setdefault(pointer, place)
    if text[place] == '"':
        return int(scanstring(text, place + 1)[1])
    if text[place] not in "{[":
        match = _OTHER.match(text, place)
        return match.end() if match else place + 1
    is_object, number, place = text[place] == "{", 0, _skip(text, place + 1)
    while text[place] not in "}]":
        name = str(number)
        if is_object:
            begin = place
            name, place = scanstring(text, place + 1)
            found[f"{pointer}/{name}"] = begin
            place = _skip(text, _skip(text, place) + 1)
        place, number = _skip(text, _part(text, place, f"{pointer}/{name}", found)), number + 1
        if text[place] == ",":
            place = _skip(text, place + 1)
    return place + 1


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return match.end() if match else place
