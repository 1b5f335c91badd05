"""Let one tenant propose as fast as it can, during another's work: does the other one wait?

    python -m deploy.drills.flood [--rounds 1] [--for 30] [--callers 8] [--late 5] [--per-s 2]

Each round measures the first tenant's proposals and verdicts for `--for` seconds, then again while `--callers` agents
of a second tenant propose without a pause, under one key, whose requests the installation limits. Nothing of the first
tenant may be refused or lost, and no verdict, counted from its effect, may come more than `--late` seconds later than
without the flood.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import threading
import time
from collections import Counter
from contextlib import suppress
from statistics import quantiles
from uuid import uuid4

import httpx

from counterfoil.agent import Agent, Call
from counterfoil.problems import Problem, Unreachable
from counterfoil.transport.request import Backoff
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import Installation, Shape
from deploy.drills.traffic import Figure, Traffic

LIMIT_PER_S = 200
AT_ONCE = Backoff(give_up_after_s=0.0)
EMPTY = hashlib.sha256(b"").hexdigest()


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", type=float, default=30.0, dest="for_s", help="seconds before, and seconds of flood")
    parser.add_argument("--callers", type=int, default=8, help="agents of the other tenant")
    parser.add_argument("--late", type=float, default=5.0, help="seconds that a verdict may come later")


def _flood(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    flood = Flood(place, f"flood{number}")
    quiet_from = time.time()
    time.sleep(options.for_s)
    flood_from = time.time()
    flood.begin(options.callers)
    time.sleep(options.for_s)
    flood.end()
    ended = time.time()
    traffic.measure_refusals(flood_from)
    # The last verdicts are still to come.
    time.sleep(options.late + 5)
    spans = ((quiet_from, flood_from), (flood_from, ended))
    proposals = [_p95(traffic.answered(*each)) for each in spans]
    verdicts = [_p95(traffic.settled(*each)) for each in spans]
    many = sum(flood.answers.values())
    later = Figure(
        asked="from an effect to its verdict, p95: longer by",
        value=verdicts[1] - verdicts[0],
        most=options.late,
        about=[f"{verdicts[0]:.1f} and {verdicts[1]:.1f} s; {many / options.for_s:.0f} requests a second"],
    )
    traffic.measure(later)
    limited = flood.answers[429]
    return (
        f"{many / options.for_s:.0f} requests a second, {limited} of {many} limited; p95 of a proposal"
        f" {proposals[0]:.2f} and {proposals[1]:.2f} s, of effect to verdict {verdicts[0]:.1f} and {verdicts[1]:.1f} s"
    )


def _p95(found: list[float]) -> float:
    return quantiles(found, n=20)[-1] if len(found) > 1 else float("nan")


class Flood:
    """Agents of a tenant of their own that propose without a pause; `answers` counts what they get, by status."""

    def __init__(self, place: Installation, tenant: str) -> None:
        known = json.loads(place.manage("bootstrap", "--tenant", tenant, "--messages", "pass", "--json"))
        place.register(known["keys"]["oper"])
        self.answers: Counter[int] = Counter()
        self._url, self._key = place.url, known["keys"]["agent"]
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, callers: int) -> None:
        self._threads = [threading.Thread(target=self._propose, daemon=True) for _ in range(callers)]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        self._ended.set()
        for each in self._threads:
            each.join(timeout=30)

    def _propose(self) -> None:
        with httpx.Client(timeout=30, event_hooks={"response": [self._count]}) as http:
            agent = Agent(url=self._url, key=self._key, agent_id="clerk", http=http, backoff=AT_ONCE)
            session = None
            while not self._ended.is_set():
                with suppress(Problem, Unreachable):
                    session = session or agent.open_session(goal="Write it all down.", ttl_seconds=3600)
                    path = f"{uuid4().hex}.md"
                    session.call(Call("write_document", {"path": path, "text": "", "sha256": EMPTY}))

    def _count(self, response: httpx.Response) -> None:
        self.answers[response.status_code] += 1


DRILL = Drill(
    name="flood",
    about="Let one tenant propose as fast as it can while another works.",
    rounds=1,
    one_round=_flood,
    shape=lambda _: Shape(settings={"COUNTERFOIL_RATE_PER_S": str(LIMIT_PER_S)}),
    add_options=_add_options,
)

if __name__ == "__main__":
    DRILL.main()
