from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reviews.readback.rules import limits
from reviews.readback.rules.limits import BadLimits, SystemLimits

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def test_a_system_without_limits_has_the_defaults():
    assert limits.limits_of({"root": "/srv"}) == SystemLimits()


def test_given_limits_replace_the_defaults():
    assert limits.limits_of({"limits": {"concurrency": 1}}) == SystemLimits(concurrency=1)


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ([], "/settings/limits", "an object"),
        ({"concurency": 2}, "/settings/limits/concurency", "unknown field `concurency`"),
        ({"concurrency": 0}, "/settings/limits/concurrency", "from 1 to 64"),
        ({"concurrency": True}, "/settings/limits/concurrency", "whole number"),
        ({"reads_per_minute": "60"}, "/settings/limits/reads_per_minute", "whole number"),
        ({"cooldown_s": 60, "longest_cooldown_s": 30}, "/settings/limits/longest_cooldown_s", "not be shorter"),
    ],
)
def test_an_invalid_limit_is_named(given, path, said):
    with pytest.raises(BadLimits) as refusal:
        limits.limits_of({"limits": given})
    assert refusal.value.errors is not None
    assert refusal.value.errors[0]["path"] == path
    assert said in refusal.value.errors[0]["detail"]


def test_the_first_readings_may_use_one_second_of_the_rate():
    assert limits.readings_within_rate(reads_per_minute=600, paid_until=None, at=AT) == 10
    assert limits.readings_within_rate(reads_per_minute=600, paid_until=AT - timedelta(hours=1), at=AT) == 10


def test_a_slow_rate_allows_one_reading_and_then_waits():
    assert limits.readings_within_rate(reads_per_minute=6, paid_until=None, at=AT) == 1
    paid = limits.paid_until_after(reads_per_minute=6, paid_until=None, reads=1, at=AT)
    assert limits.readings_within_rate(reads_per_minute=6, paid_until=paid, at=AT + timedelta(seconds=9)) == 0
    assert limits.readings_within_rate(reads_per_minute=6, paid_until=paid, at=AT + timedelta(seconds=10)) == 1


@pytest.mark.parametrize("rate", [1, 7, 60, 600, 6000])
def test_within_an_hour_at_most_the_rate_plus_one_burst_is_read(rate):
    paid, made, at = None, 0, AT
    while at < AT + timedelta(hours=1):
        now = limits.readings_within_rate(reads_per_minute=rate, paid_until=paid, at=at)
        if now:
            paid = limits.paid_until_after(reads_per_minute=rate, paid_until=paid, reads=now, at=at)
            made += now
        at += timedelta(seconds=0.5)
    assert made <= rate * 60 + max(1, rate // 60)
    assert made >= rate * 60 * 0.9
