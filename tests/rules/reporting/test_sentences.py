"""The headline, the axes and the note over the payload, row by row."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import NEVER_RAN
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import Authorization, DoubtSource, Facts, Permission, Word
from reviews.reporting.rules.sentences import (
    FAMILIES,
    Claim,
    Claims,
    OutcomeFamily,
    authorization,
    axes,
    headline,
    payload_note,
)
from tests.support.pure.facts import answer, attempt, doubt, facts_in, reading
from tests.support.pure.histories import START

TEN = "quantity 10 instead of 1"

# The headline and the effect of the facts that a state usually has.
ROWS = {
    "PROPOSED": ("Being checked", "Not read yet"),
    "VALIDATED": ("Ready to run", "Not read yet"),
    "EXECUTING": ("Executing", "Not read yet"),
    "ACCEPTED": ("Accepted by the target, not finished", "Not read yet"),
    "PENDING": ("Verifying", "Verifying"),
    "COMMITTED": ("Verifying", "Read, being compared"),
    "PARTIALLY_COMMITTED": ("Partially applied", "In part"),
    "RECONCILED_SUCCESS": ("Verified", "Confirmed"),
    "RECONCILIATION_FAILED": ("Rolling back: values differ from the request", "Values differ from the request"),
    "FAILED": ("Failed", "No effect, confirmed"),
    "VERIFICATION_TIMEOUT": ("Not verified in time", "Not known"),
    "UNKNOWN": ("Unknown", "Not known"),
    "COMPENSATING": ("Compensating: values differ from the request", "Being reversed"),
    "COMPENSATED": ("Compensated", "Reversed"),
    "COMPENSATION_FAILED": ("Compensation failed: values differ from the request", "Values differ from the request"),
    "FORWARD_RECOVERY": ("Partially applied, recovering", "In part"),
    "ROLLED_BACK": ("Rolled back, no effect is there", "Rolled back"),
    "REVIEW_REQUIRED": ("Needs review: nothing changed", "Nothing changed"),
    "ABANDONED": ("Closed unresolved: nothing changed", "Closed by a person, unresolved"),
}


def shown(facts: Facts) -> tuple[str, str]:
    return headline(facts).text, axes(facts).effect.text


@pytest.mark.req("R-RI-01", "R-RI-11", "R-SM-20")
@pytest.mark.parametrize("state", State)
def test_every_state_has_a_headline_and_an_effect(state: State) -> None:
    facts = facts_in(state)
    assert shown(facts) == ROWS[state]
    assert (axes(facts).effect.family is OutcomeFamily.TRUE) == (state is State.RECONCILED_SUCCESS)
    assert headline(facts).family is not OutcomeFamily.TRUE or state is State.RECONCILED_SUCCESS


def test_every_pair_of_headline_and_effect_is_unique() -> None:
    usual = [shown(facts_in(state)) for state in State if state is not State.COMMITTED]
    assert all(one != other for one, other in itertools.combinations(usual, 2))


DECIDED = {
    "UNCHECKED": "Being checked by the gate",
    "NOT_NEEDED": "No approval needed",
    "WAITING": "Waiting for approval",
    "APPROVED": "Approved",
    "STANDING": "Passed under a standing approval",
    "TIME_BOXED": "Passed under a time-boxed pass",
    "BLOCKED": "Blocked by the gate",
    "BLOCKED_BY_PREFLIGHT": "Blocked by preflight",
    "BLOCKED_BY_AUTONOMY": "Blocked by the autonomy policy",
    "REJECTED": "Rejected",
    "CHANGES_REQUESTED": "Changes requested",
    "EXPIRED": "Approval expired",
    "VOIDED": "Approval void",
    "REPLACED": "Replaced by another version",
    "CANCELLED": "Cancelled",
    "OUTAGE": "Ended: its system did not answer in time",
}


@pytest.mark.parametrize("how", Permission)
def test_every_kind_of_authorization_has_its_words(how: Permission) -> None:
    given = Authorization(how=how, seqs=(2,))
    assert axes(facts_in(State.VALIDATED, authorization=given)).decision.text == DECIDED[how]


def test_a_target_still_being_read_is_shown_before_approval_is_requested() -> None:
    waiting = Authorization(how=Permission.WAITING, seqs=(2,))
    asked = facts_in(State.VALIDATED, reached_by="validated", authorization=waiting)
    assert (headline(asked).text, axes(asked).decision.text) == ("Waiting for approval", "Waiting for approval")
    assert headline(asked, preparing=True).text == "Its target is read before anybody is asked"
    assert axes(asked, preparing=True).decision.text == "Target being read first"
    approved = facts_in(State.VALIDATED)
    assert axes(approved, preparing=True).decision.text == "Approved"
    assert authorization(asked).text == "Waiting for approval"


def test_a_decision_refers_to_the_event_that_supports_it() -> None:
    def claims(how: Permission) -> Claims:
        return authorization(facts_in(State.VALIDATED, authorization=Authorization(how=how, seqs=(2,)))).claims

    granted = {how for how in Permission if claims(how) == ((Claim.APPROVED, (2,)),)}
    ended = {how for how in Permission if claims(how) == ((Claim.ENDED_UNSTARTED, (2,)),)}
    assert granted == {Permission.APPROVED, Permission.STANDING, Permission.TIME_BOXED}
    assert set(Permission) - granted - ended == {Permission.UNCHECKED, Permission.NOT_NEEDED, Permission.WAITING}


SAID = {
    "success": "Reported success (unverified)",
    "failed": "Reported failure",
    "accepted": "Accepted by the target",
    "pending": "Reported as unfinished",
    "partial": "Reported as done in part (unverified)",
    "timeout": "Reported a timeout",
    "malformed": "No usable answer",
}


@pytest.mark.parametrize("state", [State.PENDING, State.RECONCILED_SUCCESS, State.FAILED, State.REVIEW_REQUIRED])
@pytest.mark.parametrize("status", SAID)
def test_the_execution_axis_shows_what_the_executor_reported_whatever_was_read(state: State, status: str) -> None:
    """Trap: the entry's execution status is set by readings and by people as well."""
    facts = facts_in(state, attempts=(attempt(answers=(answer(status),)),))
    assert axes(facts).execution.text == SAID[status]


