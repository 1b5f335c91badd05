"""The contribution of one action to the metrics, from its events and readings alone.

1. An action counts in **one hour for good**: the hour of its first start, or, while it was never started, the hour in
   which it was proposed. Later findings about it change that hour and no other (late truth).
2. Only data that erasing leaves in place are read: the events' kinds, states and times, the digests in their envelopes,
   the codes of the readings, and the present view. So a rebuild gives the same figures at any time.
3. The version of the verification policy is the last one that an event of the action names.
4. A reading is decisive when its result is SUCCESS, PARTIAL, MISMATCH, DUPLICATE or ABSENT.
5. A contradiction in force counts as a disproof and a difference, and the action is no verified success; one that was
   withdrawn counts for nothing.
6. The present state of an action is in exactly one of `STANDINGS`; among executed actions they add up to `executed`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ledger.record.rules.outcomes import BY_WORD, NEVER_RAN, Outcome
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.reading import DECISIVE
from reviews.reconciliation.rules.verdict import VerificationResult

STANDINGS: Final = ("verified_success", "unchanged", "ended_failed", "ended_reversed", "ended_by_word", "unsettled")
OF_ACTIONS: Final = (
    *("actions", "executed", *STANDINGS, "verification_failed", "read_back", "mismatched", "stale_reads"),
    *("stale_state", "partial", "pending", "pending_over_sla", "unknown", "duplicated", "repeats"),
    *("repeats_absorbed", "compensations", "compensated", "compensations_failed", "false_success", "reviewed"),
    *("complete_records", "readings", "never_ran", "answered"),
)
OF_CALLS: Final = (
    *("calls", "calls_accepted", "calls_undisclosed", "calls_valid", "calls_failed", "calls_arguments"),
    "calls_phantom",
)
COUNTS: Final = (*OF_ACTIONS, *OF_CALLS)
"""Everything that is counted."""

_FAILED_ENDS = frozenset({Outcome.FAILED, Outcome.SETTLED_AS_FAILED})
_REVERSED = frozenset({Outcome.COMPENSATED, Outcome.ROLLED_BACK})
_ENDS = frozenset({"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK"})
_R = VerificationResult
_SETTLES = frozenset({_R.SUCCESS, _R.PARTIAL, _R.MISMATCH, _R.DUPLICATE, _R.ABSENT})
_ANSWERS = frozenset({"observed", "lease_ended"})
_WORD_OF_RECOVERY = frozenset({"compensation_attested", "attested_absent"})


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """The relevant fields of one event: `verification` is the digest of that policy, if the envelope names one."""

    id: UUID
    seq: int
    kind: str
    from_state: str
    state: str
    at: datetime
    prev: bytes | None
    entry_hash: bytes
    commits_entry: bool
    verification: str | None = None


@dataclass(frozen=True, slots=True)
class ReadingRun:
    """One verification run, in codes."""

    result: str
    discrepancy: str
    consistency: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class ActionHistory:
    """Everything that the figures of one action rest on; `reported` holds the events on which
    completion was reported, of this action and perhaps of others.
    """

    events: Sequence[HistoryEvent]
    outcome: Outcome
    mutating: bool
    contradicted: bool
    runs: Sequence[ReadingRun] = ()
    reported: Collection[UUID] = ()


@dataclass(frozen=True)
class ActionMeasures:
    """The contribution of an action: its hour (rule 1), counts by name, and delays in milliseconds."""

    at: datetime
    counts: Mapping[str, int]
    verification_ms: int | None = None
    reconcile_ms: int | None = None
    version_digest: str = ""


def measure_action(history: ActionHistory) -> ActionMeasures:
    """The figures of one action (rules 1 to 6)."""
    events = history.events
    starts = [each.at for each in events if each.kind == "execution_started"]
    counts = {
        "actions": 1,
        "complete_records": is_complete(events),
        "never_ran": history.outcome in NEVER_RAN,
        "answered": history.outcome is Outcome.ANSWERED,
        "readings": len(history.runs) if history.mutating else 0,
    }
    executed = bool(starts) and history.mutating
    if executed:
        counts |= {"executed": 1, standing_of(history.outcome): 1, **_finding_counts(history), **_state_counts(history)}
        counts |= _repeat_counts(len(starts) - 1, duplicated=counts["duplicated"])
    digests = [each.verification for each in events if each.verification]
    return ActionMeasures(
        at=starts[0] if starts else events[0].at,
        counts={name: int(value) for name, value in counts.items() if value},
        verification_ms=_verification_delay(history) if executed else None,
        reconcile_ms=_reconcile_delay(events, starts[0]) if executed else None,
        version_digest=digests[-1] if digests else "",
    )


def is_complete(events: Sequence[HistoryEvent]) -> bool:
    """Return whether the events have no gap, each continues the hash of the one before, and each
    commits to an entry.
    """
    before = [None, *(each.entry_hash for each in events)]
    return all(
        each.seq == number and each.prev == expected and each.commits_entry
        for number, (each, expected) in enumerate(zip(events, before, strict=False), 1)
    )


def standing_of(outcome: Outcome) -> str:
    """The state of an executed action, as one of `STANDINGS` (rule 6)."""
    if outcome is Outcome.VERIFIED:
        return "verified_success"
    if outcome is Outcome.UNCHANGED:
        return "unchanged"
    if outcome in _REVERSED:
        return "ended_reversed"
    if outcome in BY_WORD - _FAILED_ENDS:
        return "ended_by_word"
    return "ended_failed" if outcome in _FAILED_ENDS | NEVER_RAN else "unsettled"


def _finding_counts(history: ActionHistory) -> dict[str, int | bool]:
    """The findings of its readings."""
    runs, contradicted = history.runs, history.contradicted
    classes = {each.discrepancy for each in runs}
    settled = [each for each in runs if each.result in _SETTLES]
    different = any(each.discrepancy for each in settled)
    return {
        "read_back": bool(settled) or contradicted,
        "verification_failed": contradicted or _was_disproved(history.events),
        "mismatched": contradicted or different,
        "stale_state": Discrepancy.STALE_STATE in classes,
        "duplicated": Discrepancy.DUPLICATE_SIDE_EFFECT in classes,
        "stale_reads": _was_stale(runs),
    }


def _was_disproved(events: Sequence[HistoryEvent]) -> bool:
    """Return True if a reading found it other than intended; an undisputed absence does not count."""
    return any(
        each.state == "RECONCILIATION_FAILED" != each.from_state and not each.kind.startswith("attested")
        for each in events
    )


def _was_stale(runs: Sequence[ReadingRun]) -> bool:
    """Return whether a weak source failed to show the write, which a later reading shows or none ever settled."""
    last = max((place for place, each in enumerate(runs) if each.result == _R.SUCCESS), default=0)
    settled = any(each.result in _SETTLES for each in runs)
    return any(
        each.result != _R.SUCCESS and each.consistency and each.consistency not in DECISIVE
        for each in (runs[:last] if settled else runs)
    )


def _state_counts(history: ActionHistory) -> dict[str, int | bool]:
    """The states that it passed through, and the reports about it."""
    states = {each.state for each in history.events}
    kinds = {each.kind for each in history.events}
    told = [each.state for each in history.events if each.id in history.reported]
    reversed_by = [each.kind for each in history.events if each.state == "COMPENSATED" != each.from_state]
    return {
        "partial": "PARTIALLY_COMMITTED" in states,
        "pending": bool(states & {"PENDING", "ACCEPTED"}),
        "pending_over_sla": bool(states & {"PENDING", "ACCEPTED"}) and "VERIFICATION_TIMEOUT" in states,
        "unknown": "UNKNOWN" in states,
        "compensations": "COMPENSATING" in states,
        "compensated": bool(reversed_by) and reversed_by[-1] not in _WORD_OF_RECOVERY and "COMPENSATING" in states,
        "compensations_failed": "COMPENSATION_FAILED" in states,
        "reviewed": "REVIEW_REQUIRED" in states,
        "false_success": any(state != "RECONCILED_SUCCESS" for state in told) or "false_success_filed" in kinds,
    }


def _repeat_counts(further: int, *, duplicated: int | bool) -> dict[str, int]:
    return {"repeats": further, "repeats_absorbed": 0 if duplicated else further}


def _verification_delay(history: ActionHistory) -> int | None:
    answered = next((each.at for each in history.events if each.kind in _ANSWERS), None)
    settled = min((each.at for each in history.runs if each.result in _SETTLES), default=None)
    return None if answered is None or settled is None else _milliseconds(settled - answered)


def _reconcile_delay(events: Sequence[HistoryEvent], started: datetime) -> int | None:
    if events[-1].state not in _ENDS:
        return None
    ended = next(each.at for each in reversed(events) if each.from_state != each.state)
    return _milliseconds(ended - started) if ended >= started else None


def _milliseconds(delay: timedelta) -> int:
    return max(delay // timedelta(milliseconds=1), 0)
