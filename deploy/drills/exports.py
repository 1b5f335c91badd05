"""Drill: let one tenant export its whole log again and again; is another's reading made later for it?

    python -m deploy.drills.exports [--rounds 1] [--for 60] [--actions 20000] [--per-s 4]

Each round times for `--for` seconds how long readings wait once they are due, then again while a tenant with so many
past actions has three exports of its whole log under way at any time. Workers run as `make up` and deploy/systemd run
them: one for what is due and for ticks, one with a single process for what takes long. No reading may wait a second
longer beside the exports than without them.
"""

from __future__ import annotations

import argparse
import threading
import time
from contextlib import suppress
from datetime import datetime
from statistics import median, quantiles
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from console.local import servers
from console.local.processes import wait_until
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import DrillFailed, Installation, Shape
from deploy.drills.traffic import Figure, Traffic

LATER_S = 1.0
UNDER_WAY = 3
LOOK_EVERY_S = 0.02
LOGGED_WITHIN_S = 600.0
# What is about to be due and is in nobody's hands; a row that is no longer here was taken.
_WAITING = """
SELECT clock_timestamp(), s.action_id, s.due_at FROM (SELECT) AS now LEFT JOIN reviews_schedule s
    ON s.due_at < clock_timestamp() + interval '2 seconds'
    AND (s.claimed_until IS NULL OR s.claimed_until <= clock_timestamp())
"""
_OVERDUE = "SELECT count(*) FROM reviews_schedule WHERE due_at < clock_timestamp() - interval '1 second'"
_QUEUE = """
INSERT INTO ledger_pending (tenant_id, subject_id, seq) SELECT e.tenant_id, e.subject_id, e.seq FROM ledger_event e
WHERE e.tenant_id = %(tenant)s AND e.subject_kind = 'action' AND NOT EXISTS (SELECT FROM ledger_leaf l
    WHERE l.tenant_id = e.tenant_id AND l.subject_id = e.subject_id AND l.seq = e.seq)
    AND NOT EXISTS (SELECT FROM ledger_pending p
    WHERE p.tenant_id = e.tenant_id AND p.subject_id = e.subject_id AND p.seq = e.seq)
"""
_UNSIGNED = "SELECT count(*) FROM ledger_pending UNION ALL SELECT sum(size - signed_size) FROM ledger_tip"


def _export(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    if number == 0:
        _log_past(place)
        _catch_up(place)
    alone = _waits(place, options.for_s)
    exporter = Exporter(place)
    exporter.begin()
    try:
        if not wait_until(lambda: exporter.entries() > 0, within_s=60):
            raise DrillFailed("No export was begun within a minute.")
        before = exporter.entries()
        beside = _waits(place, options.for_s)
        made = exporter.entries() - before
    finally:
        exporter.end()
    if not made:
        traffic.amiss.append("no export made anything meanwhile")
    about = [f"alone {_spread(alone)}", f"beside exports {_spread(beside)}"]
    for name, of in (("longest", max), ("median", median)):
        later_s = of(beside) - of(alone) if alone and beside else float("nan")
        asked = f"a reading once it is due waits longer beside exports, {name}"
        traffic.measure(Figure(asked=asked, value=later_s, most=LATER_S, about=about if of is max else []))
    return f"{'; '.join(about)}; {made} entries exported meanwhile, {exporter.finished()} exports finished"


def _spread(waits: list[float]) -> str:
    if len(waits) < 2:
        return f"{len(waits)} readings"
    p99 = quantiles(waits, n=100, method="inclusive")[98]
    return f"p50 {median(waits):.2f}, p99 {p99:.2f}, max {max(waits):.2f} s of {len(waits)}"


def _log_past(place: Installation) -> None:
    """Have the events of the past sealed and signed: what the log does not have is not exported."""
    with _superuser(place) as connection:
        connection.execute(_QUEUE, {"tenant": place.past["tenant"]["id"]})

        def is_signed() -> bool:
            return not any(many for (many,) in connection.execute(_UNSIGNED).fetchall())

        # Others go on meanwhile, so a moment in which nothing waits is enough.
        if not wait_until(is_signed, within_s=LOGGED_WITHIN_S, every_s=0.05):
            raise DrillFailed("The past was not signed within ten minutes.")


def _catch_up(place: Installation) -> None:
    """Wait until what was due of the past is read, so that there is nothing late to begin with."""
    with _superuser(place) as connection:
        if not wait_until(lambda: connection.execute(_OVERDUE).fetchone() == (0,), within_s=120, every_s=0.2):
            raise DrillFailed("Readings of the past are still overdue after two minutes.")


def _superuser(place: Installation) -> psycopg.Connection:
    return psycopg.connect(place.record.primary.url(servers.SUPERUSER, "counterfoil"), autocommit=True)


def _waits(place: Installation, for_s: float) -> list[float]:
    """The seconds that each reading waited once it was due, looked at fifty times a second for so long."""
    waits: list[float] = []
    waiting: dict[UUID, datetime] = {}
    until = time.monotonic() + for_s
    with _superuser(place) as connection:
        while time.monotonic() < until:
            found = connection.execute(_WAITING).fetchall()
            now: datetime = found[0][0]
            here = {action_id: due_at for _, action_id, due_at in found if action_id is not None}
            gone = [due_at for action_id, due_at in waiting.items() if here.get(action_id) != due_at]
            waits += [(now - due_at).total_seconds() for due_at in gone if due_at <= now]
            waiting = here
            time.sleep(LOOK_EVERY_S)
        # What still waits has waited so long at least.
        waits += [(now - due_at).total_seconds() for due_at in waiting.values() if due_at <= now]
    return waits


class Exporter:
    """Somebody who wants the whole log of the past exported, three times at once, again and again."""

    def __init__(self, place: Installation) -> None:
        self._place = place
        self._begun: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(timeout=30)

    def entries(self) -> int:
        """The number of entries that all its exports have so far."""
        return sum(each["done"] or 0 for each in self._found())

    def finished(self) -> int:
        return sum(each["state"] == "FINISHED" for each in self._found())

    def _found(self) -> list[dict[str, Any]]:
        with self._place.machine("audit", self._place.past) as auditor:
            return [auditor.get(f"/exports/{each}").json() for each in list(self._begun)]

    def _ask(self) -> None:
        while not self._ended.wait(0.5):
            with suppress(httpx.HTTPError, KeyError, ValueError):
                running = sum(each["state"] == "REQUESTED" for each in self._found())
                with self._place.machine("audit", self._place.past) as auditor:
                    for _ in range(UNDER_WAY - running):
                        words = {"Idempotency-Key": uuid4().hex}
                        answer = auditor.post("/exports", json={"format": "csv"}, headers=words)
                        self._begun.append(answer.json()["export_id"])


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", type=float, default=60.0, dest="for_s", help="seconds without exports, and with them")
    parser.add_argument("--actions", type=int, default=20_000, help="past actions of the tenant that exports")


DRILL = Drill(
    name="exports",
    about="Export a large log while readings are due.",
    rounds=1,
    one_round=_export,
    shape=lambda options: Shape(history=options.actions),
    add_options=_add_options,
    per_s=4.0,
)

if __name__ == "__main__":
    DRILL.main()