@pytest.mark.parametrize("state", [State.PENDING, State.RECONCILED_SUCCESS, State.FAILED, State.UNKNOWN])
def test_an_executor_that_never_answered_is_shown_as_not_having_answered(state: State) -> None:
    silent = axes(facts_in(state, attempts=(attempt(silent=5),))).execution
    assert (silent.text, silent.family) == ("Started; the executor never answered", OutcomeFamily.UNKNOWN)
    waited = axes(facts_in(state, attempts=(attempt(),))).execution
    assert (waited.text, waited.family) == ("Started; no answer yet", OutcomeFamily.RUNNING)


def test_all_differing_answers_are_shown_and_a_claim_of_success_remains() -> None:
    unsent, success, failed = answer("failed", unsent=True), answer(seq=6), answer("failed", seq=7)
    facts = facts_in(State.PENDING, attempts=(attempt(answers=(unsent, success, failed)),))
    assert axes(facts).execution.text == (
        "Reported success (unverified); another answer: reported that nothing was sent"
        "; another answer: reported failure"
    )


def test_each_attempt_is_shown_separately() -> None:
    """Trap: what was answered and read of the first attempt says nothing of the second."""
    attempts = (attempt(answers=(answer("failed"),)), attempt(2, seq=7))
    facts = facts_in(State.EXECUTING, attempts=attempts, readings=(reading(Shown.NO_EFFECT),))
    assert axes(facts).execution.text == "Attempt 2: Started; no answer yet"
    assert axes(facts).effect.text == "Not read yet"


