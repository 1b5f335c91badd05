"""The samples of a long run and the slope of each figure: growth that goes on is told from caches that fill.

A sample looks at the processes from outside, at their servers, and at the figures that the product has for monitoring.
Each is a line of JSON in a file, so that a run that is cut short keeps its own.
"""

from __future__ import annotations

import json
import os
import statistics
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, TextIO

import psutil
import psycopg
import redis
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.stand import KEYS, Stand
from console.local.servers import SUPERUSER
from ledger.record.rules.lifecycle import OPEN, phases

STRETCHES = 15
T_95 = 2.160
"""The 97.5 % quantile of Student's t for the degrees of freedom that a line through `STRETCHES` points leaves."""
WARM_UP = 0.25
"""The share of a run whose samples are in no slope."""
WORKERS = ("worker", "bulk")
BACKLOGS = (
    *("unsealed_events", "readings_overdue", "readings_overdue_oldest_seconds", "deadlines_overdue"),
    *("orders_waiting", "executions_running", "queue_messages", "alarms_open"),
)
_DATABASE = """
SELECT count(*) FILTER (WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
    count(*) FILTER (WHERE state LIKE 'idle in transaction%%'),
    (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 / 1e6,
    (SELECT wal_fpi FROM pg_stat_wal)::float8,
    pg_database_size(current_database()) / 1e6, pg_database_size(%(keys)s) / 1e6,
    (SELECT sum(n_dead_tup)::float8 FROM pg_stat_user_tables),
    (SELECT deadlocks::float8 FROM pg_stat_database WHERE datname = current_database()),
    (SELECT count(*) FROM ledger_action WHERE phase = ANY(%(open)s)),
    (SELECT count(*) FROM console_notice WHERE sent_at IS NULL AND given_up_at IS NULL)
FROM pg_stat_activity
"""
_FROM_DATABASE = (
    *("server connections", "of them idle in a transaction", "WAL, MB", "WAL: whole pages", "database, MB"),
    *("keys' database, MB", "dead rows", "deadlocks", "open actions", "notices not sent"),
)
_TABLES = """
SELECT relname, n_tup_ins - n_tup_del, n_dead_tup, pg_total_relation_size(relid), autovacuum_count
FROM pg_stat_user_tables WHERE n_tup_ins + n_tup_upd + n_tup_del > 0
"""

Figures = dict[str, float]


@dataclass(frozen=True)
class Sample:
    """The figures at one moment: seconds after the beginning, and accepted calls so far."""

    at_s: float
    actions: int
    figures: Figures


@dataclass
class Samples:
    """A run with its samples; `tables` has by table the rows added, dead rows, bytes, and runs of autovacuum."""

    run: dict[str, Any]
    taken: list[Sample] = field(default_factory=list)
    drained: Sample | None = None
    tables: list[tuple[int, dict[str, list[int]]]] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> Samples:
        """The samples of a file, of which the last line may be cut off."""
        found = cls({})
        for line in file.read_text().splitlines():
            with suppress(json.JSONDecodeError):
                found.add(json.loads(line))
        return found

    def add(self, record: dict[str, Any]) -> None:
        """Take one line of the file."""
        if "run" in record:
            self.run = record["run"]
        elif "tables" in record:
            self.tables.append((record["actions"], record["tables"]))
        elif "drained" in record:
            self.drained = Sample(**record["drained"])
        else:
            self.taken.append(Sample(**record))

    def series(self, name: str) -> list[tuple[float, int, float]]:
        """Hours, actions and value of each sample after the warm-up that has this figure."""
        begin_s = self.run["seconds"] * WARM_UP
        return [
            (each.at_s / 3600, each.actions, each.figures[name])
            for each in self.taken
            if each.at_s >= begin_s and name in each.figures
        ]


# Slopes


