"""An alert rule raises, stays and clears as it says, and a figure around a threshold does not make it flap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.metrics.rules.alerts import (
    AlertTerms,
    AlertTurn,
    UnfitAlertRule,
    check_terms,
    describe_end,
    describe_regression,
    describe_rule,
    describe_turn,
    is_close_again,
    judge_figure,
)
from console.metrics.rules.filters import EVERYTHING, MetricFilter

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
TERMS = {
    "metric": "M-10",
    "about": EVERYTHING,
    "window_h": 24,
    "raise_at": 1000,
    "clear_at": 500,
    "least_cases": 30,
    "hold": timedelta(),
}


def terms(**changes: object) -> AlertTerms:
    return AlertTerms(**TERMS | changes)  # type: ignore[arg-type]


def turns(rule: AlertTerms, percents: list[int | None]) -> list[str]:
    """What each look, five minutes apart, came to; none stands for too few cases."""
    is_open, past_since, found = False, None, []
    for number, percent in enumerate(percents):
        at = AT + number * timedelta(minutes=5)
        whole = 100 if percent is not None else 29
        step = judge_figure(rule, is_open=is_open, past_since=past_since, part=percent or 0, whole=whole, at=at)
        past_since = step.past_since
        is_open = is_open if step.turn is None else step.turn is AlertTurn.RAISE
        found.append(str(step.turn) if step.turn else ("open" if is_open else ""))
    return found


ABOVE = terms()
BELOW = terms(raise_at=9000, clear_at=9500)
HELD = terms(hold=timedelta(minutes=10))


@pytest.mark.parametrize(
    ("rule", "percents", "wanted"),
    [
        # Around the raising threshold, then around the clearing one: one alert.
        (ABOVE, [9, 10, 9, 11, 9, 6, 5, 6, 9], ["", "raise", "open", "open", "open", "open", "clear", "", ""]),
        (ABOVE, [9, 9, 9], ["", "", ""]),
        # Too little of something is an alert too.
        (BELOW, [95, 91, 90, 91, 94, 95, 91], ["", "", "raise", "open", "open", "clear", ""]),
        # Held for ten minutes, at each look in between, in both directions.
        (HELD, [10, 10, 9, 10, 10, 10], ["", "", "", "", "", "raise"]),
        (HELD, [10, 10, 10, 5, 5, 6, 5, 5, 5], ["", "", "raise", "open", "open", "open", "open", "open", "clear"]),
        # Too few cases decide nothing, and end a wait.
        (ABOVE, [10, None, None, 5], ["raise", "open", "open", "clear"]),
        (HELD, [10, 10, None, 10, 10, 10], ["", "", "", "", "", "raise"]),
    ],
)
def test_an_alert_changes_only_as_often_as_its_rule_allows(rule, percents, wanted):
    assert turns(rule, percents) == wanted


def test_thresholds_are_compared_without_rounding():
    fine = terms(raise_at=3333, clear_at=1)
    assert judge_figure(fine, is_open=False, past_since=None, part=3333, whole=10000, at=AT).turn is AlertTurn.RAISE
    assert judge_figure(fine, is_open=False, past_since=None, part=3332, whole=10000, at=AT).turn is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metric": "M-03"}, "M-03 is not a share; alert rules apply to shares."),
        ({"window_h": 5}, "A rule covers the last 1, 6, 24 or 168 hours."),
        ({"clear_at": 1000}, "The thresholds to raise and to clear must differ, or the alert would flap."),
    ],
)
def test_a_rule_that_could_never_change_or_would_flap_is_refused(changes, said):
    with pytest.raises(UnfitAlertRule) as refusal:
        check_terms(terms(**changes))
    assert refusal.value.detail == said


def test_a_rule_and_its_changes_are_described_in_sentences():
    rule = terms(about=MetricFilter(tool="issue_refund"), hold=timedelta(minutes=15), clear_at=550)
    assert describe_rule(rule) == (
        "Unknown of issue_refund over the last 24 hours: raised at 10 % or above, cleared at 5.5 % or below, once that"
        " has held for 15 minutes; looked at from 30 cases on."
    )
    assert describe_turn(rule, AlertTurn.RAISE, part=5, whole=40) == (
        "Unknown of issue_refund: 12.5 % in the last 24 hours (5 of 40), which is 10 % or above and has been for 15"
        " minutes. It clears at 5.5 %."
    )
    assert describe_turn(BELOW, AlertTurn.CLEAR, part=39, whole=40) == (
        "Unknown: 97.5 % in the last 24 hours (39 of 40), which is 95 % or above."
    )
    assert (
        describe_end(rule) == "Unknown of issue_refund: the rule was ended. Nothing says that the figure is well again."
    )


def counts(failed: int, mismatched: int, whole: int = 100) -> dict[str, int]:
    return {"executed": whole, "verification_failed": failed, "read_back": whole, "mismatched": mismatched}


def test_a_significant_difference_between_versions_is_described_in_either_direction():
    said = describe_regression("Verification policy", ("1", "2"), counts(5, 5), counts(30, 6))
    assert said == (
        "Verification policy 2: Disproved by a reading: 6 times as often, from 5 % of 100 under 1 to 30 % of 100."
        " Chance does not explain it."
    )
    calm = counts(5, 5, 800)
    fewer = describe_regression("Contract issue_refund", ("1.0.0", "1.1.0"), counts(5, 40), counts(5, 10))
    assert "Differences found: far less often, from 40 % of 100 under 1.0.0 to 10 % of 100" in fewer
    unknown = describe_regression(
        "Contract issue_refund", ("1.2.0", "1.3.0"), {**calm, "unknown": 32}, {**calm, "unknown": 64}
    )
    assert unknown == (
        "Contract issue_refund 1.3.0: Unknown: doubled, from 4 % of 800 under 1.2.0 to 8 % of 800. Chance does not"
        " explain it."
    )
    assert describe_regression("Verification policy", ("1", "2"), counts(5, 5), counts(8, 8)) == ""
    assert describe_regression("Verification policy", ("1", "2"), counts(0, 0, 29), counts(29, 29, 29)) == ""


def test_a_regression_remains_open_between_its_two_thresholds():
    old, between, close = counts(10, 10), counts(20, 10), counts(14, 10)
    assert describe_regression("Verification policy", ("1", "2"), old, between) == ""
    assert not is_close_again(old, between)
    assert is_close_again(old, close)