def test_a_retried_action_still_shows_its_earlier_attempt_and_reading() -> None:
    """Trap: the entry begins anew after a retry was allowed."""
    facts = facts_in(
        State.VALIDATED, attempts=(attempt(answers=(answer("failed"),)),), readings=(reading(Shown.NO_EFFECT),)
    )
    assert axes(facts).execution.text == "Reported failure"
    assert shown(facts) == ("Ready to run again", "No effect, confirmed")


@pytest.mark.parametrize(
    ("source", "effect", "line"),
    [
        (
            DoubtSource.READING,
            "Contradicted by a later reading",
            "Settled, then contradicted by a later reading: outcome unknown",
        ),
        (DoubtSource.PERSON, "Disputed by a person", "Settled, then disputed by a person: outcome unknown"),
        (
            DoubtSource.REMEDY,
            "Contradicted: its recovery action did not hold",
            "Settled, then its recovery action was contradicted: outcome unknown",
        ),
    ],
)
def test_a_contradicted_outcome_names_the_source_of_the_doubt(source: DoubtSource, effect: str, line: str) -> None:
    facts = facts_in(State.RECONCILED_SUCCESS, doubt=doubt(source))
    assert shown(facts) == (line, effect)
    assert axes(facts).effect.family is OutcomeFamily.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("rejected", "Rejected: not executed"),
        ("validation_failed", "Blocked by the gate: not executed"),
        ("provider_outage", "Ended: its system did not answer in time: not executed"),
    ],
)
def test_an_action_that_never_ran_shows_the_reason(kind: str, line: str) -> None:
    ends = {"rejected": "REJECTED", "validation_failed": "BLOCKED", "provider_outage": "OUTAGE"}
    ended = Authorization(how=Permission(ends[kind]), seqs=(2,))
    never: dict[str, Any] = {"attempts": (), "readings": (), "reached_by": kind, "authorization": ended}
    assert shown(facts_in(State.FAILED, **never)) == (line, "Nothing was executed")
    lost = facts_in(State.FAILED, **never | {"lost_start": 3})
    assert shown(lost) == (line.replace("not executed", "no start is on record"), "Not known")
    again = facts_in(State.FAILED, **never | {"attempts": (attempt(),), "readings": (reading(Shown.NO_EFFECT),)})
    assert shown(again) == (f"{line} again", "No effect, confirmed")


def test_a_failure_without_a_start_and_without_a_reason_is_shown_as_not_executed() -> None:
    never: dict[str, Any] = {"attempts": (), "readings": ()}
    assert shown(facts_in(State.FAILED, **never)) == ("Not executed", "Nothing was executed")


def test_a_start_missing_from_the_record_is_not_shown_as_not_started() -> None:
    """Trap: after the record was set back it has no start of what may have been executed."""
    lost = facts_in(State.REVIEW_REQUIRED, attempts=(), readings=(), lost_start=4)
    told = axes(lost)
    assert told.execution.text == "No start on record; it may have been executed before the record was set back"
    assert (told.effect.text, told.effect.family) == ("Not known", OutcomeFamily.UNKNOWN)
    assert payload_note(lost).text == "as stored; no start is on record"
    held = facts_in(State.REVIEW_REQUIRED, attempts=(), readings=())
    assert (axes(held).execution.text, axes(held).effect.text) == ("Not started", "Nothing was executed")
    assert payload_note(held).text == "as stored; nothing was executed"
    assert payload_note(facts_in(State.FAILED)).text == "as stored and as handed to the executor"


def test_a_failure_stated_by_the_executor_names_the_executor_as_its_source() -> None:
    unsent = {"attempts": (attempt(answers=(answer("failed", unsent=True),)),), "readings": ()}
    facts = facts_in(State.FAILED, **unsent)
    assert shown(facts) == (
        "Failed before anything was sent, on the executor's word",
        "Nothing was sent, on the executor's word",
    )
    assert axes(facts).execution.text == "Reported that nothing was sent"
    assert axes(facts).effect.claims == ((Claim.SAID_UNSENT, (4,)), (Claim.NOT_READ, ()))


