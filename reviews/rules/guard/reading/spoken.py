"""A sentence as it is spoken: its chunks and its values, with what holds for all of it; read once for every rule."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise

from reviews.rules.guard.reading.views import Said, View
from reviews.rules.guard.text.folding import Folded
from reviews.rules.guard.text.segments import Sentence
from reviews.rules.guard.text.tokens import Chunk, chunks, tokens
from reviews.rules.guard.text.values import Value, values
from reviews.rules.guard.words.language import Language

_PAST = re.compile(r"\d{1,2}(?:st|nd|rd|th)")
_FIGURE = re.compile(r"\d")
CLOCK = re.compile(r"\d{1,2}:\d\d")
_UNTIL = frozenset({"for", "from", "to", "until", "till", "by"})
_AT_PRESENT = frozenset({"a", "another", "to", "the"})
_PERFECT = frozenset({"have", "has"})


class Spoken:
    """One sentence; `beside` is it and the one behind it."""

    def __init__(self, folded: Folded, sentence: Sentence, language: Language, message: str, beside: str) -> None:
        self.folded = folded
        self.sentence = sentence
        self.language = language
        self.message = message
        self.beside = beside
        self.text = folded.lower[sentence.start : sentence.end]
        self._views: dict[int, View] = {}
        self._past: dict[int, bool] = {}
        self._values: dict[int, tuple[Value, ...]] = {}

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values of the sentence, with their places in the folded text."""
        return values(self.text, self.sentence.start)

    def values_of(self, part: Chunk) -> tuple[Value, ...]:
        """The values of a chunk."""
        if not self.values:
            return ()
        found = self._values.get(part.start)
        if found is None:
            found = tuple([value for value in self.values if part.start <= value.start < part.end])
            self._values[part.start] = found
        return found

    @cached_property
    def has_figures(self) -> bool:
        """Whether there is a digit in it."""
        return _FIGURE.search(self.text) is not None

    @cached_property
    def parts(self) -> list[Chunk]:
        """The chunks of the sentence; of a question those before it asks."""
        found = tokens(self.folded.lower, self.sentence.start, self.sentence.end, self.language)
        parts = chunks(found, self.language)
        return self._unasked(parts) if self.sentence.question else parts

    def _unasked(self, parts: list[Chunk]) -> list[Chunk]:
        """What a question says before it asks: "Sent, anything else?"."""
        starts = self.language.sets["question_starts"]
        asking = starts - self.language.sets["interjections"]
        for index in range(len(parts) - 1, 0, -1):
            if parts[index].tokens[0].text in starts and parts[index].mark in {",", "\u2014", "-", ")"}:
                asked = any(part.tokens[0].text in asking for part in parts[:index])
                return [] if asked else parts[:index]
        return []

    @cached_property
    def known(self) -> frozenset[str]:
        """All words of its chunks."""
        return frozenset(word for part in self.parts for word in part.words)

    @cached_property
    def conditional(self) -> list[bool]:
        """Of each chunk, whether it is a condition, or goes on from one."""
        sets = self.language.sets
        found: list[bool] = []
        for index, part in enumerate(self.parts):
            opens = not part.lead and index == 0 and part.tokens[0].text in sets["conditional_starts"]
            goes_on = index and found[-1] and part.lead in {"and", "or", "n"} and not part.mark
            found.append(bool(part.lead in sets["conditional"] or opens or goes_on))
        return found

    def tells(self, part: Chunk) -> bool:
        """Whether a chunk has a verb of its own in the past or the third person; "no worries" has none."""
        if part.words[0] == "no" and len(part.words) == 2:
            return False
        return not self.language.told_forms.isdisjoint(part.words)

    def is_reported(self, index: int) -> bool:
        """Whether a chunk is what somebody is said to have said."""
        part = self.parts[index]
        words = part.words
        if part.lead == "that" and index:
            before = self.parts[index - 1]
            spoken = "had" in part.known and not self.language.sets["speech"].isdisjoint(before.known)
            return spoken or "you" in before.words[:1]
        return "had" in part.known and any(
            word == "had" and following not in _AT_PRESENT and _PERFECT.isdisjoint(words[:at])
            for at, (word, following) in enumerate(zip(words, [*words[1:], ""], strict=True))
        )

    @cached_property
    def instructs(self) -> bool:
        """Whether it tells the reader what to do: "Check that the old one has been deleted"."""
        heads = (part for part in self.parts if not part.lead or part.lead == "then")
        return any(self.language.is_imperative(part.words) for part in heads)

    def is_relative(self, index: int) -> bool:
        """ "Orders that have been handed over …": it tells which thing is meant."""
        part = self.parts[index]
        if part.lead not in {"that", "which", "who", "whose"} or not index:
            return False
        return part.words[0] in self.language.sets["be"] or part.words[0] in _PERFECT

    def is_past(self, part: Chunk) -> bool:
        """Whether it tells of a past time: a month or a day, the 4th, a time at its head."""
        known = self._past.get(part.start)
        if known is None:
            known = self._past[part.start] = self._tells_of_past(part)
        return known

    def _tells_of_past(self, part: Chunk) -> bool:
        words, past = part.words, self.language.sets["past_times"]
        if not past.isdisjoint(part.known) and any(
            word in past and before not in _UNTIL for before, word in pairwise(("", *words))
        ):
            return True
        if not self.has_figures:
            return False
        clock = CLOCK.match(words[0]) or any(one == "at" and CLOCK.match(other) for one, other in pairwise(words))
        return bool(clock) or any(_PAST.fullmatch(word) for word in words)

    @cached_property
    def has_past(self) -> bool:
        """Whether any of it tells of a past time."""
        return any(map(self.is_past, self.parts))

    def view(self, index: int, prior: Said | None = None) -> View:
        """What a pattern sees of a chunk, behind what was said before it."""
        view = self._views.get(index)
        if view is None:
            view = self._views[index] = self._seen(index)
        view.prior = prior
        return view

    def _seen(self, index: int) -> View:
        parts, block = self.parts, self.sentence.block
        part = parts[index]
        return View(
            words=part.words,
            kinds=part.kinds,
            lead=part.lead,
            mark=part.mark,
            prior=None,
            language=self.language,
            item=block.kind in {"item", "row"},
            ticked=block.ticked,
            first=index == 0,
            last=index == len(parts) - 1,
            after_verb=index > 0 and self.tells(parts[index - 1]),
            before_colon=(index + 1 < len(parts) and parts[index + 1].mark == ":") or self.ends_in_colon,
        )

    @cached_property
    def ends_in_colon(self) -> bool:
        """Whether something is to follow it."""
        return self.text.rstrip().endswith(":")
