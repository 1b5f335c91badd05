"""Violation codes of claims of completion (tables/guard_violations.json; R-CG-03 to R-CG-14).

1. A done-claim needs RECONCILED_SUCCESS, uncontradicted, reported as completed, with evidence to cite. Every other
   state has its code (C-13, C-14). What a person attested or accepted is no completion: no reading bears it out.
2. Each code carries one tag of the taxonomy of five (R-CG-20), and its runbook names the structural fix.
"""

from __future__ import annotations

from enum import StrEnum

from ledger.record.rules.lifecycle import State
from reviews.guarding.rules.records import Record


class ViolationCode(StrEnum):
    """The twelve violation codes."""

    PHANTOM = "PHANTOM"
    MISREAD = "MISREAD"
    OVERSTATED = "OVERSTATED"
    PREMATURE = "PREMATURE"
    UNKNOWN_FLATTENED = "UNKNOWN_FLATTENED"
    STALE_STATE = "STALE_STATE"
    IMAGINED_CAPABILITY = "IMAGINED_CAPABILITY"
    SILENT_CHAIN = "SILENT_CHAIN"
    WRONG_TARGET = "WRONG_TARGET"
    REVERSED = "REVERSED"
    UNEVIDENCED = "UNEVIDENCED"
    RECOVERY_OPEN = "RECOVERY_OPEN"


_V, _S = ViolationCode, State
TAGS: dict[ViolationCode, str] = {
    _V.PHANTOM: "PHANTOM_ACTION",
    _V.WRONG_TARGET: "PHANTOM_ACTION",
    _V.MISREAD: "MISREAD_SUCCESS",
    _V.OVERSTATED: "MISREAD_SUCCESS",
    _V.PREMATURE: "MISREAD_SUCCESS",
    _V.UNKNOWN_FLATTENED: "MISREAD_SUCCESS",
    _V.REVERSED: "MISREAD_SUCCESS",
    _V.UNEVIDENCED: "MISREAD_SUCCESS",
    _V.RECOVERY_OPEN: "MISREAD_SUCCESS",
    _V.STALE_STATE: "STALE_STATE_ACTION",
    _V.IMAGINED_CAPABILITY: "IMAGINED_CAPABILITY",
    _V.SILENT_CHAIN: "SILENT_CHAIN_FAILURE",
}
"""The part of the taxonomy of five that each code belongs to."""

_DONE: dict[State, ViolationCode] = {
    _S.PROPOSED: _V.PREMATURE,
    _S.VALIDATED: _V.PREMATURE,
    _S.EXECUTING: _V.PREMATURE,
    _S.ACCEPTED: _V.PREMATURE,
    _S.PENDING: _V.PREMATURE,
    _S.COMMITTED: _V.PREMATURE,
    _S.PARTIALLY_COMMITTED: _V.OVERSTATED,
    _S.FAILED: _V.MISREAD,
    _S.ABANDONED: _V.MISREAD,
    _S.UNKNOWN: _V.UNKNOWN_FLATTENED,
    _S.VERIFICATION_TIMEOUT: _V.UNKNOWN_FLATTENED,
    _S.COMPENSATED: _V.REVERSED,
    _S.ROLLED_BACK: _V.REVERSED,
    _S.RECONCILIATION_FAILED: _V.RECOVERY_OPEN,
    _S.COMPENSATING: _V.RECOVERY_OPEN,
    _S.COMPENSATION_FAILED: _V.RECOVERY_OPEN,
    _S.FORWARD_RECOVERY: _V.RECOVERY_OPEN,
    _S.REVIEW_REQUIRED: _V.RECOVERY_OPEN,
}


def violation_of(record: Record) -> ViolationCode | None:
    """Return the code of a claim of completion; None if the record supports it (rule 1)."""
    if record.contradicted:
        return _V.UNKNOWN_FLATTENED
    if record.state is None:
        return _V.MISREAD
    if record.stale:
        return _V.STALE_STATE
    state = State(record.state)
    if state is not _S.RECONCILED_SUCCESS:
        return _DONE[state]
    if record.code in ("ATTESTED", "ACCEPTED_AS_IT_IS"):
        return _V.UNEVIDENCED
    if not record.completed:
        return _V.REVERSED if record.code == "COMPENSATED" else _V.PREMATURE
    return None if record.evidence else _V.UNEVIDENCED
