"""Reports: the only statements about an action that may be given to anyone (R-RI-01 to R-RI-17).

1. The report follows from the record alone: the state, the entry, whether a later reading contradicted
   it, and the trust level. No word of an agent or a tool enters it (R-RI-14).
2. Only RECONCILED_SUCCESS is reported as completed; a CRITICAL_MUTATION only with all that its class binds it to
   (C-44): trust level 4, or 3 where only the trace of its agent is missing.
   Accepted, pending, timed out and unverified are never a completion (R-RI-10).
3. A contradiction outweighs any settled state: FINAL_STATE_UNKNOWN, not completed (Late truth).
   One that was reversed afterwards is reported as reversed (R-RI-11, R-RP-44).
4. A tool that only reads and names no check is told as answered: that is its end as it was asked for, says neither
   "verified" nor "confirmed", and is no completion, since no reading settled it. Where it brought no answer that can be
   used it has failed, and nothing was changed.
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
from ledger.record.rules.outcomes import Outcome
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import DoubtSource, Facts, RunReading
from reviews.reporting.rules.recovery_report import OngoingRecovery, Part, RecoveryStage, partial_report_text
from reviews.reporting.rules.sentences import (
    Claim,
    Claims,
    Wording,
    beside_word,
    by_word,
    effect,
    is_unsent,
    not_executed,
    saw,
)


class StatusCode(StrEnum):
    """The status codes that a user may be given: the thirteen of the reporting table, ANSWERED and that of a person's
    statement.
    """

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


_ROLLED_BACK = "Rolled back; the system of record shows no effect."
_UNPLANNED = "It did not go as planned."
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
    StatusCode.ROLLED_BACK: _ROLLED_BACK,
    StatusCode.FAILED: "Failed. No completion was confirmed.",
    StatusCode.FINAL_STATE_UNKNOWN: "The final state is not known. It must be reviewed before anything is tried again.",
    StatusCode.REVIEW_REQUIRED: "Not settled. It waits for a person to review it.",
    StatusCode.RECOVERY_IN_PROGRESS: _UNPLANNED,
    StatusCode.ABANDONED_UNRESOLVED: "A person stopped it. What was found wrong is on record and unresolved.",
}
NEVER_ATTEMPTED = _TEXTS[StatusCode.NOT_EXECUTED]
"""The sentence of what ended, or waits, without a start."""
_ABSENT = "Failed. The system of record shows that nothing happened."
_UNSENT = "Failed before anything was sent, on the executor's word; no reading confirms it."
_DOUBTED: dict[DoubtSource, str] = {
    DoubtSource.READING: "a later reading of the system of record contradicts that",
    DoubtSource.PERSON: "a person disputes that",
    DoubtSource.REMEDY: "a later reading contradicts the recovery action that it rests on",
}
_UNCHANGED = "No change was needed: the system of record was as requested before the action ran, and still is."
_LOST = "No start is on record; it may have been executed before the record was set back."
_UNVERIFIABLE = "The final state is not known: there is no reliable way to check it."
_READ_FAILED = "The read failed; nothing was changed."
_UNREAD = "It is not known whether what was read can be relied on. It was a read: nothing was changed."
_UNUSABLE = {
    "VALUE_MISMATCH": "The answer does not fit what the tool promises, and is not to be used; nothing was changed.",
    "UNVERIFIABLE_STATE": "Where the answer came from is not certain, and it is not to be used; nothing was changed.",
}

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
    """The report on an action, its level of trust, and the claims in its text."""

    code: StatusCode
    text: str
    completed: bool
    trust_level: int
    parts: tuple[Part, ...] = ()
    claims: Claims = ()

    @property
    def is_fulfilled(self) -> bool:
        """Return whether the action did what it was for: a change is completed, a read was answered."""
        return self.completed or self.code is StatusCode.ANSWERED


def build_report(
    facts: Facts,
    entry: Mapping[str, Any],
    *,
    trust_level: int,
    completes_critical: bool = False,
    recovery: OngoingRecovery | None = None,
    parts: tuple[Part, ...] = (),
) -> StatusReport:
    """Return the report on an action (rules 1 to 6): `recovery` is the one under way, `parts` those of one done in
    part.
    """
    bound = trust_level == AUDIT_CONFIRMED or completes_critical
    code = _CODES_OF_A_WORD.get(facts.outcome) or _code(facts.state, entry, recovery, bound=bound)
    code = StatusCode.FINAL_STATE_UNKNOWN if facts.doubt is not None else code
    otherwise = None if code is StatusCode.NOT_EXECUTED else _settled_otherwise(facts)
    said = otherwise or _sentence_of_code(facts, code)
    text = said.text
    if parts:
        text = partial_report_text(facts, text, parts, settled_otherwise=otherwise is not None)
    if recovery is not None and facts.doubt is None:
        text = f"{text} {recovery.text}"
    return StatusReport(code, text, code is StatusCode.COMPLETED, trust_level, parts, said.claims)


def _settled_otherwise(facts: Facts) -> Wording | None:
    """Return the sentence of an outcome settled by a contradiction or by a person's statement; None if a reading
    settled it.
    """
    if facts.doubt is not None:
        text = f"It was settled, but {_DOUBTED[facts.doubt.source]}. The final state is not known."
        return Wording(text, claims=effect(facts).claims)
    texts = by_word(facts)
    return Wording(texts.report, claims=beside_word(facts)) if texts is not None and texts.report else None


def _code(state: State, entry: Mapping[str, Any], recovery: OngoingRecovery | None, *, bound: bool) -> StatusCode:
    if state is State.PENDING and entry["execution"]["observation_pointer"] is None:
        return StatusCode.ATTEMPTED_RESULT_UNKNOWN
    if state is State.FAILED and entry["execution"]["status"] == "NOT_EXECUTED":
        return StatusCode.NOT_EXECUTED
    if StatusCode.RECOVERY_IN_PROGRESS in ALLOWED[state] and _is_recovering(state, recovery):
        return StatusCode.RECOVERY_IN_PROGRESS
    if state is State.RECONCILED_SUCCESS and entry["reconciliation"]["status"] == "COMPENSATED":
        return StatusCode.COMPENSATED
    if state is State.RECONCILED_SUCCESS and _is_answered(entry):
        return StatusCode.ANSWERED
    critical = entry["side_effect_class"] == SideEffectClass.CRITICAL_MUTATION
    if state is State.RECONCILED_SUCCESS and critical and not bound:
        return StatusCode.VERIFIED_RECONCILIATION_IN_PROGRESS
    return ALLOWED[state][0]


def possible_codes(
    state: State, entry: Mapping[str, Any], *, outcome: Outcome, contradicted: bool
) -> frozenset[StatusCode]:
    """Return every code that a report can have on an action after one of its events.

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


