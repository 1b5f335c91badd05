"""Promotes a standby repeatedly while agents and executors continue: is anything lost, done twice, or left open?

    python -m deploy.drills.promotion [--rounds 20] [--for 4] [--behind 5] [--per-s 2] [--synchronous]

Each round lets work go on for `--for` seconds, cuts the standby off, lets it go on for `--behind` seconds, kills the
primary and promotes the standby; nothing else is stopped, as a failover manager would not stop it. Some seconds later
an operator declares the restore. With `--synchronous` the standby confirms each commit, and nobody declares anything.

It prints what was lost, doubled, false and stuck. An effect is doubled if it happened twice and neither was its target
read nor a person asked in between. With an asynchronous standby calls that were accepted are lost, that is what it
costs; they are counted and fail the drill only with `--synchronous`.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress

import httpx

from console.local.processes import wait_until
from counterfoil.execution.seen import RecordBehind
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import DrillFailed, Installation, Shape, Standby
from deploy.drills.traffic import Figure, Traffic

DECLARED_AFTER_S = 8.0
STARTS_WITHIN_S = 60.0


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", type=float, default=4.0, dest="for_s", help="seconds of work before each promotion")
    parser.add_argument("--behind", type=float, default=5.0, help="seconds that an asynchronous standby lacks")
    parser.add_argument("--synchronous", action="store_true", help="the standby confirms each commit")


def _promote(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    time.sleep(options.for_s)
    if not options.synchronous:
        place.record.fall_behind()
        time.sleep(options.behind)
    place.record.promote()
    promoted, ended = time.monotonic(), len(place.endings)
    if not options.synchronous:
        time.sleep(DECLARED_AFTER_S)
        place.declare_restored("--reason", "The standby was promoted.")
    if not wait_until(lambda: starts(place), within_s=120, every_s=0.5):
        raise DrillFailed("Nothing starts two minutes after the promotion.")
    ready_s = time.monotonic() - promoted
    asked = "from the promotion until actions start"
    traffic.measure(Figure(asked=asked, value=ready_s, most=STARTS_WITHIN_S))
    time.sleep(4)
    place.record.follow()
    behind = sum(code == RecordBehind.exit_code for _, code in place.endings[ended:])
    return f"ready {ready_s:.1f} s after the promotion, {behind} executors ended for a record that had gone back"


def starts(place: Installation) -> bool:
    """Return True if the console lets actions start again."""
    with suppress(httpx.HTTPError, ValueError, KeyError), place.machine("oper") as operator:
        return bool(operator.get("/ledger/standing").json()["starts"])
    return False


DRILL = Drill(
    name="promotion",
    about="Promote a standby while work goes on.",
    rounds=20,
    one_round=_promote,
    shape=lambda options: Shape(standby=Standby.SYNCHRONOUS if options.synchronous else Standby.ASYNCHRONOUS),
    add_options=_add_options,
    loses=lambda options: not options.synchronous,
)

if __name__ == "__main__":
    DRILL.main()
