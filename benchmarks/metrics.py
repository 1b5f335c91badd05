"""The figures of a million actions of sixty days with late truth: how long they take to make, whether somebody outside
comes to the same, and the page, against 300 ms and against the same page over ten thousand.

The history is `benchmarks.history`; the roll-ups are the product's own, made by `rebuild_metrics` and then, for what
became known late, by the worker's ticks. The page is asked for by one signed-in person with one connection.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode
from uuid import UUID

from benchmarks import history
from benchmarks.figures import Figure, interleaved, sized
from benchmarks.keepalive import Wire
from benchmarks.pages import median_time
from benchmarks.stand import Stand, apart
from console.local.installation import ROOT

FEW, MANY = sized(10_000, tiny=100), sized(1_000_000, tiny=300)
SMALL, LARGE = "metrics_small", "metrics_large"
PAGE = "/t/bench/metrics/"
MOST_MS = 300.0
PORTION = 20_000
VIEWS = {
    "7 days": "?period=week",
    "30 days": "?period=month",
    "13 weeks": "?period=quarter",
    "30 days of one tool": "?period=month&tool=issue_refund",
}
PLACES = {"tool": 1, "agent": 2, "class": 3, "version": 4}


def measure(stand: Stand, rounds: int) -> list[Figure]:
    keys = {}
    for database, count in ((SMALL, FEW), (LARGE, MANY)):
        stand.database(database)
        keys[database] = _fill(stand, database, count)
    with stand.web(SMALL) as few, stand.web(LARGE) as many:
        differences = _recounted(stand, Wire(many, Authorization=f"Bearer {keys[LARGE]}"))
        print(f"{differences} of the figures differ from an independent count", flush=True)
        if differences:
            raise SystemExit("benchmarks: the figures are not those of the record")
        less, more = (_signed_in(stand, *each) for each in ((SMALL, few), (LARGE, many)))
        found = [_asked(name, query, rounds, more, less) for name, query in VIEWS.items()]
        return [figure for pair in found for figure in pair]


def _fill(stand: Stand, database: str, count: int) -> str:
    """The operator's key of a tenant whose history is counted."""
    founded = stand.founded(database)
    tenant = UUID(founded["tenant"]["id"])
    for late, how in ((False, "rebuild"), (True, "tick")):
        with stand.superuser(database) as connection:
            history.fill(connection, tenant, count, late=late)
            connection.execute("VACUUM ANALYZE")
        began = time.perf_counter()
        counted = apart(stand, database, f"benchmarks.metrics:{how}", tenant)
        seconds = time.perf_counter() - began
        unit = "events that became known late" if late else "actions"
        print(f"{database}: {counted:,} {unit} counted, {counted / seconds:,.0f} per s", flush=True)
    return str(founded["keys"]["oper"])


def rebuild(stand: Stand, tenant: UUID) -> int:
    """Make every figure from the record; how many actions there are."""
    from console.metrics import operations
    from ledger.db import tenancy

    with tenancy(tenant):
        return operations.rebuild_metrics(tenant_id=tenant, at=datetime.now(UTC))


def tick(stand: Stand, tenant: UUID) -> int:
    """Count new events, as the worker does, until there are none; return their number.

    In larger portions than the worker's: each counts every hour again that it touches, and here that is every hour.
    """
    from console.metrics import operations
    from ledger.db import tenancy

    whole = 0
    while True:
        with tenancy(tenant), patch.object(operations, "AT_A_TIME", PORTION):
            counted = operations.update_metrics(tenant_id=tenant, at=datetime.now(UTC))
        whole += counted
        if not counted:
            return whole


# Whether an independent count comes to the same


def _recounted(stand: Stand, wire: Wire) -> int:
    """How many figures over HTTP differ from those that the outside script counts: of all, and by every tool, agent,
    class and version; each over the whole time and by day.
    """
    file = stand.folder / "source.jsonl.gz"
    stand.manage(LARGE, "export_metric_source", "--tenant", "bench", "--out", str(file))
    regression, cells = _counted_outside(file)
    shown = _summary(wire, {})
    [value] = [each["value"] for each in shown["figures"] if each["id"] == "M-19"]
    differences = _compared(shown, cells) + (abs(value - regression) > 1e-9)
    for name, place in PLACES.items():
        for value in sorted({cell[place] for cell, _ in cells} - {""}):
            chosen = [each for each in cells if each[0][place] == value]
            differences += _compared(_summary(wire, {name: value}), chosen)
    return differences


Cells = list[tuple[list[str], dict[str, Any]]]


def _counted_outside(file: Path) -> tuple[float, Cells]:
    """Return the counts of `recompute`, in a process independent of the product: M-19, and shares and
    delays by cell.
    """
    words = [sys.executable, "-m", "tests.support.outside.recompute", str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        first, *told = (json.loads(line) for line in process.stdout)
    if process.returncode:
        raise SystemExit("benchmarks: the independent count failed")
    return first["M-19"], [(each["cell"], each) for each in told]


def _summary(wire: Wire, about: dict[str, str]) -> dict[str, Any]:
    until = datetime.now(UTC)
    period = {"from": (until - timedelta(days=90)).isoformat(), "to": until.isoformat(), "step": "day"}
    shown: dict[str, Any] = json.loads(wire.get(f"/api/v1/metrics/summary?{urlencode(period | about)}"))
    return shown


def _compared(shown: dict[str, Any], cells: Cells) -> int:
    days: dict[str, Counter[str]] = {}
    for cell, told in cells:
        here = days.setdefault(cell[0][:10], Counter())
        for metric, (part, whole) in told["shares"].items():
            here.update({f"{metric} part": part, f"{metric} whole": whole})
        for metric, lengths in told["delays"].items():
            here.update({f"{metric} count": len(lengths), f"{metric} total": sum(lengths)})
    everything = sum(days.values(), Counter())
    differences = 0
    for figure in shown["figures"]:
        metric = figure["id"]
        if figure["kind"] == "delay":
            count, mean = everything[f"{metric} count"], figure["delay"]["mean_ms"] or 0
            differences += figure["delay"]["count"] != count or round(mean * count) != everything[f"{metric} total"]
        elif figure["kind"] != "difference":
            differences += (figure["part"], figure["whole"]) != _pair(everything, metric)
            differences += sum(
                (each["part"], each["whole"]) != _pair(days.get(each["from"][:10], Counter()), metric)
                for each in figure["points"]
            )
    return differences


def _pair(counts: Counter[str], metric: str) -> tuple[int, int]:
    return counts[f"{metric} part"], counts[f"{metric} whole"]


# The page


def _signed_in(stand: Stand, database: str, port: int) -> Wire:
    session = apart(stand, database, "benchmarks.pages:sign_in")
    return Wire(port, Cookie=f"sessionid={session}", **{"Accept-Encoding": "gzip"})


def _asked(name: str, query: str, rounds: int, more: Wire, less: Wire) -> tuple[Figure, Figure]:
    ours, peer = interleaved(rounds, partial(median_time, more, PAGE + query), partial(median_time, less, PAGE + query))
    label = f"Metrics page, {name}, 10⁶ actions"
    fixed = (MOST_MS,) * len(ours)
    return (
        Figure(name=f"{label}: 300 ms", unit="ms", ours=ours, peer=fixed, aim=1.0, most=True),
        Figure(name=f"{label}: 10⁴ actions", unit="ms", ours=ours, peer=peer, aim=3.0, most=True),
    )
