"""Beat without a broker: it says so once, and goes on. What is quick shares a tick, and holds up nobody."""

from __future__ import annotations

import json
import logging
from base64 import b64decode
from datetime import timedelta
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.exceptions import SoftTimeLimitExceeded
from kombu import Queue

from console import beat, tasks
from console.beat import Ticks
from console.tasks import QuickLook, lapse
from console.telemetry import health


@pytest.fixture
def ticks() -> Ticks:
    """The schedule of an installation whose broker is not there."""
    app = Celery(broker="redis://127.0.0.1:1/0", set_as_current=False)
    # As ours is told (console/celery.py); kombu would wait six seconds.
    app.conf.update(task_publish_retry=False, broker_transport_options={"max_retries": 0, "interval_start": 0})
    made = Ticks(app=app)
    made.add(name="tick", task="nothing", schedule=timedelta(seconds=1))
    return made


def test_an_unreachable_broker_is_logged_in_one_line_without_a_traceback(
    ticks: Ticks, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            ticks.apply_entry(ticks.schedule["tick"])
    ours = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.name for record in ours] == ["console.beat"]
    assert ours[0].exc_info is None


def test_the_return_of_the_broker_is_logged_once(
    ticks: Ticks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
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


def test_without_a_worker_the_newest_messages_of_a_queue_are_kept(valkey_url: str, monkeypatch: pytest.MonkeyPatch):
    app, queue = Celery(broker=valkey_url, set_as_current=False), f"nobody-takes-{uuid4()}"
    app.conf.update(task_queues=[Queue(queue)], task_default_queue=queue)
    ticks = Ticks(app=app)
    ticks.add(
        name="tick", task="nothing", schedule=timedelta(0), kwargs={"number": BeatLazyFunc(partial(next, count()))}
    )
    monkeypatch.setattr(beat, "MOST_WAITING", 3)
    for _ in range(5):
        ticks.apply_entry(ticks.schedule["tick"])
    with redis.Redis.from_url(valkey_url) as client:
        try:
            assert client.llen(queue) == 5
            ticks.tick()
            kept = [
                json.loads(b64decode(json.loads(each)["body"]))[1]["number"] for each in client.lrange(queue, 0, -1)
            ]
            assert kept == [5, 4, 3]
            # Not at each tick, of which there are several a second.
            ticks.tick()
            assert client.llen(queue) == 4
        finally:
            client.delete(queue)


def test_queues_that_cannot_be_trimmed_stop_no_tick(ticks: Ticks, caplog: pytest.LogCaptureFixture):
    ticks.trim_queues()
    [record] = [each for each in caplog.records if each.name == "console.beat"]
    assert record.getMessage().startswith("the queues could not be trimmed: ")


def test_a_task_at_its_soft_limit_ends_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def slow() -> None:
        raise SoftTimeLimitExceeded(60)

    monkeypatch.setattr(lapse, "run", slow)
    with caplog.at_level(logging.INFO):
        assert lapse.apply().state == "FAILURE"
    told = [record for record in caplog.records if "SoftTimeLimitExceeded" in record.getMessage()]
    assert [(record.levelno, record.exc_info) for record in told] == [(logging.INFO, None)]


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """The tasks that a tick says to have ended, with the seconds that each took."""
    runs: list[dict[str, float]] = []
    monkeypatch.setattr(health, "note_task_runs", runs.append)
    return runs


class Look:
    """A quick look that may fail, or take long."""

    def __init__(self, name: str, fault: Exception | None = None) -> None:
        self.name, self.fault, self.looked, self.handed_over = name, fault, 0, 0

    def __call__(self) -> None:
        self.looked += 1
        if self.fault is not None:
            raise self.fault

    def apply_async(self, **options: Any) -> None:
        self.handed_over += 1


def test_each_periodic_task_runs_at_its_interval(monkeypatch: pytest.MonkeyPatch):
    often, seldom = Look("often"), Look("seldom")
    monkeypatch.setattr(tasks, "QUICK", (QuickLook(1, often), QuickLook(5, seldom)))
    for number in range(15):
        tasks.tick(number)
    assert (often.looked, seldom.looked) == (15, 3)


def test_a_failing_task_has_not_ended_and_does_not_affect_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, noted: list[dict[str, float]]
):
    broken, whole = Look("broken", KeyError("what")), Look("whole")
    monkeypatch.setattr(tasks, "QUICK", (QuickLook(1, broken), QuickLook(1, whole)))
    assert tasks.tick(0) == ["broken", "whole"]
    assert whole.looked == 1
    assert [list(each) for each in noted] == [["whole"]]
    assert [record.message for record in caplog.records] == ["broken did not end; its next tick goes on"]


def test_tasks_behind_a_slow_one_are_handed_over(monkeypatch: pytest.MonkeyPatch, noted: list[dict[str, float]]):
    slow, left = Look("slow"), Look("left")
    monkeypatch.setattr(tasks, "QUICK", (QuickLook(1, slow), QuickLook(1, left)))
    clock = iter([0.0, 0.0, 2.0, 2.0])
    # Its own clock: threads of other tests go on reading the real one.
    monkeypatch.setattr(tasks, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert tasks.tick(0) == ["slow"]
    assert (left.looked, left.handed_over) == (0, 1)
    assert noted == [{"slow": 2.0}]


def test_a_soft_limit_ends_the_tick(monkeypatch: pytest.MonkeyPatch):
    stuck, left = Look("stuck", SoftTimeLimitExceeded(60)), Look("left")
    monkeypatch.setattr(tasks, "QUICK", (QuickLook(1, stuck), QuickLook(1, left)))
    with pytest.raises(SoftTimeLimitExceeded):
        tasks.tick(0)
    assert left.looked == 0
