"""Reading a message: every claim in it of an action that was done, is under way, was promised or has failed (R-CG-17).

1. Nothing is claimed by a question, a condition, a denial, a possibility, an instruction, a plan, a rule of the house,
   quoted words, code, or by what somebody else did; all of these are told by words of the language (data).
2. What is left is read chunk by chunk (`sentences`), each by the first pattern that fits it (`patterns`).
3. A claim's words are those of its chunk, and of the label before it (`claiming`). A claim that names nothing
   ("Done.") is about all that was attempted.
4. The guard's own sentences about this ground are no claims (`frames`).
5. What binds to no action counts only where the speaker says that it did it, or where it stands alone as a report, and
   tells of no past time and of no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviews.rules.guard.codes import is_settled_well
from reviews.rules.guard.correcting.frames import MARKERS, all_frames
from reviews.rules.guard.reading.claiming import SURELY
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.sentences import claims_of, currents_in, stated_in
from reviews.rules.guard.reading.spoken import Spoken
from reviews.rules.guard.records import Ground
from reviews.rules.guard.text.consequences import without_consequences
from reviews.rules.guard.text.folding import Folded, fold
from reviews.rules.guard.text.segments import Sentence, sentences
from reviews.rules.guard.text.text import Text, without_quotes
from reviews.rules.guard.words.language import Language, english


class Reading:
    """A message that is read sentence by sentence, once for all that is asked of it."""

    def __init__(self, text: Text, ground: Ground) -> None:
        self.text = text
        self.ground = ground
        own, read = text.own, text.own_sentences
        if any(marker in text.message for marker in MARKERS):
            own = without_quotes(_without_frames(text.folded, ground))
            read = sentences(own)
        self.folded = own
        self.sentences = [
            Spoken(own, each, english(), text.message, _beside(own, each, read[index + 1 : index + 6]))
            for index, each in enumerate(read)
        ]

    def claims(self) -> list[Claim]:
        """The claims of the message, in order."""
        if not self.sentences:
            return []
        stale = any(record.stale for record in self.ground.records)
        doubt = _doubt(self.folded.lower, english())
        if self.ground.records and all(map(is_settled_well, self.ground.records)):
            doubt = min(doubt, MAYBE)  # Where all came to a good end, there is no other that the words could tell.
        found: list[Claim] = []
        planned = False
        for spoken in self.sentences:
            block = spoken.sentence.block
            if block.kind not in {"item", "row"}:
                planned = _is_planned(spoken)
            elif planned and block.ticked is not True:
                continue
            own = list(claims_of(spoken, doubt))
            if stale and not spoken.sentence.question:
                own += currents_in(spoken, own)
            found.extend(own)
        return found

    def statements(self, *, denials: bool = False) -> Iterator[Claim]:
        """What it states or denies, whether a pattern finds a claim in it or not: no questions, no conditions."""
        for spoken in self.sentences:
            if not spoken.sentence.question:
                yield from stated_in(spoken, denials=denials)


def _beside(folded: Folded, sentence: Sentence, following: tuple[Sentence, ...]) -> str:
    """A sentence and the one behind it, if that is not a question; of a list, the items behind it."""
    end = sentence.end
    for each in following:
        if each.question or (end > sentence.end and each.block.kind != "item"):
            break
        end = each.end
        if sentence.block.kind != "item":
            break
    return without_consequences(folded.lower[sentence.start : end])


def _without_frames(folded: Folded, ground: Ground) -> Folded:
    """The text with the guard's own sentences blanked out."""
    text, lower = folded.text, folded.lower
    for frame in all_frames(ground):
        shown = fold(frame).lower
        at = lower.find(shown)
        while at >= 0:
            blank = "\n" * len(shown)
            lower = lower[:at] + blank + lower[at + len(shown) :]
            text = text[:at] + blank + text[at + len(shown) :]
            at = lower.find(shown, at + len(shown))
    return folded if lower == folded.lower else Folded(text, lower, folded.places)


def _doubt(text: str, language: Language) -> int:
    """2 where a message says that something is open, failed, unknown or denied; 1 where it could; else 0."""
    text = text.replace("n't", " not")
    words = set(_WORDS.findall(text))
    if not words.isdisjoint(language.sets["disclosing"]):
        return SURELY
    if any(phrase in text for phrase in language.data["reading"]["disclosing_phrases"]):
        return SURELY
    return MAYBE if not words.isdisjoint(language.sets["hedging"]) else 0


MAYBE = 1
"""So much doubt has a message that could say that something is open, failed, unknown or denied."""
_WORDS = re.compile(r"[a-z]+")


def _is_planned(spoken: Spoken) -> bool:
    """Whether the items that follow are a plan or an instruction: "Proposed steps:" (rule 1)."""
    words = re.findall(r"[a-z']+", spoken.text)
    return not spoken.language.sets["planning"].isdisjoint(words)
