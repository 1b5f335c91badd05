"""The worker's connections: kept from one task to the next, and replaced when the server has ended them."""

from __future__ import annotations

import threading

import psycopg
from celery import shared_task
from celery.app.trace import build_tracer
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection

from console.celery import app


def test_an_idle_worker_opens_no_connections(quiet):
    quiet.until_at_work()
    # From another database, so that only what the installation itself does is counted.
    with psycopg.connect(quiet.database_url("shop"), autocommit=True) as observer:

        def count():
            query = "SELECT sessions, xact_commit FROM pg_stat_database WHERE datname = %s"
            return observer.execute(query, [quiet.database.name]).fetchone()

        sessions, commits = count()
        quiet.until(lambda: count()[1] > commits + 200, lambda: "the worker looks for nothing")
        # Each second has several tasks; a connection is replaced only when it is a minute old.
        assert count()[0] <= sessions + 5


def test_a_worker_continues_after_the_server_closed_its_connections(quiet):
    quiet.until_at_work()
    with psycopg.connect(quiet.database_url(), autocommit=True) as observer:
        query = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'counterfoil'"
        )
        assert observer.execute(query).fetchone() != (0,)
    sent = quiet.send("small_refund")
    quiet.start("executor")
    quiet.wait_for(sent.action_id, "RECONCILED_SUCCESS")


@shared_task
def _look(is_cut_short):
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if is_cut_short:
        raise SoftTimeLimitExceeded(60)


def test_an_interrupted_task_leaves_no_connection(db):
    kept = []

    def run_as_a_worker_does():
        task = app.tasks[_look.name]
        for is_cut_short in (False, True):
            build_tracer(task.name, task, app=app)("an id", (is_cut_short,), {})
            kept.append(connection.connection is not None)
        connection.close()

    worker = threading.Thread(target=run_as_a_worker_does)
    worker.start()
    worker.join()
    assert kept == [True, False]
