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
def test_each_of_the_fourteen_has_a_sign_on_record():
    assert {code for words in WORDS.values() for code in words.values()} == set(PATTERNS)
    assert len(PATTERNS) == 14
    assert MEANINGS.keys() == PATTERNS.keys()


@pytest.mark.parametrize("status", ["success", "failed", "accepted", "pending", "timeout", "partial"])
def test_an_ordinary_answer_is_a_sign_of_nothing(status):
    assert not any(count_patterns([(FindingSource.ANSWER, {status: 3})]).values())


@pytest.mark.parametrize("state", ["UNKNOWN", "ACCEPTED", "PENDING", "PARTIALLY_COMMITTED", "FAILED"])
def test_an_outcome_that_is_shown_as_it_is_is_a_sign_of_nothing(state):
    assert not any(count_patterns([(FindingSource.STATE, {state: 3})]).values())


@pytest.mark.parametrize("kept", list(FindingSource))
def test_a_sign_is_a_word_that_the_record_knows(kept):
    assert WORDS[kept].keys() <= KNOWN[kept]


def test_signs_of_one_pattern_add_up_and_other_words_count_for_none():
    found = count_patterns(
        [(FindingSource.REFUSAL, {"SCHEMA_DRIFT": 2, "PHANTOM_TOOL": 9}), (FindingSource.REFUSAL, {"TYPE_COERCION": 1})]
    )
    assert found == dict.fromkeys(PATTERNS, 0) | {"HS-02": 3}


def test_a_word_counts_only_where_it_is_kept():
    assert set(count_patterns([(FindingSource.ANSWER, {"UNKNOWN": 3})]).values()) == {0}
