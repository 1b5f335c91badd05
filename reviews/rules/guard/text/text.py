"""A text as it is read once: folded, cut into sentences, and the words in it that are the speaker's own.

1. Everything that the steps ask of the text of a message stands here and is found when it is first asked for.
2. Quoted words are not the speaker's own; one or two words in quotes are. No question tells a state.
"""

from __future__ import annotations

import re
from functools import cached_property

from reviews.rules.guard.text.consequences import without_consequences
from reviews.rules.guard.text.folding import Folded, fold
from reviews.rules.guard.text.segments import Sentence, sentences

_QUOTE = re.compile(r'"[^"]{0,2000}"')


class Text:
    """A message, or what stands in the place of one."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.folded = fold(message)

    @cached_property
    def lower(self) -> str:
        """The message in lower case."""
        return self.message.lower()

    @cached_property
    def own(self) -> Folded:
        """The text with quoted words blanked out."""
        return without_quotes(self.folded)

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """The sentences, quoted words among them."""
        return sentences(self.folded)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where the sentences stand in the message."""
        return [self.folded.span(each.start, each.end) for each in self.sentences]

    @cached_property
    def own_sentences(self) -> tuple[Sentence, ...]:
        """The sentences without quoted words."""
        return self.sentences if self.own is self.folded else sentences(self.own)

    @cached_property
    def said(self) -> tuple[str, ...]:
        """The sentences that are the speaker's own and no questions, in lower case (rule 2)."""
        lower = self.own.lower
        own = (lower[each.start : each.end] for each in self.own_sentences if not each.question)
        return tuple(map(without_consequences, own))


def without_quotes(folded: Folded) -> Folded:
    """The text with quoted words blanked out (rule 2)."""
    if '"' not in folded.lower:
        return folded
    lower = _QUOTE.sub(_blanked, folded.lower)
    return Folded(folded.text, lower, folded.places)


def _blanked(match: re.Match[str]) -> str:
    inner = match.group()[1:-1]
    return match.group() if len(inner.split()) < 3 else '"' + "_" * len(inner) + '"'
