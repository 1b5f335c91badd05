"""Measures that depend on the size of a log: integrating, checking and proving, from 10⁴ events to 10⁷.

Events are put into the tables in bulk, with checks but without the door (a million through it takes most of an hour);
the sequencer then gives them their places as it does any other event, so leaves, tiles and checkpoints are the
product's own. At 10⁷ only the tree is built, over made-up hashes and with the product's own `extend`: a proof reads
nothing else. `COUNTERFOIL_BENCH_EVENTS` says how many events there are at the most (300,000).
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from uuid import UUID

import psutil
import psycopg
from psycopg import sql

from benchmarks.figures import Figure, in_turn, sized
from benchmarks.stand import Stand
from console.local import processes
from console.local.installation import ROOT

DATABASE = "log"
EVENTS = sized(int(os.environ.get("COUNTERFOIL_BENCH_EVENTS", "300000")), tiny=2_000)
SIZES = [*(size for size in (10_000,) if size < EVENTS), EVENTS]
TREES = (10_000, sized(10_000_000, tiny=20_000))
PER_S, PROVED, PROOF_MS = 100_000.0, 400, 5.0
PACED_PER_S, PACED_S = 500, sized(20, tiny=1)

_EVENTS = """
INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state, prev,
    envelope, entry_hash, actor_kind, actor_id, at, recorded_at)
SELECT %(tenant)s, subject, seq, nullif(seq - 1, 0), gen_random_uuid(), 'case', 'case_opened',
    CASE WHEN seq = 1 THEN '' WHEN seq %% 2 = 0 THEN 'OPEN' ELSE 'AWAITING_SECOND' END,
    CASE seq %% 2 WHEN 1 THEN 'OPEN' ELSE 'AWAITING_SECOND' END, CASE WHEN seq > 1 THEN sha256('x') END,
    envelope, sha256('\\x00'::bytea || envelope), 'system', %(tenant)s, now(), now()
FROM (SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 40000000 + i / 10), 12, '0') || '7'
            || substr(md5((i / 10)::text), 1, 3) || '8' || substr(md5((i / 10)::text), 4, 15))::uuid AS subject,
        i %% 10 + 1 AS seq, convert_to(i::text || repeat(md5(i::text), 22), 'UTF8') AS envelope
    FROM generate_series(%(first)s, %(last)s - 1) i) made
"""
_WAITING = """
INSERT INTO ledger_pending (tenant_id, subject_id, seq)
SELECT e.tenant_id, e.subject_id, e.seq FROM ledger_event e WHERE e.tenant_id = %(tenant)s AND NOT EXISTS
    (SELECT FROM ledger_leaf l WHERE l.tenant_id = e.tenant_id AND l.subject_id = e.subject_id AND l.seq = e.seq)
    AND NOT EXISTS
    (SELECT FROM ledger_pending p WHERE p.tenant_id = e.tenant_id AND p.subject_id = e.subject_id AND p.seq = e.seq)
ORDER BY e.subject_id, e.seq
"""
_READ = """
SELECT e.envelope FROM ledger_leaf l JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = l.subject_id
    AND e.seq = l.seq WHERE l.tenant_id = $1 AND l.index >= $2 AND l.index < $3 ORDER BY l.index
