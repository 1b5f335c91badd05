"""Values that nobody should send, by turns: for every parameter of an address, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, quote_from_bytes
from zlib import crc32

import pytest
from django.http import QueryDict

# A lone surrogate travels as the bytes that it would have.
SURROGATE: Final = "\ud800"
TEXTS: Final = (
    *("\0", "three", "9999-12-31", "-1", "", "9" * 400, "0190b5a4-0000-7000-8000", "0001-01-01", SURROGATE),
    *("[]", "x" * 5000, "1e400", "2026-02-30", "operator:", "\r\nX-Odd: 1", str(2**63), "2026-01-01T00:00:00+23:59"),
    *("one\0two", "NaN", "10000-01-01T00:00:00Z", "{}", " ", "٣", "00000000-0000-0000-0000-000000000000", "%00"),
    *("true", "1970-01-01T00:00Z", "\u202eabc", "1_000", '["a"]', "../../etc", "0", "9999-12-31T23:59:59Z", "null"),
    *("ffffffff-ffff-ffff-ffff-ffffffffffff", "1.5", "é" * 300, str(2**31), "0001-01-01T00:00:00Z", "%", "²", "a,b"),
    *("{01a2071574877371acb8ce6a778c7ff4}", "+1", "'", "10000-01-01", ".", "Infinity", "\\", '"', str(2**64), "1.1"),
    *("urn:uuid:01a20715-7487-7371-acb8-ce6a778c7ff4", "0000-00-00", f"{'9' * 30}.{'9' * 30}", '{"a": 1}', str(2**32)),
)
"""One kind after the other, so that whoever takes a few in a row gets a few kinds."""

NESTED: Final = 200
VALUES: Final[tuple[Any, ...]] = (
    *(None, "\0", [], -1, {}, "", True, 10**400, [None], 1.5, SURROGATE, {"a": {"b": [{}]}}, 0, "three", 2**64),
    *([[]], "9999-12-31T23:59:59Z", False, ["\0"], -(2**63), "x" * 5000, {"": ""}, 2**31, "0190b5a4-0000-7000-8000"),
    *([""], 2**53, "10000-01-01T00:00:00Z", {"\0": SURROGATE}, "1e400", ["x"] * 2000, 2**53 - 1, "0001-01-01", "NaN"),
    *(["00000000-0000-0000-0000-000000000000"], "0001-01-01T00:00:00Z", " ", [{}], "[" * NESTED),
)
BROKEN: Final = (
    *(b"", b"[7]", b'"text"', b"null", b"1e400", b"\xff", b'{"a": ', b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}'),
    *(b"[" * 100_000, b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b"-0", b"\0", b"{}" * 2),
)
"""Bodies that are no JSON object of ours, as they are sent."""


class Turns:
    """Whose turn it is, of the odd values: begun at a place that goes by a name, so every run sends the same."""

    def __init__(self, name: str) -> None:
        self._place = crc32(name.encode())

    def text(self) -> str:
        return self._next(TEXTS)

    def some_text(self) -> str:
        """A text that is not empty."""
        return self.text() or self.text()

    def header(self) -> str:
        """A text that can be sent in a header."""
        while not ((text := self.text()).isprintable() and text.isascii()):
            pass
        return text

    def value(self) -> Any:
        return self._next(VALUES)

    def broken(self) -> bytes:
        return bytes(self._next(BROKEN))

    def _next(self, values: tuple[Any, ...]) -> Any:
        self._place += 1
        return values[self._place % len(values)]


def quoted(text: str) -> str:
    """A value as a part of an address."""
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")


def query(said: dict[str, str]) -> str:
    """Parameters as an address or a form holds them, odd values and all."""
    return "&".join(f"{quote(name)}={quoted(text)}" for name, text in said.items())


@contextmanager
def names_asked() -> Iterator[set[str]]:
    """The names of the parameters that the code asks for while a request is answered, whichever way it asks."""
    asked: set[str] = set()

    def spying(method: str) -> Any:
        original = getattr(QueryDict, method)

        def spy(self: QueryDict, name: str, *rest: Any) -> Any:
            asked.add(name)
            return original(self, name, *rest)

        return spy

    with pytest.MonkeyPatch.context() as patch:
        for method in ("get", "getlist", "__getitem__", "__contains__"):
            patch.setattr(QueryDict, method, spying(method))
        yield asked


def paths_in(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each part of a JSON document is, from its members inwards."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in members:
        yield (*before, name)
        yield from paths_in(part, (*before, name))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place."""
    if not path:
        return value
    copy = list(document) if isinstance(document, list) else dict(document)
    old = copy[path[0]] if isinstance(copy, list) else copy.get(path[0])
    copy[path[0]] = with_value(old, path[1:], value) if len(path) > 1 else value
    return copy
