"""Tokens and chunks: a sentence cut where a new statement may begin, each with the word or mark that leads it.

1. Quoted text is one opaque token: it is somebody's words, not the speaker's. Code in backticks is a name.
2. Contractions are two words. Numbers, ids and addresses are tokens of their own.
3. A chunk ends at a comma, a colon, a bracket, a dash, an arrow, a table's bar, and before a word that joins or
   subordinates (data). Its lead is that mark or word.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

from reviews.rules.guard.words.language import Language, singular

_TOKEN = re.compile(
    r"(?P<quote>\"[^\"\n]{0,2000}\")"
    r"|(?P<code>`[^`\n]{1,300}`)"
    r"|(?P<word>[a-z]+(?:['\-][a-z]+)*(?!\w|[.,:/_@+%#&'\-]+\w)(?:'|(?!%)))"
    r"|(?P<value>[$\u20ac\u00a3\u00a5#]?\w+(?:[.,:/_@+%#&'\-]+\w+)*[%']?)"
    r"|(?P<mark>->|=>|\u2192|[^\w\s])"
)
_MONTH = re.compile(r"\d(?:st|nd|rd|th)? may|may \d")
MARKS = frozenset(",;:()[]|\u2014\u2192+=&") | {"->", "=>", "-"}


_ORDERING = frozenset({"before", "after"})


class Token(NamedTuple):
    """One word, value, quote or mark, in lower case, with its place in the folded text."""

    text: str
    start: int
    end: int
    kind: str


class Chunk:
    """A run of tokens between two boundaries: `lead` is the word that it follows, `mark` the mark."""

    __slots__ = ("_singulars", "end", "kinds", "known", "lead", "mark", "start", "tokens", "words")

    def __init__(self, lead: str, mark: str, tokens: list[Token]) -> None:
        self.lead = lead
        self.mark = mark
        self.tokens = tokens
        self.words = tuple([token.text for token in tokens])
        self.kinds = tuple([token.kind for token in tokens])
        self.known = frozenset(self.words)
        self.start = tokens[0].start
        self.end = tokens[-1].end
        self._singulars: frozenset[str] | None = None

    @property
    def singulars(self) -> frozenset[str]:
        """Its words without their plural endings."""
        if self._singulars is None:
            self._singulars = frozenset(map(singular, self.words))
        return self._singulars


def tokens(text: str, start: int, end: int, language: Language) -> list[Token]:
    """The tokens of a part of the folded text (rules 1 and 2)."""
    made: list[Token] = []
    for match in _TOKEN.finditer(text, start, end):
        kind = match.lastgroup or ""
        found = match.group()
        if kind == "word":
            if found == "may":
                found = _month(found, text, match.start(), end)
            _add_word(made, match.start(), match.end(), found.replace("e-mail", "email"), language)
        elif kind == "quote" and "_" not in found and " " not in found[1:-1].strip():
            _add_word(made, match.start(), match.end(), found[1:-1].strip(), language)
        else:
            made.append(Token(found.strip("`"), match.start(), match.end(), kind))
    return made


def _add_word(made: list[Token], start: int, stop: int, found: str, language: Language) -> None:
    """A word as one token, a contraction as two."""
    bare = _again(found.strip("'-"), language)
    parts = language.contractions.get(bare)
    if parts is not None:
        made.extend(Token(part, start, stop, "word") for part in parts)
    elif bare.endswith("'s") and len(bare) > 2:
        made.append(Token(bare[:-2], start, stop - 2, "word"))
        made.append(Token("'s", stop - 2, stop, "word"))
    else:
        made.append(Token(bare, start, stop, "word"))


def _again(word: str, language: Language) -> str:
    """ "Re-ran" is "reran", and "ran" where no such verb is known."""
    if not word.startswith("re-"):
        return word
    rest = word.removeprefix("re-")
    if not language.forms.get(rest):
        return word
    return f"re{rest}" if language.forms.get(f"re{rest}") else rest


def _month(word: str, text: str, at: int, end: int) -> str:
    """The month of May beside a day is not the verb "may"."""
    return "in-may" if _MONTH.search(text, max(0, at - 4), min(end, at + 6)) else word


def chunks(found: list[Token], language: Language) -> list[Chunk]:
    """The chunks of a sentence (rule 3)."""
    joins = language.sets["joins"]
    made: list[_Open] = [_Open("", "", [])]
    found = _without_times(found)
    for index, token in enumerate(found):
        if token.kind == "mark":
            if (token.text in MARKS or token.text > "\u2190") and not _spans(found, index):
                made.append(_Open("", token.text, []))
            continue
        if made[-1].tokens and (lead := _opened(made[-1], found, index, language)) is not None:
            made.append(_Open(lead, "", []))
        elif token.text in joins and _joins(found, index, language):
            before = made[-1]
            if not before.tokens and before.lead and token.text not in language.sets["conditional"]:
                continue
            made.append(_Open(token.text, before.mark if not before.tokens else "", []))
            continue
        made[-1].tokens.append(token)
    return [Chunk(each.lead, each.mark, each.tokens) for each in made if each.tokens]


def _opened(before: _Open, found: list[Token], index: int, language: Language) -> str | None:
    """The lead of a statement that begins without a mark; None where none does.

    "After checking it I moved it": the speaker, behind what it did before. "I can confirm it has been moved": what it
    confirms, where that has a verb of its own.
    """
    first = before.tokens[0]
    fronted = before.lead in _BEFORE or first.text in _BEFORE
    if found[index].text in {"i", "we"} and fronted and any(each.text.endswith("ing") for each in before.tokens[:2]):
        return ""
    last = before.tokens[-1].text
    if last not in _CONFIRMED or found[index].text not in language.sets["subject_starts"] - {"that", "this"}:
        return None
    if {"i", "we", "to", "let"}.isdisjoint(each.text for each in before.tokens):
        return None
    rest = takewhile(lambda each: each.kind != "mark", found[index:])
    return "that" if any(each.text in _FINITE for each in rest) else None


_BEFORE = frozenset({"after", "before", "since", "while", "by"})
_CONFIRMED = frozenset({"confirm", "confirmed", "report", "say"})
_FINITE = frozenset({"has", "have", "is", "are", "was", "were"})


class _Open(NamedTuple):
    """A chunk that is not yet whole."""

    lead: str
    mark: str
    tokens: list[Token]


def _without_times(found: list[Token]) -> list[Token]:
    """ "Before that I took a snapshot", "after this they are gone": an order in time, and no condition."""
    if not any(token.text in _ORDERING for token in found):
        return found
    kept: list[Token] = []
    skipped = False
    for token, following in zip(found, [*found[1:], None], strict=True):
        if skipped:
            skipped = False
            continue
        if token.text in _ORDERING and following is not None and following.text in {"that", "this", "then"}:
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
    if word == "then" and index and found[index - 1].text in {"i", "we", "have"}:
        return False
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
