"""Reports: the only words about an action that may be told to anyone (R-RI-01 to R-RI-17).

1. The report follows from the record alone: the state, the entry, whether a later reading contradicted
   it, and the trust level. No word of an agent or a tool enters it (R-RI-14).
2. Only RECONCILED_SUCCESS is reported as completed; a CRITICAL_MUTATION only with all that its class binds it to
   (C-44): trust level 4, or 3 where only the trace of its agent is missing.
   Accepted, pending, timed out and unverified are never a completion (R-RI-10).
3. A contradiction outweighs any settled state: FINAL_STATE_UNKNOWN, not completed (Late truth).
   One that was reversed afterwards is reported as reversed (R-RI-11, R-RP-44).
4. A tool that only reads and names no check is told as answered: that is its end as it was asked for, and says neither
   "verified" nor "confirmed". Where it brought no answer that can be used it has failed, and nothing was changed.
5. "Nothing happened" is said only where absence was proven (C-52); what a person attested, accepted or settled is
   reported as their word with the reading beside it (`word`), and is no completion; what an executor said is reported
   as the executor's word.
6. What was done in part is told part by part, until and after it was recovered; a recovery that is under way is told
   with what comes after it (`recovery_report`). A forward recovery that has not begun is still a part that is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE, NEVER_RAN, WORDS, Outcome
from reviews.reconciliation.rules.shown import NOT_READ, LastReading
from reviews.reporting.rules.recovery_report import OngoingRecovery, Part, RecoveryStage, partial_report_text
from reviews.reporting.rules.word import WordTexts, word_texts


class StatusCode(StrEnum):
    """The status codes that a user may be given: the thirteen of the reporting table, ANSWERED and a person's word."""

    NOT_EXECUTED = "NOT_EXECUTED"
    ATTEMPTED_RESULT_UNKNOWN = "ATTEMPTED_RESULT_UNKNOWN"
    RESPONSE_RECEIVED_VERIFICATION_PENDING = "RESPONSE_RECEIVED_VERIFICATION_PENDING"
    VERIFIED_RECONCILIATION_IN_PROGRESS = "VERIFIED_RECONCILIATION_IN_PROGRESS"
    COMPLETED = "COMPLETED"
    ANSWERED = "ANSWERED"
    ATTESTED = "ATTESTED"
    ACCEPTED_AS_IT_IS = "ACCEPTED_AS_IT_IS"
    PARTIALLY_COMPLETED = "PARTIALLY_COMPLETED"
    FAILED = "FAILED"
    FINAL_STATE_UNKNOWN = "FINAL_STATE_UNKNOWN"
    COMPENSATED = "COMPENSATED"
    ROLLED_BACK = "ROLLED_BACK"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    RECOVERY_IN_PROGRESS = "RECOVERY_IN_PROGRESS"
    ABANDONED_UNRESOLVED = "ABANDONED_UNRESOLVED"


_TEXTS: dict[StatusCode, str] = {
    StatusCode.NOT_EXECUTED: "Not executed. Nothing has been attempted.",
    StatusCode.ATTEMPTED_RESULT_UNKNOWN: "Attempted. What came of it is not known yet.",
    StatusCode.RESPONSE_RECEIVED_VERIFICATION_PENDING: (
        "The tool has answered. Whether it is so is still being checked."
    ),
    StatusCode.VERIFIED_RECONCILIATION_IN_PROGRESS: "The system of record has been read. The result is not final yet.",
    StatusCode.COMPLETED: "Done, and confirmed in the system of record.",
    StatusCode.PARTIALLY_COMPLETED: "Done in part; which parts is not on record.",
    StatusCode.ANSWERED: "Read; changes nothing.",
    StatusCode.FAILED: "Failed. No completion was confirmed.",
    StatusCode.FINAL_STATE_UNKNOWN: "The final state is not known. It must be reviewed before anything is tried again.",
    StatusCode.COMPENSATED: "It was done and then reversed; the reversal is confirmed.",
    StatusCode.ROLLED_BACK: "Rolled back before it took effect. Nothing durable happened.",
    StatusCode.REVIEW_REQUIRED: "Not settled. It waits for a person to review it.",
    StatusCode.RECOVERY_IN_PROGRESS: "It did not go as planned.",
    StatusCode.ABANDONED_UNRESOLVED: "A person stopped it. What was found wrong is on record and unresolved.",
}
_ABSENT = "Failed. The system of record shows that nothing happened."
_UNSENT = "Failed before anything was sent, on the executor's word; no reading confirms it."
_CONTRADICTED = (
    "It was settled, but a later reading of the system of record contradicts that. The final state is not known."
)
_UNVERIFIABLE = "The final state is not known: there is no reliable way to check it."
_READ_FAILED = "The read failed; nothing was changed."
_UNREAD = "It is not known whether what was read can be relied on. It was a read: nothing was changed."
_UNUSABLE = {
    "VALUE_MISMATCH": "The answer does not fit what the tool promises, and is not to be used; nothing was changed.",
    "UNVERIFIABLE_STATE": "Where the answer came from is not certain, and it is not to be used; nothing was changed.",
}
_AGAIN = "Not executed. An attempt was made and had no effect; it may be tried again."

