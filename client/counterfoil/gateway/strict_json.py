"""JSON that can be shown whole: UTF-8, no name twice, no NaN, and fractions as the text that was sent."""

from __future__ import annotations

import json
import threading
from typing import Any, Final

from counterfoil.gateway.reader import StoredContent

_LARGE: Final = 1 << 20
_reading_large: Final = threading.BoundedSemaphore(2)
"""Large documents take many times their size in memory, so that few are read at once."""


class UnreadableBody(Exception):
    """The body cannot be read; the message says why."""


def read_json_object(file: StoredContent, size: int) -> dict[str, Any]:
    """Read a stored body that is one JSON object. Raises `UnreadableBody`."""
    found = read_json(file, size)
    if not isinstance(found, dict):
        raise UnreadableBody("it is not an object")
    return found


def read_json(file: StoredContent, size: int) -> Any:
    """Read a stored body that is a JSON object or list. Raises `UnreadableBody`."""
    if size <= _LARGE:
        return parse_json(file.read_bytes())
    with _reading_large:
        return parse_json(file.read_bytes())


def parse_json(text: bytes) -> Any:
    """Parse a JSON object or list. Raises `UnreadableBody`."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise UnreadableBody("it has a name twice")
        return found

    def refuse(word: str) -> Any:
        raise UnreadableBody(f"{word} is no number of JSON")

    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_float=str, parse_constant=refuse)
    except (ValueError, RecursionError) as fault:
        raise UnreadableBody("it is not JSON in UTF-8") from fault
    if not isinstance(found, dict | list):
        raise UnreadableBody("it is not an object")
    return found
