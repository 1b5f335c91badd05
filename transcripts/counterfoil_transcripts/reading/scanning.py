"""Files of any size, read piece by piece: JSON Lines, one big array, or an object with arrays in it; gzip as well.

1. A file is decoded as UTF-8; what is not UTF-8 becomes replacement characters, so that one bad byte loses no file.
2. JSON Lines: each line is an item; a line that is no JSON is an `UnreadablePart`, and the next line goes on.
3. An array: each element is an item, decoded from a window that grows only as far as one element reaches. An element
   that is no JSON ends the array, since nobody can say where the next begins.
4. An object: its members one by one; an array that is a member is handed out element by element as well, so that
   `{"conversations": [a gigabyte]}` needs no more memory than its longest conversation.
5. An element longer than `MAX_ITEM` characters is refused: it would not fit in memory twice.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

import orjson

CHUNK = 1 << 18
MAX_ITEM = 64 << 20
_DECODER = json.JSONDecoder(strict=False)
_SPACE = " \t\r\n\ufeff"


class LineSource(Protocol):
    """A source of lines."""

    def readline(self, size: int = -1, /) -> str:
        """The next line, or as much of it."""
        ...


@dataclass(frozen=True, slots=True)
class ScannedValue:
    """One value of a file and its position. `member`: the array of the top object that it belongs to, if any."""

    path: str
    value: Any
    member: str = ""


@dataclass(frozen=True, slots=True)
class UnreadablePart:
    """A place without readable JSON."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectRemainder:
    """The other members of an object whose arrays were handed out element by element."""

    members: dict[str, Any]


Scanned = ScannedValue | UnreadablePart | ObjectRemainder


def scan_file(file: Path, *, moved: Callable[[int], None] = lambda _: None) -> Iterator[Scanned]:
    """Everything in a file, in its order; `moved` hears how many bytes of it have been read, as stored on disk."""
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        binary = gzip.GzipFile(fileobj=raw) if packed else raw
        text = io.TextIOWrapper(binary, encoding="utf-8", errors="replace", newline="\n")
        try:
            yield from _scan(text, lambda: moved(raw.tell()))
        except (EOFError, gzip.BadGzipFile, OSError) as problem:
            yield UnreadablePart("$", f"The file ends or breaks in the middle: {problem}.")
        finally:
            text.detach()


def _scan(text: TextIO, moved: Callable[[], None]) -> Iterator[Scanned]:
    first = _first_line(text)
    start = first.lstrip(_SPACE)
    if start[:1] not in {"[", "{"} or (first.endswith("\n") and _is_value(first)):
        yield from _lines(first, text, moved)
        return
    if start[0] == "{" and not first.endswith("\n"):
        first, is_line = _long_line(first, text)
        if is_line:
            yield from _lines(first, text, moved)
            return
    elif start[0] == "{":
        second = text.readline(CHUNK)
        if second.startswith("{") and second.endswith("\n") and _is_value(second):
            yield from _lines(first, _Again(second, text), moved)
            return
        first += second
    window = _Window(text, first, moved)
    while (mark := window.peek()) in {"[", "{"}:
        window.skip()
        yield from _array(window, "$", "") if mark == "[" else _object(window)
    if mark:
        yield UnreadablePart("$", "There is text after the end of the value.")


def _first_line(text: TextIO) -> str:
    first = text.readline(CHUNK)
    while first and not first.strip(_SPACE):
        first = text.readline(CHUNK)
    return first


class _Again:
    """A text whose next line was already read."""

    def __init__(self, line: str, text: LineSource) -> None:
        self._line, self._text = line, text

    def readline(self, size: int = -1, /) -> str:
        """Return the line already read, then those of the text."""
        line, self._line = self._line, ""
        return line or self._text.readline(size)


def _is_value(line: str) -> bool:
    return _value(line)[1] == ""


def _long_line(start: str, text: TextIO) -> tuple[str, bool]:
    """A first line longer than one chunk: read a little further, and decide if it is a complete value."""
    parts = [start]
    for _ in range(15):
        more = text.readline(CHUNK)
        parts.append(more)
        if not more or more.endswith("\n"):
            line = "".join(parts)
            return line, bool(more) and _is_value(line)
    return "".join(parts), False