def _is_answered(entry: Mapping[str, Any]) -> bool:
    """Return True if this is a read that was answered, without any reading back."""
    reads = entry["side_effect_class"] == SideEffectClass.READ_ONLY
    ended = entry["reconciliation"]["status"] == "RECONCILED_SUCCESS"
    return reads and ended and entry["verification"]["verified_state_pointer"] is None


_CODES_OF_A_WORD = {
    Outcome.ATTESTED: StatusCode.ATTESTED,
    Outcome.ACCEPTED_AS_IT_IS: StatusCode.ACCEPTED_AS_IT_IS,
}


def _sentence_of_code(facts: Facts, code: StatusCode) -> Wording:
    """Return the sentence of a code, as far as the events of this action support it (rule 5)."""
    attempt, found = facts.attempt, facts.found
    shown = effect(facts).claims
    if code is StatusCode.NOT_EXECUTED:
        return _unexecuted_sentence(facts)
    if attempt is not None and (text := _text_of_a_read(facts, code)):
        return Wording(text, claims=((Claim.STARTED, (attempt.seq,)),))
    if code is StatusCode.RESPONSE_RECEIVED_VERIFICATION_PENDING and facts.answer is None:
        return Wording(_TEXTS[StatusCode.ATTEMPTED_RESULT_UNKNOWN], claims=((Claim.NO_ANSWER, ()),))
    if code is StatusCode.COMPENSATED:
        return _reversal_sentence(facts)
    if code is StatusCode.COMPLETED and facts.corrected is not None:
        first = f": {facts.corrected.difference}" if facts.corrected.difference else ""
        text = (
            f"Done after a correction, and confirmed in the system of record. At first it was not as requested{first}."
        )
        return Wording(text, claims=(*shown, *saw(facts.corrected)))
    if code in (StatusCode.FAILED, StatusCode.ROLLED_BACK) and found is not None and found.shown is Shown.NO_EFFECT:
        return _absence_sentence(facts, found)
    return Wording(_text(facts, code), claims=shown)


