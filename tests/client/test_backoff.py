from __future__ import annotations

import pytest

from counterfoil.problems import ConsoleFault, NotNow, Problem, TooMany, Unreachable
from counterfoil.transport.request import Backoff


def _pause(fault, *, tries=1, spent_s=0.0, chance=0.0, **options):
    return Backoff(**options).pause(fault, tries=tries, spent_s=spent_s, chance=chance)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_temporary_faults_are_retried(status):
    assert _pause(ConsoleFault(status, "BUSY")) is not None


@pytest.mark.parametrize(
    "fault",
    [NotNow(409, "IDEMPOTENCY_CONFLICT"), ConsoleFault(500, "FAULT"), Problem(418, "TEAPOT"), ValueError("no")],
)
def test_every_other_fault_is_not_retried(fault):
    assert _pause(fault) is None


def test_pauses_double_up_to_the_longest():
    pauses = [_pause(Unreachable(), tries=tries, give_up_after_s=1e9) for tries in (1, 2, 3, 4, 9, 5000)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 10.0, 10.0]


def test_jitter_shortens_a_pause_by_at_most_half():
    assert _pause(Unreachable(), chance=0.999) == pytest.approx(0.1, abs=0.001)


def test_a_pause_is_at_least_the_retry_after_of_the_console():
    assert _pause(TooMany(429, "RATE", retry_after_s=7.0), chance=0.9) == 7.0


def test_no_retry_begins_after_the_time_limit():
    assert _pause(Unreachable(), spent_s=29.9) is None
    assert _pause(TooMany(429, "RATE", retry_after_s=31.0)) is None
