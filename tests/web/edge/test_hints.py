"""The hint that a write sends to the workers."""

from __future__ import annotations

import pytest

from console.celery import app
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