ALLOWED: dict[State, tuple[StatusCode, ...]] = {
    State(state): tuple(map(StatusCode, row["allowed"]))
    for state, row in json.loads(files("reviews.reporting.rules").joinpath("reporting.json").read_bytes())[
        "by_state"
    ].items()
}
"""The reports that a state allows, its usual one first."""
AUDIT_CONFIRMED = 4
"""The highest trust level."""


@dataclass(frozen=True)
class StatusReport:
    """The report on an action, and its level of trust."""

    code: StatusCode
    text: str
    completed: bool
    trust_level: int
    parts: tuple[Part, ...] = ()


def build_report(
    state: State,
    entry: Mapping[str, Any],
    *,
    trust_level: int,
    completes_critical: bool = False,
    contradicted: bool = False,
    outcome: Outcome | None = None,
    reading: LastReading = NOT_READ,
    recovery: OngoingRecovery | None = None,
    parts: tuple[Part, ...] = (),
) -> StatusReport:
    """The report on an action (rules 1 to 6): `recovery` is the one under way, `parts` those of one done in part.

    `outcome` says what the state alone does not: whether a person's word settled it; `reading` is what was read then.
    """
    bound = trust_level == AUDIT_CONFIRMED or completes_critical
    code = StatusCode.FINAL_STATE_UNKNOWN if contradicted else _code(state, entry, recovery, bound=bound)
    code = _CODES_OF_A_WORD.get(outcome, code) if outcome else code
    by_word = word_texts(outcome, reading) if outcome else None
    text = _CONTRADICTED if contradicted else _text(code, state, entry, by_word)
    if parts:
        text = partial_report_text(
            state, text, entry, parts, settled_otherwise=contradicted or bool(by_word and by_word.report)
        )
    if recovery is not None and not contradicted:
        text = f"{text} {recovery.text}"
    return StatusReport(code, text, code in (StatusCode.COMPLETED, StatusCode.ANSWERED), trust_level, parts)


def _of_a_read(code: StatusCode, entry: Mapping[str, Any]) -> str:
    """What is told of a tool that only reads, where it brought no answer that can be used; else empty."""
    if entry["side_effect_class"] != SideEffectClass.READ_ONLY or entry["execution"]["status"] == "NOT_EXECUTED":
        return ""
    if code is StatusCode.FINAL_STATE_UNKNOWN:
        return _UNREAD
    if code is not StatusCode.FAILED:
        return ""
    return _UNUSABLE.get(entry["reconciliation"]["discrepancy_class"] or "", _READ_FAILED)


def _code(state: State, entry: Mapping[str, Any], recovery: OngoingRecovery | None, *, bound: bool) -> StatusCode:
    if state is State.PENDING and entry["execution"]["observation_pointer"] is None:
        return StatusCode.ATTEMPTED_RESULT_UNKNOWN
    if state is State.FAILED and entry["execution"]["status"] == "NOT_EXECUTED":
        return StatusCode.NOT_EXECUTED
    if StatusCode.RECOVERY_IN_PROGRESS in ALLOWED[state] and _is_recovering(state, recovery):
        return StatusCode.RECOVERY_IN_PROGRESS
    if state is State.RECONCILED_SUCCESS and is_reversed(entry):
        return StatusCode.COMPENSATED
    if state is State.RECONCILED_SUCCESS and is_answered(entry):
        return StatusCode.ANSWERED
    critical = entry["side_effect_class"] == SideEffectClass.CRITICAL_MUTATION
    if state is State.RECONCILED_SUCCESS and critical and not bound:
        return StatusCode.VERIFIED_RECONCILIATION_IN_PROGRESS
    return ALLOWED[state][0]


