"""What a code is called on the screen: one word for one code, wherever it is shown."""

from __future__ import annotations

from typing import Final, NamedTuple


class Look(NamedTuple):
    """How a state shows itself: the family decides colour and shape, the word says which state it is."""

    family: str
    word: str


# Only RECONCILED_SUCCESS has the look of success (R-UI-10).
STATES: Final[dict[str, Look]] = {
    "PROPOSED": Look("waiting", "Proposed"),
    "VALIDATED": Look("waiting", "Validated"),
    "EXECUTING": Look("running", "Executing"),
    "ACCEPTED": Look("verifying", "Accepted, not verified"),
    "PENDING": Look("verifying", "Verification pending"),
    "COMMITTED": Look("verifying", "Committed, comparing"),
    "PARTIALLY_COMMITTED": Look("partial", "Partly committed"),
    "RECONCILED_SUCCESS": Look("true", "Done and verified"),
    "RECONCILIATION_FAILED": Look("false", "Reconciliation failed"),
    "FAILED": Look("false", "Failed"),
    "VERIFICATION_TIMEOUT": Look("unknown", "Verification timed out"),
    "UNKNOWN": Look("unknown", "Unknown"),
    "COMPENSATING": Look("running", "Compensating"),
    "COMPENSATED": Look("reversed", "Compensated"),
    "COMPENSATION_FAILED": Look("false", "Compensation failed"),
    "FORWARD_RECOVERY": Look("running", "Recovering forward"),
    "ROLLED_BACK": Look("reversed", "Rolled back"),
    "REVIEW_REQUIRED": Look("held", "Review required"),
    "ABANDONED": Look("held", "Abandoned, unresolved"),
}
CONTRADICTED: Final = Look("unknown", "Contradicted")
FAMILIES: Final = ("waiting", "running", "verifying", "true", "partial", "false", "unknown", "reversed", "held")

SIDE_EFFECT_CLASSES: Final[dict[str, str]] = {
    "READ_ONLY": "Read only",
    "EPHEMERAL_WRITE": "Ephemeral write",
    "LOW_RISK_INTERNAL": "Low-risk internal",
    "MEDIUM_RISK_WRITE": "Medium-risk write",
    "HIGH_RISK_EXTERNAL": "High-risk external",
    "CRITICAL_MUTATION": "Critical mutation",
}
WEIGHTY: Final = frozenset({"HIGH_RISK_EXTERNAL", "CRITICAL_MUTATION", "IRREVERSIBLE"})

REVERSIBILITY: Final[dict[str, str]] = {
    "REVERSIBLE": "Reversible",
    "COMPENSABLE": "Can be compensated",
    "IRREVERSIBLE": "Irreversible",
}

DISCREPANCIES: Final = (
    "WRONG_TARGET_MODIFIED",
    "DUPLICATE_SIDE_EFFECT",
    "TARGET_MISSING",
    "PARTIAL_APPLICATION",
    "STALE_STATE",
    "COMPENSATION_REQUIRED",
    "VALUE_MISMATCH",
    "NO_OP_FAILURE",
    "NO_OP_SUCCESS",
    "PROPAGATION_DELAY",
    "UNVERIFIABLE_STATE",
    "UNKNOWN_STATE",
)

RESOLUTIONS: Final[dict[str, tuple[str, str]]] = {
    "VERIFY_AGAIN": ("Verify again", "Read the system of record once more and compare again."),
    "STRONG_READ": ("Force a strong read", "Read from the primary and compare again."),
    "ATTEST_PRESENT": (
        "Attest that it happened",
        "You state it on your evidence. It is reported as attested, not as verified.",
    ),
    "ATTEST_ABSENT": (
        "Attest that it did not happen",
        "You state it on your evidence. A repeat becomes possible.",
    ),
    "COMPENSATE": ("Compensate", "Order the contract's compensating action. It passes the gate and its own approval."),
    "FORWARD_RECOVER": ("Recover forward", "Order the contract's forward action for the part that is missing."),
    "ROLL_BACK": ("Roll back", "Order the contract's roll-back action."),
    "FAIL": ("Settle as failed", "The goal was not met. The record keeps what was found."),
    "ABANDON": ("Abandon", "Stop here. The discrepancy stays on record as unresolved."),
}

OUTCOMES: Final[dict[str, tuple[str, str]]] = {
    "true": ("tick", "Holds"),
    "false": ("cross", "Does not hold"),
    "undecidable": ("question", "Cannot be decided"),
}


def look(state: str, *, contradicted: bool = False) -> Look:
    """The look of a state. Late truth that contradicts a settled state takes its look away."""
    if contradicted:
        return CONTRADICTED
    return STATES.get(state, Look("unknown", sentence(state)))


def sentence(code: str) -> str:
    """A code without words of its own: VALUE_MISMATCH becomes 'Value mismatch'."""
    return code.replace("NO_OP", "no-op").replace("_", " ").capitalize()


def side_effect_class(code: str) -> str:
    return SIDE_EFFECT_CLASSES.get(code, sentence(code))


def reversibility(code: str) -> str:
    return REVERSIBILITY.get(code, sentence(code))
