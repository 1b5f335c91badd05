"""Run the drills in their short form, one after another, and print one table.

    python -m deploy.drills.table [NAME ...]

A name is one of the first column; without one all are run, which takes half an hour on a quiet machine. The exit code
is that of the worst drill; one that cannot be run here does not count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from deploy.drills import broker, disk, flood, keys, kills, poolers, promotion, restore, signer, skew, takeover, upgrade
from deploy.drills.drill import Drill, Outcome

SHORT: Final[dict[str, tuple[Callable[[], Drill], str]]] = {
    "promotion": (lambda: promotion.DRILL, "--rounds 2 --behind 4"),
    "promotion-synchronous": (lambda: promotion.DRILL, "--rounds 2 --behind 4 --synchronous"),
    "restore": (lambda: restore.DRILL, "--rounds 1"),
    "restore-keys": (lambda: restore.DRILL, "--rounds 1 --behind 25 --per-s 4 --keys"),
    "kills": (lambda: kills.DRILL, "--rounds 6"),
    "signer": (signer.drill, "--rounds 3"),
    "signer-paused": (signer.drill, "--rounds 3 --pause"),
    "broker": (lambda: broker.DRILL, "--proposals 100 --away 15 --per-s 8"),
    "takeover-sentinel": (lambda: takeover.DRILL, "sentinel --rounds 1"),
    "takeover-rabbitmq": (lambda: takeover.DRILL, "rabbitmq --rounds 1"),
    "keys": (lambda: keys.DRILL, "--rounds 1"),
    "disk": (lambda: disk.DRILL, "--rounds 1"),
    "skew": (lambda: skew.DRILL, "--rounds 2 --for 8"),
    "poolers": (lambda: poolers.DRILL, "--rounds 1 --for 15"),
    # From the commit whose tables were the first to be judged as a version's.
    "upgrade": (lambda: upgrade.DRILL, "--from fbdaea39 --actions 1000 --pause 1 --per-s 2"),
    "flood": (lambda: flood.DRILL, "--rounds 1 --for 15"),
}
"""The short form of each drill: its options."""

ENDINGS: Final = ("in order", "**not in order**", "**could not go on**", "not run here")
HEADINGS: Final = ("drill", "wishes", "lost", "doubled", "false", "stuck", "amiss", "time", "outcome")


def run_short(name: str) -> Outcome:
    """Run the short form of a drill."""
    make, words = SHORT[name]
    return make().run(words.split())


def main() -> int:
    """Run the drills that the command line names, and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="table", description="Run the drills in their short form.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*SHORT, []], help=", ".join(SHORT))
    rows, worst = [], 0
    for name in parser.parse_args().names or SHORT:
        print(f"{name}:", flush=True)
        began = time.monotonic()
        outcome = run_short(name)
        rows.append(_row(name, outcome, time.monotonic() - began))
        worst = max(worst, outcome.code % 3)
    for row in (HEADINGS, ["---"] * len(HEADINGS), *rows):
        print(f"| {' | '.join(row)} |")
    return worst


def _row(name: str, outcome: Outcome, took_s: float) -> list[str]:
    count = outcome.count
    figures = (
        [count.wishes, *map(len, (count.lost, count.doubled, count.false, count.stuck, count.amiss))]
        if count is not None
        else [""] * 6
    )
    ending = ENDINGS[outcome.code] + (f": {outcome.reason}" if outcome.reason else "")
    return [name, *map(str, figures), f"{took_s:.0f} s", ending]


if __name__ == "__main__":
    sys.exit(main())