def possible_codes(
    state: State, entry: Mapping[str, Any], *, outcome: Outcome, contradicted: bool
) -> frozenset[StatusCode]:
    """Every code that a report can have on an action as one of its events left it.

    Left open is what comes from elsewhere: a recovery that is under way, and whether the log has sealed it.
    """
    if contradicted:
        return frozenset({StatusCode.FINAL_STATE_UNKNOWN})
    if outcome in _CODES_OF_A_WORD:
        return frozenset({_CODES_OF_A_WORD[outcome]})
    under_way = [None, *(OngoingRecovery(relation, stage) for relation in Relation for stage in RecoveryStage)]
    return frozenset(_code(state, entry, each, bound=bound) for each in under_way for bound in (False, True))


def _is_recovering(state: State, recovery: OngoingRecovery | None) -> bool:
    return recovery is not None and (recovery.has_begun or state is not State.FORWARD_RECOVERY)


def is_answered(entry: Mapping[str, Any]) -> bool:
    """Whether this is a read that was answered, with nothing read back."""
    reads = entry["side_effect_class"] == SideEffectClass.READ_ONLY
    ended = entry["reconciliation"]["status"] == "RECONCILED_SUCCESS"
    return reads and ended and entry["verification"]["verified_state_pointer"] is None


def is_reversed(entry: Mapping[str, Any]) -> bool:
    """Whether a later, verified compensation has taken back what was done."""
    return bool(entry["reconciliation"]["status"] == "COMPENSATED")


def is_reported_unsent(state: State, entry: Mapping[str, Any]) -> bool:
    """Whether an action failed before anything was sent, and only its executor says so."""
    started = entry["execution"]["status"] == "FAILED"
    return state is State.FAILED and started and entry["verification"]["status"] == "NOT_REQUIRED"


_CODES_OF_A_WORD = {
    Outcome.ATTESTED: StatusCode.ATTESTED,
    Outcome.ACCEPTED_AS_IT_IS: StatusCode.ACCEPTED_AS_IT_IS,
}


def _text(code: StatusCode, state: State, entry: Mapping[str, Any], by_word: WordTexts | None) -> str:
    if by_word is not None and by_word.report and code is not StatusCode.NOT_EXECUTED:
        return by_word.report
    if told := _of_a_read(code, entry):
        return told
    if code is StatusCode.NOT_EXECUTED and state is State.VALIDATED and entry["execution"]["attempt_count"]:
        return _AGAIN
    verification = entry["verification"]["status"]
    if code is StatusCode.FINAL_STATE_UNKNOWN and verification == "UNVERIFIABLE":
        return _UNVERIFIABLE
    if code is StatusCode.FAILED and state is State.FAILED and verification == "VERIFIED":
        return _ABSENT
    if code is StatusCode.FAILED and is_reported_unsent(state, entry):
        return _UNSENT
    return _TEXTS[code]


class OutcomeFamily(StrEnum):
    """The family of an outcome, which has one colour and one shape."""

    WAITING = "waiting"
    RUNNING = "running"
    VERIFYING = "verifying"
    TRUE = "true"
    PARTIAL = "partial"
    FALSE = "false"
    UNKNOWN = "unknown"
    REVERSED = "reversed"
    HELD = "held"
    ATTESTED = "attested"
    ENDED = "ended"


