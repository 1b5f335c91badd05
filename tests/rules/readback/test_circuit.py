from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.readback.rules import circuit
from reviews.readback.rules.circuit import Circuit, CircuitState
from reviews.readback.rules.limits import SystemLimits

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LIMITS = SystemLimits(failures=3, cooldown_s=10, longest_cooldown_s=60)


def after(failures: int, *, since: Circuit | None = None, at: datetime = AT) -> Circuit:
    found = since or Circuit()
    for _ in range(failures):
        found = circuit.after_failure(found, LIMITS, began_at=at, seed="shop", at=at)
    return found


def test_a_new_circuit_allows_every_reading():
    assert circuit.circuit_state(Circuit(), at=AT) is CircuitState.CLOSED
    assert circuit.allowed_readings(Circuit(), wanted=50, in_flight=3, at=AT) == 50


def test_failures_below_the_limit_leave_the_circuit_closed():
    found = after(2)
    assert found.failures == 2
    assert circuit.circuit_state(found, at=AT) is CircuitState.CLOSED


def test_the_failure_that_reaches_the_limit_opens_the_circuit():
    found = after(3)
    assert circuit.circuit_state(found, at=AT) is CircuitState.OPEN
    assert circuit.allowed_readings(found, wanted=50, in_flight=0, at=AT) == 0
    assert found.since == AT


def test_an_answer_between_failures_resets_the_count():
    found = after(2, since=circuit.after_answer(after(2), at=AT))
    assert circuit.circuit_state(found, at=AT) is CircuitState.CLOSED


def test_after_the_cool_down_exactly_one_reading_is_allowed():
    found = after(3)
    assert found.probe_at is not None
    assert timedelta(seconds=9) <= found.probe_at - AT <= timedelta(seconds=11)
    assert circuit.circuit_state(found, at=found.probe_at) is CircuitState.HALF_OPEN
    assert circuit.allowed_readings(found, wanted=50, in_flight=0, at=found.probe_at) == 1
    assert circuit.allowed_readings(found, wanted=50, in_flight=1, at=found.probe_at) == 0


def test_an_answered_probe_closes_the_circuit():
    found = circuit.after_answer(after(3), at=AT + timedelta(seconds=20))
    assert found == Circuit(since=AT + timedelta(seconds=20))


def test_each_failed_probe_doubles_the_cool_down_up_to_the_longest():
    found, waits = after(3), []
    for _ in range(4):
        assert found.probe_at is not None
        at = found.probe_at
        found = circuit.after_failure(found, LIMITS, began_at=at, seed="shop", at=at)
        waits.append(found.cooldown_s)
    assert waits == [20, 40, 60, 60]
    assert found.since == AT, "open since the first failure, not since the last probe"


def test_a_late_failure_of_an_earlier_reading_does_not_extend_the_cool_down():
    found = after(3)
    late = circuit.after_failure(found, LIMITS, began_at=AT - timedelta(seconds=5), seed="shop", at=AT)
    assert (late.probe_at, late.cooldown_s) == (found.probe_at, found.cooldown_s)


def test_the_cool_down_depends_only_on_the_seed():
    twin = circuit.after_failure(after(2), LIMITS, began_at=AT, seed="shop", at=AT)
    other = circuit.after_failure(after(2), LIMITS, began_at=AT, seed="mail", at=AT)
    assert twin == after(3)
    assert other.probe_at != twin.probe_at


@given(st.lists(st.booleans(), max_size=60))
def test_an_open_circuit_never_allows_more_than_one_reading(outcomes):
    found, at = Circuit(), AT
    for was_answered in outcomes:
        assert circuit.allowed_readings(found, wanted=10, in_flight=1, at=at) in ((10,) if not found.is_open else (0,))
        assert circuit.allowed_readings(found, wanted=10, in_flight=0, at=at) <= (10 if not found.is_open else 1)
        at = max(at, found.probe_at or at) + timedelta(seconds=1)
        found = (
            circuit.after_answer(found, at=at)
            if was_answered
            else circuit.after_failure(found, LIMITS, began_at=at, seed="x", at=at)
        )
        assert found.is_open == (found.failures >= LIMITS.failures)


@pytest.mark.parametrize("wanted", [0, 1, 7])
def test_no_more_readings_are_allowed_than_requested(wanted):
    assert circuit.allowed_readings(Circuit(), wanted=wanted, in_flight=0, at=AT) == wanted
