"""Reports: what may be told in each state, and that nothing but proven success is called done."""

from __future__ import annotations

import itertools

import pytest

from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE, Outcome
from reviews.reporting.rules.recovery_report import OngoingRecovery, Part, PartOutcome, RecoveryStage, parts_of
from reviews.reporting.rules.report import ALLOWED, OutcomeFamily, StatusCode, axes, build_report, headline
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


def told(state, *, trust_level=3, recovery_ids=None, **changes):
    options = {name: changes.pop(name) for name in list(changes) if name in OPTIONS}
    blocks = changes if recovery_ids is None else changes | {"recovery": recovery_ids}
    return build_report(state, in_state(state, **blocks), trust_level=trust_level, **options)


OPTIONS = {"completes_critical", "contradicted", "outcome", "recovery", "parts"}


@pytest.mark.req("R-RI-01", "R-RI-03", "R-RI-05", "R-RI-07", "R-RI-08", "R-RI-12")
@pytest.mark.parametrize("state", State)
def test_every_state_has_its_report(state):
    found = told(state)
    assert found.code == USUAL[state]
    assert found.code in ALLOWED[state]
    assert found.text.endswith(".")
    assert found.completed == (state is State.RECONCILED_SUCCESS)


RECOVERIES = [None, *(OngoingRecovery(relation, stage) for relation in Relation for stage in RecoveryStage)]
PARTS = (
    Part("euros", PartOutcome.APPLIED),
    Part("dollars", PartOutcome.APPLIED),
    Part("pounds", PartOutcome.NOT_APPLIED),
)
CLAUSE = "euros and dollars took effect; pounds did not take effect"


@pytest.mark.req("R-RI-09", "R-RI-10", "R-CX-04")
def test_only_reconciled_success_is_ever_completed():
    for state, *flags in itertools.product(State, [True, False], [True, False], RECOVERIES, [PARTS, ()]):
        contradicted, attested, recovery, parts = flags
        by_word = attested and state is State.RECONCILED_SUCCESS and not contradicted
        outcome = Outcome.ATTESTED if by_word else BY_STATE[state]
        found = told(state, contradicted=contradicted, outcome=outcome, recovery=recovery, parts=parts, trust_level=4)
        assert found.completed == (found.code in (StatusCode.COMPLETED, StatusCode.ANSWERED))
        assert found.completed <= (state is State.RECONCILED_SUCCESS and not contradicted)
        assert found.code in ALLOWED[state] or contradicted


@pytest.mark.parametrize("state", State)
def test_a_contradiction_outweighs_every_state(state):
    found = told(state, contradicted=True)
    assert (found.code, found.completed) == (StatusCode.FINAL_STATE_UNKNOWN, False)
    assert "contradicts" in found.text


@pytest.mark.req("R-RI-02")
def test_pending_without_an_answer_is_only_an_attempt():
    silent = build_report(State.PENDING, entry(), trust_level=0)
    assert silent.code is StatusCode.ATTEMPTED_RESULT_UNKNOWN


@pytest.mark.req("R-RI-01")
def test_what_failed_before_it_ran_was_not_executed():
    found = told(State.FAILED, execution="NOT_EXECUTED", verification="NOT_REQUIRED")
    assert found.code is StatusCode.NOT_EXECUTED


def test_nothing_happened_is_said_only_where_absence_was_read():
    proven = told(State.FAILED, verification="VERIFIED").text
    other = told(State.FAILED, verification="FAILED").text
    assert "nothing happened" in proven
    assert "nothing happened" not in other


@pytest.mark.req("R-VD-15")
def test_a_critical_mutation_is_completed_only_with_all_that_its_class_binds_it_to():
    critical = {"side_effect_class": "CRITICAL_MUTATION"}
    assert not told(State.RECONCILED_SUCCESS, trust_level=3, **critical).completed
    assert told(State.RECONCILED_SUCCESS, trust_level=4, **critical).completed
    assert told(State.RECONCILED_SUCCESS, trust_level=3, completes_critical=True, **critical).completed


def test_a_failure_on_the_executors_word_says_whose_word_it_is():
    record = in_state(State.FAILED, execution="FAILED", verification="NOT_REQUIRED")
    found = build_report(State.FAILED, record, trust_level=1)
    assert found.text == "Failed before anything was sent, on the executor's word; no reading confirms it."
    assert headline(State.FAILED, record) == "Failed before anything was sent, on the executor's word"
    assert axes(State.FAILED, record).effect.text == "Nothing was sent, on the executor's word"


def partial(state, **options):
    return told(state, finding="PARTIAL_APPLICATION", parts=PARTS, **options).text


def test_what_was_done_in_part_is_told_until_it_is_settled():
    assert partial(State.PARTIALLY_COMMITTED) == f"Done in part: {CLAUSE}."
    held = partial(State.REVIEW_REQUIRED)
    assert held.startswith(f"Done in part: {CLAUSE}. Not settled. A person decides what follows")
    compensating = partial(State.COMPENSATING, recovery=OngoingRecovery(Relation.COMPENSATION, RecoveryStage.RUNNING))
    assert compensating.startswith(f"Done in part: {CLAUSE}. It is being reversed: the compensation")
    forward = partial(State.FORWARD_RECOVERY, recovery=OngoingRecovery(Relation.FORWARD, RecoveryStage.VERIFIED))
    assert forward.endswith("the forward recovery is settled, and the whole is being read again.")