def _text(facts: Facts, code: StatusCode) -> str:
    if code is StatusCode.FINAL_STATE_UNKNOWN and facts.is_unverifiable:
        return _UNVERIFIABLE
    if code is StatusCode.COMPLETED and facts.outcome is Outcome.UNCHANGED:
        return _UNCHANGED
    if code is StatusCode.FAILED and is_unsent(facts):
        return _UNSENT
    if code in (StatusCode.RECOVERY_IN_PROGRESS, StatusCode.PARTIALLY_COMPLETED) and not _is_partial(facts):
        return _deviation(facts)
    return _TEXTS[code]


def _unexecuted_sentence(facts: Facts) -> Wording:
    if facts.attempt is None:
        text = _LOST if facts.lost_start is not None else _TEXTS[StatusCode.NOT_EXECUTED]
        return Wording(text, claims=((Claim.NOT_STARTED, ()),))
    answer = facts.answer
    what = "had no effect" if facts.found is not None else "came to nothing"
    if facts.found is None and answer is not None and answer.nothing_sent:
        what = "sent nothing, on the executor's word"
    then = "; it may be tried again" if facts.state is State.VALIDATED else f"; {not_executed(facts)}"
    return Wording(f"An attempt was made and {what}{then}.", claims=((Claim.STARTED, (facts.attempt.seq,)),))


def _was_there(seen: RunReading) -> str:
    if seen.is_as_requested:
        return "It was done and"
    return f"It took effect, not as requested{f' ({seen.difference})' if seen.difference else ''}, and was"


def _is_partial(facts: Facts) -> bool:
    return facts.found is not None and facts.found.discrepancy == Discrepancy.PARTIAL_APPLICATION


def _deviation(facts: Facts) -> str:
    """The result of an action that is being recovered, as a sentence."""
    if facts.found is None:
        return "What came of it is not known."
    return "It took effect." if facts.found.is_as_requested else _UNPLANNED


def _reversal_sentence(facts: Facts) -> Wording:
    if facts.effect is None:
        text = "It was reversed, and the reversal is confirmed; no reading had shown that it took effect."
        return Wording(text, claims=effect(facts).claims)
    text = f"{_was_there(facts.effect)} then reversed; the reversal is confirmed."
    return Wording(text, claims=(*effect(facts).claims, *saw(facts.effect)))


def _absence_sentence(facts: Facts, found: RunReading) -> Wording:
    """Return the sentence for a reading that showed no effect: none at all, or none any more."""
    if facts.effect is not None:
        text = f"{_was_there(facts.effect)} then taken back; the system of record shows no effect any more."
        return Wording(text, claims=(*saw(facts.effect), *saw(found)))
    return Wording(_ROLLED_BACK if facts.state is State.ROLLED_BACK else _ABSENT, claims=saw(found))


def _text_of_a_read(facts: Facts, code: StatusCode) -> str:
    """Return the text for a read without a usable answer; otherwise empty."""
    if facts.side_effect_class != SideEffectClass.READ_ONLY:
        return ""
    if code is StatusCode.FINAL_STATE_UNKNOWN:
        return _UNREAD
    if code is not StatusCode.FAILED:
        return ""
    return _UNUSABLE.get(facts.of_attempt[-1].discrepancy if facts.of_attempt else "", _READ_FAILED)
