"""Discrepancies: twelve classes, one order, the words in which they ask the recovery table."""

from __future__ import annotations

import itertools

import pytest

from reviews.reconciliation.rules.discrepancies import (
    INDICATORS,
    PARAMETERS,
    Discrepancy,
    indicated_discrepancies,
    rank_discrepancies,
    recovery_triggers,
)
from reviews.recovery.rules.recovery_table import ROWS

ORDER = [
    "WRONG_TARGET_MODIFIED",
    "DUPLICATE_SIDE_EFFECT",
    "TARGET_MISSING",
    "PARTIAL_APPLICATION",
    "STALE_STATE",
    "COMPENSATION_REQUIRED",
    "VALUE_MISMATCH",
    "NO_OP_FAILURE",
    "NO_OP_SUCCESS",
    "PROPAGATION_DELAY",
    "UNVERIFIABLE_STATE",
    "UNKNOWN_STATE",
]


@pytest.mark.req("R-DC-14")
def test_the_twelve_classes_have_one_order():
    assert [str(one) for one in Discrepancy] == ORDER


@pytest.mark.req("R-DC-13", "R-DC-14")
def test_discrepancies_are_ranked_without_repeats():
    for first, second in itertools.combinations(Discrepancy, 2):
        assert rank_discrepancies([second, first, second]) == (first, second)


def test_no_discrepancies_give_an_empty_ranking():
    assert rank_discrepancies([]) == ()


@pytest.mark.req("R-RP-22")
@pytest.mark.parametrize("discrepancy", Discrepancy)
@pytest.mark.parametrize("claimed", [True, False])
def test_every_class_has_triggers_that_the_recovery_table_knows(discrepancy, claimed):
    known = {row.trigger for row in ROWS} | set(ORDER)
    words = recovery_triggers(discrepancy, claimed=claimed)
    assert str(discrepancy) in words
    assert words <= known
    assert words & {row.trigger for row in ROWS}


@pytest.mark.parametrize(
    ("discrepancy", "word"),
    [
        ("STALE_STATE", "STALE_STATE_ERROR"),
        ("PARTIAL_APPLICATION", "PARTIAL_SUCCESS"),
        ("UNVERIFIABLE_STATE", "UNVERIFIABLE_RESULT"),
        ("UNKNOWN_STATE", "PENDING_TIMEOUT"),
    ],
)
def test_a_class_includes_the_trigger_of_its_source_table(discrepancy, word):
    assert word in recovery_triggers(Discrepancy(discrepancy), claimed=False)


@pytest.mark.parametrize("discrepancy", ["VALUE_MISMATCH", "NO_OP_FAILURE", "PROPAGATION_DELAY"])
def test_a_contradicted_claim_of_success_is_an_authority_mismatch(discrepancy):
    one = Discrepancy(discrepancy)
    assert "OBSERVATION_AUTHORITY_MISMATCH" in recovery_triggers(one, claimed=True)
    assert "OBSERVATION_AUTHORITY_MISMATCH" not in recovery_triggers(one, claimed=False)


@pytest.mark.req("R-CP-16")
def test_every_indicator_maps_to_a_class():
    assert len(PARAMETERS) == 12
    assert sum(map(len, PARAMETERS.values())) == 88
    assert indicated_discrepancies(INDICATORS) <= set(Discrepancy)
    assert indicated_discrepancies(["missing_row", "wrong_tenant"]) == {
        Discrepancy.TARGET_MISSING,
        Discrepancy.WRONG_TARGET_MODIFIED,
    }


def test_an_unknown_indicator_raises_an_error():
    with pytest.raises(KeyError):
        indicated_discrepancies(["made_up"])
