"""Sagas: regions around the pivot, the way back, and what continued after failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from reviews.recovery.rules.sagas import (
    Region,
    SagaStep,
    is_complete,
    next_to_compensate,
    regions,
    silent_steps,
    unresolved_steps,
)

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
DONE = State.RECONCILED_SUCCESS


def step(number: int, state: State = DONE, **changes):
    """The step that was proposed in that minute and ended half a minute later."""
    at = START + timedelta(minutes=number)
    usual = {
        "id": f"s{number}",
        "state": state,
        "mutating": True,
        "proposed_at": at,
        "ended_at": instant(at + timedelta(seconds=30)),
    }
    return SagaStep(**(usual | changes))


@pytest.mark.req("R-RP-39")
def test_each_step_is_before_at_or_after_the_pivot():
    found = regions([step(1), step(2, pivot=True), step(3), step(4, pivot=True)])
    assert list(found.values()) == [Region.BEFORE_PIVOT, Region.AT_PIVOT, Region.AFTER_PIVOT, Region.AFTER_PIVOT]
    assert set(regions([step(1), step(2)]).values()) == {Region.BEFORE_PIVOT}


@pytest.mark.req("R-RP-32")
def test_steps_are_compensated_in_reverse_order_of_completion():
    first_ended_last = step(1, ended_at=instant(START + timedelta(hours=1)))
    assert next_to_compensate([first_ended_last, step(2)]).id == "s1"
    assert next_to_compensate([step(1), step(2)]).id == "s2"
    assert next_to_compensate([step(1), step(2, reversed=True)]).id == "s1"
    assert next_to_compensate([step(1, left=True), step(2, reversed=True)]) is None
    assert next_to_compensate([step(1, mutating=False), step(2, State.FAILED)]) is None


@pytest.mark.parametrize("state", [State.PENDING, State.UNKNOWN, State.REVIEW_REQUIRED, State.VALIDATED])
def test_an_open_step_is_unresolved(state):
    assert [one.id for one in unresolved_steps([step(1), step(2, state)])] == ["s2"]


def test_an_unknown_read_only_step_is_not_unresolved():
    assert unresolved_steps([step(1, State.UNKNOWN, mutating=False), step(2, State.FAILED)]) == []


@pytest.mark.req("R-EX-20")
def test_a_step_after_an_unacknowledged_failure_is_silent():
    failed = step(1, State.FAILED)
    (silence,) = silent_steps([failed, step(2)])
    assert (silence.step, silence.over) == ("s2", "s1")
    assert silent_steps([failed, step(2, acknowledges=("s1",))]) == ()


def test_a_step_before_a_later_failure_is_not_silent():
    late = step(1, State.FAILED, ended_at=instant(START + timedelta(hours=1)))
    assert silent_steps([late, step(2)]) == ()


@pytest.mark.req("R-EX-20")
def test_a_step_that_depends_on_an_open_outcome_is_silent():
    assert silent_steps([step(1, State.PENDING), step(2, depends_on=("s1",))])[0].over == "s1"
    assert silent_steps([step(1, State.PENDING), step(2)]) == ()
    slow = step(1, ended_at=instant(START + timedelta(hours=1)))
    assert silent_steps([slow, step(2, depends_on=("s1",))])[0].because == "Its outcome was not known yet."
    assert silent_steps([step(1), step(2, depends_on=("s1",))]) == ()


def test_a_run_is_complete_when_every_step_succeeded_and_none_was_reversed():
    assert is_complete([step(1), step(2)])
    assert not is_complete([])
    for other in (step(2, State.PENDING), step(2, contradicted=True), step(2, reversed=True)):
        assert not is_complete([step(1), other])
