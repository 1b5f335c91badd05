"""Idle tenants: the processor time, per second, of everything that runs periodically, for one, 1,000 and 10,000.

Worker, beat and sequencer run as processes, with the database servers and the broker, and nobody asks them anything.
What beat sends seldom, and the sequencer's hourly visit of each log, are run once by themselves; their time is divided
by their period and added.

The tenants are copies of one that was founded, sealed and visited: rows are copied by SQL, which is quick, and the
heads of their logs are enrolled in the signer's state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import UUID

import psutil
import psycopg
from psycopg import sql

from benchmarks.figures import ROOT_PROCESS, Figure, sized
from benchmarks.stand import Stand, apart
from console.local import processes, programs

FEW, MANY = sized(1_000, tiny=5), sized(10_000, tiny=20)
AIMS = {FEW: 0.2, MANY: 1.0}
SECONDS = sized(60.0, tiny=2.0)
REST_S = sized(20.0, tiny=1.0)
WITHIN_S = 900.0
HOUR_S = 3600.0
SELDOM_S = 60.0
"""A task that beat sends at this interval or a longer one is run by itself."""


def measure(stand: Stand, rounds: int) -> list[Figure]:
    found = {count: _processors(stand, count, rounds) for count in (1, FEW, MANY)}
    figures = [
        Figure(
            name=f"{count:,} idle tenants, to the aim",
            unit="processors",
            ours=found[count],
            peer=(aim,) * rounds,
            aim=1.0,
            most=True,
        )
        for count, aim in AIMS.items()
    ]
    return [*figures, Figure(name=f"{MANY:,} idle tenants, to one", unit="processors", ours=found[MANY], peer=found[1])]


def _processors(stand: Stand, count: int, rounds: int) -> tuple[float, ...]:
    """The processors that so many idle tenants keep busy, by rounds."""
    database = f"tenants_{count}"
    stand.database(database)
    sealing = stand.sealing(database)
    tenant = UUID(stand.founded(database)["tenant"]["id"])
    apart(stand, database, "benchmarks.tenants:visit")
    began = time.monotonic()
    with stand.superuser(database) as connection:
        _copy(connection, tenant, count - 1)
        connection.execute("VACUUM ANALYZE")
    apart(stand, database, "benchmarks.tenants:enrol", sealing["COUNTERFOIL_SIGNER_STATE"])
    made_s = time.monotonic() - began
    told, log = stand.environment(database), stand.folder
    with ExitStack() as stack, stand.superuser(database) as connection:
        before = spent_s()
        stack.enter_context(stand.running(programs.sequencer_program(environment=sealing, log=stand.folder)))
        if not processes.wait_until(lambda: _is_visited(connection), within_s=WITHIN_S):
            raise SystemExit("benchmarks: the sequencer has not visited every log")
        hourly = (spent_s() - before) / HOUR_S
        seldom = apart(stand, database, "benchmarks.tenants:run_seldom_tasks")
        stack.enter_context(stand.running(programs.worker_program(environment=told, log=log, processes=2)))
        stack.enter_context(stand.running(programs.beat_program(environment=told, log=log)))
        time.sleep(REST_S)
        if left := _count_left(connection):
            raise SystemExit(f"benchmarks: {left} copies are not idle")
        figures = tuple(_busy() + hourly + seldom for _ in range(rounds))
        [(tasks,)] = connection.execute("SELECT count(*) FROM ledger_taskrun").fetchall()
        [(alarms,)] = connection.execute("SELECT count(*) FROM ledger_alarm").fetchall()
    if not tasks:
        raise SystemExit("benchmarks: no task ran, so nothing was measured")
    if alarms:
        raise SystemExit(f"benchmarks: {alarms} alarms were raised: the copies were not whole")
    print(
        f"{count:,} tenants, made in {made_s:.1f} s: {', '.join(f'{each:.3f}' for each in figures)} processors,"
        f" of which {hourly:.4f} visit each log once an hour and {seldom:.4f} are tasks of a minute and longer",
        flush=True,
    )
    return figures


def spent_s() -> float:
    """Return the processor time so far of all processes of this run, with that of ended ones and of ended threads: the
    servers of connections come and go within a minute.
    """
    root = psutil.Process(int(os.environ[ROOT_PROCESS]))
    spent = 0.0
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:4])
    return spent


def _busy() -> float:
    before, began = spent_s(), time.monotonic()
    time.sleep(SECONDS)
    return (spent_s() - before) / (time.monotonic() - began)


def _is_visited(connection: psycopg.Connection) -> bool:
    """Return whether the head of each copy was compared and signed again; it was left as two hours old."""
    left = connection.execute("SELECT FROM ledger_tip WHERE signed_at < now() - interval '1 hour' LIMIT 1").fetchall()
    return not left


def _count_left(connection: psycopg.Connection) -> int:
    """Count the events that wait, and the copies of which something is not read."""
    [(count,)] = connection.execute(
        "SELECT (SELECT count(*) FROM ledger_pending) + (SELECT count(*) FROM ledger_tip t"
        " JOIN console_metriccursor m USING (tenant_id) JOIN console_searchcursor s USING (tenant_id)"
        " JOIN console_noticecursor n USING (tenant_id)"
        " WHERE t.size IS DISTINCT FROM m.seen OR t.size IS DISTINCT FROM s.seen OR t.size IS DISTINCT FROM n.seen)"
    ).fetchall()
    return int(count)


def _copy(connection: psycopg.Connection, tenant: UUID, count: int) -> None:
    """Copy all rows of a tenant for so many others: every key begins with the tenant."""
    connection.execute("SET session_replication_role = replica")
    connection.execute(
        "CREATE TEMPORARY TABLE made AS SELECT n, gen_random_uuid() AS id FROM generate_series(1, %s) n", [count]
    )
    connection.execute(
        "INSERT INTO ledger_tenant (id, slug, name, origin, created_at, epoch)"
        " SELECT made.id, slug || '-' || n, name, origin || '-' || n, created_at, epoch FROM ledger_tenant t, made"
        " WHERE t.id = %s",
        [tenant],
    )
    tables = connection.execute(
        "SELECT c.relname::text, array_agg(a.attname::text ORDER BY attnum) FROM pg_class c"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
        " AND attname <> 'tenant_id' WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid"
        " AND t.attname = 'tenant_id') GROUP BY c.relname"
    ).fetchall()
    for name, columns in tables:
        connection.execute(_copying(name, columns, tenant))
    connection.execute("UPDATE ledger_tip SET signed_at = now() - interval '2 hours'")
    connection.execute("RESET session_replication_role")


_NEW_VALUES: Final[Mapping[tuple[str, str], LiteralString]] = {("ledger_log", "origin"): "t.{} || '-' || made.n"}


def _copying(table: str, columns: list[str], tenant: UUID) -> sql.Composed:
    names = [sql.Identifier(each) for each in columns]
    return sql.SQL(
        "INSERT INTO {0} (tenant_id, {1}) SELECT made.id, {2} FROM {0} t, made WHERE t.tenant_id = {3}"
    ).format(
        sql.Identifier(table),
        sql.SQL(", ").join(names),
        sql.SQL(", ").join(
            sql.SQL(_NEW_VALUES.get((table, each), "t.{}")).format(sql.Identifier(each)) for each in columns
        ),
        sql.Literal(tenant),
    )


# In processes of their own


def visit(stand: Stand) -> None:
    """Run what reads the events of the founded tenant, so that nothing is left to do."""
    for run in _tasks().values():
        run()


def run_seldom_tasks(stand: Stand) -> float:
    """Run once what beat sends seldom; return the processors that it keeps busy at its intervals."""
    from console.celery import app

    intervals = {each["task"]: float(each["schedule"]) for each in app.conf.beat_schedule.values()}
    busy = 0.0
    for name, run in _tasks().items():
        if intervals[name] >= SELDOM_S:
            before = spent_s()
            run()
            busy += (spent_s() - before) / intervals[name]
    return busy


def _tasks() -> dict[str, Any]:
    from console.celery import app

    app.loader.import_default_modules()
    names = {each["task"] for each in app.conf.beat_schedule.values()} - {"console.tasks.tick"}
    return {name: app.tasks[name] for name in sorted(names)}


def enrol(stand: Stand, file: str) -> None:
    """Enrol the heads of all logs in the signer's state, as they stand."""
    from ledger.db import execute, tenancy
    from ledger.log.operations.sequencer import take_lead
    from ledger.log.rules.signing import TreeHead
    from ledger.log.signer_state import open_state
    from ledger.record.queries import events

    with open_state(Path(file)) as state:
        take_lead(state, at_once=True)
        known = set(state.origins())
        for each in events.tenants():
            if each.origin not in known:
                with tenancy(each.id):
                    [(size, root)] = execute("SELECT size, root FROM ledger_tip WHERE tenant_id = $1", each.id)
                state.keep_lead()
                state.adopt(each.origin, TreeHead(size, bytes(root)))
        state.release_lead()
