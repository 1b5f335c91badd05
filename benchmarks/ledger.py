"""The record and its log: appending, sealing, checking and proving, each against a comparable system.

`append` here is the whole operation: a transaction that knows its tenant, the action's row locked, one step, event,
entry, present view and the row that waits for its leaf. benchmarks/log.py has what depends on the size of a log.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from benchmarks import append
from benchmarks.figures import Figure, in_turn, sized
from benchmarks.stand import Stand, prepare
from benchmarks.writers import Write, ask, rate, writers
from console.local import processes, programs, servers
from console.local.installation import ROOT
from console.local.keys import ensure_keys

SECONDS = sized(1.0, tiny=0.1)
DATABASE, AUDITED, SLOW = "ledger", "audited", "slow"
SEAL_MS = 100.0
UNIT = "events or rows per s"


def measure(stand: Stand, rounds: int) -> list[Figure]:
    stand.founded(DATABASE)
    _make_audited(stand)
    _make_recorder(stand, DATABASE)
    figures = [*_saves(stand, rounds), *_plain(stand, rounds), *_sealing(stand, rounds)]
    return [*figures, *_slow(stand, rounds)]


# (a) the public operation, through Django


def _saves(stand: Stand, rounds: int) -> list[Figure]:
    """Four writers of ours, four of the peers'; whoever is not measured sleeps."""
    url = {"AUDITED_URL": stand.postgres.url(servers.OWNER, AUDITED), "DJANGO_SETTINGS_MODULE": AUDITED_SETTINGS}
    with (
        writers(stand, DATABASE, 4, "benchmarks.append:ways") as ours,
        writers(stand, DATABASE, 4, "benchmarks.audited.saves:ways", url) as theirs,
    ):
        sides = {
            "append": partial(rate, ours, "append", SECONDS),
            "create": partial(rate, ours, "create", SECONDS),
            "auditlog": partial(rate, theirs, "auditlog", SECONDS),
            "history": partial(rate, theirs, "history", SECONDS),
        }
        found = in_turn(rounds, sides)
    return [
        _against(found, "append", "create", "append, 4 writers: a bare create()", 0.6),
        _against(found, "append", "auditlog", "append, 4 writers: a save with django-auditlog", 1.4),
        _against(found, "append", "history", "append, 4 writers: a save with django-simple-history", 1.3),
    ]


AUDITED_SETTINGS = "benchmarks.audited.settings"


def _against(found: dict[str, tuple[float, ...]], ours: str, peer: str, name: str, aim: float | None) -> Figure:
    return Figure(name=name, unit=UNIT, ours=found[ours], peer=found[peer], aim=aim)


def _make_audited(stand: Stand) -> None:
    stand.postgres.make_database(AUDITED)
    url = stand.postgres.url(servers.OWNER, AUDITED)
    told = os.environ | {"AUDITED_URL": url, "DJANGO_SETTINGS_MODULE": AUDITED_SETTINGS, "PYTHONPATH": str(ROOT)}
    # The packages' own tables first: ours refer to them.
    for words in (["migrate"], ["migrate", "--run-syncdb"]):
        command = [sys.executable, "-m", "django", *words, "--verbosity", "0"]
        answer = subprocess.run(command, env=told, capture_output=True, text=True)
        if answer.returncode != 0:
            raise SystemExit(f"benchmarks: the tables of the peers were not made: {answer.stderr[-2000:]}")


# (b) and (c) the same SQL, without Django; and on a slow disk


def _plain(stand: Stand, rounds: int) -> list[Figure]:
    owner = {"OWNER_URL": stand.postgres.url(servers.OWNER, DATABASE)}
    with writers(stand, DATABASE, 8, "benchmarks.plain:ways", owner) as pipes:
        found = in_turn(
            rounds, {each: partial(rate, pipes, each, SECONDS) for each in ("append", "bare", "eventsourcing")}
        )
    return [
        _against(found, "append", "bare", "its SQL, 8 writers: a bare insert", 0.6),
        _against(found, "append", "eventsourcing", "its SQL, 8 writers: the eventsourcing recorder", 4),
    ]


def _slow(stand: Stand, rounds: int) -> list[Figure]:
    with slow_disk(stand) as slow:
        if slow is None:
            print("no C compiler: nothing is measured on a slow disk")
            return []
        slow.database(SLOW)
        slow.founded(SLOW)
        _make_recorder(slow, SLOW)
        owner = {"OWNER_URL": slow.postgres.url(servers.OWNER, SLOW)}
        with writers(slow, SLOW, 32, "benchmarks.plain:ways", owner) as pipes:
            found = in_turn(rounds, {each: partial(rate, pipes, each, SECONDS) for each in ("append", "chain", "bare")})
    return [
        _against(found, "append", "chain", "its SQL, 32 writers, +1 ms per fsync: a chain under a lock", 8),
        _against(found, "append", "bare", "its SQL, 32 writers, +1 ms per fsync: a bare insert", None),
    ]


def _make_recorder(stand: Stand, database: str) -> None:
    os.environ["OWNER_URL"] = stand.postgres.url(servers.OWNER, database)
    from benchmarks.plain import recorder

    made = recorder()
    made.create_table()
    made.datastore.close()


# (d) from the commit to the signature


