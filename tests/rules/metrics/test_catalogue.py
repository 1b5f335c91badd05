"""The catalogue, its values, its delays, and what is told of changes."""

from __future__ import annotations

import pytest

from console.metrics.rules.catalogue import BY_ID, METRICS, MetricKind, is_healthy, value_of
from console.metrics.rules.delays import distribute, summarize_delays
from console.metrics.rules.facts import COUNTS
from console.metrics.rules.observations import observe_changes
from console.metrics.rules.regression import compare_versions


def test_the_catalogue_has_twenty_five_metrics_each_with_its_counts():
    assert [each.id for each in METRICS] == [f"M-{number:02}" for number in range(1, 26)]
    assert len({each.name for each in METRICS}) == len({each.words for each in METRICS}) == 25
    for each in METRICS:
        if each.kind is MetricKind.SHARE:
            assert {each.part, each.whole} <= set(COUNTS), each.id


@pytest.mark.req("R-MT-04")
def test_a_share_without_cases_is_none_and_a_count_is_zero():
    for each in METRICS:
        expected = 0.0 if each.kind is MetricKind.COUNT else None
        assert value_of(each, {}) == expected, each.id
        assert is_healthy(each, None) is None
    assert compare_versions([]) == compare_versions([("1", {}), ("2", {"executed": 0})]) == []


def test_a_share_is_its_part_of_its_whole():
    counts = {"executed": 8, "verified_success": 6, "unknown": 1}
    assert value_of(BY_ID["M-01"], counts) == 0.75
    assert value_of(BY_ID["M-10"], counts) == 0.125
    assert value_of(BY_ID["M-02"], counts) == 0.0


@pytest.mark.req("R-MT-03")
def test_phantom_calls_are_healthy_only_below_two_percent():
    phantoms = BY_ID["M-25"]
    assert is_healthy(phantoms, 0.0199)
    assert is_healthy(phantoms, 0.02) is False
    assert is_healthy(BY_ID["M-18"], 1.0)
    assert is_healthy(BY_ID["M-18"], 0.999) is False
    assert is_healthy(BY_ID["M-10"], 0.5) is None


@pytest.mark.req("R-MT-09")
def test_delays_are_shown_as_count_mean_median_and_95th_percentile():
    known = {1_000: 10, 2_000: 5, 30_000: 4, 600_000: 1}
    total = 1_000 * 10 + 2_000 * 5 + 30_000 * 4 + 600_000
    found = summarize_delays(known, total_ms=total)
    assert (found.count, found.mean_ms, found.median_ms, found.p95_ms) == (20, 37_000, 1_000, 30_000)
    none = summarize_delays({}, total_ms=0)
    assert (none.count, none.mean_ms, none.median_ms, none.p95_ms) == (0, None, None, None)
    assert distribute(known, [1_000, 60_000]) == [10, 9, 1]


@pytest.mark.req("R-MT-07")
def test_consecutive_versions_of_the_verification_policy_are_compared():
    judged = [
        ("1", {"executed": 100, "verification_failed": 5, "read_back": 90, "mismatched": 5}),
        ("2", {}),
        ("3", {"executed": 50, "verification_failed": 15, "read_back": 50, "mismatched": 4}),
        ("4", {"executed": 4, "verification_failed": 4, "read_back": 4, "mismatched": 4}),
    ]
    third, fourth = compare_versions(judged)
    assert (third.previous, third.version, third.cases) == ("1", "3", 50)
    assert third.failure_rise == pytest.approx(0.25)
    assert third.discrepancy_rise == pytest.approx(4 / 50 - 5 / 90)
    assert third.value == pytest.approx(0.25)
    assert third.is_regression
    assert fourth.value == pytest.approx(0.92)
    assert not fourth.is_regression, "four cases show nothing"


def test_a_version_that_finds_less_is_not_a_regression():
    [found] = compare_versions([("1", {"executed": 100, "verification_failed": 40}), ("2", {"executed": 100})])
    assert found.failure_rise == pytest.approx(-0.4)
    assert not found.is_regression


def told(now: dict[str, int], earlier: dict[str, int], parts: dict | None = None) -> list[str]:
    return [each.sentence for each in observe_changes(now, earlier, parts=parts or {}, period="7 days")]


def test_a_doubled_rate_names_the_tool_that_accounts_for_it():
    now, earlier = {"executed": 1_000, "unknown": 80}, {"executed": 1_000, "unknown": 40}
    parts = {
        ("tool", "issue_refund"): ({"executed": 300, "unknown": 62}, {"executed": 300, "unknown": 20}),
        ("tool", "send_email"): ({"executed": 700, "unknown": 18}, {"executed": 700, "unknown": 20}),
    }
    assert told(now, earlier, parts) == [
        "Unknown: doubled in the last 7 days, from 4 % to 8 %; issue_refund accounts for most of it."
    ]
    assert told(now, earlier) == ["Unknown: doubled in the last 7 days, from 4 % to 8 %."]


def test_changes_with_too_few_cases_or_within_chance_are_not_reported():
    assert told({"executed": 20, "unknown": 20}, {"executed": 20}) == []
    assert told({"executed": 40, "unknown": 4}, {"executed": 40, "unknown": 2}) == []
    assert told({"executed": 1_000, "unknown": 405}, {"executed": 1_000, "unknown": 400}) == []


def test_the_worst_change_comes_first_and_an_improvement_is_not_marked_worse():
    now = {"executed": 1_000, "verified_success": 950, "unknown": 50, "partial": 300}
    earlier = {"executed": 1_000, "verified_success": 600, "unknown": 350, "partial": 0}
    found = observe_changes(now, earlier, parts={}, period="7 days")
    assert [(each.metric.id, each.is_worse) for each in found] == [("M-08", True), ("M-01", False), ("M-10", False)]
    assert found[0].sentence == "Applied in part: new in the last 7 days, from 0 % to 30 %."
