"""Characters of a text that look like others, by Unicode's table of confusable characters (UTS #39).

1. A character that is ASCII in another width or style imitates it, wherever it stands.
2. A letter imitates where its word mixes scripts. Latin beside Chinese, Japanese or Korean letters is ordinary.
3. A word of another script that could be read as an ASCII word imitates it, unless it stands among words of its own
   script, or is part of an address. A Latin word that could be read as another one does too.
4. Any other sign that looks like ASCII imitates it, but for the punctuation of prose and of a script. In an address or
   code, punctuation of prose imitates too, unless it is the quotation marks around it.
5. Marks drawn over a letter or around it, repeated or heaped marks, and marks without a letter change what is seen.

Ordinary text in any language has none of these. All of it is one pass over the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

import orjson

MOST_MARKS: Final = 4
"""Marks of one letter that some language needs; UTS #39 calls more suspicious."""
# Punctuation and signs of prose, which look like ASCII ones and are meant by themselves.
_PROSE: Final = frozenset(
    "\u2010\u2011\u2012\u2013\u2212\u2018\u2019\u201a\u201b\u201c\u201d\u201f\u2032\u2033\u2034\u00b4"
    "\u00b8\u2026\u2025\u00d7\u00ab\u00bb\u2039\u203a\u00b0\u2116\u2122\u3003\u3014\u3015\u2044\u2022"
    "\u212e\u2105\u221e\u30a0\u00a8\u02dc"
)
_DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2212"
_CODE: Final = re.compile(rf"[/\\@_=<>|$]|^[{_DASHES}]+[^\W\d_]|[A-Za-z][{_DASHES}]\d|\d[{_DASHES}][A-Za-z]")
_TOKEN: Final = re.compile(r"\S+")
_QUOTES: Final = "\u2018\u2019\u201a\u201c\u201d\u201e\u2039\u203a\u00ab\u00bb"
_QUOTING: Final = re.compile(rf"(?<![^\s(])[{_QUOTES}]|[{_QUOTES}](?=[.,;:!?)]*(?!\S))")
_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_EASTERN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "HALFWIDTH"})
_ARABIC: Final = frozenset({"ARABIC-INDIC", "EXTENDED"})
_TURKISH: Final = frozenset("\u011f\u015f\u0130")
_DOTTED: Final = frozenset("ijl\u0131\u0237\u0456\u0458")


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    text: str
    scripts: frozenset[str]
    is_in_code: bool

    @property
    def script(self) -> str:
        """The one script of the word; empty if it has none or several."""
        return next(iter(self.scripts)) if len(self.scripts) == 1 else ""

    @property
    def could_be_ascii(self) -> bool:
        return all(looks_like(each).isalnum() for each in self.text if not unicodedata.combining(each))


def imitations(text: str) -> frozenset[int]:
    """The places of characters that imitate others (rules 1 to 4)."""
    if text.isascii():
        return frozenset()
    places = {place for place, each in enumerate(text) if each.isalnum() and _imitates_alone(text, place)}
    words: list[_Word] = []
    quoting = [found.start() for found in _QUOTING.finditer(text)]
    around = frozenset(quoting if len(quoting) > 1 else ())
    for token in _TOKEN.finditer(text):
        if not token.group().isascii():
            places.update({token.start() + place for place in _signs(token.group())} - around)
            words += _words(token.group(), token.start())
        else:
            words.append(_Word(token.start(), "", frozenset(), False))
    is_turkish = not _TURKISH.isdisjoint(unicodedata.normalize("NFC", text))
    for word in words:
        places.update(word.start + place for place in _strangers(word, is_turkish=is_turkish))
    for phrase in _phrases(words):
        if all(word.could_be_ascii or word.is_in_code for word in phrase):
            spans = [word for word in phrase if word.could_be_ascii]
        else:
            spans = [word for word in phrase if word.could_be_ascii and word.is_in_code]
        places.update(place for word in spans for place in range(word.start, word.start + len(word.text)))
    return frozenset(place for place in places if not text[place].isascii() and not unicodedata.combining(text[place]))


def overlays(text: str) -> frozenset[int]:
    """The places of marks that change which letter is seen (rule 5)."""
    if text.isascii():
        return frozenset()
    return frozenset(_overlays(text))


