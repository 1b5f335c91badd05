"""What is known of one chunk while it is read, and what a pattern finds in it.

The patterns ask for words by their sets; all of them are data of the language.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.words.language import Language, looks_past, unknown_verb

PARTICIPLES = ("past", "participle")
NONE: frozenset[str] = frozenset()


class Said(NamedTuple):
    """What a pattern found: kind, rule, the verbs, where the predicate stands; `agent`: the speaker did it."""

    kind: Kind
    rule: str
    verbs: frozenset[str]
    at: int
    weak: bool = False
    agent: bool = False


@dataclass(eq=False)
class View:
    """The words of one chunk, and what is known of what stands around it."""

    words: tuple[str, ...]
    kinds: tuple[str, ...]
    lead: str
    mark: str
    prior: Said | None
    language: Language
    item: bool = False
    ticked: bool | None = None
    first: bool = False
    last: bool = False
    before_colon: bool = False
    after_verb: bool = False

    def has(self, name: str, upto: int | None = None) -> bool:
        """Whether one of the words before a place is in a set of the language."""
        words = self.words if upto is None else self.words[:upto]
        return not self.language.sets[name].isdisjoint(words)

    def has_from(self, name: str, start: int) -> bool:
        """Whether one of the words from a place on is in a set."""
        return not self.language.sets[name].isdisjoint(self.words[start:])

    def is_in(self, index: int, name: str) -> bool:
        """Whether the word at a place is in a set."""
        return 0 <= index < len(self.words) and self.words[index] in self.language.sets[name]

    def lemmas(self, index: int, *kinds: str) -> frozenset[str]:
        """The verbs that the word at a place may be, in one of these forms."""
        if not 0 <= index < len(self.words) or self.kinds[index] != "word":
            return NONE
        word = self.words[index]
        found = self.language.of_kinds(kinds).get(word, NONE)
        if not found and "unknown" in kinds and looks_past(word):
            return frozenset({unknown_verb(word)})
        return found

    def skip(self, index: int) -> int:
        """The next place that is no adverb."""
        words, adverbs = self.words, self.language.sets["adverbs"]
        while index < len(words) and (words[index] in adverbs or words[index].endswith("ly")):
            index += 1
        return index

    def agent(self) -> int:
        """Where the speaker or its team stands as a subject, else -1."""
        return self._agent

    @cached_property
    def _agent(self) -> int:
        for index, word in enumerate(self.words):
            if word in ("i", "we"):
                if self.words[index + 1 : index + 2] == ("speak",):
                    return -1
                return index
            if word in self.language.sets["teams"] and "our" in self.words[:index]:
                return index + self.is_in(index + 1, "teams")
            if word in self.language.sets["others"] or (self.language.forms.get(word) and index > 6):
                return -1
        return -1


def goes_on(view: View) -> bool:
    """Whether a chunk without a subject has the speaker's: it begins the sentence, or goes on from what it did."""
    return view.first or (view.prior is not None and view.prior.agent and view.lead in {"and", "but", "then", ""})


def acts(view: View, verbs: frozenset[str]) -> bool:
    """Whether these verbs are of an action, and not of a state or of the mind."""
    return bool(verbs) and not verbs & view.language.sets["inert"]
