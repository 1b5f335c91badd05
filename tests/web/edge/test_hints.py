"""The hint that a write sends to the workers."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
import redis
from kombu.exceptions import OperationalError

from console import celery
from console.celery import BULK, DUE, WorkerTask, app
from console.edge.transaction import after_commit
from console.local.processes import wait_until
from reviews.tasks import verify_due


@pytest.fixture
def send_to(monkeypatch):
    """Have hints sent to this broker."""

    def send(url: str) -> None:
        monkeypatch.setattr(app.conf, "broker_write_url", url)
        monkeypatch.setattr(app.amqp, "_producer_pool", None)

    monkeypatch.setattr(WorkerTask, "_left_alone_until", 0.0)
    return send


@pytest.fixture
def broker_away(send_to):
    """Nothing listens where hints are sent."""
    send_to("redis://127.0.0.1:1/0")


@pytest.fixture
def silent_broker(send_to):
    """A server that accepts connections and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        server.setblocking(False)
        send_to(f"redis://127.0.0.1:{server.getsockname()[1]}/0")
        yield server


def connections(server: socket.socket) -> int:
    """Take up those that came, and count them."""
    for number in count():
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return number
    raise AssertionError


def test_one_sender_at_a_time_waits_for_a_broker_that_is_silent(silent_broker, monkeypatch):
    monkeypatch.setattr(celery, "SENDING_S", 0.2)
    with pytest.raises(OperationalError):
        verify_due.apply_async(retry=False)
    assert connections(silent_broker) > 0
    for _ in range(20):
        with pytest.raises(OperationalError, match="a moment ago"):
            verify_due.apply_async(retry=False)
    assert connections(silent_broker) == 0

    # After a while one tries again; another does not wait with it.
    monkeypatch.setattr(WorkerTask, "_left_alone_until", time.monotonic())
    with ThreadPoolExecutor() as pool:
        trying = pool.submit(verify_due.apply_async, retry=False)
        assert wait_until(lambda: connections(silent_broker), within_s=10, every_s=0.01)
        with pytest.raises(OperationalError, match="a moment ago"):
            verify_due.apply_async(retry=False)
        assert "a moment ago" not in str(trying.exception())


def test_a_broker_that_is_back_takes_each_hint(send_to, valkey_url, monkeypatch):
    send_to(valkey_url)
    monkeypatch.setattr(WorkerTask, "_left_alone_until", time.monotonic())
    for _ in range(3):
        verify_due.apply_async(retry=False)
    with redis.Redis.from_url(valkey_url) as client:
        assert client.llen("due") == 3


def test_a_hint_is_dropped_while_the_broker_is_unreachable(
    db, broker_away, monkeypatch, caplog, django_capture_on_commit_callbacks
):
    waits: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", waits.append)
    with django_capture_on_commit_callbacks(execute=True):
        after_commit(verify_due)
    assert "the broker did not take a hint for reviews.tasks.verify_due" in caplog.text
    assert waits == []


def queue_of(task: str) -> str:
    return str(app.amqp.router.route({}, task)["queue"].name)


def test_readings_and_long_work_have_queues_of_their_own():
    app.loader.import_default_modules()
    assert {*DUE, *BULK} <= app.tasks.keys(), "a task that was renamed would go to the queue of the ticks"
    assert {queue_of(name) for name in DUE} == {"due"}
    assert {queue_of(name) for name in BULK} == {"bulk"}
    assert {queue_of(each["task"]) for each in app.conf.beat_schedule.values()} == {"due", "tick", "bulk"}


def test_no_task_is_sent_to_be_carried_out_later():
    """RabbitMQ would delay it by queues that the workers do not declare (console/celery.py)."""
    scheduled = re.compile(r"\b(countdown|eta)=")
    files = [file for top in ("console", "approvals", "reviews", "ledger") for file in Path(top).rglob("*.py")]
    assert [str(file) for file in files if scheduled.search(file.read_text())] == []
