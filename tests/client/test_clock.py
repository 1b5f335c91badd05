"""Whose clock is wrong: the console says the time with each answer, and a claim may have waited long for it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from counterfoil import connection
from counterfoil.connection import Connection

SENT = 1_800_000_000.0


def difference_after(monkeypatch: pytest.MonkeyPatch, header: Any, *, waits_s: float = 0.1) -> float:
    """The difference that a host sees with an answer after a wait; `header` is given the host's time at its end."""
    clock = [SENT]

    def answer(_request: httpx.Request) -> httpx.Response:
        clock[0] += waits_s
        return httpx.Response(200, json={}, headers=header(clock[0]))

    monkeypatch.setattr(connection.time, "time", lambda: clock[0])
    http = httpx.Client(transport=httpx.MockTransport(answer))
    line = Connection(url="http://console.test", key="cf_exec_x", timeout_s=30, http=http)
    line.get("/executions/ready")
    assert line.now() - clock[0] == pytest.approx(line.clock_difference_s, abs=0.001)
    return line.clock_difference_s


@pytest.mark.parametrize("waits_s", [0.1, 30.0])
@pytest.mark.parametrize("ahead_s", [2.1, -2.1, 3.5, -3.5, 3600.0, -3600.0])
def test_a_clock_difference_is_measured_however_long_the_answer_took(monkeypatch, ahead_s, waits_s):
    seen = difference_after(monkeypatch, lambda now: {"Counterfoil-Time": f"{now + ahead_s:.3f}"}, waits_s=waits_s)
    assert seen == pytest.approx(ahead_s, abs=0.001)


@pytest.mark.parametrize("waits_s", [0.1, 30.0])
@pytest.mark.parametrize("ahead_s", [0.0, 1.9, -1.9])
def test_a_clock_difference_below_two_seconds_is_ignored(monkeypatch, ahead_s, waits_s):
    seen = difference_after(monkeypatch, lambda now: {"Counterfoil-Time": f"{now + ahead_s:.3f}"}, waits_s=waits_s)
    assert seen == 0.0


@pytest.mark.parametrize("header", [{}, {"Counterfoil-Time": "noon"}, {"Date": "Thu, 01 Jan 1970 00:00:00 GMT"}])
def test_an_answer_without_a_time_gives_no_clock_difference(monkeypatch, header):
    assert difference_after(monkeypatch, lambda _: header) == 0.0
