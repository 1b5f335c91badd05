"""Run the drills in their short form, one after another, and print one table of what was asked and what came out.

    python -m deploy.drills.table [NAME ...]

A name is one of the first column; without one all are run, which takes about half an hour on a quiet machine. The exit
code is 1 where a figure missed its aim or something was lost, doubled, false or stuck, else 2 where a drill could not
go on, else 3 where one cannot be run on this machine, else 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from deploy.drills import (
    broker,
    disk,
    exports,
    flood,
    keys,
    kills,
    move,
    poolers,
    promotion,
    restore,
    signer,
    skew,
    takeover,
    upgrade,
)
from deploy.drills.drill import Drill, Outcome


@dataclass(frozen=True)
class Short:
    """The short form of a drill: its options, and the damage that it does with them."""

    make: Callable[[], Drill]
    options: str
    damage: str


SHORT: Final[dict[str, Short]] = {
    "promotion": Short(
        lambda: promotion.DRILL,
        "--rounds 2 --behind 4",
        "primary killed, standby that is 4 s behind promoted",
    ),
    "promotion-synchronous": Short(
        lambda: promotion.DRILL,
        "--rounds 2 --behind 4 --synchronous",
        "primary killed, synchronous standby promoted",
    ),
    "restore": Short(lambda: restore.DRILL, "--rounds 1", "record restored to 10 s ago"),
    "restore-keys": Short(
        lambda: restore.DRILL, "--rounds 1 --behind 25 --per-s 4 --keys", "key database restored to 25 s ago"
    ),
    "kills": Short(
        lambda: kills.DRILL,
        "--rounds 6",
        "web, executor, PostgreSQL, worker, sequencer and beat killed in turn",
    ),
    "signer": Short(signer.drill, "--rounds 3", "leading sequencer of two killed"),
    "signer-paused": Short(signer.drill, "--rounds 3 --pause", "leading sequencer of two paused"),
    "broker": Short(
        lambda: broker.DRILL, "--proposals 100 --away 15 --per-s 8", "broker away for 15 s, its contents lost"
    ),
    "takeover-sentinel": Short(
        lambda: takeover.DRILL, "sentinel --rounds 1", "Redis master and a Sentinel of three killed"
    ),
    "takeover-rabbitmq": Short(
        lambda: takeover.DRILL, "rabbitmq --rounds 1", "leading node of three of RabbitMQ killed"
    ),
    "keys": Short(lambda: keys.DRILL, "--rounds 1", "key database away"),
    "disk": Short(lambda: disk.DRILL, "--rounds 1", "disk of the record full"),
    "skew": Short(
        lambda: skew.DRILL, "--rounds 2 --for 8", "clocks of web, executor and worker 3.5 s ahead, then behind"
    ),
    "poolers": Short(
        lambda: poolers.DRILL, "--rounds 1 --for 15", "PgBouncer between everything, killed and started again"
    ),
    "upgrade": Short(
        lambda: upgrade.DRILL,
        # From the commit whose tables were the first to be judged as a version's.
        "--from fbdaea39 --actions 1000 --pause 1 --per-s 2",
        "every process exchanged for this version, and back",
    ),
    "flood": Short(lambda: flood.DRILL, "--rounds 1 --for 15", "none; another tenant proposes without a pause"),
    "exports": Short(
        lambda: exports.DRILL,
        "--rounds 1 --for 15 --actions 4000",
        "none; another tenant exports its whole log without a pause",
    ),
    "move": Short(
        lambda: move.DRILL, "--rounds 1 --for 8 --kills 2", "tenant moved elsewhere, each command killed twice before"
    ),
}
HEADINGS: Final = ("drill", "damage", "asked", "figure", "aim", "", "load", "time")
WRONG: Final = "wishes lost, doubled, false, stuck"


def run_short(name: str) -> Outcome:
    """Run the short form of a drill."""
    short = SHORT[name]
    try:
        return short.make().run(short.options.split())
    except Exception as error:  # noqa: BLE001 - a drill that broke off is one that could not go on, and others follow
        traceback.print_exc()
        return Outcome(2, reason=f"{type(error).__name__}: {error}")


def main() -> int:
    """Run the drills that the command line names, and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="table", description="Run the drills in their short form.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*SHORT, []], help=", ".join(SHORT))
    names = parser.parse_args().names or list(SHORT)
    # Whoever ends it ends its servers too, and still gets the table of what was done.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    table, codes = [HEADINGS, ("---",) * len(HEADINGS)], []
    began = datetime.now(UTC)
    try:
        for name in names:
            print(f"{name}:", flush=True)
            since, load = time.monotonic(), os.getloadavg()[0]
            outcome = run_short(name)
            measured = (f"{load:.0f} to {os.getloadavg()[0]:.0f}", f"{time.monotonic() - since:.0f} s")
            table += _rows(name, outcome, measured)
            codes.append(outcome.code)
    finally:
        print(f"\n{began:%Y-%m-%d %H:%M} UTC, {len(codes)} of {len(names)} drills, {os.cpu_count()} processors\n")
        for row in table:
            print(f"| {' | '.join(row)} |")
    return worst(codes)


def worst(codes: Iterable[int]) -> int:
    """The exit code of all: a miss before what could not go on, and both before what cannot be run here."""
    known = set(codes)
    return next((each for each in (1, 2, 3) if each in known), 0)


def _rows(name: str, outcome: Outcome, measured: tuple[str, str]) -> list[tuple[str, ...]]:
    """One row for each question; what is the same for all stands in the first."""
    first = (name, SHORT[name].damage)
    return [
        (*(first if place == 0 else ("", "")), *answer, *(measured if place == 0 else ("", "")))
        for place, answer in enumerate(_answers(outcome))
    ]


def _answers(outcome: Outcome) -> Iterator[tuple[str, str, str, str]]:
    """The question, the figure, its aim, and the verdict on it."""
    count = outcome.count
    if count is None:
        ending = "not run here" if outcome.code == 3 else "**could not go on**"
        yield WRONG, "", "", f"{ending}: {' '.join(outcome.reason.split())[:200]}"
        return
    numbers = [len(each) for each in (count.lost, count.doubled, count.false, count.stuck)]
    allowed = ["any" if outcome.loses else "0", "0", "0", "0"]
    wrong = sum(numbers[1:]) + (0 if outcome.loses else numbers[0])
    yield WRONG, f"{', '.join(map(str, numbers))} of {count.wishes}", ", ".join(allowed), _judged(bool(wrong))
    for figure in count.figures:
        told = f" ({', '.join(figure.about[:3])[:200]})" if figure.about else ""
        yield figure.asked, f"{figure}{told}", figure.aim, _judged(figure.missed) if figure.aim else ""
    if count.amiss:
        yield f"else amiss, such as: {count.amiss[0][:200]}", str(len(count.amiss)), "0", _judged(missed=True)


def _judged(missed: bool) -> str:
    return "**missed**" if missed else "met"


if __name__ == "__main__":
    sys.exit(main())
