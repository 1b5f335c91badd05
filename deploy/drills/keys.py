"""Drill: stop the key database during work; processes become not ready, and callers are asked to retry later.

    python -m deploy.drills.keys [--rounds 3] [--away 20] [--per-s 6]

Each round kills the key database's server for `--away` seconds. `/readyz` says 503 with `KEYS`. A process goes on with
the keys that it made in advance (64), and then answers each proposal 503 with `Retry-After`, never as a refused call
with 200; the server stays away until that has happened. The client library sends it again, and nothing is lost.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from console.local.processes import wait_until
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import Installation, kill
from deploy.drills.traffic import Denial, Figure, Pace, Traffic

DENIED_WITHIN_S = 120.0
READY_WITHIN_S = 60.0


def add_away(parser: argparse.ArgumentParser) -> None:
    """The option for the duration of an outage."""
    parser.add_argument("--away", type=float, default=20.0, help="seconds without it")


def _take_away(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    time.sleep(4)
    began = time.time()
    kill(place.record.running[place.keys.port])
    wait_until(lambda: "KEYS" in failed_checks(place), within_s=2 * options.away, every_s=0.2)
    named_s = time.time() - began
    traffic.measure(Figure(asked="until /readyz names KEYS", value=named_s, most=options.away))
    denials = wait_for_denials(traffic, began, options.away)
    place.record.start(place.keys)
    return f"KEYS after {named_s:.1f} s, {denials} answers 503, {wait_until_ready(place, traffic)}"


def failed_checks(place: Installation, name: str = "web") -> dict[str, str]:
    """The reasons of a web process's `/readyz`: code and sentence."""
    return {each["code"]: each["detail"] for each in place.readiness(name).get("reasons", [])}


def wait_for_denials(traffic: Traffic, since: float, away_s: float) -> int:
    """Count how often the agent was asked to retry later in `away_s`, or until it was; other denials are errors."""
    time.sleep(max(0.0, since + away_s - time.time()))
    wait_until(lambda: bool(traffic.denials_since(since)), within_s=DENIED_WITHIN_S, every_s=0.2)
    denials = traffic.denials_since(since)
    wrong = [each for each in denials if not _asks_to_come_back(each)]
    counted = [f"{many} x {text}" for text, many in Counter(map(str, wrong)).items()]
    asked = "refusals that are not 503 with Retry-After"
    traffic.measure(Figure(asked=asked, value=len(wrong), of=len(denials), most=0, about=counted))
    if not denials:
        traffic.amiss.append("no proposal was answered 503")
    return len(denials)


def _asks_to_come_back(denial: Denial) -> bool:
    return denial.status == 503 and denial.after_s is not None


def wait_until_ready(place: Installation, traffic: Traffic) -> str:
    """When the web process is ready again."""
    began = time.monotonic()
    wait_until(lambda: bool(place.readiness().get("ready")), within_s=2 * READY_WITHIN_S, every_s=0.2)
    took_s, about = time.monotonic() - began, [*failed_checks(place).values()]
    asked = "from the fault's end until the web process is ready"
    traffic.measure(Figure(asked=asked, value=took_s, most=READY_WITHIN_S, about=about))
    return f"ready again after {took_s:.1f} s"


DRILL = Drill(
    name="keys",
    about="Take the key database away while work goes on.",
    rounds=3,
    one_round=_take_away,
    pace=lambda options: Pace(per_s=options.per_s, callers=3, person_every=8),
    add_options=add_away,
    per_s=6.0,
)

if __name__ == "__main__":
    DRILL.main()
