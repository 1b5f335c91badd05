"""Restore the record, or the key database, to a moment some seconds ago, during work.

    python -m deploy.drills.restore [--rounds 3] [--for 10] [--behind 10] [--per-s 2] [--keys]

Each round takes a base backup, lets work go on for `--for` seconds, notes the moment, lets it go on for `--behind`
seconds, and restores the server from the backup and its archived log to that moment (point-in-time recovery). Nothing
else is stopped. Some seconds later an operator declares the restore of the record.

With the record, calls that were accepted after the moment are lost and counted, and nothing is carried out twice
without a reading or a person in between. With `--keys` the record stays, and evidence whose keys are gone cannot be
opened: it is counted, and no action may be stuck over it.
"""

from __future__ import annotations

import argparse
import time

from console.local.processes import wait_until
from deploy.drills.backup import Backup
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import DrillFailed, Installation, Shape
from deploy.drills.keys import wait_until_ready
from deploy.drills.promotion import DECLARED_AFTER_S, STARTS_WITHIN_S, starts
from deploy.drills.traffic import Figure, Traffic


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", type=float, default=10.0, dest="for_s", help="seconds of work before the moment")
    parser.add_argument("--behind", type=float, default=10.0, help="seconds of work after it, which are lost")
    parser.add_argument("--keys", action="store_true", help="restore the key database, not the record")


def _restore(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    backup = Backup(place.record, place.keys if options.keys else place.record.primary)
    backup.take()
    time.sleep(options.for_s)
    moment = backup.moment()
    time.sleep(options.behind)
    began = time.monotonic()
    backup.restore(moment)
    away_s = time.monotonic() - began
    traffic.measure(Figure(asked="the server's restore, with its last log archived", value=away_s))
    if options.keys:
        return (
            f"keys of {options.behind:.0f} s gone, server away for {away_s:.0f} s, {wait_until_ready(place, traffic)}"
        )
    time.sleep(DECLARED_AFTER_S)
    place.declare_restored("--reason", "Restored from the backup.")
    if not wait_until(lambda: starts(place), within_s=120, every_s=0.5):
        raise DrillFailed("Nothing starts two minutes after the restore.")
    asked = "from the restore's end until actions start, declared after 8 s"
    starts_s = time.monotonic() - began - away_s
    traffic.measure(Figure(asked=asked, value=starts_s, most=STARTS_WITHIN_S))
    return f"record of {options.behind:.0f} s gone, server away for {away_s:.0f} s"


DRILL = Drill(
    name="restore",
    about="Restore the record or the key database to a moment while work goes on.",
    rounds=3,
    one_round=_restore,
    shape=lambda _: Shape(archived=True),
    add_options=_add_options,
    loses=lambda options: not options.keys,
)

if __name__ == "__main__":
    DRILL.main()