def test_a_failure_without_a_reading_is_shown_as_not_read() -> None:
    assert shown(facts_in(State.FAILED, readings=())) == ("Failed", "Not read")


@pytest.mark.parametrize(
    ("found", "effect", "line"),
    [
        ((), "Not read", "Needs review"),
        ((reading(Shown.NOT_READ, "UNKNOWN_STATE"),), "Not read: the system did not answer", "Needs review"),
        ((reading(Shown.WEAK),), "Only a weak reading", "Needs review"),
        ((reading(Shown.UNDECIDED, "UNKNOWN_STATE"),), "Inconclusive readings", "Needs review"),
        (
            (reading(Shown.UNDECIDED, "PROPAGATION_DELAY"),),
            "Inconclusive readings",
            "Needs review: other systems lag behind",
        ),
        ((reading(Shown.UNDECIDED), reading(Shown.WEAK, seq=6)), "Inconclusive readings", "Needs review"),
        ((reading(Shown.WEAK), reading(Shown.NOT_READ, seq=6)), "Only a weak reading", "Needs review"),
        (
            (reading(Shown.DIFFERENT, "DUPLICATE_SIDE_EFFECT"), reading(Shown.WEAK, seq=6)),
            "Duplicate effect",
            "Needs review: duplicate effect",
        ),
        (
            (reading(Shown.NO_EFFECT, "STALE_STATE"),),
            "The target changed in between",
            "Needs review: the target changed in between",
        ),
        ((reading(Shown.NO_EFFECT),), "No effect", "Needs review"),
        ((reading(Shown.DIFFERENT),), "Not as requested", "Needs review"),
    ],
)
def test_a_held_action_shows_what_was_read(found: tuple[Any, ...], effect: str, line: str) -> None:
    assert shown(facts_in(State.REVIEW_REQUIRED, readings=found)) == (line, effect)


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        ("NO_OP_FAILURE", "nothing changed"),
        ("VALUE_MISMATCH", "values differ from the request"),
        ("STALE_STATE", "the target changed in between"),
        ("DUPLICATE_SIDE_EFFECT", "duplicate effect"),
        ("WRONG_TARGET_MODIFIED", "wrong target changed"),
        ("TARGET_MISSING", "the target is gone"),
        ("PROPAGATION_DELAY", "other systems lag behind"),
        ("UNVERIFIABLE_STATE", "cannot be verified"),
        ("COMPENSATION_REQUIRED", "it must be reversed"),
    ],
)
def test_each_finding_has_its_words_in_the_headline_and_on_the_effect_axis(finding: str, words: str) -> None:
    facts = facts_in(State.REVIEW_REQUIRED, readings=(reading(Shown.DIFFERENT, finding),))
    assert shown(facts) == (f"Needs review: {words}", words[0].upper() + words[1:])
    assert axes(facts).effect.family is OutcomeFamily.FALSE


def test_what_is_held_although_it_was_read_as_requested_is_not_shown_as_different() -> None:
    facts = facts_in(State.REVIEW_REQUIRED, readings=(reading(Shown.AS_REQUESTED),))
    assert shown(facts) == ("Needs review", "As requested")
    assert axes(facts).effect.family is OutcomeFamily.HELD


def test_a_correction_is_named_in_the_headline_of_a_verified_action() -> None:
    read = (reading(Shown.DIFFERENT, "VALUE_MISMATCH"), reading(Shown.AS_REQUESTED, seq=7))
    assert headline(facts_in(State.RECONCILED_SUCCESS, readings=read, remedies={"correction": 6})).text == (
        "Verified after a correction"
    )
    held = facts_in(State.REVIEW_REQUIRED, remedies={"correction": 6, "compensation": 7})
    assert headline(held).text == "Needs review: nothing changed; a reversal and a correction did not settle it"


