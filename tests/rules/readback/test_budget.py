from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ledger.catalogue.rules.policies import BadPolicy, ReadingBudget, check_policy, reading_budget
from reviews.readback.rules.limits import ReadingUsage, add_reads, exceeded_budget, interval_factor, usage_at

AT = datetime(2026, 11, 21, 12, 30, 0, tzinfo=UTC)


def spent(reads: int) -> ReadingUsage:
    return add_reads(usage_at(None, at=AT), reads)


def test_without_a_budget_nothing_is_exceeded():
    assert exceeded_budget(ReadingBudget(), spent(10**9)) is None
    assert interval_factor(ReadingBudget(), spent(10**9), rank=0) == 1.0


def test_a_budget_is_exceeded_once_it_is_reached():
    assert exceeded_budget(ReadingBudget(readings_per_hour=10), spent(9)) is None
    assert exceeded_budget(ReadingBudget(readings_per_hour=10), spent(10)) == "hour"
    assert exceeded_budget(ReadingBudget(readings_per_hour=10, readings_per_day=10), spent(10)) == "day"


def test_a_new_hour_starts_at_zero_and_the_day_continues():
    later = usage_at(spent(7), at=AT + timedelta(hours=1))
    assert (later.in_hour, later.in_day) == (0, 7)
    assert usage_at(spent(7), at=AT + timedelta(days=1)).in_day == 0
    assert usage_at(spent(7), at=AT + timedelta(minutes=20)).in_hour == 7


@pytest.mark.req("R-VD-14")
def test_beyond_the_budget_the_most_serious_actions_are_delayed_least():
    factors = [interval_factor(ReadingBudget(readings_per_hour=1), spent(1), rank=rank) for rank in range(6)]
    assert factors == sorted(factors, reverse=True)
    assert (factors[5], factors[0]) == (2.0, 64.0)


@pytest.mark.parametrize("part", [{"readings_per_hour": 0}, {"per_hour": 5}, {"readings_per_day": "5"}])
def test_an_invalid_budget_is_refused(part):
    with pytest.raises(BadPolicy):
        check_policy("verification", {"budget": part})


def test_the_reading_budget_comes_from_the_policy():
    assert reading_budget({"budget": {"readings_per_day": 5}}) == ReadingBudget(readings_per_day=5)