@contextmanager
def sequencing(stand: Stand, database: str) -> Iterator[Any]:
    """The sequencer at work on a database."""
    with stand.running(programs.sequencer_program(environment=stand.sealing(database), log=stand.folder)) as child:
        yield child


@dataclass
class Watched:
    """When each size of a log was signed."""

    stand: Stand
    database: str
    sizes: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    ended: bool = False

    def watch(self) -> None:
        with self.stand.superuser(self.database) as connection:
            while not self.ended:
                row = connection.execute("SELECT coalesce(max(signed_size), 0) FROM ledger_tip").fetchone()
                assert row is not None
                if not self.sizes or row[0] > self.sizes[-1]:
                    self.sizes.append(row[0])
                    self.times.append(time.time())
                time.sleep(0.004)

    @contextmanager
    def watching(self) -> Iterator[Watched]:
        thread = threading.Thread(target=self.watch)
        thread.start()
        try:
            yield self
        finally:
            self.ended = True
            thread.join()

    def delays(self, appended: list[tuple[UUID, int, float]]) -> list[float]:
        """Milliseconds from each commit to the first checkpoint over it, in order of length."""
        with self.stand.superuser(self.database) as connection:
            rows = connection.execute("SELECT subject_id, seq, index FROM ledger_leaf").fetchall()
        places = {(subject, seq): index for subject, seq, index in rows}
        found = []
        for subject, seq, at in appended:
            turn = bisect_left(self.sizes, places[subject, seq] + 1)
            found.append((self.times[turn] - at) * 1000)
        return sorted(found)


def _sealing(stand: Stand, rounds: int) -> list[Figure]:
    """Measure four writers at full speed while the sequencer gives each event its position and signs."""
    tails, middles, rates = [], [], []
    with sequencing(stand, DATABASE), writers(stand, DATABASE, 4, "benchmarks.ledger:sampled") as pipes:
        _drained(stand, DATABASE)
        rate(pipes, "append", SECONDS)
        for _ in range(rounds):
            with Watched(stand, DATABASE).watching() as watched:
                ask(pipes, "append", 0)
                rates.append(sum(ask(pipes, "append", SECONDS)))
                _drained(stand, DATABASE)
                time.sleep(0.2)
            appended = [each for some in ask(pipes, "samples", 0) for each in some]
            delays = watched.delays(appended)
            tails.append(delays[int(len(delays) * 0.99)])
            middles.append(delays[len(delays) // 2])
    limit = (SEAL_MS,) * rounds
    rows = f"at {sorted(rates)[len(rates) // 2]:,.0f} events per s"
    return [
        Figure(
            name=f"commit to signed, p99, {rows}",
            unit="ms, against 100",
            ours=tuple(tails),
            peer=limit,
            aim=1,
            most=True,
        ),
        Figure(name=f"commit to signed, p50, {rows}", unit="ms, against 100", ours=tuple(middles), peer=limit),
    ]


def _drained(stand: Stand, database: str) -> None:
    with stand.superuser(database) as connection:
        while connection.execute("SELECT EXISTS (SELECT FROM ledger_pending)").fetchone() != (False,):
            time.sleep(0.02)


class Samples:
    """An append of one writer, with the place and the time of each."""

    def __init__(self) -> None:
        self.taken: list[tuple[UUID, int, float]] = []
        self.move = append.mover()

    def __call__(self) -> None:
        subject, seq = self.move()
        self.taken.append((subject, seq, time.time()))

    def ready(self) -> None:
        self.taken.clear()


@dataclass
class Told:
    """A writer's answer when it is asked for its samples."""

    samples: Samples

    def __call__(self) -> None:
        """Never written."""

    def ready(self) -> list[tuple[UUID, int, float]]:
        return list(self.samples.taken)


def sampled(number: int) -> dict[str, Write]:
    """Return the operations of one writer."""
    samples = Samples()
    return {"append": samples, "samples": Told(samples)}


# A slow disk

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    usleep(1000);
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    usleep(1000);
    return real(file);
}
"""


@contextmanager
def slow_disk(stand: Stand) -> Iterator[Stand | None]:
    """Return the same stand with a server on a slow disk; None if there is no compiler.

    The embedded servers write to whatever disk there is, often one that is far faster than network storage. A shim in
    front of the C library adds one millisecond to each fsync and fdatasync; all else is as on the first server.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        yield None
        return
    folder = servers.private_folder(stand.folder / "slow", stand.postgres.account)
    ensure_keys(folder / "secrets")
    slow = replace(stand.postgres, folder=folder / "postgres", port=servers.free_port())
    slow.initialise()
    program = slow.program()
    shim = _compiled(compiler, folder)
    child = processes.spawn(replace(program, environment=dict(program.environment) | {"LD_PRELOAD": str(shim)}))
    processes.record_processes(stand.folder / "slow.running", [child])
    try:
        slow.wait(child)
        made = Stand(folder=folder, postgres=slow, valkey=stand.valkey)
        prepare(made)
        yield made
    finally:
        processes.stop_children([child])


def _compiled(compiler: str, folder: Path) -> Path:
    source, shim = folder / "slow.c", folder / "slow.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(shim), str(source), "-ldl"], check=True)
    shim.chmod(0o755)
    return shim
