"""Texts for an action that a person's statement settled: the statement, and the decisive reading beside it.

1. "No reading" is said only where nothing was read. A weak reading and one that settled nothing are named as such.
2. What a person accepted as it is is told with the values that the reading showed, as long as they are on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledger.record.rules.outcomes import Outcome
from reviews.reconciliation.rules.shown import LastReading, Shown


@dataclass(frozen=True)
class WordTexts:
    """A person's statement as a sentence for users, as one line, and as a description of the effect."""

    report: str
    headline: str
    effect: str


_O = Outcome
_SETTLED: Final[Mapping[Outcome, WordTexts]] = {
    _O.ATTESTED: WordTexts(
        "A person has attested that it took effect; {}.",
        "Attested by a person: it took effect; {}",
        "Attested by a person{}",
    ),
    _O.ATTESTED_ABSENT: WordTexts(
        "A person has attested that nothing happened; {}.",
        "Attested by a person: nothing happened; {}",
        "No effect, attested by a person{}",
    ),
    _O.SETTLED_AS_FAILED: WordTexts(
        "A person settled it as failed; {}.",
        "Settled as failed by a person; {}",
        "Settled by a person{}",
    ),
}
# In a sentence, then in few words.
_READ: Final[Mapping[Shown, tuple[str, str]]] = {
    Shown.NOT_READ: ("it was not verified by a reading", "no reading"),
    Shown.WEAK: ("only a weak reading was made, which verifies nothing", "only a weak reading"),
    Shown.UNDECIDED: ("the readings of the system of record settled nothing", "inconclusive readings"),
    Shown.AS_REQUESTED: (
        "a reading of the system of record showed it as requested",
        "a reading showed it as requested",
    ),
    Shown.NO_EFFECT: ("a reading of the system of record showed no effect", "a reading showed no effect"),
    Shown.DIFFERENT: ("a reading of the system of record showed {}", "a reading showed {}"),
}
_REVERSED: Final = WordTexts(
    "It was reversed, as a person has attested; no reading verified all of that.",
    "Reversed, as a person has attested; not verified by a reading",
    "Reversal attested by a person, not verified",
)
_CLOSED: Final = WordTexts("", "", "Closed by a person, unresolved")
_ERASED: Final = "something else than was requested"


_TO_REVERSE: Final = WordTexts(
    "It took effect as requested and was to be reversed. A person has accepted it as it is.",
    "Accepted as it is by a person: it was to be reversed",
    "Accepted by a person: it was to be reversed",
)


def word_texts(outcome: Outcome, reading: LastReading, *, to_reverse: bool = False) -> WordTexts | None:
    """Return the texts of an outcome that a person's statement settled; None for any other.

    `to_reverse`: what they accepted was there as requested, in a run that was being taken back.
    """
    if outcome is Outcome.ACCEPTED_AS_IT_IS:
        return _TO_REVERSE if to_reverse else _acceptance_texts(reading)
    if outcome in _SETTLED:
        said, (told, brief) = _SETTLED[outcome], _READ[reading.shown]
        told, brief = (text.format(reading.difference or _ERASED) for text in (told, brief))
        beside = f", {brief}" if reading.shown in (Shown.NOT_READ, Shown.WEAK, Shown.UNDECIDED) else f"; {brief}"
        return WordTexts(said.report.format(told), said.headline.format(brief), said.effect.format(beside))
    return {Outcome.COMPENSATED_AS_ATTESTED: _REVERSED, Outcome.CLOSED_UNRESOLVED: _CLOSED}.get(outcome)


def _acceptance_texts(reading: LastReading) -> WordTexts:
    if reading.shown is Shown.AS_REQUESTED:
        return WordTexts(
            "It was not as requested, and a person accepted that. The newest reading shows it as requested.",
            "Accepted as it was by a person; since then a reading showed it as requested",
            "Accepted by a person as it was; since then a reading showed it as requested",
        )
    there = reading.difference or _ERASED
    return WordTexts(
        f"Not as requested: the system of record shows {there}. A person has accepted this.",
        f"Accepted as it is by a person: {there}",
        f"Accepted by a person: {there}",
    )