FAMILIES: dict[Outcome, OutcomeFamily] = {
    Outcome.PROPOSED: OutcomeFamily.WAITING,
    Outcome.WAITING_FOR_APPROVAL: OutcomeFamily.WAITING,
    Outcome.READY: OutcomeFamily.WAITING,
    Outcome.APPROVED: OutcomeFamily.WAITING,
    Outcome.EXECUTING: OutcomeFamily.RUNNING,
    Outcome.VERIFYING: OutcomeFamily.VERIFYING,
    Outcome.VERIFIED: OutcomeFamily.TRUE,
    Outcome.ANSWERED: OutcomeFamily.ENDED,
    Outcome.ATTESTED: OutcomeFamily.ATTESTED,
    Outcome.ACCEPTED_AS_IT_IS: OutcomeFamily.ATTESTED,
    Outcome.ATTESTED_ABSENT: OutcomeFamily.ATTESTED,
    Outcome.PARTIALLY_APPLIED: OutcomeFamily.PARTIAL,
    Outcome.COMPENSATING: OutcomeFamily.RUNNING,
    Outcome.ROLLING_BACK: OutcomeFamily.RUNNING,
    Outcome.RECOVERING: OutcomeFamily.PARTIAL,
    Outcome.COMPENSATED: OutcomeFamily.REVERSED,
    Outcome.COMPENSATED_AS_ATTESTED: OutcomeFamily.ATTESTED,
    Outcome.ROLLED_BACK: OutcomeFamily.REVERSED,
    Outcome.UNKNOWN: OutcomeFamily.UNKNOWN,
    Outcome.NEEDS_REVIEW: OutcomeFamily.HELD,
    Outcome.CONTRADICTED: OutcomeFamily.UNKNOWN,
    Outcome.FAILED: OutcomeFamily.FALSE,
    Outcome.SETTLED_AS_FAILED: OutcomeFamily.ENDED,
    Outcome.CLOSED_UNRESOLVED: OutcomeFamily.UNKNOWN,
    **dict.fromkeys(NEVER_RAN, OutcomeFamily.ENDED),
}
"""How each outcome looks: success only where a reading showed it, red only where an execution failed."""

