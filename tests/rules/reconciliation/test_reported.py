"""Effects that a tool reports beyond what was wanted (R-TC-20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.catalogue.rules.effects import SideEffectClass
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus, parse_result
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.reconcile import reconcile
from reviews.reconciliation.rules.verdict import VerificationResult
from reviews.verification.rules.verification import judge_run
from tests.support.verification_runs import FACTS, inputs, no_refund, reading, refund


def said(*effects):
    return ParsedObservation(status=ReportedStatus.SUCCESS, side_effects=effects)


@pytest.mark.req("R-TC-20")
def test_two_reported_effects_where_one_was_requested_are_a_duplicate():
    verdict = reconcile(inputs(reading(), observation=said("refund", "refund")))
    assert (verdict.result, verdict.discrepancy) == (VerificationResult.DUPLICATE, Discrepancy.DUPLICATE_SIDE_EFFECT)
    assert "refund" in verdict.reason
    outcome = judge_run(inputs(reading(), observation=said("refund", "refund")))
    assert str(outcome.state) == "REVIEW_REQUIRED"
    assert "RECONCILED_SUCCESS" not in [str(step.state) for step in outcome.steps]
    assert outcome.freeze


@pytest.mark.req("R-TC-20")
def test_a_reported_effect_that_was_not_requested_makes_the_outcome_unknown():
    verdict = reconcile(inputs(reading(), observation=said("refund", "credit")))
    assert (verdict.result, verdict.discrepancy) == (VerificationResult.UNKNOWN, Discrepancy.UNVERIFIABLE_STATE)
    assert "credit" in verdict.reason


@pytest.mark.req("R-TC-20")
def test_two_effects_found_where_one_was_reported_are_a_duplicate():
    verdict = reconcile(inputs(reading(refund(count=2)), observation=said("refund")))
    assert verdict.discrepancy is Discrepancy.DUPLICATE_SIDE_EFFECT


@pytest.mark.parametrize("effects", [(), ("refund",), ({"effect": "refund", "id": "re_1"},)])
def test_an_expected_effect_reported_at_most_once_is_a_success(effects):
    assert reconcile(inputs(reading(), observation=said(*effects))).result is VerificationResult.SUCCESS


def test_a_reported_effect_does_not_replace_a_read_one():
    verdict = reconcile(inputs(reading(no_refund()), observation=said("refund", "refund")))
    assert verdict.discrepancy is Discrepancy.NO_OP_FAILURE


def test_an_unrecognised_reported_effect_is_not_a_success():
    (effect,) = parse_result({"status": "success", "side_effects": [{"id": 7}]}, tool="x").side_effects
    verdict = reconcile(inputs(reading(), observation=said("refund", effect)))
    assert verdict.discrepancy is Discrepancy.UNVERIFIABLE_STATE


def test_reported_effects_of_a_read_only_tool_are_ignored():
    reads = replace(FACTS, side_effect_class=SideEffectClass.READ_ONLY)
    told = [reconcile(inputs(reading(), facts=reads, observation=said(*each))) for each in ((), ("a look", "a look"))]
    assert told[0] == told[1]
