"""The words by which recorded conversations are found.

1. A word is what stands between two spaces, from its first letter or digit to its last, without regard to case; where
   it has marks inside (`talk-1`, `a@b.c`), its parts are words too. Of a long one the first `MOST_LETTERS` count.
2. A script that sets no spaces is found by each of its letters.
3. Whoever searches is given the conversations in which every word stands somewhere. A word of three letters or more is
   also the beginning of longer ones.

No index over text can be asked behind the fence between tenants, since PostgreSQL trusts no operator for texts there
but those that compare one with another. So each word is a row, with the conversations that it stands in.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MOST_LETTERS: Final = 64
MOST_ASKED: Final = 10
MOST_PLACES: Final = 400_000
MOST_WORDS: Final = 100_000
"""So many places of words, and so many words, are held in memory at a time."""
SHORTEST_BEGINNING: Final = 3
LAST: Final = "\U0010ffff"

_CHUNK: Final = re.compile(r"\w(?:\S*\w)?")
_PART: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def words_of(text: str) -> set[str]:
    """Return the words of a text (rules 1 and 2)."""
    found = set()
    for chunk in _chunks(text):
        found.add(chunk[:MOST_LETTERS])
        if not chunk.isalnum():
            found.update(part[:MOST_LETTERS] for part in _PART.findall(chunk))
        if not chunk.isascii():
            found.update(_UNSPACED.findall(chunk))
    return found


def query_words(text: str) -> list[str]:
    """The searched words, at most `MOST_ASKED` of them."""
    found: list[str] = []
    for chunk in _chunks(text):
        found += _UNSPACED.findall(chunk) or [chunk[:MOST_LETTERS]]
    return list(dict.fromkeys(found))[:MOST_ASKED]


def prefix_range(word: str) -> tuple[str, str]:
    """Return the half-open range [low, high) of stored words that match a searched word (rule 3)."""
    return word, word + (LAST if SHORTEST_BEGINNING <= len(word) < MOST_LETTERS else "\x01")


def word_rows(
    conversations: Iterable[Mapping[str, Any]], messages: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Return the rows of a recording's words: of its conversations' names, of their messages and of the tools they
    call.
    """
    held: dict[str, list[int]] = defaultdict(list)
    count, number = 0, 0
    for conversation, text in _texts(conversations, messages):
        for word in words_of(text):
            places = held[word]
            if not places or places[-1] != conversation:
                places.append(conversation)
                count += 1
        if count >= MOST_PLACES or len(held) >= MOST_WORDS:
            yield from _number_rows(held, number)
            number, count = number + len(held), 0
            held.clear()
    yield from _number_rows(held, number)


def _texts(
    conversations: Iterable[Mapping[str, Any]], messages: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[int, str]]:
    for row in conversations:
        yield row["number"], row["label"]
    for row in messages:
        yield row["conversation"], " ".join([row["text"], *(call["tool"] for call in row["calls"])])


def _number_rows(held: Mapping[str, list[int]], number: int) -> Iterator[dict[str, Any]]:
    for place, word in enumerate(sorted(held), number + 1):
        yield {"number": place, "word": word, "conversations": held[word]}


def _chunks(text: str) -> list[str]:
    return _CHUNK.findall(unicodedata.normalize("NFKC", text).casefold())
