"""Verification runs through Celery, against tasks that do nothing on the same broker and the same worker.

Actions are due in PostgreSQL's schedule; one hint per process of the worker wakes it, as beat would. A run reads the
shop's primary (effect, target and audit trail in one snapshot), judges what it found, and writes what follows: once
for readings that find nothing yet and will be made again, once for readings that end in RECONCILED_SUCCESS. The peer
is one message per task.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import redis

from benchmarks import refunds
from benchmarks.ratios import Figure, interleaved
from benchmarks.stand import Stand
from console import programs

AIM = 0.5
RUNS = 200
TASKS = 400
PROCESSES = 2
WITHIN_S = 120.0


def measure(stand: Stand, rounds: int) -> list[Figure]:
    tenant = stand.founded("verify")["tenant"]
    shop = refunds.open_shop(stand, tenant["slug"])
    session = refunds.open_session(UUID(tenant["id"]))
    worker = programs.worker(environment=stand.environment("verify"), log=stand.folder)
    with stand.running(worker), stand.superuser("verify") as watcher:
        peer = _tasks(stand)
        again = interleaved(rounds, _read_again(watcher, session, shop), peer)
        watcher.execute("UPDATE reviews_schedule SET due_at = now() + interval '1 day'")
        ended = interleaved(rounds, _read_to_the_end(watcher, session, shop), peer)
    unit = "runs or tasks per s"
    return [
        Figure(name="verification, no verdict yet", unit=unit, ours=again[0], peer=again[1], aim=AIM),
        Figure(name="verification to its verdict", unit=unit, ours=ended[0], peer=ended[1], aim=AIM),
    ]


def _read_again(watcher: psycopg.Connection, session: Any, shop: psycopg.Connection) -> Callable[[], float]:
    """The same actions again and again: their effect is not there, and may still come."""
    waiting = [refunds.pending(session) for _ in range(RUNS)]
    refunds.place_orders(shop, waiting)

    def run() -> float:
        watcher.execute("UPDATE reviews_schedule SET due_at = now() - interval '1 h', claimed_until = NULL")
        return _timed(watcher, "due_at < now() - interval '30 min'")

    return run


def _read_to_the_end(watcher: psycopg.Connection, session: Any, shop: psycopg.Connection) -> Callable[[], float]:
    """New actions each time, with their refunds in the shop."""

    def run() -> float:
        due = [refunds.pending(session) for _ in range(RUNS)]
        ids = [each.action_id for each in due]
        refunds.place_orders(shop, due)
        refunds.refund(shop, due)
        watcher.execute("UPDATE reviews_schedule SET due_at = now() WHERE action_id = ANY(%s)", [ids])
        speed = _timed(watcher, "due_at < now() + interval '1 h'")
        done = "SELECT count(*) FROM ledger_action WHERE state = 'RECONCILED_SUCCESS' AND id = ANY(%s)"
        if watcher.execute(done, [ids]).fetchone() != (RUNS,):
            raise SystemExit("benchmarks: not every action was verified")
        return speed

    return run


def _tasks(stand: Stand) -> Callable[[], float]:
    from benchmarks.bare.tasks import nothing

    broker = redis.Redis.from_url(stand.valkey.url())

    def run() -> float:
        began = time.perf_counter()
        for _ in range(TASKS):
            nothing.delay()
        _wait(lambda: broker.llen("celery") + broker.hlen("unacked") == 0)
        return TASKS / (time.perf_counter() - began)

    return run


def _timed(watcher: psycopg.Connection, left: LiteralString) -> float:
    from reviews.tasks import verify_due

    began = time.perf_counter()
    for _ in range(PROCESSES):
        verify_due.delay()
    statement: LiteralString = "SELECT count(*) FROM reviews_schedule WHERE " + left
    _wait(lambda: watcher.execute(statement).fetchone() == (0,))
    return RUNS / (time.perf_counter() - began)


def _wait(done: Callable[[], bool]) -> None:
    until = time.perf_counter() + WITHIN_S
    while not done():
        if time.perf_counter() > until:
            raise SystemExit("benchmarks: the worker did not get through its work")
        time.sleep(0.01)