@dataclass(frozen=True)
class Slope:
    """The growth for each unit, by least squares, and its 95 % confidence interval."""

    per_unit: float
    low: float
    high: float

    @property
    def differs_from_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """The slope through the means of `STRETCHES` equal stretches, or None for too few points or all at one place.

    Samples that follow each other closely are alike, so an interval from all of them would be too narrow.
    """
    if len(points) < STRETCHES:
        return None
    cuts = [len(points) * number // STRETCHES for number in range(STRETCHES + 1)]
    stretches = [points[begin:end] for begin, end in pairwise(cuts)]
    places = [statistics.fmean(place for place, _ in stretch) for stretch in stretches]
    values = [statistics.fmean(value for _, value in stretch) for stretch in stretches]
    spread = sum((place - statistics.fmean(places)) ** 2 for place in places)
    if not spread:
        return None
    line = statistics.linear_regression(places, values)
    rest = sum((value - line.intercept - line.slope * place) ** 2 for place, value in zip(places, values, strict=True))
    error = T_95 * sqrt(rest / (STRETCHES - 2) / spread)
    return Slope(line.slope, line.slope - error, line.slope + error)


# Samples


class Sampler:
    """Takes samples of the processes and servers of a stand, and writes each to the file at once."""

    def __init__(self, stand: Stand, database: str, *, figures_port: int, file: Path, run: dict[str, Any]) -> None:
        self._stand = stand
        self._pids = stand.pids()
        self._port = figures_port
        self._connection = psycopg.connect(stand.postgres.url(SUPERUSER, database), autocommit=True)
        self._broker = redis.Redis.from_url(stand.valkey.url())
        self._children: set[int] = set()
        self.samples = Samples({})
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = file.open("w")
        self._write({"run": run})

    def close(self) -> None:
        self._file.close()
        self._broker.close()
        self._connection.close()

    def take(self, at_s: float, actions: int, answers: Figures, *, drained: bool = False) -> None:
        """Take a sample; a part that cannot be looked at is missing from it."""
        figures: Figures = {"load average": os.getloadavg()[0], **answers}
        for look in (self._of_processes, self._of_database, self._of_valkey, self._of_installation):
            with suppress(OSError, psycopg.Error, psutil.Error, redis.RedisError):
                figures |= look()
        sample = asdict(Sample(at_s, actions, figures))
        self._write({"drained": sample} if drained else sample)

    def take_tables(self, actions: int) -> None:
        rows = self._connection.execute(_TABLES).fetchall()
        self._write({"actions": actions, "tables": {name: numbers for name, *numbers in rows}})

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        self.samples.add(record)

    def _of_processes(self) -> Figures:
        found: Figures = {}
        for name, processes in self._groups():
            pss, own = zip(*map(_memory_mb, processes), strict=True) if processes else ((), ())
            found |= {f"{name}: MB": sum(pss), f"{name}: own MB": sum(own)}
            if name != "postgres":
                found[f"{name}: descriptors"] = sum(map(_descriptors, processes))
        found["workers' children so far"] = len(self._children)
        return found

    def _groups(self) -> Iterator[tuple[str, list[int]]]:
        for name, pid in self._pids.items():
            children = [each.pid for each in psutil.Process(pid).children(recursive=True)]
            if name in WORKERS:
                self._children.update(children)
                yield name, [pid]
                yield f"{name}'s children", children
            else:
                yield name, [pid, *children]

    def _of_database(self) -> Figures:
        row = self._connection.execute(_DATABASE, {"keys": KEYS, "open": phases(OPEN)}).fetchone()
        assert row is not None
        return dict(zip(_FROM_DATABASE, map(float, row), strict=True))

    def _of_valkey(self) -> Figures:
        told: Any = self._broker.info()
        kept = [value for name, value in told.items() if name.startswith("db") and isinstance(value, dict)]
        keys, expiring = sum(each["keys"] for each in kept), sum(each["expires"] for each in kept)
        return {
            "Valkey: used MB": told["used_memory"] / 1e6,
            "Valkey: keys": keys,
            "Valkey: keys without expiry": keys - expiring,
            "Valkey: clients": told["connected_clients"],
        }

    def _of_installation(self) -> Figures:
        """The backlogs and the pool, as monitoring is told of them."""
        found: Figures = {}
        for path, names in (("/metrics/installation", BACKLOGS), ("/metrics", ("pool_size", "requests_waiting"))):
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
                families = list(text_string_to_metric_families(answer.read().decode()))
            for family in families:
                name = family.name.removeprefix("counterfoil_")
                if name in names:
                    found[name.replace("_", " ")] = sum(each.value for each in family.samples)
        return found


def _memory_mb(pid: int) -> tuple[float, float]:
    """The memory of a process with its part of what is shared (PSS), and of that what is in no file and not shared."""
    told: dict[str, float] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, amount, *_ = line.split()
            told[name] = int(amount) * 1024 / 1e6
    return told.get("Pss:", 0.0), told.get("Pss_Anon:", 0.0)


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


# The report


def report(samples: Samples) -> str:
    """The slopes and the growth of tables as Markdown."""
    taken = samples.taken
    if not taken:
        return "no sample was taken"
    loads = [each.figures["load average"] for each in taken]
    warm_up_min = samples.run["seconds"] * WARM_UP / 60
    head = (
        f"{samples.run['began']}: {taken[-1].at_s / 60:.0f} minutes at {samples.run['per_s']:.1f} proposals a second"
        f" (peak {samples.run['peak_per_s']:.1f}); load {min(loads):.1f} to {max(loads):.1f}, mean"
        f" {statistics.fmean(loads):.1f}; slopes after {warm_up_min:.0f} minutes of warm-up with their 95 % intervals,"
        " bold where zero is outside"
    )
    return "\n".join([head, "", *_slope_lines(samples), "", *_table_lines(samples)])


def _slope_lines(samples: Samples) -> Iterator[str]:
    yield "| figure | begins | ends | an hour | per 1,000 actions | drained |"
    yield "|---|---|---|---|---|---|"
    names = dict.fromkeys(name for each in samples.taken for name in each.figures)
    for name in names:
        series = samples.series(name)
        if not series:
            continue
        values = [value for _, _, value in series]
        part = max(1, len(values) // STRETCHES)
        hourly = slope([(hours, value) for hours, _, value in series])
        by_action = slope([(actions / 1000, value) for _, actions, value in series])
        cells = [name, *map(_number, (statistics.fmean(values[:part]), statistics.fmean(values[-part:])))]
        cells += [_slope_text(hourly), _slope_text(by_action)]
        cells.append(_number(samples.drained.figures.get(name)) if samples.drained else "")
        yield f"| {' | '.join(cells)} |"


def _table_lines(samples: Samples) -> Iterator[str]:
    """The growth of each table between the first look after the warm-up and the last, the largest first."""
    if len(samples.tables) < 2:
        return
    (since, before), (until, after) = samples.tables[-2:]
    thousands = max(until - since, 1) / 1000
    yield "| table | rows per 1,000 actions | KB per 1,000 actions | dead rows | vacuumed, times |"
    yield "|---|---|---|---|---|"

    def growth(name: str) -> Callable[[int], float]:
        return lambda place: (after[name][place] - before.get(name, [0, 0, 0, 0])[place]) / thousands

    for name in sorted(after, key=lambda name: -growth(name)(2)):
        rows, size = growth(name)(0), growth(name)(2) / 1000
        if rows or size:
            yield f"| `{name}` | {rows:,.0f} | {size:,.0f} | {after[name][1]:,} | {after[name][3]} |"


def _slope_text(found: Slope | None) -> str:
    if found is None:
        return ""
    told = f"{_number(found.per_unit)} ({_number(found.low)} to {_number(found.high)})"
    return f"**{told}**" if found.differs_from_zero else told


def _number(value: float | None) -> str:
    if value is None:
        return ""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def answers(tallies: Mapping[str, Any]) -> Figures:
    """The figures of one stretch of answers: p50, p99 by kind, and what was shed or failed, of all together."""
    found: Figures = {"shed": 0.0, "failed": 0.0}
    for kind, tally in sorted(tallies.items()):
        found["shed"] += tally.shed
        found["failed"] += tally.failures.total()
        if tally.seconds:
            found[f"{kind}: p50, ms"] = tally.percentile(0.5) * 1000
            found[f"{kind}: p99, ms"] = tally.percentile(0.99) * 1000
    return found
