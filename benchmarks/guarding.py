"""The guard: messages judged a second on one core, those that are allowed and those that are blocked and corrected.

The messages are those of the corpus of `tests/guard`, each against its own record. Processor time is counted. The aim
is 2,000 allowed messages a second; a blocked one is judged again with each correction.
"""

from __future__ import annotations

from functools import partial
from time import process_time

from benchmarks.ratios import Figure
from benchmarks.stand import Stand
from reviews.rules.guard.records import Ground
from reviews.rules.guard.verdict import judge
from tests.guard.evaluate import cases, ground_of

MESSAGES_A_SECOND = 2_000
Judged = tuple[str, Ground]


def measure(stand: Stand, rounds: int) -> list[Figure]:
    known = [(case["message"], ground_of(case)) for case in cases("open.jsonl")]
    allowed = [each for each in known if judge(*each).verdict == "ALLOW"]
    blocked = [each for each in known if judge(*each).verdict == "BLOCK"]
    return [
        _figure("guard: allowed messages", partial(_rate, allowed), rounds, aim=1.0),
        _figure("guard: blocked and corrected messages", partial(_rate, blocked), rounds, aim=None),
    ]


def _figure(name: str, rate: partial[float], rounds: int, *, aim: float | None) -> Figure:
    rates = tuple(rate() for _ in range(rounds))
    return Figure(name=name, unit="messages per s", ours=rates, peer=(float(MESSAGES_A_SECOND),) * len(rates), aim=aim)


def _rate(messages: list[Judged]) -> float:
    began = process_time()
    for message, ground in messages:
        judge(message, ground)
    return len(messages) / (process_time() - began)
