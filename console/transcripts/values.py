"""The plain values in arguments and answers: what could name a thing, and what an agent may have been told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MOST = 3_000


def identifiers(value: Any, *, limit: int = 40) -> frozenset[str]:
    """The texts and numbers in some arguments that could name a thing, folded."""
    found = (_folded(one) for one in _scalars(value) if not isinstance(one, bool | float))
    return frozenset(one for one, _ in zip((one for one in found if len(one) >= 2), range(limit), strict=False))


def words_with_digits(text: str, *, limit: int = 400) -> set[str]:
    """The words of a text that could be identifiers, folded."""
    found = (one for one in re.split(r"[\s,;:!?()\[\]{}\"'<>`*]+", text[:20_000]) if one)
    named = (_folded(one.rstrip(".")) for one in found if any(character.isdigit() for character in one))
    return {one for one, _ in zip(named, range(limit), strict=False)}


def plain_values(value: Any, *, limit: int = 60) -> list[Any]:
    """The plain values in an answer, for whoever looks whether one of them was told."""
    return [one for one, _ in zip(_scalars(value), range(limit), strict=False)]


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
