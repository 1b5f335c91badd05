"""Verification, as ratios in one run: readings through Celery against tasks that do nothing on the same broker, what
a silent system costs the others, the claim over many rows, the delay of a verdict, and the rules alone.

Actions are due in PostgreSQL's schedule; one hint per process of the worker wakes it, as beat would. The system is a
folder, so that what is measured is the product and not a peer.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import redis

from benchmarks import documents
from benchmarks.documents import Office, Written
from benchmarks.figures import Figure, Rate, interleaved, sized, spent_ms
from benchmarks.stand import Stand
from console.local import programs

ADDRESS = "verification"
PATIENT = {"first_after_s": 1, "backoff": 2.0, "max_interval_s": 3600, "sla_s": 172_800}
STEADY = {"first_after_s": 2, "backoff": 1.0, "max_interval_s": 2, "sla_s": 172_800}
POLLS, VERDICTS, TASKS = sized(600, tiny=4), sized(200, tiny=3), sized(3_000, tiny=5)
SILENT_ROWS, DELAYS = sized(40, tiny=2), sized(30, tiny=2)
LANES, DUE, CLAIMS = 200, sized(10_000, tiny=200), sized(400, tiny=4)
FEW, MANY = sized(10_000, tiny=300), sized(1_000_000, tiny=600)
WITHIN_S = 240.0


def measure(stand: Stand, rounds: int) -> list[Figure]:
    tenant = stand.founded(ADDRESS)["tenant"]
    with _silent_port() as port, stand.superuser(ADDRESS) as watcher:
        office = documents.open_office(stand, tenant, silent_port=port, polling=PATIENT)
        waiting = [office.pending() for _ in range(POLLS)]
        figures = [*_rules(office, waiting[0], rounds)]
        figures += _through_celery(stand, watcher, office, 2, rounds)
        figures += _delays(stand, watcher, rounds, port)
        figures += _claims(watcher, rounds)
    return figures


# Through Celery


def _through_celery(
    stand: Stand, watcher: psycopg.Connection, office: Office, processes: int, rounds: int
) -> list[Figure]:
    worker = programs.worker_program(environment=stand.environment(ADDRESS), log=stand.folder, processes=processes)
    unit, many = "per s", f"{processes} process{'es' if processes > 1 else ''}"
    with stand.running(worker):
        peer = _tasks(stand)
        polled = interleaved(rounds, lambda: _polls(watcher, processes), peer)
        figures = [Figure(name=f"readings without verdict, {many}", unit=unit, ours=polled[0], peer=polled[1], aim=1.0)]
        ended = interleaved(rounds, lambda: _verdicts(watcher, office, processes), peer)
        figures.append(Figure(name=f"verdicts, {many}", unit=unit, ours=ended[0], peer=ended[1], aim=0.4))
        figures.append(_beside_a_silent_one(watcher, office, rounds))
    return figures


def _polls(watcher: psycopg.Connection, processes: int) -> float:
    """Poll the same actions repeatedly: their effect is absent, and may still occur."""
    watcher.execute(
        "UPDATE reviews_schedule SET due_at = now() - interval '1 h', claimed_until = NULL, claim = NULL"
        " WHERE action_id IN (SELECT action_id FROM reviews_schedule s JOIN ledger_action a ON a.id = s.action_id"
        " WHERE a.tool = %s)",
        [documents.TOOL],
    )
    return POLLS / _timed(watcher, "due_at < now() - interval '30 min'", processes)


def _verdicts(watcher: psycopg.Connection, office: Office, processes: int) -> float:
    """New actions each time, with their files in place."""
    watcher.execute("UPDATE reviews_schedule SET due_at = now() + interval '1 day'")
    due = [office.pending() for _ in range(VERDICTS)]
    for each in due:
        each.do()
    ids = [each.action_id for each in due]
    watcher.execute("UPDATE reviews_schedule SET due_at = now() - interval '1 h' WHERE action_id = ANY(%s)", [ids])
    before = spent_ms()
    took = _timed(watcher, "due_at < now() - interval '30 min'", processes)
    spent = spent_ms() - before
    done = "SELECT count(*) FROM ledger_action WHERE state = 'RECONCILED_SUCCESS' AND id = ANY(%s)"
    if watcher.execute(done, [ids]).fetchone() != (VERDICTS,):
        raise SystemExit("benchmarks: not every action was verified")
    return Rate.of(VERDICTS / took, spent_ms=spent, operations=VERDICTS)


def _beside_a_silent_one(watcher: psycopg.Connection, office: Office, rounds: int) -> Figure:
    """Measure readings of the folder, with many readings due of a system that accepts connections and never answers."""
    silent = [office.pending(documents.SILENT_TOOL).action_id for _ in range(SILENT_ROWS)]
    due: LiteralString = "UPDATE reviews_schedule SET due_at = now() + %s::interval WHERE action_id = ANY(%s)"

    def beside() -> float:
        watcher.execute(due, ["-1 min", silent])
        # The silent one's readers are under way before the others are due.
        _hint(2)
        time.sleep(1)
        return _polls(watcher, 2)

    def alone() -> float:
        watcher.execute(due, ["1 day", silent])
        _wait(
            lambda: watcher.execute("SELECT count(*) FROM reviews_schedule WHERE claim IS NOT NULL").fetchone() == (0,)
        )
        return _polls(watcher, 2)

    ours, peer = interleaved(rounds, beside, alone)
    watcher.execute(due, ["1 day", silent])
    return Figure(name="readings beside a silent system, to those without", unit="per s", ours=ours, peer=peer, aim=0.8)


def _tasks(stand: Stand) -> Callable[[], float]:
    from benchmarks.bare.tasks import nothing

    broker = redis.Redis.from_url(stand.valkey.url())

    def run() -> float:
        before, began = spent_ms(), time.perf_counter()
        for _ in range(TASKS):
            nothing.delay()
        _wait(lambda: broker.llen("tick") + broker.hlen("unacked") == 0)
        per_s = TASKS / (time.perf_counter() - began)
        return Rate.of(per_s, spent_ms=spent_ms() - before, operations=TASKS)

    return run


def _hint(count: int) -> None:
    from reviews.tasks import verify_due

    for _ in range(count):
        verify_due.delay()


def _timed(watcher: psycopg.Connection, left: LiteralString, processes: int) -> float:
    began = time.perf_counter()
    _hint(processes)
    statement: LiteralString = "SELECT count(*) FROM reviews_schedule WHERE " + left
    _wait(lambda: watcher.execute(statement).fetchone() == (0,))
    return time.perf_counter() - began


def _wait(done: Callable[[], bool]) -> None:
    until = time.perf_counter() + WITHIN_S
    while not done():
        if time.perf_counter() > until:
            raise SystemExit("benchmarks: the worker did not get through its work")
        time.sleep(0.01)


@contextmanager
def _silent_port() -> Iterator[int]:
    """Start a server that accepts every connection and never answers."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:

        def take() -> None:
            with suppress(OSError):
                while True:
                    held.append(server.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            for each in held:
                each.close()


# From the effect to the verdict


def _delays(stand: Stand, watcher: psycopg.Connection, rounds: int, port: int) -> list[Figure]:
    """How long after its effect an action has its verdict, against the next reading that its polling plans."""
    from reviews.tasks import verify_due

    words = ("bootstrap", "--tenant", "steady", "--messages", "pass", "--json")
    tenant = json.loads(stand.manage(ADDRESS, *words))["tenant"]
    office = documents.open_office(stand, tenant, silent_port=port, polling=STEADY)
    worker = programs.worker_program(environment=stand.environment(ADDRESS), log=stand.folder, processes=2)
    ours, least = [], []
    with stand.running(worker), _beat(verify_due):
        for _ in range(rounds):
            delays, minima = _one_round_of_delays(watcher, office)
            ours.append(statistics.median(delays))
            least.append(statistics.median(minima))
    name = "delay from effect to verdict, to the least that polling allows"
    return [Figure(name=name, unit="s", ours=tuple(ours), peer=tuple(least), aim=1.2, most=True)]


@contextmanager
def _beat(task: Any) -> Iterator[None]:
    """The tick of `console.celery`: whoever stays ends as soon as it finds another one at work."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(1.0):
            task.apply_async(kwargs={"stay_s": 2.0}, expires=5)

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        yield
    finally:
        ended.set()
        ticking.join()


def _one_round_of_delays(watcher: psycopg.Connection, office: Office) -> tuple[list[float], list[float]]:
    begun: list[tuple[Written, datetime, datetime]] = []
    for _ in range(DELAYS):
        observed_at = datetime.now().astimezone()
        begun.append((office.pending(), observed_at, observed_at + timedelta(seconds=random.uniform(1, 6))))
    for written, _, happens_at in sorted(begun, key=lambda each: each[2]):
        time.sleep(max(0.0, (happens_at - datetime.now().astimezone()).total_seconds()))
        written.do()
    ids = [written.action_id for written, _, _ in begun]
    statement: LiteralString = (
        "SELECT subject_id, max(recorded_at) FROM ledger_event"
        " WHERE subject_id = ANY(%s) AND state = 'RECONCILED_SUCCESS' GROUP BY 1"
    )
    _wait(lambda: len(watcher.execute(statement, [ids]).fetchall()) == len(ids))
    ended = dict(watcher.execute(statement, [ids]).fetchall())
    delays = [(ended[written.action_id] - at).total_seconds() for written, _, at in begun]
    return delays, [_least(written.action_id, since, at) for written, since, at in begun]


def _least(action_id: UUID, since: datetime, happens_at: datetime) -> float:
    """When the first planned reading after the effect is due, had every reading been made on time."""
    from ledger.catalogue.rules.contract import Polling
    from reviews.readback.rules.schedule import next_read_at

    polling, due, attempts = Polling(**STEADY), since + timedelta(seconds=STEADY["first_after_s"]), 0
    while due < happens_at:
        far = due + timedelta(days=1)
        due = next_read_at(polling, attempts=attempts, at=due, until=far, seed=str(action_id))
        attempts += 1
    return (due - happens_at).total_seconds()


# The claim alone


def _claims(watcher: psycopg.Connection, rounds: int) -> list[Figure]:
    few = [_p99_of_claims(watcher, FEW) for _ in range(rounds)]
    many = [_p99_of_claims(watcher, MANY) for _ in range(rounds)]
    name = "p99 of a claim at 10⁶ rows, to that at 10⁴"
    return [Figure(name=name, unit="ms", ours=tuple(many), peer=tuple(few), aim=2.0, most=True)]


def _p99_of_claims(watcher: psycopg.Connection, rows: int) -> float:
    """Claim batches of four lanes at a time; claimed rows are due again at once, so that the number due is constant."""
    from django.utils import timezone

    from reviews.readback.operations import claimed_batches, schedules

    _fill(watcher, rows)
    took = []
    for _ in range(CLAIMS):
        at = timezone.now()
        began = time.perf_counter()
        claimed = claimed_batches.claim_batches(at=at, lanes=4)
        took.append((time.perf_counter() - began) * 1000)
        for claim in claimed:
            again = [schedules.NextReading(action_id=each.action_id, due_at=at, began_at=at) for each in claim.due]
            schedules.reschedule(claim.tenant_id, *again)
    return statistics.quantiles(took, n=100)[98]


def _fill(watcher: psycopg.Connection, rows: int) -> None:
    """Insert this many rows in two hundred lanes; the same number of them is due, the others within the next day."""
    known = watcher.execute("SELECT count(*) FROM reviews_schedule WHERE opened_at = '2020-01-01'").fetchone()
    if known == (rows,):
        return
    watcher.execute("DELETE FROM reviews_schedule; DELETE FROM reviews_lane")
    tenant = uuid4()
    lanes = [uuid4() for _ in range(LANES)]
    with watcher.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO reviews_lane (system_id, tenant_id, concurrency, reads_per_minute, pace_ms)"
            " VALUES (%s, %s, 16, 600000, 5)",
            [(lane, tenant) for lane in lanes],
        )
    watcher.execute(
        "INSERT INTO reviews_schedule"
        " (action_id, tenant_id, system_id, due_at, priority, readings, opened_at)"
        " SELECT gen_random_uuid(), %s, (%s::uuid[])[1 + number %% %s], CASE WHEN random() < %s THEN"
        " now() - interval '1 min' * random() ELSE now() + interval '1 day' * (0.1 + random()) END,"
        " floor(random() * 6), 1, '2020-01-01' FROM generate_series(1, %s) AS number",
        [tenant, lanes, LANES, DUE / rows, rows],
    )
    watcher.execute("VACUUM ANALYZE reviews_schedule")


# The rules alone


def _rules(office: Office, written: Written, rounds: int) -> list[Figure]:
    """Reconcile and decide in this process, for a reading that finds nothing yet and for one that settles."""
    waiting = _decisions_per_s(office, written, rounds)
    written.do()
    settling = _decisions_per_s(office, written, rounds)
    written.file.unlink()
    wanted = tuple(20_000.0 for _ in range(rounds))
    return [
        Figure(name=f"reconcile and decide, {name}, to 20,000 a second", unit="per s", ours=ours, peer=wanted, aim=1.0)
        for name, ours in (("nothing yet", waiting), ("to the verdict", settling))
    ]


def _decisions_per_s(office: Office, written: Written, rounds: int) -> tuple[float, ...]:
    from django.utils import timezone

    from ledger.db import tenancy
    from ledger.record import operations as ledger
    from ledger.record.rules.lifecycle import State
    from reviews.readback.operations import plans, readings
    from reviews.reconciliation.rules.reconcile import reconcile
    from reviews.recovery.rules import recovery
    from reviews.verification.operations import verification
    from reviews.verification.rules import verification as rules

    with tenancy(office.tenant):
        plan = plans.plan_for(office.tenant, written.action_id)
        head = ledger.lock_subject(tenant_id=office.tenant, subject_id=written.action_id, kind="action")
    at = timezone.now()
    taken = readings.read_sources(plan, at=at, clock=timezone.now)
    with tenancy(office.tenant):
        inputs = verification.run_inputs(plan, plan.known.action, head, None, taken, uuid4(), at=at)

    def once() -> None:
        verdict = reconcile(inputs)
        if verdict.triggers:
            asked = rules.recovery_situation(inputs, verdict)
            recovery.decide_recovery(asked, state=State.PENDING, means=rules.recovery_options(inputs, verdict))

    speeds = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(4000):
            once()
        speeds.append(4000 / (time.perf_counter() - began))
    return tuple(speeds)
