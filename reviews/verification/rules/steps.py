"""Lifecycle steps: one event of an action with the changes of its entry (C-26, R-LE-12).

The ledger's three statuses follow from the state and from what they were before; the table below is
section 3.6 of the requirements read as "entering this state sets …", where KEEP leaves a status alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import Ground, State

Entry = Mapping[str, Any]
Changes = dict[str, dict[str, Any]]

KEEP = None
_S = State
_STATUSES: dict[State, tuple[str | None, str | None, str | None]] = {
    _S.VALIDATED: ("NOT_EXECUTED", "NOT_STARTED", "NOT_STARTED"),
    _S.EXECUTING: ("EXECUTING", "NOT_STARTED", "NOT_STARTED"),
    _S.ACCEPTED: ("ACCEPTED", "NOT_STARTED", "NOT_STARTED"),
    _S.PENDING: ("PENDING", "PENDING", "NOT_STARTED"),
    _S.COMMITTED: ("COMMITTED", "VERIFIED", "NOT_STARTED"),
    _S.PARTIALLY_COMMITTED: ("COMMITTED", "VERIFIED", "RECONCILED_PARTIAL"),
    _S.RECONCILED_SUCCESS: ("COMMITTED", "VERIFIED", "RECONCILED_SUCCESS"),
    _S.RECONCILIATION_FAILED: (KEEP, "FAILED", "RECONCILED_FAILURE"),
    _S.FAILED: ("FAILED", "VERIFIED", "RECONCILED_FAILURE"),
    _S.VERIFICATION_TIMEOUT: ("PENDING", "TIMEOUT", "UNKNOWN"),
    _S.UNKNOWN: ("UNKNOWN", KEEP, "UNKNOWN"),
    _S.COMPENSATING: (KEEP, KEEP, KEEP),
    _S.COMPENSATED: ("COMMITTED", "VERIFIED", "COMPENSATED"),
    _S.COMPENSATION_FAILED: (KEEP, "FAILED", "REVIEW_REQUIRED"),
    _S.FORWARD_RECOVERY: ("COMMITTED", KEEP, KEEP),
    _S.ROLLED_BACK: ("FAILED", "VERIFIED", "ROLLED_BACK"),
    _S.REVIEW_REQUIRED: (KEEP, KEEP, "REVIEW_REQUIRED"),
    _S.ABANDONED: (KEEP, KEEP, KEEP),
}
_NEEDS_COMMITMENT = {_S.COMPENSATING, _S.COMPENSATION_FAILED, _S.RECONCILIATION_FAILED}

KINDS: dict[State, str] = {
    _S.VALIDATED: "retry_allowed",
    _S.ACCEPTED: "accepted",
    _S.PENDING: "verification_started",
    _S.COMMITTED: "verified",
    _S.PARTIALLY_COMMITTED: "partially_reconciled",
    _S.RECONCILED_SUCCESS: "reconciled",
    _S.RECONCILIATION_FAILED: "reconciliation_failed",
    _S.FAILED: "failed",
    _S.VERIFICATION_TIMEOUT: "verification_timed_out",
    _S.UNKNOWN: "outcome_unknown",
    _S.COMPENSATING: "compensation_started",
    _S.COMPENSATED: "compensated",
    _S.COMPENSATION_FAILED: "compensation_failed",
    _S.FORWARD_RECOVERY: "forward_recovery_started",
    _S.ROLLED_BACK: "rolled_back",
    _S.REVIEW_REQUIRED: "held",
}
WAITING = "verification_waiting"

# Every step of a run is written at one instant.
_written = lru_cache(maxsize=64)(instant)

_VERIFIED = {_S.COMMITTED, _S.FAILED, _S.ROLLED_BACK}
_RECONCILED = {
    _S.RECONCILED_SUCCESS,
    _S.PARTIALLY_COMMITTED,
    _S.RECONCILIATION_FAILED,
    _S.FAILED,
    _S.ROLLED_BACK,
}


@dataclass(frozen=True, kw_only=True)
class LifecycleStep:
    """One event to append: its kind, reason and grounds, and the difference between the entry and the one before.

    `state` is the state after it; a step that `moves` nothing keeps the state it found.
    """

    state: State
    kind: str
    reason: str
    moves: bool = True
    grounds: frozenset[Ground] = frozenset()
    entry: Changes = field(default_factory=dict)


def entry_changes(state: State, before: Entry, *, at: datetime) -> Changes:
    """The blocks of the entry that entering `state` changes."""
    wanted = dict(zip(("execution", "verification", "reconciliation"), _STATUSES[state], strict=True))
    changes: Changes = {block: {"status": to} for block, to in wanted.items() if to is not KEEP}
    # Nobody saw a commit before a timeout or an unknown: the entry goes on saying so.
    if state in _NEEDS_COMMITMENT and before["execution"]["status"] != "COMMITTED":
        changes["execution"] = {"status": "UNKNOWN"}
    if state is _S.FORWARD_RECOVERY and before["verification"]["status"] == "VERIFIED":
        changes["verification"] = {"status": "PENDING"}  # of what remains to be done
    if state is _S.VALIDATED:
        # The next attempt begins its own story; the one before stays in the events.
        changes["execution"]["observation_pointer"] = None
        changes["timestamps"] = dict.fromkeys(("executed_at", "verified_at", "reconciled_at"))
    times = {"verified_at"} if state in _VERIFIED else set()
    times |= {"reconciled_at"} if state in _RECONCILED else set()
    if times:
        changes["timestamps"] = dict.fromkeys(sorted(times), _written(at))
    return changes


def apply_changes(entry: Entry, changes: Changes) -> dict[str, Any]:
    """The entry after the changes, unchecked, for deciding the step after."""
    blocks = {block: {**(entry.get(block) or {}), **fields} for block, fields in changes.items()}
    return {**entry, **blocks}