def test_the_execution_of_an_action_without_a_start_waits_unless_a_start_may_be_missing() -> None:
    waiting, lost = facts_in(State.VALIDATED), facts_in(State.VALIDATED, lost_start=3)
    assert axes(waiting).execution.family is OutcomeFamily.WAITING
    assert axes(lost).execution.family is OutcomeFamily.UNKNOWN


def test_a_reversal_by_word_refers_to_the_word_or_else_to_the_event_that_ended_it() -> None:
    """And to no reading where none was made."""
    by_word = {"readings": (), "reached_by": "compensation_attested"}
    word = Word(seq=7, discrepancy="", by="p-1", second="", at=START)
    for changes, claims in (
        ({}, ((Claim.REVERSED, (40,)), (Claim.NOT_READ, ()))),
        ({"word": word}, ((Claim.PERSON_SAID, (7,)), (Claim.NOT_READ, ()))),
        ({"reversal": None}, ((Claim.NOT_READ, ()),)),
    ):
        assert axes(facts_in(State.COMPENSATED, **by_word, **changes)).effect.claims == claims


FAMILY_NAMES = "waiting running verifying true partial false unknown reversed held attested ended"


def test_the_families_have_the_names_that_styles_and_icons_use() -> None:
    assert " ".join(OutcomeFamily) == FAMILY_NAMES


LOOKS = {
    OutcomeFamily.TRUE: {"VERIFIED"},
    OutcomeFamily.FALSE: {"FAILED"},
    OutcomeFamily.UNKNOWN: {"UNKNOWN", "CONTRADICTED", "CLOSED_UNRESOLVED"},
    OutcomeFamily.HELD: {"NEEDS_REVIEW"},
    OutcomeFamily.PARTIAL: {"PARTIALLY_APPLIED", "RECOVERING"},
    OutcomeFamily.REVERSED: {"COMPENSATED", "ROLLED_BACK"},
    OutcomeFamily.ATTESTED: {"ATTESTED", "ACCEPTED_AS_IT_IS", "ATTESTED_ABSENT", "COMPENSATED_AS_ATTESTED"},
    OutcomeFamily.WAITING: {"PROPOSED", "WAITING_FOR_APPROVAL", "READY", "APPROVED"},
    OutcomeFamily.RUNNING: {"EXECUTING", "COMPENSATING", "ROLLING_BACK"},
    OutcomeFamily.VERIFYING: {"VERIFYING"},
    OutcomeFamily.ENDED: {"UNCHANGED", "ANSWERED", "SETTLED_AS_FAILED", *NEVER_RAN},
}


def test_each_outcome_has_its_colour_family() -> None:
    assert {outcome: str(family) for outcome, family in FAMILIES.items()} == {
        outcome: str(family) for family, outcomes in LOOKS.items() for outcome in outcomes
    }


def test_an_unread_effect_is_shown_as_waiting_only_while_a_reading_is_planned() -> None:
    held = axes(facts_in(State.REVIEW_REQUIRED, readings=())).effect
    assert (held.text, held.family) == ("Not read", OutcomeFamily.UNKNOWN)
    running = axes(facts_in(State.EXECUTING)).effect
    assert (running.text, running.family) == ("Not read yet", OutcomeFamily.WAITING)


def test_an_action_that_found_nothing_to_change_is_not_shown_as_confirmed() -> None:
    before = (reading(Shown.AS_REQUESTED, "NO_OP_SUCCESS"),)
    facts = facts_in(State.RECONCILED_SUCCESS, readings=before, discrepancy="NO_OP_SUCCESS")
    assert shown(facts) == ("No change needed", "As requested before it ran; changed nothing")
    assert axes(facts).effect.family is OutcomeFamily.ENDED
    assert axes(facts).effect.claims == ((Claim.SAW_REQUESTED, (5,)),)


def test_an_uncheckable_action_is_shown_as_such_once_no_reading_is_planned() -> None:
    assert axes(facts_in(State.UNKNOWN, is_unverifiable=True)).effect.text == "Cannot be checked"
    assert axes(facts_in(State.PENDING, is_unverifiable=True)).effect.text == "Verifying"


