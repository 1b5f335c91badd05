"""The queues of the workers: what is due never waits for what takes long."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import redis
from celery import Celery

from console.local import programs
from tests.journeys.ground import Ground, locked

# Exports are found and cannot be worked on: every worker that takes one up waits, as in the middle of a long one.
EXPORTS = "LOCK TABLE ledger_export IN EXCLUSIVE MODE"


@pytest.fixture
def two_workers(quiet: Ground) -> Iterator[Ground]:
    """Workers as `up` and deploy/systemd run them: one for what is due and for ticks, one for what takes long."""
    stack = quiet.stack
    stack.kill("worker")
    common = {"environment": stack.environment, "log": stack.folder}
    stack.run(programs.worker_program(**common, queues="due,tick"))
    stack.run(programs.worker_program(**common, processes=1, name="bulk", queues="bulk"))
    quiet.until_at_work()
    yield quiet
    for name in ("worker", "bulk"):
        stack.kill(name)


def exports(ground: Ground, state: str) -> int:
    with psycopg.connect(ground.database_url()) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM ledger_export WHERE state = %s", [state]).fetchall()
        return int(count)


def test_a_worker_carries_out_what_the_version_before_sends(two_workers: Ground):
    """It knows one queue, Celery's own; nobody but this message runs the task for minutes."""
    ground, task = two_workers, "console.tasks.watch_budgets"
    with psycopg.connect(ground.database_url(), autocommit=True) as connection:
        connection.execute("DELETE FROM ledger_taskrun WHERE task = %s", [task])
        with Celery("before", broker=ground.stack.broker.url(), set_as_current=False) as before:
            before.send_task(task)
        ended = "SELECT FROM ledger_taskrun WHERE task = %s"
        ground.until(lambda: connection.execute(ended, [task]).rowcount == 1, lambda: "the message was not carried out")


def test_a_reading_is_made_while_exports_hold_every_process_for_long_work(two_workers: Ground):
    ground = two_workers
    done = exports(ground, "FINISHED")
    auditor = ground.machine("audit")
    for number in (1, 2, 3):
        answer = auditor.post("/exports", {"from": 1, "to": number + 1}, **{"Idempotency-Key": f"queues-{number}"})
        assert answer.status_code in (200, 202), answer.text
    with locked(ground.database_url(), EXPORTS):
        ground.until_blocked()
        # Whoever listens to the queue has as much as it takes, and ticks bring more.
        with redis.Redis.from_url(ground.stack.broker.url()) as broker:
            ground.until(lambda: broker.llen("bulk") >= 2, lambda: "no message waits in the queue bulk")
        sent = ground.send("small_refund")
        ground.start("executor")
        ground.wait_for(sent.action_id, "RECONCILED_SUCCESS")
        assert ground.blocked(), "the export still waits"
    ground.until(lambda: exports(ground, "FINISHED") == done + 3, lambda: "the exports were not made")