def _lines(first: str, text: LineSource, moved: Callable[[], None]) -> Iterator[Scanned]:
    number, line = 1, first
    while line:
        while not line.endswith("\n") and len(line) < MAX_ITEM:
            more = text.readline(CHUNK * 16)
            if not more:
                break
            line += more
        if line.strip(_SPACE):
            value, problem = _value(line.strip(_SPACE))
            yield UnreadablePart(f"line {number}", problem) if problem else ScannedValue(f"line {number}", value)
        moved()
        number, line = number + 1, text.readline(CHUNK * 16)


def _value(text: str) -> tuple[Any, str]:
    """The value in a text, and its fault."""
    try:
        return orjson.loads(text), ""
    except ValueError:
        pass
    try:
        return json.loads(text, strict=False), ""
    except (ValueError, RecursionError) as problem:
        found = _after_prefix(text)
        return found, "" if found is not None else f"This is no JSON ({problem})."


def _after_prefix(text: str) -> Any:
    """The message in a log line with a time or a direction before it; None if there is none."""
    start = text.find('{"')
    if start <= 0:
        return None
    try:
        return orjson.loads(text[start:])
    except ValueError:
        return None


class _Window:
    """A moving window over a text; it grows while one value extends beyond it."""

    def __init__(self, text: TextIO, start: str, moved: Callable[[], None]) -> None:
        self._text, self._held, self._at, self._moved = text, start, 0, moved

    def peek(self) -> str:
        """The next character that is not a space; empty at the end."""
        while True:
            held, at = self._held, self._at
            while at < len(held) and held[at] in _SPACE:
                at += 1
            self._at = at
            if at < len(held):
                return held[at]
            if not self._more(CHUNK):
                return ""

    def skip(self) -> None:
        """Past one character."""
        self._at += 1

    def end(self) -> None:
        """Give up: the start of the next value cannot be determined."""
        self._held, self._at, self._text = "", 0, io.StringIO()

    def value(self) -> tuple[Any, str]:
        """The next value, and its fault."""
        self.peek()
        size = CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._held, self._at)
            except RecursionError:
                return None, "It is nested too deep."
            except ValueError as problem:
                if self._is_cut(problem) and len(self._held) - self._at < MAX_ITEM and self._more(size):
                    size = min(size * 2, MAX_ITEM)
                    continue
                return None, self._account(problem)
            if end == len(self._held) and not isinstance(value, dict | list | str) and self._more(CHUNK):
                continue
            self._at = end
            return value, ""

    def _is_cut(self, problem: ValueError) -> bool:
        """Return whether the value may merely have been cut off by the window's end."""
        if not isinstance(problem, json.JSONDecodeError):
            return False
        return problem.msg.startswith("Unterminated string") or problem.pos >= len(self._held) - 16

    def _account(self, problem: ValueError) -> str:
        if len(self._held) - self._at >= MAX_ITEM:
            return f"An element is longer than {MAX_ITEM} characters."
        return f"This is no JSON ({getattr(problem, 'msg', problem)})."

    def _more(self, size: int) -> bool:
        more = self._text.read(size)
        if more:
            self._held, self._at = self._held[self._at :] + more, 0
            self._moved()
        return bool(more)


def _array(window: _Window, path: str, member: str) -> Iterator[Scanned]:
    number = 0
    while (mark := window.peek()) not in {"]", ""}:
        if mark == ",":
            window.skip()
            continue
        value, problem = window.value()
        if problem:
            yield UnreadablePart(f"{path}[{number}]", problem)
            window.end()
            return
        yield ScannedValue(f"{path}[{number}]", value, member)
        number += 1
    if mark == "":
        yield UnreadablePart(f"{path}[{number}]", "The file ends inside the list.")
    window.skip()


def _object(window: _Window) -> Iterator[Scanned]:
    rest: dict[str, Any] = {}
    while (mark := window.peek()) not in {"}", ""}:
        if mark == ",":
            window.skip()
            continue
        name, problem = window.value()
        if problem or not isinstance(name, str) or window.peek() != ":":
            yield UnreadablePart("$", problem or "A name is followed by no value.")
            window.end()
            break
        window.skip()
        if window.peek() == "[":
            window.skip()
            rest[name] = None
            yield from _array(window, f"$.{name}", name)
            continue
        rest[name], problem = window.value()
        if problem:
            yield UnreadablePart(f"$.{name}", problem)
            window.end()
            break
    window.skip()
    yield ObjectRemainder(rest)