_HEADLINES: dict[State, str] = {
    State.PROPOSED: "Being checked",
    State.VALIDATED: "Ready to run",
    State.EXECUTING: "Executing",
    State.ACCEPTED: "Accepted by the target, not finished",
    State.PENDING: "Verifying",
    State.COMMITTED: "Verifying",
    State.PARTIALLY_COMMITTED: "Partially applied",
    State.RECONCILED_SUCCESS: "Verified",
    State.RECONCILIATION_FAILED: "Rolling back",
    State.FAILED: "Failed",
    State.VERIFICATION_TIMEOUT: "Not verified in time",
    State.UNKNOWN: "Unknown",
    State.COMPENSATING: "Compensating",
    State.COMPENSATED: "Compensated",
    State.COMPENSATION_FAILED: "Compensation failed",
    State.FORWARD_RECOVERY: "Partially applied, recovering",
    State.ROLLED_BACK: "Rolled back, nothing happened",
    State.REVIEW_REQUIRED: "Needs review",
    State.ABANDONED: "Closed unresolved",
}
_FINDINGS: dict[str, str] = {
    "NO_OP_SUCCESS": "no change needed",
    "NO_OP_FAILURE": "nothing changed",
    "VALUE_MISMATCH": "values differ from the request",
    "STALE_STATE": "the target changed in between",
    "PARTIAL_APPLICATION": "partially applied",
    "DUPLICATE_SIDE_EFFECT": "duplicate effect",
    "WRONG_TARGET_MODIFIED": "wrong target changed",
    "TARGET_MISSING": "the target is gone",
    "PROPAGATION_DELAY": "other systems lag behind",
    "UNVERIFIABLE_STATE": "cannot be verified",
    "COMPENSATION_REQUIRED": "it must be reversed",
    "UNKNOWN_STATE": "outcome unknown",
}
_WITHOUT_FINDING = frozenset({State.COMMITTED, State.COMPENSATED, State.ROLLED_BACK})
"""Where what was found wrong is no longer so, or not judged yet."""
_TRIED = {
    "compensation_action_id": "a reversal",
    "rollback_action_id": "a rollback",
    "recovery_action_id": "a forward recovery",
}
_DECIDED: dict[str | None, tuple[str, OutcomeFamily]] = {
    None: ("No approval needed", OutcomeFamily.TRUE),
    "PREPARING": ("Target being read first", OutcomeFamily.WAITING),
    "REQUESTED": ("Waiting for approval", OutcomeFamily.WAITING),
    "APPROVED": ("Approved", OutcomeFamily.TRUE),
    "CONSUMED": ("Approved", OutcomeFamily.TRUE),
    "REJECTED": ("Rejected", OutcomeFamily.FALSE),
    "EXPIRED": ("Approval expired", OutcomeFamily.FALSE),
    "VOIDED": ("Approval void", OutcomeFamily.FALSE),
}
_DECIDED_BY: dict[Outcome, tuple[str, OutcomeFamily]] = {
    Outcome.BLOCKED: ("Blocked by the gate", OutcomeFamily.FALSE),
    Outcome.CANCELLED: ("Cancelled", OutcomeFamily.ENDED),
    Outcome.CHANGES_REQUESTED: ("Changes requested", OutcomeFamily.FALSE),
    Outcome.REPLACED: ("Replaced by another version", OutcomeFamily.ENDED),
}
"""What was decided of an action that never ran, where its approval alone does not say so."""
_EXECUTED: dict[str, tuple[str, OutcomeFamily]] = {
    "NOT_EXECUTED": ("Not started", OutcomeFamily.WAITING),
    "EXECUTING": ("Running", OutcomeFamily.RUNNING),
    "ACCEPTED": ("Accepted by the target", OutcomeFamily.RUNNING),
    "PENDING": ("Reported success (unverified)", OutcomeFamily.VERIFYING),
    "COMMITTED": ("Reported success (unverified)", OutcomeFamily.TRUE),
    "FAILED": ("Failed", OutcomeFamily.FALSE),
    "UNKNOWN": ("No usable answer", OutcomeFamily.UNKNOWN),
}
_EFFECT: dict[State, tuple[str, OutcomeFamily]] = {
    State.RECONCILED_SUCCESS: ("Confirmed", OutcomeFamily.TRUE),
    State.PARTIALLY_COMMITTED: ("In part", OutcomeFamily.PARTIAL),
    State.FORWARD_RECOVERY: ("In part", OutcomeFamily.PARTIAL),
    State.COMPENSATED: ("Reversed", OutcomeFamily.REVERSED),
    State.ROLLED_BACK: ("Rolled back", OutcomeFamily.REVERSED),
    State.COMPENSATING: ("Being reversed", OutcomeFamily.RUNNING),
    State.UNKNOWN: ("Not known", OutcomeFamily.UNKNOWN),
    State.VERIFICATION_TIMEOUT: ("Not known", OutcomeFamily.UNKNOWN),
    State.COMMITTED: ("Read, being compared", OutcomeFamily.VERIFYING),
}
_EFFECT_BY: dict[Outcome, tuple[str, OutcomeFamily]] = {
    Outcome.CONTRADICTED: ("Contradicted later", OutcomeFamily.UNKNOWN),
    Outcome.ANSWERED: ("Read; changes nothing", OutcomeFamily.ENDED),
    **dict.fromkeys(NEVER_RAN, ("Nothing was executed", OutcomeFamily.ENDED)),
}
"""What can be said of the effect where no reading settled it."""
_VERIFICATION: dict[str, tuple[str, OutcomeFamily]] = {
    "NOT_REQUIRED": ("Nothing was sent", OutcomeFamily.FALSE),
    "NOT_STARTED": ("Not read yet", OutcomeFamily.WAITING),
    "PENDING": ("Verifying", OutcomeFamily.VERIFYING),
    "VERIFIED": ("Read back", OutcomeFamily.VERIFYING),
    "FAILED": ("Not as intended", OutcomeFamily.FALSE),
    "TIMEOUT": ("Not known", OutcomeFamily.UNKNOWN),
    "UNVERIFIABLE": ("Cannot be checked", OutcomeFamily.UNKNOWN),
}


@dataclass(frozen=True)
class Axis:
    """One axis of an action: a few words and the family that says how they look."""

    text: str
    family: OutcomeFamily


@dataclass(frozen=True)
class Axes:
    """Authorization, what the executor did, and what the system of record says."""

    decision: Axis
    execution: Axis
    effect: Axis