@lru_cache(maxsize=65536)
def looks_like(character: str) -> str:
    """The ASCII text that a character looks like; the character itself if it is ASCII, "" if it looks like none."""
    if character.isascii():
        return character
    return _table().get(character, "") or _compatible(character)


@lru_cache(maxsize=1)
def _table() -> dict[str, str]:
    every = orjson.loads(files("confusable_homoglyphs").joinpath("confusables.json").read_bytes())
    return {
        character: alike["c"]
        for character, many in every.items()
        if len(character) == 1 and not character.isascii()
        for alike in many
        if alike["c"].isascii()
    }


@lru_cache(maxsize=65536)
def _compatible(character: str) -> str:
    """The ASCII character of which this one is another width or style."""
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 and plain.isascii() and not plain.isspace() else ""


@lru_cache(maxsize=65536)
def _script(character: str) -> str:
    """The script of a letter or digit; empty for what is of none, such as ASCII digits and units."""
    if character.isascii():
        return "LATIN" if character.isalpha() else ""
    if not character.isalnum() or _compatible(character):
        return ""
    word = unicodedata.name(character, "?").split(" ")[0]
    if word in _EASTERN:
        return "EASTERN"
    if unicodedata.normalize("NFKC", character) != character:
        return "" if unicodedata.category(character) in {"No", "Lm"} or word in {"MICRO", "OHM"} else word
    return "ARABIC" if word in _ARABIC else word


def _imitates_alone(text: str, place: int) -> bool:
    """Rule 1; a power of a unit (square metres) is none."""
    each = text[place]
    is_power = unicodedata.category(each) == "No" and place > 0 and text[place - 1].isalpha()
    return not each.isascii() and bool(_compatible(each)) and not is_power


def _signs(token: str) -> Iterator[int]:
    """Rule 4, for one token."""
    foreign = any(_script(each) not in {"", "LATIN"} for each in token)
    is_code = bool(_CODE.search(token))
    for place, each in enumerate(token):
        if each.isascii() or each.isalnum() or unicodedata.category(each).startswith("M") or not looks_like(each):
            continue
        beside = token[max(place - 1, 0) : place + 2]
        if each in _PROSE:
            if is_code and not foreign:
                yield place
        elif not foreign or any(one.isascii() and one.isalpha() for one in beside):
            yield place


def _words(token: str, start: int) -> Iterator[_Word]:
    is_in_code = any(each.isascii() and (each.isalnum() or each in "@/\\") for each in token)
    for found in _WORD.finditer(token):
        text = found.group()
        scripts = frozenset(map(_script, text)) - {""}
        yield _Word(start + found.start(), text, scripts, is_in_code)


def _strangers(word: _Word, *, is_turkish: bool) -> Iterator[int]:
    """Rule 2, and what rule 3 says of Latin words."""
    if len(word.scripts) > 1:
        counts = Counter(script for each in word.text if (script := _script(each)))
        base = "LATIN" if "LATIN" in counts else counts.most_common(1)[0][0]
        for place, each in enumerate(word.text):
            script = _script(each)
            if script not in {"", base} and (script != "EASTERN" or looks_like(each)):
                yield place
    if "LATIN" in word.scripts and not word.text.isascii():
        for place, each in enumerate(word.text):
            alike = "" if each.isascii() else looks_like(each)
            if len(alike) == 1 and _script(each) == "LATIN" and not (each == "\u0131" and is_turkish):
                yield place


def _phrases(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Neighbouring words of one script other than Latin."""
    phrase: list[_Word] = []
    for word in words:
        if phrase and word.script != phrase[0].script:
            yield phrase
            phrase = []
        if word.script not in {"", "LATIN"}:
            phrase.append(word)
    if phrase:
        yield phrase


def _overlays(text: str) -> Iterator[int]:
    before, heap = "", 0
    for place, each in enumerate(text):
        category = unicodedata.category(each)
        if category not in {"Mn", "Me"} or "\ufe00" <= each <= "\ufe0f" or each >= "\U000e0000":
            before, heap = each, 0
            continue
        heap += 1
        is_drawn_over = category == "Me" or unicodedata.combining(each) == 1
        is_hidden = each == "\u0307" and before in _DOTTED
        if is_drawn_over or is_hidden or heap > MOST_MARKS or each == before or not before.strip():
            yield place
        before = each