"""


def measure(stand: Stand, rounds: int) -> list[Figure]:
    from benchmarks.ledger import sequencing

    tenant = UUID(stand.founded(DATABASE)["tenant"]["id"])
    figures: list[Figure] = []
    with sequencing(stand, DATABASE) as child:
        figures += _soaked(stand, tenant, child, rounds)
        figures += _paced(stand)
    return [*figures, *_proofs(stand)]


# Soak: events in bulk, integrated by the sequencer, and checked at each size


def _soaked(stand: Stand, tenant: UUID, child: processes.Child, rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    process, before, memory = psutil.Process(child.process.pid), 0, []
    for size in SIZES:
        seconds = _filled(stand, tenant, before, size)
        memory.append(process.memory_info().rss / 2**20)
        rate = (size - before) / seconds
        print(f"{size:,} events: {rate:,.0f} leaves per s; the sequencer holds {memory[-1]:.0f} MB", flush=True)
        figures += _checked(stand, tenant, size, rounds)
        before = size
    name = f"the sequencer's memory at {SIZES[-1]:,} events: at {SIZES[0]:,}"
    return [*figures, Figure(name=name, unit="MB", ours=(memory[-1],), peer=(memory[0],), aim=1.5, most=True)]


def _filled(stand: Stand, tenant: UUID, first: int, last: int) -> float:
    """Return the seconds that the sequencer takes for these events."""
    values = {"tenant": tenant, "first": first, "last": last}
    with stand.superuser(DATABASE) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        connection.execute(_EVENTS.encode(), values)
        connection.execute("VACUUM ANALYZE ledger_event")
        connection.execute(_WAITING.encode(), values)
        began = time.perf_counter()
        while connection.execute("SELECT EXISTS (SELECT FROM ledger_pending)").fetchone() != (False,):
            time.sleep(0.1)
        seconds = time.perf_counter() - began
        connection.execute("VACUUM ANALYZE ledger_leaf, ledger_tile, ledger_pending")
    return seconds


def _checked(stand: Stand, tenant: UUID, size: int, rounds: int) -> list[Figure]:
    """The check of the largest log with one process and with two, and reading and hashing the stored bytes alone."""
    if size < EVENTS:
        return []
    sides = {str(number): partial(_check, stand, size, number) for number in (1, 2)}
    found = in_turn(min(rounds, 3), sides | {"bytes": partial(_hash, stand, tenant, size)})
    fixed = (PER_S,) * len(found["1"])
    label, unit = f"check of a log of {size:,}", "events per s"
    return [
        Figure(name=f"{label}, 1 process: 100,000 per s", unit=unit, ours=found["1"], peer=fixed, aim=1),
        Figure(
            name=f"{label}, 1 process: reading and hashing", unit=unit, ours=found["1"], peer=found["bytes"], aim=0.5
        ),
        Figure(name=f"{label}, 2 processes: 1 process", unit=unit, ours=found["2"], peer=found["1"], aim=1.7),
    ]


def _check(stand: Stand, size: int, number: int) -> float:
    """Return the events per second, without the start-up time of Python and Django."""
    words = [sys.executable, "-m", "benchmarks.checking", str(number)]
    answer = subprocess.run(words, env=stand.environment(DATABASE), capture_output=True, text=True, cwd=ROOT)
    if answer.returncode != 0:
        raise SystemExit(f"benchmarks: the check of the log failed: {answer.stderr[-2000:]}")
    return size / float(answer.stdout)


def _hash(stand: Stand, tenant: UUID, size: int) -> float:
    """Return the events per second of reading each event's bytes in the order of the log and hashing them, nothing
    more.
    """
    began, step = time.perf_counter(), 65_536
    with stand.superuser(DATABASE) as connection:
        # As the check itself reads.
        for setting in ("enable_hashjoin", "enable_mergejoin", "enable_memoize"):
            connection.execute(sql.SQL("SET {} = off").format(sql.Identifier(setting)))
        connection.execute("SET max_parallel_workers_per_gather = 0")
        for first in range(0, size, step):
            cursor = psycopg.RawCursor(connection)
            for (envelope,) in cursor.stream(_READ.encode(), (tenant, first, first + step), binary=True, size=1000):
                sha256(envelope).digest()
    return size / (time.perf_counter() - began)


# 500 events a second


def _paced(stand: Stand) -> list[Figure]:
    from benchmarks.ledger import Watched, _drained
    from benchmarks.writers import ask, writers

    with writers(stand, DATABASE, 1, "benchmarks.log:paced") as pipes:
        with Watched(stand, DATABASE).watching() as watched:
            ask(pipes, "append", PACED_S)
            _drained(stand, DATABASE)
            time.sleep(0.3)
        delays = watched.delays(ask(pipes, "samples", 0)[0])
    tail = delays[int(len(delays) * 0.99)]
    name = f"{PACED_PER_S} events per s for {PACED_S} s on top of {SIZES[-1]:,}: commit to signed, p99"
    return [Figure(name=name, unit="ms, against 1,000", ours=(tail,), peer=(1000.0,), aim=1, most=True)]


def paced(number: int) -> dict[str, object]:
    """A writer that keeps to its pace."""
    from benchmarks.ledger import Samples, Told

    samples, began = Samples(), time.perf_counter()

    def move() -> None:
        nonlocal began
        began = max(began + 1 / PACED_PER_S, time.perf_counter() - 1)
        time.sleep(max(0.0, began - time.perf_counter()))
        samples()

    return {"append": move, "samples": Told(samples)}


# Proofs


def _proofs(stand: Stand) -> list[Figure]:
    tenant, took = UUID(int=1), {}
    for log, size in enumerate(TREES, 1):
        _planted(stand, tenant, log, size)
        took[size] = _proving(stand, tenant, log, size)
        print(f"{size:,} leaves: a proof in {took[size][0]:.2f} ms (p50), {took[size][1]:.2f} ms (p99)", flush=True)
    smallest, largest = took[TREES[0]], took[TREES[-1]]
    label = f"an inclusion proof in {TREES[-1]:,} leaves"
    return [
        Figure(name=f"{label}, p99: 5 ms", unit="ms", ours=largest[1:], peer=(PROOF_MS,), aim=1, most=True),
        Figure(name=f"{label}, p50: in {TREES[0]:,}", unit="ms", ours=largest[:1], peer=smallest[:1], aim=2, most=True),
    ]


def _planted(stand: Stand, tenant: UUID, log: int, size: int) -> None:
    """Insert the tiles of a log of this many leaves."""
    from counterfoil_tlog.tiles import TileAddress, extend, right_edge

    with stand.superuser(DATABASE) as connection:
        connection.execute("SET session_replication_role = replica")
        kept: dict[TileAddress, bytes] = {}
        at = 0
        while at < size:
            growth = extend(at, kept, list(_hashes(at, min(at + 65_536, size))))
            at = growth.size
            rows = [(tile.level, tile.index, hashes) for tile, hashes in growth.changed.items()]
            for level, index, hashes in rows:
                connection.execute(
                    "INSERT INTO ledger_tile (tenant_id, log, level, index, hashes) VALUES (%s, %s, %s, %s, %s)"
                    " ON CONFLICT (tenant_id, log, level, index) DO UPDATE SET hashes = excluded.hashes",
                    (tenant, log, level, index, hashes),
                )
            wanted = right_edge(at)
            kept = {tile: hashes for tile, hashes in (kept | growth.changed).items() if tile in wanted}
        connection.execute("VACUUM ANALYZE ledger_tile")


def _hashes(first: int, last: int) -> Iterator[bytes]:
    return (sha256(index.to_bytes(8, "big")).digest() for index in range(first, last))


def _proving(stand: Stand, tenant: UUID, log: int, size: int) -> tuple[float, float]:
    """p50 and p99 of a proof at a random place, in milliseconds, in a process that keeps the tiles it used last."""
    from benchmarks.stand import apart

    answer: tuple[float, float] = apart(stand, DATABASE, "benchmarks.log:proving", tenant, log, size)
    return answer


def proving(stand: Stand, tenant: UUID, log: int, size: int) -> tuple[float, float]:
    from ledger.db import tenancy
    from ledger.log.queries import proofs

    pick, took = random.Random(size), []
    for _ in range(PROVED):
        index = pick.randrange(size)
        began = time.perf_counter()
        with tenancy(tenant):
            proofs.inclusion_proof(tenant, log, index, size)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took), sorted(took)[int(PROVED * 0.99)]
