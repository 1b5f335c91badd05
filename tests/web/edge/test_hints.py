"""The hint that a write sends to the workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.celery import BULK, DUE, app
from console.edge.transaction import after_commit
from reviews.tasks import verify_due


@pytest.fixture
def broker_away(monkeypatch):
    """Nothing listens where hints are sent."""
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(app.amqp, "_producer_pool", None)


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
