"""Segments: the lines, sentences and clauses of a text, with their positions and the kind of each line.

1. A fenced block, a quoted line (`>`) and a table's rule are no prose. A fence hides nothing that reads as prose.
2. A list item, a heading, a table row and a paragraph's line are blocks; a sentence never crosses a block.
3. A sentence ends with a full stop, a mark of question or exclamation, the citation of an action, or its block; not
   with an abbreviation, a number, an initial or an address.
4. Everything is a slice of the folded text, found from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from reviews.guarding.rules.folding import Folded

_LINE = re.compile(r"[^\n]+")
_ITEM = re.compile(r"\s*(?:[-+*•·▪◦‣●○■□➤➡→]|\(?\d{1,3}[.)]|\(?[a-z][.)](?=\s))\s+")
_BOX = re.compile(r"\s*(?:\[(?P<box>[ xX✓✔✅])\]|(?P<tick>[✓✔✅☑])|(?P<cross>[✗✘❌✖☒]))\s*:?\s*")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*([\w+-]*)")
_END = re.compile(
    r"[.!?]+[\"')\]]*(?=\s|$)|[;](?=\s)|\{\{\s*action:[^{}]{1,140}\}\}(?=\s)"
    r"|(?<=[a-z]{2})[.!?](?=(?:i|we|i've|we've|your|the|our)\b(?!\.))"
)
_MARK = re.compile(r"[.!?;{]")
"""The first character of whatever ends a sentence: `_END` is tried there only."""
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|mr|mrs|ms|dr|st|vs|approx|no|inc|ltd|co|jr|sr|prof|a\.m|p\.m|fig|min|max|dept|est|ref|acct)|(?<!['\u2019])\b[a-z])$"
)


class Block(NamedTuple):
    """One line of prose: its position, its kind, and whether it is ticked or crossed."""

    start: int
    end: int
    kind: str
    ticked: bool | None = None
    fenced: bool = False


class Sentence(NamedTuple):
    """A sentence of a block; `question` is True if it is a question."""

    start: int
    end: int
    block: Block
    question: bool


def blocks(folded: Folded) -> Iterator[Block]:
    """Return the lines that may contain statements (rules 1 and 2)."""
    fence: str | None = None
    for line in _LINE.finditer(folded.lower):
        text = line.group()
        fenced = _FENCE.match(text) if "```" in text or "~~~" in text else None
        if fenced is not None:
            fence = None if fence is not None else fenced.group(1)
            continue
        if not text.strip() or (fence is None and text.lstrip().startswith(">")):
            continue
        yield from _blocks(line.start(), text, fenced=fence is not None)


def _blocks(start: int, text: str, *, fenced: bool) -> Iterator[Block]:
    if text.count("|") >= 2 and text.strip().startswith("|"):
        if not set(text) <= set("|-: \t"):
            yield Block(start, start + len(text), "row", _row_ticked(text), fenced)
        return
    at, kind, ticked = 0, "line", None
    if heading := _HEADING.match(text):
        at, kind = heading.end(), "heading"
    elif item := _ITEM.match(text):
        at, kind = item.end(), "item"
    if box := _BOX.match(text, at):
        at, ticked = box.end(), _is_ticked(box)
        kind = "item" if kind == "line" else kind
    if text[at:].strip():
        yield Block(start + at, start + len(text), kind, ticked, fenced)


def _is_ticked(box: re.Match[str]) -> bool:
    return box["cross"] is None and (box["box"] or "x") != " "


def _row_ticked(text: str) -> bool | None:
    if any(mark in text for mark in "✓✔✅☑"):
        return True
    return False if any(mark in text for mark in "✗✘❌✖☒") else None


def sentences(folded: Folded) -> tuple[Sentence, ...]:
    """The sentences, in order (rule 3)."""
    return _sentences_of(folded.lower)


@lru_cache(maxsize=16)
def _sentences_of(lower: str) -> tuple[Sentence, ...]:
    return tuple(_sentences(Folded(lower, lower, None)))


def _sentences(folded: Folded) -> Iterator[Sentence]:
    for block in blocks(folded):
        start = passed = block.start
        for mark in _MARK.finditer(folded.lower, block.start, block.end):
            stop = _END.match(folded.lower, mark.start(), block.end) if mark.start() >= passed else None
            if stop is None:
                continue
            passed = stop.end()
            if stop.group()[0] == "." and _ABBREVIATION.search(
                folded.lower, max(start, stop.start() - 8), stop.start()
            ):
                continue
            yield from _sentence(folded, start, stop.end(), block)
            start = stop.end()
        yield from _sentence(folded, start, block.end, block)


LONGEST = 800
"""A sentence of more characters is read in pieces: nobody writes one, and the time stays within the text's length."""


def _sentence(folded: Folded, start: int, end: int, block: Block) -> Iterator[Sentence]:
    while end - start > LONGEST:
        cut = folded.lower.rfind(" ", start + LONGEST // 2, start + LONGEST)
        cut = cut if cut > 0 else start + LONGEST
        yield from _piece(folded, start, cut, block)
        start = cut
    yield from _piece(folded, start, end, block)


def _piece(folded: Folded, start: int, end: int, block: Block) -> Iterator[Sentence]:
    text = folded.lower[start:end]
    bare = text.strip()
    if bare:
        start += len(text) - len(text.lstrip())
        yield Sentence(start, start + len(bare), block, bare.rstrip("\"')] ").endswith("?"))
