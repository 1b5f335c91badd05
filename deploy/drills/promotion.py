"""Promote a standby again and again while agents and executors go on: is anything lost, done twice, or left open?

    python -m deploy.drills.promotion [--rounds 20] [--behind 5] [--per-s 2] [--synchronous]

Each round cuts the standby off, lets work go on for `--behind` seconds, kills the primary and promotes the standby;
nothing else is stopped, as a failover manager would not stop it. Some seconds later an operator declares the restore.
With `--synchronous` the standby confirms each commit, and nobody declares anything.

It prints what was lost, doubled, false and stuck. An effect is doubled if it happened twice and neither was its target
read nor a person asked in between. With an asynchronous standby calls that were accepted are lost, that is what it
costs; they are counted and fail the drill only with `--synchronous`. Exit code: 0, 1 for any of them, 3 where a
server's program is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress

import httpx

from console.local.servers import ServerFailed
from counterfoil.execution.seen import RecordBehind
from deploy.drills.installation import Installation, installation
from deploy.drills.traffic import Traffic

DECLARED_AFTER_S = 8.0


def main(words: list[str]) -> int:
    """Run the drill; the exit code."""
    parser = argparse.ArgumentParser(prog="promotion", description="Promote a standby while work goes on.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--behind", type=float, default=5.0, help="seconds that an asynchronous standby lacks")
    parser.add_argument("--per-s", type=float, default=2.0, help="things that the agent wants done each second")
    parser.add_argument("--synchronous", action="store_true", help="the standby confirms each commit")
    wanted = parser.parse_args(words)
    try:
        with installation(synchronous=wanted.synchronous) as place:
            return _run(place, wanted)
    except ServerFailed as missing:
        print(missing, file=sys.stderr)
        return 3


def _run(place: Installation, wanted: argparse.Namespace) -> int:
    traffic = Traffic(place, per_s=wanted.per_s)
    traffic.begin()
    for number in range(1, wanted.rounds + 1):
        _one_round(place, traffic, wanted, number)
    traffic.finish(within_s=180)
    count = traffic.count()
    refused = sum(code == RecordBehind.exit_code for _, code in place.endings)
    count.say(f"{wanted.rounds} rounds", f"; executors ended for a record that had gone back: {refused}")
    return 1 if count.wrong or (wanted.synchronous and count.lost) else 0


def _one_round(place: Installation, traffic: Traffic, wanted: argparse.Namespace, number: int) -> None:
    began, before = time.monotonic(), len(traffic.wishes)
    time.sleep(4)
    if not wanted.synchronous:
        place.record.fall_behind()
        time.sleep(wanted.behind)
    place.record.promote()
    promoted = time.monotonic()
    if not wanted.synchronous:
        time.sleep(DECLARED_AFTER_S)
        place.declare_restored("--reason", "The standby was promoted.")
    _wait_until_ready(place)
    ready = time.monotonic()
    time.sleep(4)
    place.record.follow()
    print(
        f"round {number}: {len(traffic.wishes) - before} wishes, ready {ready - promoted:.1f} s after the promotion,"
        f" {len(traffic.open())} open, {time.monotonic() - began:.0f} s in all",
        flush=True,
    )


def _wait_until_ready(place: Installation) -> None:
    until = time.monotonic() + 60
    with place.machine("oper") as operator:
        while time.monotonic() < until:
            with suppress(httpx.HTTPError, ValueError, KeyError):
                if operator.get("/ledger/standing").json()["starts"]:
                    return
            time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