def test_what_was_done_in_part_is_told_after_it_was_settled():
    finished = told(State.RECONCILED_SUCCESS, parts=PARTS, recovery_ids={"recovery_action_id": "a-2"}).text
    assert finished.endswith(
        f" At first it was done in part: {CLAUSE}. After a forward recovery a reading showed all of it."
    )
    reversed_ = partial(State.COMPENSATED)
    assert reversed_.endswith(f" the reversal is confirmed. Before that it was done in part: {CLAUSE}.")
    for state, options in (
        (State.RECONCILED_SUCCESS, {"outcome": Outcome.ATTESTED}),
        (State.RECONCILED_SUCCESS, {"contradicted": True}),
        (State.FAILED, {}),
        (State.ABANDONED, {}),
        (State.PENDING, {}),
    ):
        text = partial(state, **options)
        assert text.endswith(f" A reading had found it done in part: {CLAUSE}."), text
        assert "showed all of it" not in text


def test_a_recovery_that_did_not_settle_it_is_told_with_the_parts():
    held = partial(State.REVIEW_REQUIRED, recovery_ids={"recovery_action_id": "a-2"})
    assert f"{CLAUSE}. A forward recovery did not settle it. Not settled." in held


def test_each_finding_of_a_part_has_its_words():
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


def test_what_was_attested_is_told_as_attested():
    """And never as completed, whatever a reading before it had shown."""
    done = told(State.RECONCILED_SUCCESS, outcome=Outcome.ATTESTED, trust_level=4)
    assert (done.code, done.completed) == (StatusCode.ATTESTED, False)
    assert done.text == "A person has attested that it took effect; it was not verified by a reading."
    absent = told(State.FAILED, outcome=Outcome.ATTESTED_ABSENT, verification="VERIFIED")
    assert absent.text == "A person has attested that nothing happened; it was not verified by a reading."
    failed = told(State.FAILED, outcome=Outcome.SETTLED_AS_FAILED, verification="VERIFIED")
    assert failed.text == "A person settled it as failed; it was not verified by a reading."


def test_what_cannot_be_checked_says_so():
    found = told(State.UNKNOWN, verification="UNVERIFIABLE")
    assert found.code is StatusCode.FINAL_STATE_UNKNOWN
    assert "no reliable way" in found.text


def test_a_rollback_that_is_ordered_is_no_failure_but_a_recovery():
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
def test_five_pairs_are_never_confused(one, other):
    first, second = State(one), State(other)
    assert told(first).code != told(second).code
    assert told(first).text != told(second).text
    assert headline(first, in_state(first)) != headline(second, in_state(second))


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_headline_three_axes_and_a_look(state):
    for execution, verification in itertools.product(*(LEDGER[state][one] for one in ("execution", "verification"))):
        shown = in_state(state, execution=execution, verification=verification)
        assert headline(state, shown)
        found = axes(state, shown)
        assert found.decision.text
        assert found.execution.text
        assert found.effect.text
        looks_done = found.effect.family is OutcomeFamily.TRUE
        assert looks_done == (state is State.RECONCILED_SUCCESS)


def test_the_headline_says_what_was_found():
    held = in_state(State.REVIEW_REQUIRED, finding="NO_OP_FAILURE", verification="FAILED")
    assert headline(State.REVIEW_REQUIRED, held) == "Needs review: nothing changed"
    found = axes(State.REVIEW_REQUIRED, held, approval="CONSUMED")
    assert found.effect.text == "Nothing changed"
    assert found.effect.family is OutcomeFamily.FALSE
    assert found.decision.text == "Approved"


def test_the_headline_of_what_is_held_says_what_recovery_was_tried():
    held = in_state(State.REVIEW_REQUIRED, finding="VALUE_MISMATCH", verification="FAILED")
    held["recovery"] = {"compensation_action_id": "a-1", "rollback_action_id": None}
    said = "Needs review: values differ from the request; a reversal did not settle it"
    assert headline(State.REVIEW_REQUIRED, held) == said


def test_approved_never_hides_approved_and_failed():
    gone = in_state(State.FAILED, verification="VERIFIED")
    found = axes(State.FAILED, gone, approval="CONSUMED")
    assert [one.text for one in (found.decision, found.execution, found.effect)] == [
        "Approved",
        "Failed",
        "None, confirmed",
    ]


def test_an_action_that_waits_for_people_says_so():
    waiting = in_state(State.VALIDATED)
    assert headline(State.VALIDATED, waiting, outcome=Outcome.WAITING_FOR_APPROVAL) == "Waiting for approval"
    assert headline(State.VALIDATED, waiting, outcome=Outcome.APPROVED, approval="APPROVED") == "Ready to run"


def test_a_contradicted_action_shows_it_everywhere():
    settled = in_state(State.RECONCILED_SUCCESS)
    assert "contradicted" in headline(State.RECONCILED_SUCCESS, settled, outcome=Outcome.CONTRADICTED)
    found = axes(State.RECONCILED_SUCCESS, settled, outcome=Outcome.CONTRADICTED)
    assert found.effect.family is OutcomeFamily.UNKNOWN
