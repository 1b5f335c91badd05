"""Whose clock is wrong: the console says the time with each answer, and a claim may have waited long for it."""

from __future__ import annotations

from email.utils import formatdate

import httpx
import pytest

from counterfoil import connection
from counterfoil.connection import Connection

SENT = 1_800_000_000.0


@pytest.mark.parametrize(
    ("waited", "said", "offset"),
    [
        (0.1, 0.0, 0.0),
        (20.0, 0.0, 0.0),
        (20.0, 20.0, 0.0),
        (20.0, 9.0, 0.0),
        (0.1, 3600.0, 3599.9),
        (0.1, -3600.0, -3600.0),
        (20.0, -60.0, -60.0),
        (20.0, 80.0, 60.0),
    ],
)
def test_a_wait_is_no_wrong_clock(monkeypatch, waited, said, offset):
    clock = [SENT]

    def answer(_request: httpx.Request) -> httpx.Response:
        clock[0] += waited
        return httpx.Response(200, json={}, headers={"Date": formatdate(SENT + said, usegmt=True)})

    monkeypatch.setattr(connection.time, "time", lambda: clock[0])
    http = httpx.Client(transport=httpx.MockTransport(answer))
    line = Connection(url="http://console.test", key="cf_exec_x", timeout_s=30, http=http)
    line.get("/executions/ready")
    assert line.now() - clock[0] == pytest.approx(offset, abs=0.01)