def test_an_effect_that_is_gone_again_is_not_shown_as_never_present() -> None:
    seen = (reading(Shown.DIFFERENT, "VALUE_MISMATCH"), reading(Shown.NO_EFFECT, seq=7))
    assert axes(facts_in(State.FAILED, readings=seen)).effect.text == "No effect any more, confirmed"


def test_a_recovery_is_shown_as_partial_only_if_a_reading_found_a_partial_effect() -> None:
    unread = facts_in(State.FORWARD_RECOVERY, readings=())
    assert shown(unread) == ("Being recovered", "Not read")
    assert axes(
        facts_in(State.FORWARD_RECOVERY, readings=(reading(Shown.DIFFERENT, "VALUE_MISMATCH"),))
    ).effect.text == ("Values differ from the request")


def test_a_success_that_was_reversed_is_shown_as_reversed() -> None:
    facts = facts_in(State.RECONCILED_SUCCESS, reversed=True, reversal=8)
    assert shown(facts) == ("Compensated", "Reversed")
    attested = facts_in(State.RECONCILED_SUCCESS, reversed=True, reversal=8, reached_by="compensation_attested")
    assert axes(attested).effect.text == "Reversal attested by a person, not verified"


def test_the_headline_of_a_held_action_names_the_recovery_that_was_tried() -> None:
    differs = (reading(Shown.DIFFERENT, "VALUE_MISMATCH"),)
    facts = facts_in(State.REVIEW_REQUIRED, readings=differs, remedies={"compensation": 6})
    assert headline(facts).text == "Needs review: values differ from the request; a reversal did not settle it"
    both = facts_in(State.REVIEW_REQUIRED, readings=(), remedies={"forward": 6, "rollback": 7})
    assert headline(both).text == "Needs review; a rollback and a forward recovery did not settle it"


@pytest.mark.parametrize(
    ("kind", "state", "line", "effect"),
    [
        (
            "attested_present",
            State.RECONCILED_SUCCESS,
            f"Attested by a person: it took effect; a reading showed {TEN}",
            f"Attested by a person; a reading showed {TEN}",
        ),
        (
            "accepted_as_it_is",
            State.RECONCILED_SUCCESS,
            f"Accepted as it is by a person: {TEN}",
            f"Accepted by a person: {TEN}",
        ),
        (
            "attested_absent",
            State.FAILED,
            f"Attested by a person: nothing happened; a reading showed {TEN}",
            f"No effect, attested by a person; a reading showed {TEN}",
        ),
        (
            "failed_by_review",
            State.FAILED,
            f"Settled as failed by a person; a reading showed {TEN}",
            f"Settled by a person; a reading showed {TEN}",
        ),
    ],
)
def test_a_persons_statement_is_shown_with_the_reading_beside_it(
    kind: str, state: State, line: str, effect: str
) -> None:
    found = (reading(Shown.DIFFERENT, "VALUE_MISMATCH", difference=TEN),)
    assert shown(facts_in(state, reached_by=kind, readings=found)) == (line, effect)


def test_a_read_is_shown_as_answered_and_never_as_verified() -> None:
    read = {"side_effect_class": "READ_ONLY", "readings": (reading(Shown.NOT_READ),), "is_answer_only": True}
    answered = facts_in(State.RECONCILED_SUCCESS, reached_by="answered", **read)
    assert shown(answered) == ("Answered", "Read; changes nothing")
    assert axes(answered).effect.family is OutcomeFamily.ENDED
    assert shown(facts_in(State.FAILED, **read)) == ("Read failed", "No usable answer; changes nothing")
    unfit = read | {"readings": (reading(Shown.NOT_READ, "VALUE_MISMATCH"),)}
    assert headline(facts_in(State.FAILED, **unfit)).text == "Answered, and the answer cannot be used"
