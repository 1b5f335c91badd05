"""Folding: reduces a text to what a reader sees, so that spelling tricks hide nothing.

1. Characters that show nothing (zero-width, bidi, combining, control) vanish; letters that look like Latin ones become
   those; compatibility forms become plain; HTML tags and emphasis marks vanish, HTML entities become characters.
2. Every character of the folded text knows where it stood, so that spans are spans of the message.
3. One pass, linear in the text. A plain ASCII text is folded to itself.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_DATA = json.loads(files("reviews.guarding.rules").joinpath("lookalikes.json").read_bytes())
_LOOKALIKES = {ord(letter): plain for plain, letters in _DATA["shown_as"].items() for letter in letters}
_KEPT = frozenset(_DATA["kept"] + "✓✔✅☑✗✘❌✖☒")
_MARKS = re.compile(
    r"<(?:/?[a-zA-Z][^<>\n]{0,300}|!--[^<>]{0,300}--)>|&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[a-zA-Z]{2,10});|\*+|~~|__"
)

_MARKED = ("<", "&", "*", "~~", "__")
_RUNS = re.compile(r"[ -\x7f\n\t]+|[\s\S]")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as a reader sees it, and the original position of each character; `places` is None if none has moved."""

    text: str
    lower: str
    places: Sequence[int] | None

    def place(self, index: int) -> int:
        """The position in the message of a character of the folded text."""
        return index if self.places is None else self.places[index]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the message of a span in the folded text."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1 if end > start else self.places[start]


@lru_cache(maxsize=16)
def fold(message: str) -> Folded:
    """The text as a reader sees it (rules 1 to 3)."""
    # A plain search for the marks comes first: most messages hold none, and the pattern costs many times as much.
    marked = any(map(message.__contains__, _MARKED)) and _MARKS.search(message) is not None
    if message.isascii() and "\x00" not in message and not marked:
        return Folded(message, message.lower(), None)
    text: list[str] = []
    places: list[int] = []
    at = 0
    for match in _MARKS.finditer(message):
        _letters(message, at, match.start(), text, places)
        for shown in _mark(match.group(), message, match.start(), match.end()):
            text.append(shown)
            places.append(match.start())
        at = match.end()
    _letters(message, at, len(message), text, places)
    places.append(len(message))
    joined = "".join(text)
    lower = joined.lower() if joined.isascii() else "".join(map(_lower, joined))
    return Folded(joined, lower, places)


def _mark(mark: str, message: str, start: int, end: int) -> str:
    if mark.startswith("&"):
        shown = html.unescape(mark)
        return "".join(_fold_letter(each) for each in shown) if shown != mark else mark
    if mark.startswith("*") and (start == 0 or message[start - 1] == "\n") and message[end : end + 1] == " ":
        return "*"
    if mark.lower().startswith(("<br", "<p", "</p", "<li", "</li", "<div", "</div", "<tr", "</tr", "<h")):
        return "\n"
    return ""


def _letters(message: str, start: int, end: int, text: list[str], places: list[int]) -> None:
    for run in _RUNS.finditer(message, start, end):
        place, letter = run.start(), run.group()
        if letter < "\x80":
            if letter >= " " or letter[0] in "\n\t":
                text.append(letter)
                places.extend(range(place, run.end()))
            continue
        for shown in _fold_letter(letter):
            text.append(shown)
            places.append(place)


@lru_cache(maxsize=8192)
def _fold_letter(letter: str) -> str:
    if letter in _DATA["dashes"]:
        return "\u2014"
    if letter in _KEPT:
        return letter
    if unicodedata.category(letter) in {"Cf", "Mn", "Me", "Cc", "Co"}:
        return ""
    shown = letter.translate(_LOOKALIKES)
    if shown.isascii():
        return shown
    plain = "".join(each for each in unicodedata.normalize("NFKD", letter) if unicodedata.category(each) != "Mn")
    plain = plain.translate(_LOOKALIKES)
    return " " if plain.isspace() else plain


@lru_cache(maxsize=8192)
def _lower(letter: str) -> str:
    small = letter.lower()
    return small if len(small) == 1 else letter
