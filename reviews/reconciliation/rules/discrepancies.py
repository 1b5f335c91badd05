"""Discrepancies: the twelve classes, their order, and the row of the recovery table for each.

1. When several classes apply, the first of `Discrepancy` decides and the rest are kept as secondary
   findings (R-DC-14). The same findings always give the same class (R-DC-13).
2. A class asks the table in two words (C-16): a trigger of its own name, and the source's type where it
   has one. OBSERVATION_AUTHORITY_MISMATCH means that the tool claimed something which the authority
   does not show, so it is asked only where the tool had claimed success: for wrong values, and for
   nothing at all.
3. Proven absence that nobody had denied is no discrepancy: tool and authority agree that nothing
   happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from importlib.resources import files


class Discrepancy(StrEnum):
    """The twelve classes, in the order in which they are tried (R-DC-01 to R-DC-12)."""

    WRONG_TARGET_MODIFIED = "WRONG_TARGET_MODIFIED"
    DUPLICATE_SIDE_EFFECT = "DUPLICATE_SIDE_EFFECT"
    TARGET_MISSING = "TARGET_MISSING"
    PARTIAL_APPLICATION = "PARTIAL_APPLICATION"
    STALE_STATE = "STALE_STATE"
    COMPENSATION_REQUIRED = "COMPENSATION_REQUIRED"
    VALUE_MISMATCH = "VALUE_MISMATCH"
    NO_OP_FAILURE = "NO_OP_FAILURE"
    NO_OP_SUCCESS = "NO_OP_SUCCESS"
    PROPAGATION_DELAY = "PROPAGATION_DELAY"
    UNVERIFIABLE_STATE = "UNVERIFIABLE_STATE"
    UNKNOWN_STATE = "UNKNOWN_STATE"


_D = Discrepancy
OBSERVATION_AUTHORITY_MISMATCH = "OBSERVATION_AUTHORITY_MISMATCH"
VERIFICATION_TIMEOUT = "VERIFICATION_TIMEOUT"
PENDING_TIMEOUT = "PENDING_TIMEOUT"
PROVIDER_OUTAGE = "PROVIDER_OUTAGE"

_TYPES: dict[Discrepancy, str] = {
    _D.STALE_STATE: "STALE_STATE_ERROR",
    _D.PARTIAL_APPLICATION: "PARTIAL_SUCCESS",
    _D.UNVERIFIABLE_STATE: "UNVERIFIABLE_RESULT",
    _D.UNKNOWN_STATE: PENDING_TIMEOUT,
}
_OVERCLAIMS = frozenset({_D.VALUE_MISMATCH, _D.NO_OP_FAILURE, _D.PROPAGATION_DELAY})

_PATTERNS = json.loads(files("reviews.reconciliation.rules").joinpath("check_patterns.json").read_bytes())["patterns"]
INDICATORS: dict[str, Discrepancy] = {
    key: Discrepancy(suggested) for pattern in _PATTERNS.values() for key, suggested in pattern["indicators"].items()
}
"""Which class each failure indicator of the check patterns points to."""

PARAMETERS: dict[str, tuple[str, ...]] = {key: tuple(pattern["parameters"]) for key, pattern in _PATTERNS.items()}


def rank_discrepancies(found: Iterable[Discrepancy]) -> tuple[Discrepancy, ...]:
    """Return the classes in the order in which they decide; the first is the class, the rest are secondary."""
    classes = set(found)
    return tuple(one for one in Discrepancy if one in classes)


def indicated_discrepancies(indicators: Iterable[str]) -> set[Discrepancy]:
    """Return the classes that fired indicators point to; an indicator that no pattern defines is a
    programming error.
    """
    return {INDICATORS[key] for key in indicators}


def recovery_triggers(discrepancy: Discrepancy, *, claimed: bool) -> frozenset[str]:
    """Return the triggers with which a class is looked up in the recovery table (rule 2)."""
    words = {str(discrepancy), _TYPES.get(discrepancy, str(discrepancy))}
    if claimed and discrepancy in _OVERCLAIMS:
        words.add(OBSERVATION_AUTHORITY_MISMATCH)
    return frozenset(words)
