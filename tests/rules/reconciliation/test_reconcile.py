"""The heart: what each combination of claim and reading leads to (the live example's table, and more)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.catalogue.rules.contract import Source
from ledger.catalogue.rules.effects import Boundary, Reversibility, SideEffectClass
from ledger.catalogue.rules.remedies import Recovery, Relation, Remedy
from ledger.record.rules.lifecycle import State
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.reconciliation.rules.facts import ReadFailure
from reviews.reconciliation.rules.reading import Consistency, ReadEffect
from reviews.reconciliation.rules.reconcile import contradicts, reconcile
from reviews.reconciliation.rules.verdict import MAX_ATTEMPTS, VerificationResult
from reviews.recovery.rules.recovery_table import ROWS, RecoveryPolicy
from reviews.recovery.rules.remedies import RELATIONS
from reviews.verification.rules.verification import judge_run
from tests.support.verification_runs import (
    FACTS,
    FIELDS,
    HORIZON,
    LATER,
    MEDIUM,
    SLA,
    START,
    SUCCESS,
    entry,
    failed,
    inputs,
    no_refund,
    reading,
    refund,
    walk,
)

REVIEWED = ["COMMITTED", "RECONCILIATION_FAILED", "REVIEW_REQUIRED"]
SUCCEEDED = ["COMMITTED", "RECONCILED_SUCCESS"]
TOOLS = {"cancel_refund": frozenset({"amount", "reason"}), "undo": frozenset({"order_id"})}


def at(seconds: float):
    return START + timedelta(seconds=seconds)


class TestTheTableOfTheExample:
    @pytest.mark.req("R-RC-01", "R-SM-06", "R-EX-05")
    def test_a_refund_present_as_requested_succeeds(self):
        outcome, passed, snapshot = walk(inputs(reading()))
        assert passed == SUCCEEDED
        assert not outcome.case
        assert outcome.next_read_at is None
        assert snapshot["idempotency"]["status"] == "COMPLETED"
        assert snapshot["reconciliation"]["discrepancy_class"] is None
        assert snapshot["verification"]["verified_state_pointer"] == "ev-2"

    @pytest.mark.req("R-DC-02", "R-RP-04", "R-SM-25")
    def test_a_claimed_success_without_an_effect_is_held(self):
        outcome, passed, snapshot = walk(inputs(reading(no_refund())))
        assert passed == REVIEWED
        assert outcome.case
        assert outcome.decision.row == "RT-04"
        assert snapshot["reconciliation"] == {
            "status": "REVIEW_REQUIRED",
            "discrepancy_class": "NO_OP_FAILURE",
            "recovery_decision": "RT-04 HOLD_AND_ESCALATE",
        }

    @pytest.mark.req("R-DC-03", "R-RP-04")
    def test_a_wrong_amount_is_held(self):
        wrong = refund(fields=FIELDS | {"amount": 100_000})
        outcome, passed, snapshot = walk(inputs(reading(wrong)))
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-04"
        assert snapshot["reconciliation"]["discrepancy_class"] == "VALUE_MISMATCH"
        false = [one for one in outcome.verdict.predicates if one.holds == "FALSE"]
        assert [(one.expected, one.actual) for one in false] == [(1000, 100_000)]

    @pytest.mark.parametrize("status", [ReportedStatus.ACCEPTED, ReportedStatus.SUCCESS, None])
    def test_what_the_source_has_accepted_for_later_is_neither_done_nor_absent(self, status):
        observation = ParsedObservation(status=status) if status else None
        scheduled = reading(ReadEffect(name="refund", present=None, pending=True), observed_at=HORIZON + timedelta(1))
        verdict = reconcile(inputs(scheduled, observation=observation, at=at(40)))
        assert (verdict.result, verdict.decisive) == (VerificationResult.PENDING, False)
        assert verdict.reason == "Accepted by the source, and not carried out yet: refund."
        late = reconcile(inputs(scheduled, observation=observation, at=max(SLA, HORIZON) + timedelta(1)))
        assert (late.result, late.decisive, late.timed_out) == (VerificationResult.UNKNOWN, False, True)
        assert late.reason == "No verdict came in time. Accepted by the source, and not carried out yet: refund."

    @pytest.mark.req("R-DC-06", "R-EX-18", "R-RP-12", "R-RP-49")
    def test_a_refund_written_twice_freezes_the_target(self):
        outcome, passed, snapshot = walk(inputs(reading(refund(count=2))))
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-12"
        assert outcome.incident == "operations"
        assert outcome.freeze == ("order/o-17",)
        assert snapshot["reconciliation"]["discrepancy_class"] == "DUPLICATE_SIDE_EFFECT"

    @pytest.mark.req("R-EX-07", "R-RP-07", "R-SM-12")
    def test_an_executor_that_died_after_the_write_succeeds_by_a_reading(self):
        lapsed = inputs(state=State.UNKNOWN, observation=None, at=at(30))
        outcome, passed, snapshot = walk(lapsed)
        assert passed == ["PENDING"]
        assert outcome.next_read_at is not None
        found = inputs(reading(), observation=None, entry=snapshot)
        outcome, passed, snapshot = walk(found)
        assert passed == SUCCEEDED
        assert not outcome.case
        assert snapshot["reconciliation"]["recovery_decision"] == "RT-07 POLL_IDEMPOTENCY_RECORD"

    @pytest.mark.req("R-EX-07", "R-RP-07", "R-SM-05")
    def test_an_executor_that_died_before_the_write_fails_only_after_the_horizon(self):
        _, _, snapshot = walk(inputs(state=State.UNKNOWN, observation=None, at=at(30)))
        early = inputs(reading(no_refund(), observed_at=at(40)), observation=None, at=at(41), entry=snapshot)
        outcome, passed, snapshot = walk(early)
        assert passed == []
        assert outcome.decision.row == "RT-07"
        assert outcome.next_read_at
        assert at(41) < outcome.next_read_at <= HORIZON
        late = inputs(reading(no_refund()), observation=None, entry=snapshot)
        outcome, passed, snapshot = walk(late)
        assert passed == ["FAILED"]
        assert not outcome.case
        assert snapshot["idempotency"]["status"] == "FAILED_RETRYABLE"
        assert snapshot["verification"]["status"] == "VERIFIED"
        assert snapshot["reconciliation"]["recovery_decision"] == "RT-07 POLL_IDEMPOTENCY_RECORD"

    @pytest.mark.req("R-DC-05", "R-RP-09", "R-RP-50", "R-SM-07")
    def test_one_of_two_effects_is_partial_and_held(self):
        two = replace(FACTS, required_effects=("refund", "notice"), predicates=())
        absent = ReadEffect(name="notice", present=False)
        outcome, passed, snapshot = walk(inputs(reading(refund(), absent), facts=two))
        assert passed == ["COMMITTED", "PARTIALLY_COMMITTED", "REVIEW_REQUIRED"]
        assert outcome.case
        assert outcome.decision.row == "RT-09"
        assert outcome.decision.wanted is State.COMPENSATING
        assert "names no tool" in str(outcome.decision.held_because)
        assert (outcome.verdict.done, outcome.verdict.open) == (("refund",), ("notice",))
        assert snapshot["reconciliation"]["discrepancy_class"] == "PARTIAL_APPLICATION"

    @pytest.mark.req("R-DC-09", "R-RP-01", "R-VD-11")
    def test_a_late_consumer_is_waited_for(self):
        lagging = inputs(reading(refund(pending=True)))
        outcome, passed, snapshot = walk(lagging)
        assert passed == []
        assert outcome.decision.row == "RT-01"
        assert snapshot["reconciliation"]["discrepancy_class"] == "PROPAGATION_DELAY"
        again = judge_run(replace(lagging, entry=snapshot, attempts=1))
        assert again.steps == ()
        outcome, passed, snapshot = walk(inputs(reading(), entry=snapshot, attempts=2))
        assert passed == SUCCEEDED
        assert snapshot["reconciliation"]["discrepancy_class"] is None
        assert snapshot["reconciliation"]["recovery_decision"] == "RT-01 RETRY_VERIFICATION"

    @pytest.mark.req("R-DC-04", "R-EX-17", "R-RP-11")
    def test_a_refused_version_fails_after_a_strong_reading(self):
        refused = failed("STALE_STATE")
        early = reading(no_refund(), observed_at=at(5))
        assert walk(inputs(early, observation=refused, at=at(5)))[1] == []
        outcome, passed, snapshot = walk(inputs(reading(no_refund()), observation=refused))
        assert passed == ["FAILED"]
        assert not outcome.case
        assert outcome.decision.row == "RT-11"
        assert snapshot["idempotency"]["status"] == "FAILED_FINAL"
        assert snapshot["reconciliation"]["discrepancy_class"] == "STALE_STATE"
        assert outcome.verdict.reason == (
            "A strong read shows no effect. The tool refused it, because the target had changed (STALE_STATE)."
        )


class TestEvidenceIsNotTruth:
    @pytest.mark.req("R-OB-03", "R-EX-24")
    def test_a_claim_without_a_reading_changes_nothing(self):
        outcome, passed, _ = walk(inputs())
        assert passed == []
        assert outcome.next_read_at is not None

    def test_a_failed_answer_with_an_effect_is_reconciled_by_the_reading(self):
        outcome, passed, _ = walk(inputs(reading(), observation=failed("TIMEOUT_AT_GATEWAY")))
        assert passed == SUCCEEDED
        assert outcome.decision.row is None

    def test_a_failed_answer_with_a_wrong_effect_is_held_by_the_row_for_its_class(self):
        wrong = reading(refund(fields=FIELDS | {"amount": 5}))
        outcome, passed, _ = walk(inputs(wrong, observation=failed("OOPS")))
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-36"

    def test_a_failed_answer_without_effect_fails_after_the_horizon(self):
        early = reading(no_refund(), observed_at=HORIZON - timedelta(microseconds=1))
        assert walk(inputs(early, observation=failed("OOPS")))[1] == []
        _, passed, snapshot = walk(inputs(reading(no_refund()), observation=failed("OOPS")))
        assert passed == ["FAILED"]
        assert snapshot["reconciliation"]["discrepancy_class"] is None

    def test_a_malformed_answer_is_verified_like_any_other(self):
        odd = ParsedObservation(status=ReportedStatus.MALFORMED, fault="not an object")
        assert walk(inputs(reading(), observation=odd))[1] == SUCCEEDED
        assert walk(inputs(reading(no_refund()), observation=odd))[1] == ["FAILED"]

    @pytest.mark.req("R-EX-10", "R-SM-04")
    def test_accepted_work_is_not_called_absent_before_its_deadline(self):
        accepted = ParsedObservation(status=ReportedStatus.ACCEPTED)
        waiting = inputs(reading(no_refund()), observation=accepted, state=State.ACCEPTED)
        outcome, passed, snapshot = walk(waiting)
        assert passed == ["PENDING"]
        assert outcome.next_read_at is not None
        late = inputs(reading(no_refund(), observed_at=SLA), observation=accepted, at=SLA, entry=snapshot)
        outcome, passed, _ = walk(late)
        assert passed == ["VERIFICATION_TIMEOUT", "UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.decision.row == "RT-44"

    def test_a_claimed_success_is_waited_for_until_the_horizon(self):
        early = reading(no_refund(), observed_at=at(5))
        outcome, passed, _ = walk(inputs(early, at=at(5)))
        assert passed == []
        assert outcome.decision.row == "RT-01"


class TestScope:
    @pytest.mark.req("R-RC-06", "R-DC-07", "R-RP-14", "R-RP-48", "R-RP-49")
    @pytest.mark.parametrize(
        ("scope", "frozen"),
        [
            ({"tenant": ("other",), "target": ("o-17",)}, ("order/o-17",)),
            ({"tenant": ("acme",), "target": ("o-18",)}, ("order/o-17", "order/o-18")),
            ({"tenant": ("acme", "other"), "target": ("o-17",)}, ("order/o-17",)),
        ],
    )
    def test_an_effect_outside_the_scope_is_a_wrong_target(self, scope, frozen):
        bare = replace(FACTS, predicates=())
        outcome, passed, snapshot = walk(inputs(reading(refund(scope=scope)), facts=bare))
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-14"
        assert outcome.incident == "security"
        assert outcome.freeze == frozen
        assert snapshot["reconciliation"]["discrepancy_class"] == "WRONG_TARGET_MODIFIED"

    @pytest.mark.req("R-DC-14", "R-RP-25")
    def test_a_wrong_target_outranks_a_wrong_amount_and_a_duplicate(self):
        wrong = refund(count=2, fields=FIELDS | {"amount": 1}, scope={"tenant": ("other",)})
        outcome = judge_run(inputs(reading(wrong)))
        assert outcome.decision.row == "RT-14"
        assert outcome.verdict.discrepancy == "WRONG_TARGET_MODIFIED"
        assert outcome.verdict.secondary == ("DUPLICATE_SIDE_EFFECT", "VALUE_MISMATCH")

    def test_a_row_without_a_tenant_is_undecidable_and_never_a_success(self):
        outcome, passed, _ = walk(inputs(reading(refund(scope={"tenant": (None,)}))))
        assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.decision.row == "RT-16"

    def test_an_escape_from_the_sandbox_is_reported_even_without_a_claim(self):
        escape = reading(ReadEffect(name="refund", present=None), indicators=("path_escapes_sandbox",))
        outcome, passed, _ = walk(inputs(escape, observation=None))
        assert passed == REVIEWED
        assert outcome.incident == "security"


class TestMissingTargets:
    @pytest.mark.req("R-DC-08", "R-RP-01")
    def test_a_missing_target_without_effect_fails(self):
        gone = reading(no_refund(), target={"exists": False})
        outcome, passed, snapshot = walk(inputs(gone, observation=failed("NOT_FOUND")))
        assert passed == ["FAILED"]
        assert outcome.decision.row == "RT-37"
        assert snapshot["reconciliation"]["discrepancy_class"] == "TARGET_MISSING"

    def test_a_missing_target_after_a_claim_is_held(self):
        gone = reading(no_refund(), target={"exists": False})
        outcome, passed, _ = walk(inputs(gone))
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-38"
        assert outcome.verdict.secondary == ("NO_OP_FAILURE",)


class TestNoOps:
    @pytest.mark.req("R-DC-01")
    def test_a_state_that_held_before_succeeds_where_the_contract_allows_it(self):
        permitted = replace(FACTS, no_op_success_allowed=True)
        outcome, passed, snapshot = walk(inputs(reading(), baseline=reading(), facts=permitted))
        assert passed == SUCCEEDED
        assert outcome.decision.row == "RT-31"
        assert snapshot["reconciliation"]["discrepancy_class"] == "NO_OP_SUCCESS"

    def test_a_changed_baseline_holds_the_action_for_review(self):
        outcome, passed, _ = walk(inputs(reading(), baseline=reading()))
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-32"

    def test_a_weak_baseline_proves_nothing(self):
        before = reading(consistency=Consistency.REPLICA)
        assert walk(inputs(reading(), baseline=before))[1] == SUCCEEDED

    def test_a_version_that_did_not_advance_is_not_a_success(self):
        outcome, passed, _ = walk(inputs(reading(indicators=("stale_version",))))
        assert passed == REVIEWED
        assert outcome.verdict.discrepancy == "NO_OP_FAILURE"


class TestWeakReadings:
    @pytest.mark.req("R-VD-09", "R-RP-02")
    @pytest.mark.parametrize("consistency", ["REPLICA", "CACHE", "STALE_ENDPOINT", "UNDECLARED"])
    @pytest.mark.parametrize("effect", [refund(), no_refund(), refund(count=2)])
    def test_a_weak_source_decides_nothing(self, consistency, effect):
        weak = reading(effect, consistency=Consistency(consistency))
        outcome, passed, _ = walk(inputs(weak))
        assert passed == []
        assert outcome.decision.row == "RT-02"
        assert outcome.next_read_at is not None

    def test_a_source_that_cannot_prove_freshness_is_weak(self):
        outcome = judge_run(inputs(reading(indicators=("freshness_not_guaranteed",))))
        assert outcome.decision.row == "RT-02"
        assert outcome.state is State.PENDING

    def test_one_weak_source_makes_the_reading_weak(self):
        weak = reading(source="replica", consistency=Consistency.REPLICA)
        assert judge_run(inputs(reading(), weak)).decision.row == "RT-02"

    def test_verification_times_out_without_a_strong_reading(self):
        weak = reading(consistency=Consistency.REPLICA)
        _, passed, snapshot = walk(inputs(weak, at=SLA))
        assert passed == ["VERIFICATION_TIMEOUT", "UNKNOWN", "REVIEW_REQUIRED"]
        assert snapshot["verification"]["status"] == "TIMEOUT"


class TestWhatCannotBeTold:
    @pytest.mark.req("R-RC-04")
    def test_a_missing_field_is_never_a_success(self):
        partial = refund(fields={"amount": 1000})
        outcome, passed, snapshot = walk(inputs(reading(partial)))
        assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.decision.row == "RT-16"
        assert snapshot["verification"]["status"] == "UNVERIFIABLE"

    def test_a_false_predicate_outweighs_an_undecidable_one(self):
        partial = refund(fields={"amount": 999})
        assert judge_run(inputs(reading(partial))).decision.row == "RT-04"

    @pytest.mark.req("R-DC-10", "R-RP-15", "R-SM-26")
    def test_an_unverifiable_low_risk_action_stays_unknown_without_a_case(self):
        low = replace(MEDIUM, side_effect_class=SideEffectClass.LOW_RISK_INTERNAL, verifiable=False)
        outcome, passed, snapshot = walk(inputs(facts=low))
        assert passed == ["UNKNOWN"]
        assert outcome.decision.row == "RT-15"
        assert outcome.settled
        assert outcome.next_read_at is None
        assert not outcome.case
        assert snapshot["verification"]["status"] == "UNVERIFIABLE"

    @pytest.mark.req("R-RP-16")
    @pytest.mark.parametrize(
        ("kind", "row"),
        [("MEDIUM_RISK_WRITE", "RT-41"), ("HIGH_RISK_EXTERNAL", "RT-16")],
    )
    def test_an_unverifiable_risky_action_waits_for_a_person(self, kind, row):
        facts = replace(FACTS, side_effect_class=SideEffectClass(kind), verifiable=False)
        outcome, passed, _ = walk(inputs(facts=facts))
        assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.decision.row == row

    def test_a_check_that_can_never_work_makes_the_action_unverifiable(self):
        outcome = judge_run(inputs(failure=ReadFailure("permission denied", retryable=False)))
        assert outcome.decision.row == "RT-16"

    @pytest.mark.req("R-RP-19", "R-VD-16", "R-FB-10")
    def test_an_outage_is_held_and_retried_until_the_deadline(self):
        down = ReadFailure("connection refused", retryable=True)
        outcome, passed, _ = walk(inputs(failure=down))
        assert passed == []
        assert outcome.decision.row == "RT-19"
        assert outcome.next_read_at is not None
        outcome, passed, _ = walk(inputs(failure=down, at=SLA))
        assert passed == ["VERIFICATION_TIMEOUT", "UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.decision.row == "RT-44"

    @pytest.mark.req("R-RP-05", "R-RP-06", "R-VD-12")
    @pytest.mark.parametrize(
        ("facts", "row", "path"),
        [
            (FACTS, "RT-44", ["VERIFICATION_TIMEOUT", "UNKNOWN", "REVIEW_REQUIRED"]),
            (MEDIUM, "RT-05", ["VERIFICATION_TIMEOUT", "REVIEW_REQUIRED"]),
            (
                replace(MEDIUM, reversibility=FACTS.reversibility),
                "RT-06",
                ["VERIFICATION_TIMEOUT", "UNKNOWN", "REVIEW_REQUIRED"],
            ),
            (
                replace(MEDIUM, side_effect_class=SideEffectClass.READ_ONLY),
                "RT-43",
                ["VERIFICATION_TIMEOUT", "UNKNOWN"],
            ),
        ],
    )
    def test_a_missing_verdict_follows_the_row_for_its_class(self, facts, row, path):
        outcome, passed, _ = walk(inputs(facts=facts, at=SLA))
        assert outcome.decision.row == row
        assert passed == path

    @pytest.mark.req("R-RP-39")
    def test_a_consumer_that_never_catches_up_is_held(self):
        outcome, passed, _ = walk(inputs(reading(refund(pending=True)), at=SLA))
        assert outcome.decision.row == "RT-40"
        assert passed == ["VERIFICATION_TIMEOUT", "REVIEW_REQUIRED"]

    def test_the_deadline_is_not_before_the_horizon(self):
        soon = inputs(reading(no_refund(), observed_at=at(30)), sla_at=at(10), at=at(30), observation=None)
        outcome, passed, _ = walk(soon)
        assert passed == []
        assert outcome.next_read_at
        assert outcome.next_read_at <= HORIZON

    @pytest.mark.req("R-VD-14")
    def test_the_number_of_readings_is_limited(self):
        outcome = judge_run(inputs(attempts=MAX_ATTEMPTS))
        assert outcome.decision.row == "RT-44"

    @pytest.mark.req("R-RP-08", "R-EX-22")
    @pytest.mark.parametrize(("status", "row"), [(None, "RT-08"), ("EXPIRED", "RT-49")])
    def test_an_action_without_a_durable_record_is_reconciled_by_a_person(self, status, row):
        lapsed = inputs(state=State.UNKNOWN, observation=None, idempotency_status=status)
        outcome, passed, _ = walk(lapsed)
        assert passed == ["REVIEW_REQUIRED"]
        assert outcome.decision.row == row
        assert outcome.freeze == ("order/o-17",)

    @pytest.mark.parametrize("status", ["FAILED_RETRYABLE", "FAILED_FINAL", "COMPLETED"])
    @pytest.mark.parametrize("state", [State.UNKNOWN, State.PENDING])
    def test_an_idempotency_record_never_fails_an_action_without_a_reading(self, status, state):
        silent = inputs(state=state, observation=None, idempotency_status=status)
        outcome, passed, _ = walk(silent)
        assert outcome.state is State.PENDING
        read = replace(silent, readings=(reading(no_refund()),))
        outcome, passed, _ = walk(read)
        assert passed[-1:] == ["FAILED"]


class TestReadOnly:
    FACTS = replace(
        MEDIUM,
        side_effect_class=SideEffectClass.READ_ONLY,
        required_effects=(),
        predicates=("sa.target.owner == sr.owner",),
    )

    def looked_up(self, **changes):
        found = reading(target={"exists": True, "owner": "ada"})
        return inputs(replace(found, effects=()), facts=self.FACTS, sr={"owner": "ada"}, **changes)

    @pytest.mark.req("R-VD-01")
    def test_a_verified_read_succeeds(self):
        assert walk(self.looked_up())[1] == SUCCEEDED

    def test_a_failed_read_is_not_a_success(self):
        assert walk(self.looked_up(observation=failed("NOPE")))[1] == ["FAILED"]

    def test_a_silent_read_may_be_repeated_where_the_contract_allows_it(self):
        outcome, passed, _ = walk(self.looked_up(observation=None))
        assert (outcome.decision.row, passed) == ("RT-45", ["FAILED"])
        outcome, passed, _ = walk(self.looked_up(observation=None, retry_safe=True))
        assert passed == ["FAILED", "VALIDATED"]

    @pytest.mark.req("R-VD-01")
    def test_a_reading_of_another_tenant_is_reviewed_without_a_freeze(self):
        found = refund(scope={"tenant": ("other",)})
        facts = replace(self.FACTS, required_effects=("refund",), predicates=())
        outcome, passed, _ = walk(inputs(reading(found), facts=facts))
        assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.verdict.discrepancy == "WRONG_TARGET_MODIFIED"
        assert outcome.freeze == ()

    def test_duplicates_of_an_effect_do_not_matter_for_a_read(self):
        facts = replace(self.FACTS, required_effects=("refund",), predicates=())
        assert walk(inputs(reading(refund(count=3)), facts=facts))[1] == SUCCEEDED


BANK = Source(name="bank", pattern="payments", system="bank", predicates=("sa.amount == sr.amount",), document={})


def bank(*effects, **changes):
    return reading(*effects, source="bank-test", name="bank", **changes)


class TestCriticalMutations:
    FACTS = replace(FACTS, side_effect_class=SideEffectClass.CRITICAL_MUTATION, further=(BANK,))

    @pytest.mark.req("R-RC-13", "R-VD-06")
    def test_every_source_must_agree(self):
        one = inputs(reading(), facts=self.FACTS)
        assert walk(one)[1] == []
        both = inputs(reading(), bank(), facts=self.FACTS)
        assert walk(both)[1] == SUCCEEDED

    @pytest.mark.req("R-RC-13", "R-VD-06")
    def test_contradicting_sources_are_frozen_and_held(self):
        split = inputs(reading(), bank(no_refund()), facts=self.FACTS)
        outcome, passed, _ = walk(split)
        assert passed == ["COMMITTED", "PARTIALLY_COMMITTED", "REVIEW_REQUIRED"]
        assert outcome.decision.row == "RT-54"
        assert outcome.freeze == ("order/o-17",)

    @pytest.mark.req("R-RC-13", "R-VD-06")
    def test_another_amount_in_one_source_freezes_and_holds(self):
        wrong = inputs(reading(), bank(refund(fields=FIELDS | {"amount": 9})), facts=self.FACTS)
        outcome, passed, _ = walk(wrong)
        assert (outcome.verdict.discrepancy, passed) == ("VALUE_MISMATCH", REVIEWED)
        assert outcome.freeze == ("order/o-17",)

    @pytest.mark.req("R-VD-06", "R-VD-16")
    def test_a_source_that_stays_silent_ends_in_review_and_a_freeze(self):
        silent = (ReadFailure("It is down.", retryable=True, source="bank"),)
        waiting = inputs(reading(), facts=self.FACTS, silent=silent)
        outcome, passed, _ = walk(waiting)
        assert (outcome.decision.row, passed) == ("RT-19", [])
        outcome, passed, _ = walk(replace(waiting, at=SLA))
        assert passed == ["VERIFICATION_TIMEOUT", "UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.decision.row == "RT-44"
        assert outcome.freeze == ("order/o-17",)

    @pytest.mark.req("R-VD-06", "R-VD-09")
    def test_a_weak_source_does_not_count_as_a_second_source(self):
        weak = bank(consistency=Consistency.REPLICA)
        assert walk(inputs(reading(), weak, facts=self.FACTS))[1] == []

    @pytest.mark.req("R-RC-13", "R-VD-06")
    @pytest.mark.parametrize(("found", "answer"), [(refund(), SUCCESS), (no_refund(), failed("NOPE"))])
    def test_one_declared_source_proves_neither_success_nor_absence(self, found, answer):
        alone = inputs(reading(found), facts=replace(self.FACTS, further=()), observation=answer)
        outcome, passed, _ = walk(alone)
        assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
        assert outcome.verdict.discrepancy == "UNVERIFIABLE_STATE"

    def test_a_source_may_cover_only_one_of_two_effects(self):
        facts = replace(self.FACTS, required_effects=("refund", "notice"))
        notice = refund(name="notice", scope={})
        assert walk(inputs(reading(refund(), notice), bank(), facts=facts))[1] == SUCCEEDED


class TestWitnesses:
    FACTS = replace(FACTS, further=(BANK,))

    @pytest.mark.req("R-VD-05")
    def test_the_primary_source_decides_while_the_other_is_silent(self):
        silent = (ReadFailure("It is down.", retryable=True, source="bank"),)
        assert walk(inputs(reading(), facts=self.FACTS, silent=silent))[1] == SUCCEEDED
        assert walk(inputs(reading(), bank(consistency=Consistency.CACHE), facts=self.FACTS))[1] == SUCCEEDED

    @pytest.mark.parametrize("found", [no_refund(), refund(fields=FIELDS | {"amount": 9}), refund(fields={})])
    def test_a_source_that_disagrees_prevents_success(self, found):
        split = inputs(reading(), bank(found), facts=self.FACTS)
        assert walk(split)[1] == []
        outcome, passed, _ = walk(replace(split, at=SLA))
        assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
        assert "disagree" in outcome.verdict.reason

    def test_absence_is_not_concluded_while_one_source_shows_the_effect(self):
        split = inputs(reading(no_refund()), bank(), facts=self.FACTS, observation=failed("NOPE"))
        assert walk(split)[1] == []
        assert walk(replace(split, at=SLA))[1] == ["UNKNOWN", "REVIEW_REQUIRED"]

    @pytest.mark.req("R-DC-06", "R-DC-07")
    @pytest.mark.parametrize(
        ("found", "discrepancy"),
        [
            (refund(count=2), "DUPLICATE_SIDE_EFFECT"),
            (refund(scope={"target": ("o-18",)}), "WRONG_TARGET_MODIFIED"),
        ],
    )
    def test_a_serious_discrepancy_in_any_source_decides(self, found, discrepancy):
        outcome, passed, _ = walk(inputs(reading(), bank(found), facts=self.FACTS))
        assert (outcome.verdict.discrepancy, passed) == (discrepancy, REVIEWED)


class TestAlternates:
    FACTS = replace(
        FACTS,
        side_effect_class=SideEffectClass.READ_ONLY,
        reversibility=Reversibility.REVERSIBLE,
        further=(BANK,),
    )
    DOWN = ReadFailure("It is down.", retryable=True)

    @pytest.mark.req("R-VD-01")
    def test_an_alternate_source_replaces_one_that_is_down_or_weak(self):
        assert walk(inputs(bank(), facts=self.FACTS, failure=self.DOWN))[1] == SUCCEEDED
        assert walk(inputs(reading(consistency=Consistency.CACHE), bank(), facts=self.FACTS))[1] == SUCCEEDED

    @pytest.mark.req("R-VD-01")
    def test_without_any_strong_source_the_system_is_unavailable(self):
        none = inputs(bank(consistency=Consistency.CACHE), facts=self.FACTS, failure=self.DOWN, at=SLA)
        outcome, passed, _ = walk(none)
        assert (outcome.decision.row, passed) == ("RT-43", ["VERIFICATION_TIMEOUT", "UNKNOWN"])


class TestRecoveryBelowHighRisk:
    def test_a_remedy_is_held_if_the_policy_allows_no_automatic_recovery(self):
        nobody = RecoveryPolicy(ROWS, "", automatic=frozenset())
        wrong = inputs(
            reading(refund(fields=FIELDS | {"amount": 1})), facts=MEDIUM, recovery_tools=TOOLS, policy=nobody
        )
        outcome, passed, _ = walk(wrong)
        assert passed == REVIEWED
        assert outcome.decision.row == "RT-03"
        assert "without a person" in str(outcome.decision.held_because)

    @pytest.mark.req("R-RP-03", "R-RP-50")
    def test_a_remedy_runs_without_a_person_if_the_policy_allows_it(self):
        wrong = inputs(
            reading(refund(fields=FIELDS | {"amount": 1})),
            facts=MEDIUM,
            recovery_tools=TOOLS,
        )
        outcome, passed, _ = walk(wrong)
        assert passed == ["COMMITTED", "RECONCILIATION_FAILED", "COMPENSATING"]
        assert not outcome.case

    @pytest.mark.req("R-RP-50", "R-VD-04")
    def test_a_compensated_partial_effect_also_opens_a_case(self):
        both = replace(MEDIUM, required_effects=("refund", "notice"))
        half = reading(refund(), ReadEffect(name="notice", present=False))
        outcome, passed, _ = walk(inputs(half, facts=both, recovery_tools=TOOLS))
        assert passed[-1] == "COMPENSATING"
        assert outcome.case

    def test_an_effect_that_never_happened_is_not_compensated(self):
        never = inputs(reading(no_refund()), facts=MEDIUM, recovery_tools=TOOLS)
        outcome, passed, _ = walk(never)
        assert passed == REVIEWED
        assert "Nothing was found" in str(outcome.decision.held_because)

    def test_a_local_transaction_is_rolled_back_only_before_others_saw_it(self):
        undo = Recovery(whole={Relation.ROLLBACK: Remedy("undo")})
        local = replace(MEDIUM, boundary=Boundary.LOCAL_TRANSACTION, recovery=undo)
        wrong = reading(refund(fields=FIELDS | {"amount": 1}))
        outcome, passed, snapshot = walk(inputs(wrong, facts=local, recovery_tools=TOOLS))
        assert outcome.decision.wanted is State.ROLLED_BACK
        assert passed == ["COMMITTED", "RECONCILIATION_FAILED"]
        after = {"facts": local, "state": State.RECONCILIATION_FAILED, "entry": snapshot}
        assert walk(inputs(reading(no_refund()), **after))[1] == ["ROLLED_BACK"]
        assert walk(inputs(wrong, **after))[1] == ["REVIEW_REQUIRED"]

    @pytest.mark.req("R-RP-36", "R-SM-17")
    def test_a_reported_rollback_is_confirmed_only_by_a_reading(self):
        local = replace(MEDIUM, boundary=Boundary.LOCAL_TRANSACTION)
        said = {"facts": local, "state": State.EXECUTING, "observation": failed("CONFLICT", "rolled_back")}
        assert walk(inputs(reading(no_refund()), **said))[1] == ["ROLLED_BACK"]
        assert walk(inputs(reading(), **said))[1] == ["PENDING", *SUCCEEDED]

    @pytest.mark.req("R-RP-36", "R-SM-17")
    def test_a_reported_rollback_is_waited_for_until_absence_is_certain(self):
        local = replace(MEDIUM, boundary=Boundary.LOCAL_TRANSACTION)
        said = {"facts": local, "state": State.EXECUTING, "observation": failed("CONFLICT", "rolled_back")}
        early = inputs(reading(no_refund(), observed_at=at(0)), **said)
        for waiting in (early, inputs(failure=ReadFailure("down", True), **said)):
            outcome, passed, _ = walk(waiting)
            assert passed == []
            assert not outcome.settled
            assert outcome.next_read_at is not None
            assert outcome.next_read_at > waiting.at
        late = inputs(failure=ReadFailure("down", True), sla_at=at(0), **said)
        assert walk(replace(late, horizon_at=at(0)))[1][:2] == ["PENDING", "VERIFICATION_TIMEOUT"]
        never = replace(local, verifiable=False)
        assert walk(inputs(**said | {"facts": never}))[1][:2] == ["PENDING", "UNKNOWN"]

    @pytest.mark.req("R-DC-11")
    def test_an_effect_in_an_unwinding_run_is_reversed(self):
        given = inputs(reading(), facts=MEDIUM, recovery_tools=TOOLS, unwinding=True)
        outcome, passed, _ = walk(given)
        assert (outcome.decision.row, passed[-1]) == ("RT-51", "COMPENSATING")
        assert outcome.decision.orders[0].arguments == {"amount": 1000}
        bare = inputs(reading(), facts=replace(MEDIUM, recovery=Recovery()), unwinding=True)
        outcome, passed, _ = walk(bare)
        assert (outcome.decision.row, passed[-1]) == ("RT-52", "REVIEW_REQUIRED")
        assert walk(inputs(reading(), facts=MEDIUM, unwinding=True, is_remedy=True))[1] == SUCCEEDED

    @pytest.mark.req("R-RP-33")
    def test_after_a_forward_recovery_the_predicates_of_the_action_decide(self):
        both = replace(FACTS, required_effects=("refund", "notice"))
        later = entry(
            State.FORWARD_RECOVERY,
            execution={"status": "COMMITTED", "observation_pointer": None, "attempt_count": 1},
            reconciliation={
                "status": "RECONCILED_PARTIAL",
                "discrepancy_class": "PARTIAL_APPLICATION",
                "recovery_decision": "RT-10 FORWARD_RECOVERY",
            },
        )
        after = {"facts": both, "state": State.FORWARD_RECOVERY, "entry": later}
        half = reading(refund(), ReadEffect(name="notice", present=False))
        assert walk(inputs(half, **after))[1] == ["REVIEW_REQUIRED"]
        assert walk(inputs(half, brought=frozenset({"notice"}), **after))[1] == ["RECONCILED_SUCCESS"]
        whole = reading(refund(), ReadEffect(name="notice", present=True, count=1))
        assert walk(inputs(whole, **after))[1] == ["RECONCILED_SUCCESS"]


class TestRepeatability:
    @pytest.mark.req("R-RC-14", "R-RP-22", "R-DC-13")
    def test_equal_inputs_give_equal_outcomes(self):
        assert judge_run(inputs(reading(refund(pending=True)))) == judge_run(inputs(reading(refund(pending=True))))

    def test_verifying_a_settled_state_raises_an_error(self):
        with pytest.raises(ValueError, match="not verified"):
            judge_run(inputs(state=State.RECONCILED_SUCCESS, entry=entry()))

    def test_a_later_reading_contradicts_a_settled_outcome(self):
        gone, there = reconcile(inputs(reading(no_refund()))), reconcile(inputs(reading()))
        weak = reconcile(inputs(reading(no_refund(), consistency=Consistency.CACHE)))
        assert contradicts(gone, succeeded=True)
        assert not contradicts(there, succeeded=True)
        assert not contradicts(weak, succeeded=True)
        assert contradicts(there, succeeded=False)
        assert not contradicts(gone, succeeded=False)


OBSERVATIONS = st.sampled_from(
    [None, SUCCESS, failed("X"), failed("STALE_STATE")]
    + [
        ParsedObservation(status=one)
        for one in (ReportedStatus.PENDING, ReportedStatus.ACCEPTED, ReportedStatus.TIMEOUT)
    ]
)
EFFECTS = st.builds(
    lambda present, count, pending, tenant, amount: refund(
        present=present,
        count=count,
        pending=pending,
        scope={} if tenant == "undeclared" else {"tenant": (tenant,)},
        fields={} if amount is None else {"amount": amount, "currency": "EUR"},
    ),
    st.sampled_from([True, False, None]),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["acme", "other", None, "undeclared"]),
    st.sampled_from([1000, 1, None, "1000"]),
)
READINGS = st.builds(
    lambda effect, consistency, late, target, indicators: reading(
        effect,
        consistency=consistency,
        observed_at=LATER if late else at(10),
        target=target,
        indicators=indicators,
    ),
    EFFECTS,
    st.sampled_from(Consistency),
    st.booleans(),
    st.sampled_from([None, {"exists": False}, {"exists": True}]),
    st.sampled_from([(), ("lock_timeout",), ("dead_letter",), ("message_stuck",), ("hash_mismatch",)]),
)


@st.composite
def any_inputs(draw):
    facts = replace(
        draw(st.sampled_from([FACTS, MEDIUM])),
        side_effect_class=draw(st.sampled_from(SideEffectClass)),
        reversibility=draw(st.sampled_from(type(FACTS.reversibility))),
        boundary=draw(st.sampled_from([one for one in Boundary if one is not Boundary.EXTERNAL])),
        verifiable=draw(st.sampled_from([True, True, True, False])),
        pivot=draw(st.booleans()),
        required_effects=draw(st.sampled_from([("refund",), ("refund", "notice")])),
        no_op_success_allowed=draw(st.booleans()),
        recovery=Recovery(
            whole={one: Remedy("undo") for one in draw(st.sets(st.sampled_from(Relation)))},
            safe_without_effect=draw(st.booleans()),
        ),
    )
    failure = draw(st.sampled_from([None, None, ReadFailure("down", True), ReadFailure("never", False)]))
    return inputs(
        *draw(st.lists(READINGS, max_size=2)),
        state=draw(st.sampled_from([State.PENDING, State.ACCEPTED, State.UNKNOWN])),
        facts=facts,
        failure=failure,
        observation=draw(OBSERVATIONS),
        baseline=draw(st.sampled_from([None, reading(), reading(no_refund())])),
        idempotency_status=draw(
            st.sampled_from(["PENDING", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL", "EXPIRED", None])
        ),
        at=draw(st.sampled_from([at(10), LATER, SLA])),
        retry_safe=draw(st.booleans()),
        policy=RecoveryPolicy(ROWS, "", frozenset(draw(st.sets(st.sampled_from(sorted(RELATIONS)))))),
        recovery_tools=TOOLS,
        unwinding=draw(st.booleans()),
        is_remedy=draw(st.booleans()),
    )


@pytest.mark.req("R-RC-01", "R-VD-09", "R-CX-04", "R-SM-21")
@given(any_inputs())
def test_every_path_is_legal_and_every_success_is_proven(case):
    """Every step is legal on grounds that were shown, every entry is valid, and nothing passes unproven."""
    outcome, _, _ = walk(case)
    found = outcome.verdict
    if outcome.state is State.RECONCILED_SUCCESS:
        assert case.readings
        assert all(one.is_strong for one in case.readings)
        assert all(one.holds in {"TRUE", "NOT_APPLICABLE"} for one in found.predicates)
        assert found.result is VerificationResult.SUCCESS
    if outcome.state is State.FAILED:
        assert not found.effect_seen or not case.facts.mutating
        # A tool that only reads and names no check has nothing to read back: without an answer it has failed.
        assert case.readings or case.facts.answer_only
        assert not case.claimed_success or not case.facts.mutating
    if outcome.state is State.PENDING:
        assert outcome.next_read_at is not None
        assert outcome.next_read_at > case.at
    if outcome.state is State.REVIEW_REQUIRED:
        assert outcome.case
