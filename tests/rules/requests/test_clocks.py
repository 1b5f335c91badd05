"""The clock of an approval: what stops it, and that it goes on with what was left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.requests.rules import clocks
from approvals.requests.rules.clocks import Stop, StopReason

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NONE = timedelta(0)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def frozen(begin: float, end: float | None = None) -> Stop:
    return Stop(StopReason.FREEZE, NOON + minutes(begin), None if end is None else NOON + minutes(end))


def asked(begin: float, end: float | None = None) -> Stop:
    return Stop(StopReason.QUESTION, NOON + minutes(begin), None if end is None else NOON + minutes(end))


def read(*stops: Stop, at: float, patience: timedelta = NONE) -> clocks.Clock:
    return clocks.compute_clock(began=NOON, allowed=HOUR, stops=stops, patience=patience, at=NOON + minutes(at))


def test_without_a_stop_the_clock_keeps_running():
    clock = read(at=20)
    assert (clock.ran, clock.left, clock.ends_at) == (minutes(20), minutes(40), NOON + HOUR)
    assert (clock.stopped_at, clock.is_over) == (None, False)


def test_an_expired_clock_shows_when_it_ended():
    clock = read(at=90)
    assert (clock.is_over, clock.ends_at, clock.ran) == (True, NOON + HOUR, HOUR)


def test_a_freeze_stops_the_clock_and_shows_the_remaining_time():
    clock = read(frozen(10), at=500)
    assert (clock.stopped_at, clock.why, clock.left) == (NOON + minutes(10), StopReason.FREEZE, minutes(50))
    assert clock.ends_at == NOON + HOUR
    assert clock.goes_on_at is None


def test_after_the_lift_the_clock_continues_with_the_remaining_time():
    clock = read(frozen(10, 500), at=510)
    assert (clock.stopped_at, clock.left) == (None, minutes(40))
    assert clock.ends_at == NOON + minutes(550)


def test_overlapping_freezes_stop_the_clock_once():
    clock = read(frozen(10, 30), frozen(20, 40), frozen(25, 28), at=50)
    assert clock.ran == minutes(20)


def test_consecutive_freezes_without_a_gap_are_one_stop():
    assert read(frozen(10, 20), frozen(20), at=30).stopped_at == NOON + minutes(10)


def test_a_clock_that_ended_before_the_freeze_stays_ended():
    clock = read(frozen(61), at=70)
    assert (clock.is_over, clock.ends_at) == (True, NOON + HOUR)


def test_a_freeze_older_than_the_request_stops_the_clock_from_the_start():
    clock = read(frozen(-30, 15), at=20)
    assert (clock.ran, clock.ends_at) == (minutes(5), NOON + minutes(75))


def test_a_freeze_beginning_at_this_moment_stops_the_clock():
    clock = read(frozen(20), at=20)
    assert (clock.stopped_at, clock.left) == (NOON + minutes(20), minutes(40))


def test_a_question_stops_the_clock_no_longer_than_the_policy_allows():
    waits = read(asked(10), at=25, patience=minutes(30))
    assert (waits.why, waits.stopped_at, waits.goes_on_at) == (
        StopReason.QUESTION,
        NOON + minutes(10),
        NOON + minutes(40),
    )
    assert (waits.ends_at, waits.latest) == (NOON + HOUR, NOON + minutes(90))
    goes_on = read(asked(10), at=50, patience=minutes(30))
    assert (goes_on.stopped_at, goes_on.ran) == (None, minutes(20))
    over = read(asked(10), at=200, patience=minutes(30))
    assert (over.is_over, over.ends_at) == (True, NOON + minutes(90))


def test_a_policy_may_forbid_that_a_question_stops_the_clock():
    assert read(asked(10), at=20).stopped_at is None


def test_all_questions_share_one_limit_of_stopped_time():
    clock = read(asked(5, 15), asked(20, 40), at=45, patience=minutes(15))
    assert clock.ran == minutes(30)


def test_a_freeze_does_not_use_the_time_for_questions():
    clock = read(asked(10, 40), frozen(10, 30), at=40, patience=minutes(15))
    assert clock.ran == minutes(10)


def test_after_an_answered_question_the_freeze_still_stops_the_clock():
    clock = read(asked(10, 20), frozen(15), at=30, patience=minutes(30))
    assert (clock.why, clock.stopped_at, clock.goes_on_at) == (StopReason.FREEZE, NOON + minutes(10), None)


stops = st.builds(
    lambda why, begin, length: Stop(
        why, NOON + minutes(begin), None if length is None else NOON + minutes(begin + length)
    ),
    st.sampled_from(list(StopReason)),
    st.integers(-30, 200),
    st.none() | st.integers(1, 90),
)


@given(st.lists(stops, max_size=5), st.integers(0, 90), st.integers(0, 300), st.integers(0, 120))
def test_a_clock_never_runs_backwards_or_past_its_limit(found, patience, at, later):
    one = clocks.compute_clock(began=NOON, allowed=HOUR, stops=found, patience=minutes(patience), at=NOON + minutes(at))
    two = clocks.compute_clock(
        began=NOON, allowed=HOUR, stops=found, patience=minutes(patience), at=NOON + minutes(at + later)
    )
    assert NONE <= one.ran <= two.ran <= HOUR
    assert one.ran + one.left == HOUR
    assert one.ends_at <= two.ends_at
    if one.is_over:
        assert two == one


@given(st.lists(stops.filter(lambda stop: stop.why is StopReason.QUESTION), max_size=5), st.integers(0, 90))
def test_questions_never_move_the_hard_limit(found, patience):
    clock = clocks.compute_clock(
        began=NOON, allowed=HOUR, stops=found, patience=minutes(patience), at=NOON + HOUR + minutes(patience)
    )
    assert clock.is_over
    assert clock.ends_at <= NOON + HOUR + minutes(patience)


@pytest.mark.parametrize("at", [0, -5])
def test_a_clock_that_has_not_started_has_all_of_its_time(at):
    assert read(at=at).left == HOUR