def headline(
    state: State,
    entry: Mapping[str, Any],
    *,
    outcome: Outcome | None = None,
    reading: LastReading = NOT_READ,
    approval: str | None = None,
) -> str:
    """The one line that sums an action up: what is so, and what was found against it."""
    outcome = outcome or BY_STATE[state]
    if outcome is Outcome.CONTRADICTED:
        return "Settled, then contradicted: outcome unknown"
    if outcome in NEVER_RAN:
        return f"{WORDS[outcome]}: not executed"
    by_word = word_texts(outcome, reading)
    if by_word is not None and by_word.headline:
        return by_word.headline
    if outcome is Outcome.WAITING_FOR_APPROVAL:
        return "Its target is read before anybody is asked" if approval == "PREPARING" else WORDS[outcome]
    if state is State.FAILED and entry["execution"]["status"] == "NOT_EXECUTED":
        return "Not executed"
    if is_reported_unsent(state, entry):
        return "Failed before anything was sent, on the executor's word"
    if state is State.RECONCILED_SUCCESS and is_reversed(entry):
        return _HEADLINES[State.COMPENSATED]
    if _is_read_to_its_end(state, entry):
        return _headline_of_a_read(entry)
    finding = _FINDINGS.get(entry["reconciliation"]["discrepancy_class"] or "")
    is_open = state not in _WITHOUT_FINDING and entry["reconciliation"]["recovery_decision"] != "HUMAN_ATTESTATION"
    said = f": {finding}" if finding and is_open else ""
    return _HEADLINES[state] + said + (_tried(entry) if state is State.REVIEW_REQUIRED else "")


def _is_read_to_its_end(state: State, entry: Mapping[str, Any]) -> bool:
    """Whether this is a read that was answered, or failed; nothing was read back of either."""
    failed = state is State.FAILED and entry["side_effect_class"] == SideEffectClass.READ_ONLY
    return failed or (state is State.RECONCILED_SUCCESS and is_answered(entry))


def _headline_of_a_read(entry: Mapping[str, Any]) -> str:
    if is_answered(entry):
        return "Answered"
    return "Answered, and the answer cannot be used" if entry["reconciliation"]["discrepancy_class"] else "Read failed"


def _tried(entry: Mapping[str, Any]) -> str:
    """What recovery was tried before it was held: nobody should order the same again unawares."""
    recovery = entry.get("recovery") or {}
    tried = [word for name, word in _TRIED.items() if recovery.get(name)]
    return f"; {' and '.join(tried)} did not settle it" if tried else ""


def axes(
    state: State,
    entry: Mapping[str, Any],
    *,
    outcome: Outcome | None = None,
    reading: LastReading = NOT_READ,
    approval: str | None = None,
) -> Axes:
    """The three axes; `approval` is the state of the approval request, None where nobody was asked."""
    outcome = outcome or BY_STATE[state]
    decision = Axis(*_DECIDED_BY.get(outcome, _DECIDED[approval]))
    execution = Axis(*_EXECUTED[entry["execution"]["status"]])
    return Axes(decision, execution, _effect(state, entry, outcome, reading))


def _effect(state: State, entry: Mapping[str, Any], outcome: Outcome, reading: LastReading) -> Axis:
    by_word = word_texts(outcome, reading)
    if by_word is not None:
        return Axis(by_word.effect, FAMILIES[outcome])
    if outcome in _EFFECT_BY:
        return Axis(*_EFFECT_BY[outcome])
    if state is State.RECONCILED_SUCCESS and is_reversed(entry):
        return Axis(*_EFFECT[State.COMPENSATED])
    if _is_read_to_its_end(state, entry):
        return Axis("Read; changes nothing", OutcomeFamily.ENDED)
    if state in _EFFECT:
        return Axis(*_EFFECT[state])
    verification = entry["verification"]["status"]
    if state is State.FAILED and verification == "VERIFIED":
        return Axis("None, confirmed", OutcomeFamily.FALSE)
    if is_reported_unsent(state, entry):
        return Axis("Nothing was sent, on the executor's word", OutcomeFamily.FALSE)
    finding = _FINDINGS.get(entry["reconciliation"]["discrepancy_class"] or "")
    text, look = _VERIFICATION[verification]
    if finding and look in {OutcomeFamily.FALSE, OutcomeFamily.VERIFYING}:
        return Axis(finding[0].upper() + finding[1:], look)
    return Axis(text, look)
