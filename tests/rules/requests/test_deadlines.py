"""Reminders and escalation: each at its time, once, and never while the clock stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from approvals.requests.rules import clocks
from approvals.requests.rules.clocks import DeadlineStep, Stop, StopReason

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AGAIN = timedelta(seconds=30)
PLAN = clocks.make_plan(remind_before_s=600, escalate_after_s=1200)


def minutes(count):
    return timedelta(minutes=count)


def clock(at, *stops):
    return clocks.compute_clock(began=NOON, allowed=HOUR, stops=stops, at=NOON + minutes(at))


def due(at, *stops, plan=PLAN):
    return {step for step in DeadlineStep if clocks.is_due(step, plan, clock(at, *stops))}


@pytest.mark.parametrize(
    ("at", "steps"),
    [
        (19, set()),
        (20, {DeadlineStep.ESCALATE}),
        (40, {DeadlineStep.ESCALATE, DeadlineStep.BREACH}),
        (49, {DeadlineStep.ESCALATE, DeadlineStep.BREACH}),
        (50, {DeadlineStep.ESCALATE, DeadlineStep.BREACH, DeadlineStep.REMIND}),
        (60, set()),
    ],
)
def test_each_step_is_due_at_its_time_and_none_after_the_deadline(at, steps):
    assert due(at) == steps


def test_a_policy_without_steps_has_none():
    plan = clocks.make_plan(remind_before_s=None, escalate_after_s=None)
    assert due(59, plan=plan) == set()
    assert clocks.next_check(DeadlineStep.REMIND, plan, clock(5), at=NOON, again=AGAIN) is None


def test_a_stopped_clock_sends_no_reminder():
    frozen = Stop(StopReason.FREEZE, NOON + minutes(10), None)
    assert due(55, frozen) == set()
    assert clocks.next_check(DeadlineStep.ESCALATE, PLAN, clock(55, frozen), at=NOON, again=AGAIN) == NOON + AGAIN


def test_stopped_time_does_not_count_towards_a_step():
    frozen = Stop(StopReason.FREEZE, NOON + minutes(10), NOON + minutes(40))
    assert due(45, frozen) == set()
    assert due(50, frozen) == {DeadlineStep.ESCALATE}


def test_the_next_check_is_when_the_step_is_due():
    at = NOON + minutes(5)
    assert clocks.next_check(DeadlineStep.ESCALATE, PLAN, clock(5), at=at, again=AGAIN) == NOON + minutes(20)
    assert clocks.next_check(DeadlineStep.REMIND, PLAN, clock(5), at=at, again=AGAIN) == NOON + minutes(50)


def test_a_step_after_the_deadline_is_never_due():
    plan = clocks.make_plan(remind_before_s=None, escalate_after_s=3600)
    assert due(59, plan=plan) == set()
    assert clocks.next_check(DeadlineStep.ESCALATE, plan, clock(5), at=NOON, again=AGAIN) is None


def test_a_reminder_longer_than_the_whole_time_is_due_at_once():
    plan = clocks.make_plan(remind_before_s=7200, escalate_after_s=None)
    assert due(0, plan=plan) == {DeadlineStep.REMIND}
