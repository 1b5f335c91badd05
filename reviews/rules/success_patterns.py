"""The fourteen patterns of hallucinated success, and what on record counts as one that was met (R-HS-01 to R-HS-15).

1. A pattern is counted where something was kept from being told as done, or was told so and held back: what the gate
   refused, what the guard found in a message, what a tool answered, what a reading showed, where an action came to.
2. What the gate and the guard do counts each time. An answer, a reading and a state count once for each action and
   word: to ask a lagging replica ten times is one finding.
3. A code of the guard that is no pattern (a promise of what no tool can do, say) is counted by its own name only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

PATTERNS: Final[dict[str, str]] = {
    "HS-01": "Phantom Execution",
    "HS-02": "Validation Error Collapse",
    "HS-03": "Accepted-as-Completed",
    "HS-04": "Flattened Partial Success",
    "HS-05": "Timeout Blindspot",
    "HS-06": "Uncontrolled Retry Mutation",
    "HS-07": "Stale-Replica Confirmation",
    "HS-08": "Stale-Cache Read",
    "HS-09": "Premature Propagation Success",
    "HS-10": "Error Summarization Collapse",
    "HS-11": "Outrun Status Reporting",
    "HS-12": "Wrong Target Success",
    "HS-13": "Compensation Blindspot",
    "HS-14": "Unknown State Flattening",
}


class Kept(StrEnum):
    """Where a finding is kept."""

    REFUSAL = "refusal"
    CLAIM = "claim"
    ANSWER = "answer"
    DISCREPANCY = "discrepancy"
    CONSISTENCY = "consistency"
    STATE = "state"


WORDS: Final[dict[Kept, dict[str, str]]] = {
    Kept.REFUSAL: {
        "UNPARSEABLE_ARGUMENTS": "HS-02",
        "TYPE_COERCION": "HS-02",
        "SCHEMA_DRIFT": "HS-02",
        "ARGUMENT_HALLUCINATION": "HS-02",
        "DUPLICATE_BLOCKED": "HS-06",
    },
    Kept.CLAIM: {
        "PHANTOM": "HS-01",
        "OVERSTATED": "HS-04",
        "SILENT_CHAIN": "HS-04",
        "STALE_STATE": "HS-08",
        "MISREAD": "HS-10",
        "PREMATURE": "HS-11",
        "WRONG_TARGET": "HS-12",
        "RECOVERY_OPEN": "HS-13",
        "UNKNOWN_FLATTENED": "HS-14",
    },
    Kept.ANSWER: {"accepted": "HS-03", "pending": "HS-03", "timeout": "HS-05", "malformed": "HS-10"},
    Kept.DISCREPANCY: {
        "DUPLICATE_SIDE_EFFECT": "HS-06",
        "PROPAGATION_DELAY": "HS-09",
        "WRONG_TARGET_MODIFIED": "HS-12",
    },
    Kept.CONSISTENCY: {"REPLICA": "HS-07", "CACHE": "HS-08"},
    Kept.STATE: {"PARTIALLY_COMMITTED": "HS-04", "COMPENSATION_FAILED": "HS-13", "UNKNOWN": "HS-14"},
}
"""Which pattern each word is a sign of."""


def counted(found: Iterable[tuple[Kept, Mapping[str, int]]]) -> dict[str, int]:
    """How often each pattern was met, those that were not with zero."""
    met = Counter[str]()
    for kept, words in found:
        for word, times in words.items():
            if word in WORDS[kept]:
                met[WORDS[kept][word]] += times
    return {code: met[code] for code in PATTERNS}
