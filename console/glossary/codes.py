"""The codes behind the words of the pages, each with its meaning: the target of a page's code links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.web import labels
from reviews.recovery.rules.recovery_table import BUILT_IN
from reviews.reporting.rules.success_patterns import MEANINGS, PATTERNS
from reviews.verification.rules import trust


@dataclass(frozen=True, slots=True)
class Code:
    """A code, the words shown instead of it, and its meaning."""

    anchor: str
    code: str
    words: str
    meaning: str


@dataclass(frozen=True, slots=True)
class CodeGroup:
    """Codes of one kind, under a heading."""

    name: str
    note: str
    codes: tuple[Code, ...]


_ASSURANCE: Final = {
    "A": "A passkey signed the decision itself; its holder was present and verified.",
    "B": "Signed in, and a fresh one-time code.",
    "C": "Signed in, and the password entered again.",
    "D": "Signed in, nothing more.",
}
_CLASSES: Final = {
    "READ_ONLY": "Changes nothing.",
    "EPHEMERAL_WRITE": "Changes something that does not last, such as a cache or a draft.",
    "LOW_RISK_INTERNAL": "Changes internal data that matters little and is easily put right.",
    "MEDIUM_RISK_WRITE": "Changes data that people rely on.",
    "HIGH_RISK_EXTERNAL": "Has an effect outside the organisation: money, messages, orders.",
    "CRITICAL_MUTATION": "Changes what cannot be replaced, such as deleting data or granting access.",
}
_EVIDENCE: Final = (
    "What the tool returned, as it came.",
    "The tool's answer in one fixed form.",
    "A reading of the system of record was taken.",
    "The checks hold in the system of record.",
    "Everything behind it is bound together in the ledger and can be proven.",
)


def code_groups() -> tuple[CodeGroup, ...]:
    """Every group, in the order of the page."""
    return (
        CodeGroup(
            "Assurance levels",
            "how a person proved who they are when they decided",
            tuple(Code(f"level-{code.lower()}", code, labels.SIGNATURES[code].capitalize(), meaning)
                  for code, meaning in _ASSURANCE.items()),
        ),
        CodeGroup(
            "Evidence levels",
            "how well the outcome of an action is supported",
            tuple(Code(f"evidence-{number}", str(number), trust.NAMES[number], meaning)
                  for number, meaning in enumerate(_EVIDENCE)),
        ),
        CodeGroup(
            "Side-effect classes",
            "what a tool can do",
            tuple(Code(code.lower().replace("_", "-"), code, labels.SIDE_EFFECT_CLASSES[code], meaning)
                  for code, meaning in _CLASSES.items()),
        ),
        CodeGroup(
            "Discrepancies",
            "how a reading differs from what was intended",
            tuple(Code(code.lower().replace("_", "-"), code, words, meaning)
                  for code, (words, meaning) in labels.DISCREPANCIES.items()),
        ),
        CodeGroup(
            "Hallucinated success",
            "patterns that are counted on Calls",
            tuple(Code(code.lower(), code, name, MEANINGS[code]) for code, name in PATTERNS.items()),
        ),
        CodeGroup(
            "Recovery rules",
            "built-in rules, in the order in which they are tried; a recovery policy may replace them",
            tuple(
                Code(
                    row.id.lower(),
                    row.id,
                    labels.sentence_case(row.action),
                    f"{row.finding[:1].upper()}{row.finding[1:]}{f' ({row.condition})' if row.condition else ''}.",
                )
                for row in BUILT_IN.rows
            ),
        ),
    )  # fmt: skip
