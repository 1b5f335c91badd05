"""Which violation a claim is, by what is on record (tables/guard_violations.json; R-CG-03 to R-CG-14, R-CG-21).

1. A done-claim needs RECONCILED_SUCCESS, uncontradicted, reported as completed, with evidence to cite. Every other
   state has its code (C-13, C-14). What a person attested is no completion: no reading bears it out.
2. A claim of failure is told only of what failed; an unknown outcome is neither (R-CG-07), and a success told as a
   failure is corrected too (R-CG-21).
3. A claim that something is under way needs an action that is open; one that failed is misread, and one that is done
   may be called under way: that says too little, never too much.
4. A promise needs a tool; what is on record does not matter.
5. Each code carries one tag of the taxonomy of five (R-CG-20), and its runbook names the structural fix.
"""

from __future__ import annotations

from enum import StrEnum

from ledger.record.rules.lifecycle import State
from reviews.rules.guard.records import Record


class Kind(StrEnum):
    """What a claim says of an action: it is done, under way, going to be done, or failed."""

    DONE = "done"
    ONGOING = "ongoing"
    PROMISED = "promised"
    FAILED = "failed"


class Violation(StrEnum):
    """The twelve codes."""

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


_V, _S = Violation, State
TAGS: dict[Violation, str] = {
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

_DONE: dict[State, Violation] = {
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
_NEVER_UNDER_WAY = {_S.FAILED, _S.ABANDONED, _S.ROLLED_BACK, _S.COMPENSATED}
_UNSETTLED = {_S.UNKNOWN, _S.VERIFICATION_TIMEOUT}
_UNDER_WAY = {code for code in State if _DONE.get(code) is _V.PREMATURE}


def violation_of(kind: Kind, record: Record) -> Violation | None:
    """The code of a claim of this kind about this record; None where the record bears it out (rules 1 to 4)."""
    if kind is Kind.PROMISED:
        return None
    if record.contradicted:
        return _V.UNKNOWN_FLATTENED if kind is not Kind.ONGOING else None
    if kind is Kind.DONE:
        return _of_done(record)
    return _of_failed(record) if kind is Kind.FAILED else _of_ongoing(record)


def _of_done(record: Record) -> Violation | None:
    if record.state is None:
        return _V.MISREAD
    state = State(record.state)
    if state is not _S.RECONCILED_SUCCESS:
        return _DONE[state]
    if record.code == "ATTESTED":
        return _V.UNEVIDENCED
    if not record.completed:
        return _V.REVERSED if record.code == "COMPENSATED" else _V.PREMATURE
    return None if record.evidence else _V.UNEVIDENCED


def _of_failed(record: Record) -> Violation | None:
    if record.state is None:
        return None
    state = State(record.state)
    if state in _UNSETTLED:
        return _V.UNKNOWN_FLATTENED
    if state in _UNDER_WAY:
        return _V.MISREAD
    return _V.MISREAD if state is _S.RECONCILED_SUCCESS else None


def _of_ongoing(record: Record) -> Violation | None:
    if record.state is None or State(record.state) in _NEVER_UNDER_WAY:
        return _V.MISREAD
    return None


def is_settled_well(record: Record) -> bool:
    """Whether a done-claim about this record is borne out."""
    return violation_of(Kind.DONE, record) is None
