"""Reports: what may be told in each state, and that nothing but proven success is called done."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import Outcome
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import DoubtSource
from reviews.reporting.rules.recovery_report import OngoingRecovery, Part, PartOutcome, RecoveryStage, parts_of
from reviews.reporting.rules.report import ALLOWED, StatusCode, build_report, possible_codes
from reviews.reporting.rules.sentences import Claim
from tests.support.pure.facts import answer, attempt, doubt, facts_in, reading
from tests.support.verification_runs import LEDGER, entry

USUAL = {
    "PROPOSED": "NOT_EXECUTED",
    "VALIDATED": "NOT_EXECUTED",
    "EXECUTING": "ATTEMPTED_RESULT_UNKNOWN",
    "ACCEPTED": "RESPONSE_RECEIVED_VERIFICATION_PENDING",
    "PENDING": "RESPONSE_RECEIVED_VERIFICATION_PENDING",
    "COMMITTED": "VERIFIED_RECONCILIATION_IN_PROGRESS",
    "PARTIALLY_COMMITTED": "PARTIALLY_COMPLETED",
    "RECONCILED_SUCCESS": "COMPLETED",
    "RECONCILIATION_FAILED": "FAILED",
    "FAILED": "FAILED",
    "VERIFICATION_TIMEOUT": "FINAL_STATE_UNKNOWN",
    "UNKNOWN": "FINAL_STATE_UNKNOWN",
    "COMPENSATING": "RECOVERY_IN_PROGRESS",
    "COMPENSATED": "COMPENSATED",
    "COMPENSATION_FAILED": "REVIEW_REQUIRED",
    "FORWARD_RECOVERY": "PARTIALLY_COMPLETED",
    "ROLLED_BACK": "ROLLED_BACK",
    "REVIEW_REQUIRED": "REVIEW_REQUIRED",
    "ABANDONED": "ABANDONED_UNRESOLVED",
}


def in_state(state, *, execution=None, verification=None, finding=None, **blocks):
    """An entry as it may look in `state`, an answer of the tool on record."""
    allowed = LEDGER[state]
    plain = entry()
    plain["execution"] |= {
        "status": execution or allowed["execution"][-1],
        "observation_pointer": "ob-1",
    }
    plain["verification"]["status"] = verification or allowed["verification"][0]
    plain["reconciliation"] |= {
        "status": allowed["reconciliation"][0],
        "discrepancy_class": finding,
    }
    return plain | blocks


def told(state, *, trust_level=3, completes_critical=False, recovery=None, parts=(), blocks=(), **facts):
    """The report on an action in `state`, of which `facts` are not as usual."""
    options = {"trust_level": trust_level, "completes_critical": completes_critical}
    record = in_state(state, **dict(blocks))
    return build_report(facts_in(state, **facts), record, recovery=recovery, parts=parts, **options)


TEXTS = {
    "PROPOSED": "Not executed. Nothing has been attempted.",
    "VALIDATED": "Not executed. Nothing has been attempted.",
    "EXECUTING": "Attempted. What came of it is not known yet.",
    "ACCEPTED": "The tool has answered. Whether it is so is still being checked.",
    "PENDING": "The tool has answered. Whether it is so is still being checked.",
    "COMMITTED": "The system of record has been read. The result is not final yet.",
    "PARTIALLY_COMMITTED": "Done in part; which parts is not on record.",
    "RECONCILED_SUCCESS": "Done, and confirmed in the system of record.",
    "RECONCILIATION_FAILED": "Failed. No completion was confirmed.",
    "FAILED": "Failed. The system of record shows that nothing happened.",
    "VERIFICATION_TIMEOUT": "The final state is not known. It must be reviewed before anything is tried again.",
    "UNKNOWN": "The final state is not known. It must be reviewed before anything is tried again.",
    "COMPENSATING": "It did not go as planned.",
    "COMPENSATED": "It was done and then reversed; the reversal is confirmed.",
    "COMPENSATION_FAILED": "Not settled. It waits for a person to review it.",
    "FORWARD_RECOVERY": "Done in part; which parts is not on record.",
    "ROLLED_BACK": "Rolled back; the system of record shows no effect.",
    "REVIEW_REQUIRED": "Not settled. It waits for a person to review it.",
    "ABANDONED": "A person stopped it. What was found wrong is on record and unresolved.",
}
"""Every row in full: what stands here is what agents pass on to users."""


@pytest.mark.req("R-RI-01", "R-RI-03", "R-RI-05", "R-RI-07", "R-RI-08", "R-RI-12")
@pytest.mark.parametrize("state", State)
def test_every_state_has_its_report(state):
    found = told(state)
    assert found.code == USUAL[state]
    assert found.code in ALLOWED[state]
    assert found.text == TEXTS[state]
    assert found.completed == (state is State.RECONCILED_SUCCESS)


def test_an_action_that_found_nothing_to_change_is_not_reported_as_done():
    before = (reading(Shown.AS_REQUESTED, "NO_OP_SUCCESS"),)
    found = told(State.RECONCILED_SUCCESS, readings=before, discrepancy="NO_OP_SUCCESS")
    assert (found.code, found.completed) == ("COMPLETED", True)
    assert found.text == (
        "No change was needed: the system of record was as requested before the action ran, and still is."
    )


RECOVERIES = [None, *(OngoingRecovery(relation, stage) for relation in Relation for stage in RecoveryStage)]
PARTS = (
    Part("euros", PartOutcome.APPLIED),
    Part("dollars", PartOutcome.APPLIED),
    Part("pounds", PartOutcome.NOT_APPLIED),
)
CLAUSE = "euros and dollars took effect; pounds did not take effect"


@pytest.mark.req("R-RI-09", "R-RI-10", "R-CX-04")
def test_only_reconciled_success_is_ever_completed():
    for state, *flags in itertools.product(State, [None, doubt()], [True, False], RECOVERIES, [PARTS, ()]):
        contradiction, attested, recovery, parts = flags
        by_word = "attested_present" if attested and state is State.RECONCILED_SUCCESS else "otherwise"
        facts = {"doubt": contradiction, "reached_by": by_word}
        found = told(state, recovery=recovery, parts=parts, trust_level=4, **facts)
        assert found.completed == (found.code is StatusCode.COMPLETED)
        assert found.is_fulfilled == (found.code in (StatusCode.COMPLETED, StatusCode.ANSWERED))
        assert found.completed <= (state is State.RECONCILED_SUCCESS and contradiction is None)
        assert found.code in ALLOWED[state] or contradiction


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("source", "why"),
    [
        (DoubtSource.READING, "a later reading of the system of record contradicts that"),
        (DoubtSource.PERSON, "a person disputes that"),
        (DoubtSource.REMEDY, "a later reading contradicts the recovery action that it rests on"),
    ],
)
def test_a_contradiction_outranks_every_state_and_names_its_source(state, source, why):
    found = told(state, doubt=doubt(source))
    assert (found.code, found.completed) == (StatusCode.FINAL_STATE_UNKNOWN, False)
    assert found.text == f"It was settled, but {why}. The final state is not known."


@pytest.mark.req("R-RI-02")
def test_a_pending_action_without_an_answer_is_reported_as_attempted():
    silent = build_report(facts_in(State.PENDING, attempts=(attempt(),)), entry(), trust_level=0)
    assert silent.code is StatusCode.ATTEMPTED_RESULT_UNKNOWN
    assert silent.text == TEXTS["EXECUTING"]


def test_an_answer_to_an_earlier_attempt_does_not_count_for_this_one():
    """Trap: the entry names the newest answer, whichever attempt it was to."""
    late = (attempt(answers=(answer(),)), attempt(2, seq=6))
    assert told(State.PENDING, attempts=late).text == TEXTS["EXECUTING"]


NEVER_RAN = {"blocks": {"execution": "NOT_EXECUTED", "verification": "NOT_REQUIRED"}, "reached_by": "rejected"}


@pytest.mark.req("R-RI-01")
def test_a_failure_before_the_run_counts_as_not_executed():
    found = told(State.FAILED, attempts=(), readings=(), **NEVER_RAN)
    assert found.code is StatusCode.NOT_EXECUTED
    assert found.text == TEXTS["VALIDATED"]


def test_an_earlier_attempt_is_never_reported_as_not_attempted():
    """Trap: a retry begins the entry anew, and the attempt before it stays in the events."""
    again = told(State.VALIDATED, attempts=(attempt(),), readings=(reading(Shown.NO_EFFECT),))
    assert again.text == "An attempt was made and had no effect; it may be tried again."
    unread = told(State.VALIDATED, attempts=(attempt(),))
    assert unread.text == "An attempt was made and came to nothing; it may be tried again."
    unsent = told(State.VALIDATED, attempts=(attempt(answers=(answer("failed", unsent=True),)),))
    assert unsent.text == "An attempt was made and sent nothing, on the executor's word; it may be tried again."
    ended = told(State.FAILED, readings=(reading(Shown.NO_EFFECT),), **NEVER_RAN)
    assert ended.text == "An attempt was made and had no effect; not executed again."


def test_a_start_missing_from_the_record_is_never_reported_as_not_attempted():
    assert told(State.VALIDATED, lost_start=3).text == (
        "No start is on record; it may have been executed before the record was set back."
    )


def test_no_effect_is_reported_only_after_a_reading_of_absence():
    assert told(State.FAILED, readings=()).text == "Failed. No completion was confirmed."
    assert told(State.ROLLED_BACK, readings=()).text == TEXTS["ROLLED_BACK"]
    wrong = reading(Shown.DIFFERENT, "VALUE_MISMATCH", difference="quantity 10 instead of 1")
    for seen, was in (
        (wrong, "It took effect, not as requested (quantity 10 instead of 1), and was"),
        (reading(Shown.DIFFERENT, "VALUE_MISMATCH"), "It took effect, not as requested, and was"),
        (reading(Shown.AS_REQUESTED), "It was done and"),
    ):
        for state in (State.FAILED, State.ROLLED_BACK):
            text = told(state, readings=(seen, reading(Shown.NO_EFFECT, seq=7))).text
            assert text == f"{was} then taken back; the system of record shows no effect any more."
        assert told(State.COMPENSATED, readings=(seen,)).text == f"{was} then reversed; the reversal is confirmed."


def test_a_reversal_of_an_unread_effect_does_not_report_that_it_took_effect():
    assert told(State.COMPENSATED, readings=()).text == (
        "It was reversed, and the reversal is confirmed; no reading had shown that it took effect."
    )
    to_reverse = reading(Shown.DIFFERENT, "COMPENSATION_REQUIRED")
    assert told(State.COMPENSATED, readings=(to_reverse,)).text == TEXTS["COMPENSATED"]


def test_a_recovery_is_reported_by_its_reading():
    for state in (State.COMPENSATING, State.FORWARD_RECOVERY):
        assert told(state, readings=()).text == "What came of it is not known."
        to_reverse = reading(Shown.DIFFERENT, "COMPENSATION_REQUIRED")
        assert told(state, readings=(to_reverse,)).text == "It took effect."
        assert told(state, readings=(reading(Shown.DIFFERENT, "VALUE_MISMATCH"),)).text == "It did not go as planned."


@pytest.mark.req("R-VD-15")
def test_a_critical_mutation_is_completed_only_with_all_required_bindings():
    critical = {"blocks": {"side_effect_class": "CRITICAL_MUTATION"}}
    assert not told(State.RECONCILED_SUCCESS, trust_level=3, **critical).completed
    assert told(State.RECONCILED_SUCCESS, trust_level=4, **critical).completed
    assert told(State.RECONCILED_SUCCESS, trust_level=3, completes_critical=True, **critical).completed


def test_a_failure_stated_by_the_executor_names_the_executor_as_its_source():
    unsent = (attempt(answers=(answer("failed", unsent=True),)),)
    found = told(State.FAILED, attempts=unsent, readings=())
    assert found.text == "Failed before anything was sent, on the executor's word; no reading confirms it."


def partial(state, **options):
    usual = {"readings": (reading(Shown.DIFFERENT, "PARTIAL_APPLICATION"),)}
    return told(state, parts=PARTS, **(usual | options)).text


def test_a_partial_result_is_reported_until_it_is_settled():
    assert partial(State.PARTIALLY_COMMITTED) == f"Done in part: {CLAUSE}."
    held = partial(State.REVIEW_REQUIRED)
    assert held.startswith(f"Done in part: {CLAUSE}. Not settled. A person decides what follows")
    compensating = partial(State.COMPENSATING, recovery=OngoingRecovery(Relation.COMPENSATION, RecoveryStage.RUNNING))
    assert compensating.startswith(f"Done in part: {CLAUSE}. It is being reversed: the compensation")
    forward = partial(State.FORWARD_RECOVERY, recovery=OngoingRecovery(Relation.FORWARD, RecoveryStage.VERIFIED))
    assert forward.endswith("the forward recovery is settled, and the whole is being read again.")


def test_a_partial_result_is_reported_after_it_was_settled():
    finished = told(State.RECONCILED_SUCCESS, parts=PARTS, remedies={"forward": 6}).text
    assert finished.endswith(
        f" At first it was done in part: {CLAUSE}. After a forward recovery a reading showed all of it."
    )
    reversed_ = partial(State.COMPENSATED)
    assert reversed_.endswith(f" the reversal is confirmed. Before that it was done in part: {CLAUSE}.")
    for state, options in (
        (State.RECONCILED_SUCCESS, {"reached_by": "attested_present"}),
        (State.RECONCILED_SUCCESS, {"doubt": doubt()}),
        (State.FAILED, {}),
        (State.ABANDONED, {}),
        (State.PENDING, {}),
    ):
        text = partial(state, **options)
        assert text.endswith(f" A reading had found it done in part: {CLAUSE}."), text
        assert "showed all of it" not in text


def test_an_unsuccessful_recovery_is_reported_with_the_parts():
    held = partial(State.REVIEW_REQUIRED, remedies={"forward": 6})
    assert f"{CLAUSE}. A forward recovery did not settle it. Not settled." in held


def test_each_finding_about_a_part_has_its_words():
    """Trap: what only one of two systems has, and what is there with other values, read as if it were simply there."""
    effects = [
        {"name": "bank_refund", "found": "PRESENT"},
        {"name": "notice", "found": "PRESENT"},
        {"name": "books", "found": "DIVERGENT"},
        {"name": "payout", "found": "PENDING"},
        {"name": "letter", "found": "ABSENT"},
        {"name": "stamp", "found": "UNTOLD"},
    ]
    predicates = [
        {"text": "sa.effects.notice.amount == sr.amount", "holds": "FALSE", "origin": "contract"},
        {"text": "sa.effects.bank_refund.amount == sr.amount", "holds": "TRUE", "origin": "contract"},
    ]
    parts = parts_of({"effects": effects, "predicates": predicates})
    assert [(part.name, part.words) for part in parts] == [
        ("bank refund", "took effect"),
        ("notice", "took effect with other values than asked for"),
        ("books", "took effect in one system and not in another"),
        ("payout", "began and is not finished"),
        ("letter", "did not take effect"),
        ("stamp", "could not be told"),
    ]


def test_an_attested_result_is_shown_as_attested():
    """And never as completed, whatever a reading before it had shown."""
    unread = {"readings": ()}
    done = told(State.RECONCILED_SUCCESS, reached_by="attested_present", trust_level=4, **unread)
    assert (done.code, done.completed) == (StatusCode.ATTESTED, False)
    assert done.text == "A person has attested that it took effect; it was not verified by a reading."
    absent = told(State.FAILED, reached_by="attested_absent", **unread)
    assert absent.text == "A person has attested that nothing happened; it was not verified by a reading."
    failed = told(State.FAILED, reached_by="failed_by_review", **unread)
    assert failed.text == "A person settled it as failed; it was not verified by a reading."


def test_an_unverifiable_action_is_reported_as_unverifiable():
    found = told(State.UNKNOWN, is_unverifiable=True)
    assert found.code is StatusCode.FINAL_STATE_UNKNOWN
    assert found.text == "The final state is not known: there is no reliable way to check it."


def test_an_ordered_rollback_is_reported_as_a_recovery_in_progress():
    ordered = told(State.RECONCILIATION_FAILED, recovery=OngoingRecovery(Relation.ROLLBACK, RecoveryStage.ORDERED))
    assert ordered.code is StatusCode.RECOVERY_IN_PROGRESS
    assert ordered.text == (
        "It did not go as planned. It is being rolled back: the rollback is ordered and has not begun, and after it"
        " the target is read again."
    )
    assert told(State.RECONCILIATION_FAILED).code is StatusCode.FAILED
    assert (
        told(State.FAILED, recovery=OngoingRecovery(Relation.ROLLBACK, RecoveryStage.RUNNING)).code is StatusCode.FAILED
    )


def test_a_forward_recovery_is_in_progress_once_its_action_exists():
    ordered = told(State.FORWARD_RECOVERY, recovery=OngoingRecovery(Relation.FORWARD, RecoveryStage.ORDERED))
    running = told(State.FORWARD_RECOVERY, recovery=OngoingRecovery(Relation.FORWARD, RecoveryStage.RUNNING))
    assert (ordered.code, running.code) == (StatusCode.PARTIALLY_COMPLETED, StatusCode.RECOVERY_IN_PROGRESS)


@pytest.mark.req("R-SM-20", "R-RI-11")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("COMMITTED", "PARTIALLY_COMMITTED"),
        ("PARTIALLY_COMMITTED", "RECONCILED_SUCCESS"),
        ("ACCEPTED", "COMMITTED"),
        ("UNKNOWN", "FAILED"),
        ("COMPENSATED", "ROLLED_BACK"),
    ],
)
def test_five_pairs_of_states_have_different_reports(one, other):
    first, second = State(one), State(other)
    assert told(first).code != told(second).code
    assert told(first).text != told(second).text


@pytest.mark.parametrize(
    ("difference", "first"), [("quantity 10 instead of 1", ": quantity 10 instead of 1"), ("", "")]
)
def test_a_corrected_action_is_completed_and_tells_what_it_was_at_first(difference: str, first: str):
    read = (reading(Shown.DIFFERENT, "VALUE_MISMATCH", difference=difference), reading(Shown.AS_REQUESTED, seq=7))
    found = told(State.RECONCILED_SUCCESS, readings=read, remedies={"correction": 6})
    assert (found.code, found.completed) == (StatusCode.COMPLETED, True)
    assert found.text == (
        f"Done after a correction, and confirmed in the system of record. At first it was not as requested{first}."
    )
    assert found.claims == ((Claim.SAW_REQUESTED, (7,)), (Claim.SAW_OTHERWISE, (5,)))


def test_a_report_given_on_an_event_may_have_only_the_codes_of_what_that_event_left():
    """The check of the record compares each stored report with these."""
    left = in_state(State.RECONCILED_SUCCESS)
    codes = {
        (Outcome.VERIFIED, False): {"COMPLETED"},
        (Outcome.ATTESTED, False): {"ATTESTED"},
        (Outcome.ACCEPTED_AS_IT_IS, False): {"ACCEPTED_AS_IT_IS"},
        (Outcome.VERIFIED, True): {"FINAL_STATE_UNKNOWN"},
        (Outcome.ATTESTED, True): {"FINAL_STATE_UNKNOWN"},
    }
    for (outcome, contradicted), wanted in codes.items():
        found = possible_codes(State.RECONCILED_SUCCESS, left, outcome=outcome, contradicted=contradicted)
        assert {str(each) for each in found} == wanted
    critical = in_state(State.RECONCILED_SUCCESS, side_effect_class="CRITICAL_MUTATION")
    assert possible_codes(State.RECONCILED_SUCCESS, critical, outcome=Outcome.VERIFIED, contradicted=False) == {
        StatusCode.COMPLETED,
        StatusCode.VERIFIED_RECONCILIATION_IN_PROGRESS,
    }


def test_a_read_whose_outcome_is_unknown_changed_nothing():
    assert told(State.UNKNOWN, side_effect_class="READ_ONLY", readings=()).text == (
        "It is not known whether what was read can be relied on. It was a read: nothing was changed."
    )


READ: dict[str, Any] = {"side_effect_class": "READ_ONLY", "is_answer_only": True}


@pytest.mark.parametrize(
    ("readings", "text"),
    [
        ((), "The read failed; nothing was changed."),
        (
            (reading(Shown.NOT_READ, "VALUE_MISMATCH"),),
            "The answer does not fit what the tool promises, and is not to be used; nothing was changed.",
        ),
        (
            (reading(Shown.NOT_READ, "UNVERIFIABLE_STATE"),),
            "Where the answer came from is not certain, and it is not to be used; nothing was changed.",
        ),
    ],
)
def test_a_read_without_a_usable_answer_says_that_nothing_was_changed(readings: tuple[Any, ...], text: str):
    report = told(State.FAILED, readings=readings, **READ)
    assert (report.text, report.completed) == (text, False)
