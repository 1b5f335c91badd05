"""The fourteen patterns of hallucinated success, and the recorded signs of each (R-HS-01 to R-HS-15).

1. A pattern is counted where success was told, or about to be told, that was none: a call that the gate refused, a
   claim that the guard found in a message, an answer that cannot be used, a tool's report that a reading contradicts.
2. An answer that says no more than is so is no such sign: a target that accepts the work and finishes later, a timeout
   that is read back, a read, an outcome that is kept as unknown until evidence settles it.
3. What the gate and the guard do counts each time. An answer, a reading and a state count once for each action and
   word: to ask a lagging replica ten times is one finding.
4. A code of the guard that is no pattern (a promise of what no tool can do, say) is counted by its own name only.
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


MEANINGS: Final[dict[str, str]] = {
    "HS-01": "An agent claimed an action that was never called.",
    "HS-02": "A call with wrong arguments was refused before anybody could report it as done.",
    "HS-03": "A tool reported success, and a reading showed that nothing had changed.",
    "HS-04": "Everything was reported or claimed as done, and only a part was.",
    "HS-05": "A tool reported failure, and a reading showed that it had happened.",
    "HS-06": "The same mutation was called again, or took effect more than once.",
    "HS-07": "A replica that may lag would have confirmed a reported success, and was not believed.",
    "HS-08": "A cache or an old reading would have confirmed a reported success, and was not believed.",
    "HS-09": "A tool reported success before the systems behind it had the change.",
    "HS-10": "An answer was no usable result, or was reported as something that it was not.",
    "HS-11": "An agent claimed an action as done while it was still being verified.",
    "HS-12": "Something other than what was authorised was changed, or claimed as changed.",
    "HS-13": "A compensation failed, or was claimed as done before that was certain.",
    "HS-14": "An agent reported an outcome as known that is unknown, or that a later reading contradicts.",
}
"""What each count is a count of, as the page says it."""


class FindingSource(StrEnum):
    """The place where a finding is stored.

    OVERCLAIMED is what readings found of actions whose tool had reported success, UNDERCLAIMED their result where the
    tool had reported nothing but failure. CONSISTENCY is of sources that would have confirmed a reported success, and
    were not believed.
    """

    REFUSAL = "refusal"
    CLAIM = "claim"
    ANSWER = "answer"
    OVERCLAIMED = "overclaimed"
    UNDERCLAIMED = "underclaimed"
    DISCREPANCY = "discrepancy"
    CONSISTENCY = "consistency"
    STATE = "state"


WORDS: Final[dict[FindingSource, dict[str, str]]] = {
    FindingSource.REFUSAL: {
        "UNPARSEABLE_ARGUMENTS": "HS-02",
        "TYPE_COERCION": "HS-02",
        "SCHEMA_DRIFT": "HS-02",
        "ARGUMENT_HALLUCINATION": "HS-02",
        "DUPLICATE_BLOCKED": "HS-06",
    },
    FindingSource.CLAIM: {
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
    FindingSource.ANSWER: {"malformed": "HS-10"},
    FindingSource.OVERCLAIMED: {"NO_OP_FAILURE": "HS-03", "PARTIAL_APPLICATION": "HS-04", "PROPAGATION_DELAY": "HS-09"},
    FindingSource.UNDERCLAIMED: {"SUCCESS": "HS-05"},
    FindingSource.DISCREPANCY: {"DUPLICATE_SIDE_EFFECT": "HS-06", "WRONG_TARGET_MODIFIED": "HS-12"},
    FindingSource.CONSISTENCY: {"REPLICA": "HS-07", "CACHE": "HS-08"},
    FindingSource.STATE: {"COMPENSATION_FAILED": "HS-13"},
}
"""Which pattern each word is a sign of."""


def pattern_of_run(discrepancy: str, *, claimed: bool) -> str | None:
    """The pattern that a run of this class is a sign of; `claimed` says that the tool had reported success."""
    told = WORDS[FindingSource.OVERCLAIMED].get(discrepancy) if claimed else None
    return told or WORDS[FindingSource.DISCREPANCY].get(discrepancy)


def count_patterns(found: Iterable[tuple[FindingSource, Mapping[str, int]]]) -> dict[str, int]:
    """Count the occurrences of each pattern, including zeros."""
    met = Counter[str]()
    for kept, words in found:
        for word, times in words.items():
            if word in WORDS[kept]:
                met[WORDS[kept][word]] += times
    return {code: met[code] for code in PATTERNS}
