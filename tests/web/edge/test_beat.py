"""Beat without a broker: it says so once, and goes on."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from console.beat import Ticks
from console.tasks import lapse


@pytest.fixture
def ticks() -> Ticks:
    """The schedule of an installation whose broker is not there."""
    app = Celery(broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(task_publish_retry=False, broker_connection_retry=False)
    made = Ticks(app=app)
    made.add(name="tick", task="nothing", schedule=timedelta(seconds=1))
    return made


def test_a_broker_that_is_away_is_one_line_and_no_traceback(ticks: Ticks, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            ticks.apply_entry(ticks.schedule["tick"])
    ours = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.name for record in ours] == ["console.beat"]
    assert ours[0].exc_info is None


def test_that_it_is_back_is_said_once(ticks: Ticks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    ticks.apply_entry(ticks.schedule["tick"])
    sent: list[Any] = []
    monkeypatch.setattr(ticks, "apply_async", lambda entry, **_: sent.append(entry))
    caplog.clear()
    for _ in range(2):
        ticks.apply_entry(ticks.schedule["tick"])
    assert len(sent) == 2
    assert [record.message for record in caplog.records if record.name == "console.beat"] == [
        "the broker takes ticks again"
    ]


def test_a_task_that_runs_into_its_soft_limit_ends_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def slow() -> None:
        raise SoftTimeLimitExceeded(60)

    monkeypatch.setattr(lapse, "run", slow)
    with caplog.at_level(logging.INFO):
        assert lapse.apply().state == "FAILURE"
    told = [record for record in caplog.records if "SoftTimeLimitExceeded" in record.getMessage()]
    assert [(record.levelno, record.exc_info) for record in told] == [(logging.INFO, None)]
