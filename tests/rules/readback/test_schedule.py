"""Schedules: when to look again, and until when an absent effect may still arrive."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.catalogue.rules.contract import Polling
from reviews.readback.rules.schedule import late_effect_horizon, next_read_at
from tests.support.verification_runs import SLA, START

POLLING = Polling(first_after_s=1, backoff=2.0, max_interval_s=60, sla_s=3600)


def at(seconds):
    return START + timedelta(seconds=seconds)


def wait(attempts, seed="a"):
    due = next_read_at(POLLING, attempts=attempts, at=START, until=SLA, seed=seed)
    return (due - START).total_seconds()


@pytest.mark.req("R-VD-11")
def test_intervals_grow_up_to_a_maximum():
    for attempts, usual in enumerate([1, 2, 4, 8, 16, 32, 60, 60, 60]):
        assert usual * 0.9 <= wait(attempts) <= usual * 1.1


def test_actions_that_began_together_are_read_at_different_times():
    assert len({wait(3, seed=str(number)) for number in range(50)}) > 40


def test_the_schedule_of_a_run_is_reproducible():
    assert wait(5) == wait(5)


@given(st.integers(0, 10_000), st.floats(1, 10), st.integers(0, 10**6), st.integers(-100, 7200))
def test_the_next_reading_is_in_the_future_and_not_after_the_deadline(attempts, backoff, first, until):
    polling = Polling(first_after_s=first, backoff=backoff, max_interval_s=86400, sla_s=1)
    due = next_read_at(polling, attempts=attempts, at=START, until=at(until), seed="a")
    assert due > START
    assert due <= at(until) or until <= 0


class TestLateEffects:
    def horizon(self, answered_at=None, claimed=False):
        return late_effect_horizon(
            lease_ends_at=at(100),
            answered_at=answered_at,
            claimed_success=claimed,
            timeout_s=20,
            settle_s=5,
        )

    def test_a_silent_executor_may_write_after_its_lease(self):
        assert self.horizon() == at(125)

    def test_an_answer_ends_the_attempt_but_not_what_it_sent(self):
        assert self.horizon(at(30)) == at(55)

    def test_an_answer_after_the_lease_does_not_extend_it(self):
        assert self.horizon(at(300)) == at(125)

    def test_a_claimed_success_waits_only_for_the_settling_time(self):
        assert self.horizon(at(30), claimed=True) == at(35)
