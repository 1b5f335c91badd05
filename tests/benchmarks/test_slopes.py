"""The slopes of a soak: a leak is told from what only goes up and down."""

from __future__ import annotations

import random

import pytest

from benchmarks.soak import slope


def series(per_hour: float, *, noise: float) -> list[tuple[float, float]]:
    """A figure of 270 samples, ten seconds apart, whose noise lasts for a minute each time."""
    pick = random.Random(7)
    swings = [pick.gauss(0, noise) for _ in range(45)]
    return [(place / 360, 200 + per_hour * place / 360 + swings[place // 6]) for place in range(270)]


def test_a_line_has_its_own_slope():
    found = slope(series(12.0, noise=0))
    assert found is not None
    assert (found.per_unit, found.low, found.high) == pytest.approx((12, 12, 12))


def test_a_leak_in_noise_differs_from_zero_and_noise_alone_does_not():
    leak, still = slope(series(12.0, noise=3)), slope(series(0.0, noise=3))
    assert leak is not None
    assert still is not None
    assert 0 < leak.low < 12 < leak.high
    assert leak.differs_from_zero
    assert still.low < 0 < still.high
    assert not still.differs_from_zero


def test_few_points_and_points_at_one_place_have_no_slope():
    assert slope(series(12.0, noise=0)[:14]) is None
    assert slope([(1.0, value) for _, value in series(12.0, noise=0)]) is None
