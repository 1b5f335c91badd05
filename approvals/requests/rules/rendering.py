"""Renders a payload for the person who decides: completely, and without characters that can be mistaken for others.

1. Every value of the payload is a field, in canonical order; none is dropped (B34). An empty object or list is a field.
2. Characters that cannot be seen, that reorder text, that imitate others (`lookalikes`) or are drawn over others are
   shown with their code point in ⟦brackets⟧; a bracket in the payload is itself shown so, hence no payload can imitate
   a mark. Names get the same.
3. A long value is folded, with its length and digest in sight; the whole text stays at hand in `full`.
4. The digest over the fields goes into the statement. A vote on another rendering is refused (R-UI-04, B36).

Warnings: CONTROL, HIDDEN, BIDI, RIGHT_TO_LEFT, LOOKALIKE, OVERLAY, SPACE (unusual, leading or trailing), NOT_NFC,
LONG. They are hints for the eye: a text without any is not thereby honest. Only the marks and the canonical bytes are
complete.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from approvals.requests.rules.lookalikes import imitations, looks_like, overlays
from ledger.record.rules.canonical import canonical, digest

RENDERER = "fields-1"
FOLD_OVER = 400
FOLD_TO = 300

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters, marks and symbols that draw nothing: fillers, joiners, the braille blank, variation selectors.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_MARK = re.compile("⟦U\\+([0-9A-F]{4,6})⟧")
# What a mark says by itself: line breaks, tabs, spaces and the brackets of marks.
_PLAIN_MARKS = frozenset("\n\t ⟦⟧")
MOST_NAMED = 12


@dataclass(frozen=True)
class Field:
    """One displayed value. `full` is the whole text; it differs from `display` if the value is folded."""

    path: str
    label: str
    kind: str
    display: str
    warnings: tuple[str, ...]
    full: str

    @property
    def folded(self) -> bool:
        """Return whether more can be unfolded."""
        return self.display != self.full

    @property
    def marked_characters(self) -> tuple[str, ...]:
        """The characters that are marked in name or value, in words."""
        return marked_characters(f"{self.path} {self.full}")


def render_payload(payload: object) -> tuple[Field, ...]:
    """The fields of a payload that was read from its canonical bytes (rule 1)."""
    return tuple(_fields(payload, "", ""))


def rendering_digest(fields: Sequence[Field]) -> str:
    """Identify what was shown: renderer, order, labels, texts and warnings (rule 4)."""
    shown = [[one.path, one.label, one.kind, one.display, list(one.warnings)] for one in fields]
    return digest(canonical([RENDERER, shown]))


def mark_hidden(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with everything unseen or misleading marked, and the warnings (rule 2)."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text, ()
    imitating, drawn_over = imitations(text), overlays(text)
    found: set[str] = set()
    pieces = []
    last = len(text) - 1
    for index, character in enumerate(text):
        warning = "LOOKALIKE" if index in imitating else "OVERLAY" if index in drawn_over else ""
        warning = warning or _warning(character, at_edge=index in {0, last})
        found.add(warning)
        pieces.append(_draw_character(character, warning))
    if not unicodedata.is_normalized("NFC", text):
        found.add("NOT_NFC")
    return "".join(pieces), tuple(sorted(found - {"", "MARKED"}))


def marked_characters(display: str) -> tuple[str, ...]:
    """The characters that are marked in a displayed text, each once, in words: `U+0430 Cyrillic small letter a, looks
    like a`. After some the rest is counted.
    """
    found = dict.fromkeys(chr(int(mark[1], 16)) for mark in _MARK.finditer(display))
    names = [_name(each) for each in found if each not in _PLAIN_MARKS]
    more = len(names) - MOST_NAMED
    return (*names[:MOST_NAMED], f"and {more} more") if more > 0 else tuple(names)


def _name(character: str) -> str:
    name = unicodedata.name(character, "unnamed character").capitalize()
    alike = looks_like(character)
    return f"U+{ord(character):04X} {name}{f', looks like {alike}' if alike and not character.isascii() else ''}"


def _fields(value: Any, path: str, name: str) -> Iterator[Field]:
    if isinstance(value, dict) and value:
        for key in sorted(value, key=lambda one: one.encode("utf-16-be", "surrogatepass")):
            yield from _fields(value[key], f"{path}/{key.replace('~', '~0').replace('/', '~1')}", key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _fields(item, f"{path}/{index}", f"{name} {index + 1}")
    else:
        yield _render_field(value, path, name)


def _render_field(value: Any, path: str, name: str) -> Field:
    kind, text = _kind_and_text(value)
    full, warnings = mark_hidden(text)
    shown_path, path_warnings = mark_hidden(path)
    display = full
    if len(full) > FOLD_OVER:
        warnings = (*warnings, "LONG")
        summary = f"{len(text)} characters, SHA-256 {digest(text.encode('utf-8', 'surrogatepass'))}"
        display = f"{full[:FOLD_TO]} ⟦folded: {summary}⟧"
    every = tuple(sorted({*warnings, *path_warnings}))
    return Field(shown_path, mark_hidden(_label(name))[0], kind, display, every, full)


def _kind_and_text(value: Any) -> tuple[str, str]:
    if value is None:
        return "null", "null"
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return "integer", f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, str):
        return ("text", value) if value else ("empty text", "")
    return ("empty list", "") if isinstance(value, list) else ("empty object", "")


def _label(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ").split(" ")
    return " ".join(words).strip().capitalize() if name.isascii() else name


def _warning(character: str, *, at_edge: bool) -> str:
    """The warning for a character by itself; "" for none, MARKED for a mark without a warning."""
    if character.isascii() and character.isprintable():
        return "SPACE" if character == " " and at_edge else ""
    if character in "\n\t⟦⟧":
        return "MARKED"
    if character in _BIDI:
        return "BIDI"
    category = unicodedata.category(character)
    if category == "Cc":
        return "CONTROL"
    if category in _UNSEEN_CATEGORIES or character in _BLANKS or _selects_variation(character):
        return "HIDDEN"
    if category == "Zs":
        return "SPACE"
    return "RIGHT_TO_LEFT" if unicodedata.bidirectional(character) in {"R", "AL"} else ""


def _selects_variation(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _draw_character(character: str, warning: str) -> str:
    mark = f"⟦U+{ord(character):04X}⟧"
    if warning in {"", "RIGHT_TO_LEFT"}:
        return character
    if warning == "LOOKALIKE" or character == "\n":
        return mark + character if character == "\n" else character + mark
    return mark
