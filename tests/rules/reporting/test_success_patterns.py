"""What counts as a pattern of hallucinated success that was met (R-HS-15)."""

from __future__ import annotations

import pytest

from approvals.gate.rules.layers import CODES
from ledger.record.rules.lifecycle import State
from reviews.guarding.rules.codes import ViolationCode
from reviews.observations.rules.observe import ReportedStatus
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.reading import Consistency
from reviews.reconciliation.rules.verdict import VerificationResult
from reviews.reporting.rules.success_patterns import MEANINGS, PATTERNS, WORDS, FindingSource, count_patterns

KNOWN = {
    FindingSource.REFUSAL: set(CODES),
    FindingSource.CLAIM: {str(each) for each in ViolationCode},
    FindingSource.ANSWER: {str(each) for each in ReportedStatus},
    FindingSource.OVERCLAIMED: {str(each) for each in Discrepancy},
    FindingSource.UNDERCLAIMED: {str(each) for each in VerificationResult},
    FindingSource.DISCREPANCY: {str(each) for each in Discrepancy},
    FindingSource.CONSISTENCY: {str(each) for each in Consistency},
    FindingSource.STATE: {str(each) for each in State},
}


@pytest.mark.req("R-HS-15")
def test_each_of_the_fourteen_patterns_can_be_found_on_record():
    assert {code for words in WORDS.values() for code in words.values()} == set(PATTERNS)
    assert len(PATTERNS) == 14
    assert MEANINGS.keys() == PATTERNS.keys()


@pytest.mark.parametrize("status", ["success", "failed", "accepted", "pending", "timeout", "partial"])
def test_an_ordinary_answer_matches_no_pattern(status):
    assert not any(count_patterns([(FindingSource.ANSWER, {status: 3})]).values())


@pytest.mark.parametrize("state", ["UNKNOWN", "ACCEPTED", "PENDING", "PARTIALLY_COMMITTED", "FAILED"])
def test_an_honestly_reported_state_matches_no_pattern(state):
    assert not any(count_patterns([(FindingSource.STATE, {state: 3})]).values())


@pytest.mark.parametrize("kept", list(FindingSource))
def test_every_code_of_a_pattern_exists_in_the_record(kept):
    assert WORDS[kept].keys() <= KNOWN[kept]


def test_codes_of_one_pattern_are_summed_and_other_codes_ignored():
    found = count_patterns(
        [(FindingSource.REFUSAL, {"SCHEMA_DRIFT": 2, "PHANTOM_TOOL": 9}), (FindingSource.REFUSAL, {"TYPE_COERCION": 1})]
    )
    assert found == dict.fromkeys(PATTERNS, 0) | {"HS-02": 3}


def test_a_code_counts_only_for_its_own_source():
    assert set(count_patterns([(FindingSource.ANSWER, {"UNKNOWN": 3})]).values()) == {0}
