"""Tokens and chunks: a sentence cut where a new statement may begin, each with the word or mark that leads it.

1. Quoted text is one opaque token: it is somebody's words, not the speaker's. Code in backticks is a name.
2. Contractions are two words. Numbers, ids and addresses are tokens of their own.
3. A chunk ends at a comma, a colon, a bracket, a dash, an arrow, a table's bar, and before a word that joins or
   subordinates (data). Its lead is that mark or word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from reviews.rules.guard.words.language import Language

_TOKEN = re.compile(
    r"(?P<quote>\"[^\"\n]{0,2000}\")"
    r"|(?P<code>`[^`\n]{1,300}`)"
    r"|(?P<value>[$\u20ac\u00a3\u00a5#]?\w+(?:[.,:/_@+%#&'\-]+\w+)*[%']?)"
    r"|(?P<mark>->|=>|\u2192|[^\w\s])"
)
_WORD = re.compile(r"[a-z]+(?:['\-][a-z]+)*'?")
_MONTH = re.compile(r"\d(?:st|nd|rd|th)? may|may \d")
MARKS = frozenset(",;:()[]|\u2014\u2192+=&") | {"->", "=>", "-"}


class Token(NamedTuple):
    """One word, value, quote or mark, in lower case, with its place in the folded text."""

    text: str
    start: int
    end: int
    kind: str


@dataclass
class Chunk:
    """A run of tokens between two boundaries; `lead` is what it follows. It is whole before its words are asked for."""

    lead: str
    tokens: list[Token] = field(default_factory=list)
    mark: str = ""

    @cached_property
    def words(self) -> list[str]:
        """The texts of its tokens."""
        return [token.text for token in self.tokens]

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.tokens[-1].end


def tokens(text: str, start: int, end: int, language: Language) -> list[Token]:
    """The tokens of a part of the folded text (rules 1 and 2)."""
    return list(_tokens(text, start, end, language))


def _tokens(text: str, start: int, end: int, language: Language) -> Iterator[Token]:
    contractions = language.data["reading"]["contractions"]
    for match in _TOKEN.finditer(text, start, end):
        kind = match.lastgroup or ""
        found = match.group()
        if kind == "quote" and "_" not in found and " " not in found[1:-1].strip():
            kind, found = "word", found[1:-1].strip()
        if kind == "value" and _WORD.fullmatch(found):
            kind, found = "word", found.replace("e-mail", "email")
        start, stop = match.span()
        found = _month(found, text, start, end)
        if kind != "word":
            yield Token(found.strip("`"), start, stop, kind)
            continue
        bare = _again(found.strip("'-"), language)
        parts = contractions.get(bare)
        if parts is not None:
            for part in parts.split():
                yield Token(part, start, stop, "word")
        elif bare.endswith("'s") and len(bare) > 2:
            yield Token(bare[:-2], start, stop - 2, "word")
            yield Token("'s", stop - 2, stop, "word")
        else:
            yield Token(bare, start, stop, "word")


def _again(word: str, language: Language) -> str:
    """ "Re-ran" is "reran", and "ran" where no such verb is known."""
    rest = word.removeprefix("re-")
    if rest == word or not language.forms.get(rest):
        return word
    return f"re{rest}" if language.forms.get(f"re{rest}") else rest


def _month(word: str, text: str, at: int, end: int) -> str:
    """The month of May beside a day is not the verb "may"."""
    return "in-may" if word == "may" and _MONTH.search(text, max(0, at - 4), min(end, at + 6)) else word


def chunks(found: list[Token], language: Language) -> list[Chunk]:
    """The chunks of a sentence (rule 3)."""
    joins = language.sets["joins"]
    made = [Chunk("")]
    found = _without_times(found)
    for index, token in enumerate(found):
        if token.kind == "mark":
            if (token.text in MARKS or token.text > "\u2190") and not _spans(found, index):
                made.append(Chunk("", mark=token.text))
            continue
        if token.text in joins and _joins(found, index, language):
            before = made[-1]
            if not before.tokens and before.lead and token.text not in language.sets["conditional"]:
                continue
            made.append(Chunk(token.text, mark=before.mark if not before.tokens else ""))
            continue
        made[-1].tokens.append(token)
    return [chunk for chunk in made if chunk.tokens]


def _without_times(found: list[Token]) -> list[Token]:
    """ "Before that I took a snapshot", "after this they are gone": an order in time, and no condition."""
    kept: list[Token] = []
    skipped = False
    for token, following in zip(found, [*found[1:], None], strict=True):
        if skipped:
            skipped = False
            continue
        if token.text in {"before", "after"} and following is not None and following.text in {"that", "this", "then"}:
            skipped = True
            continue
        kept.append(token)
    return kept


def _spans(found: list[Token], index: int) -> bool:
    """A dash between numbers is no boundary: 2 \u2014 6 June."""
    if found[index].text not in {"\u2014", "-"} or not 0 < index < len(found) - 1:
        return False
    return found[index - 1].text[-1:].isdigit() and found[index + 1].text[:1].isdigit()


def _joins(found: list[Token], index: int, language: Language) -> bool:
    word = found[index].text
    after = found[index + 1].text if index + 1 < len(found) else ""
    if after == "we" and [token.text for token in found[index + 2 : index + 3]] == ["speak"]:
        return False
    if word in language.sets["joins_before_subject"]:
        return after in language.sets["subject_starts"]
    if word == "given":
        return not _is_verb(found, index, language)
    if word == "that":
        return (
            index > 0
            and found[index - 1].text not in language.sets["determined"]
            and after not in {"'s", "is", "one", "too", "now", "yet", "in", "as", ""}
        )
    return True


def _is_verb(found: list[Token], index: int, language: Language) -> bool:
    """ "We have given you a refund", "notice was given": behind an auxiliary it is a verb, and joins nothing."""
    at = index - 1
    while at >= 0 and found[at].text in language.sets["adverbs"]:
        at -= 1
    return at >= 0 and found[at].text in language.sets["be"] | language.sets["have"]
