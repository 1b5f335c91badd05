"""The guard: messages judged a second on one core, with their receipts, and those that are replaced in part.

The messages are those of the corpus of `tests/guard`, each against its own record. The words of their contracts are
made ready once, as they are for the sessions of an agent. Processor time is counted. The aim is 5,000 a second.
"""

from __future__ import annotations

from functools import partial
from time import process_time

from benchmarks.figures import Figure
from benchmarks.stand import Stand
from reviews.guarding.rules.detector import reports_in
from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.records import Ground
from reviews.guarding.rules.verdict import Strictness, judge
from tests.guard.evaluate import cases, ground_of

MESSAGES_A_SECOND = 5_000
Judged = tuple[str, Ground]


def measure(stand: Stand, rounds: int) -> list[Figure]:
    known = [(case["message"], ground_of(case)) for case in cases("open.jsonl")]
    replaced = [each for each in known if judge(*each).verdict == "BLOCK"]
    return [
        _figure("guard: messages judged", partial(_rate, known), rounds, aim=1.0),
        _figure("guard: messages replaced in part", partial(_rate, replaced), rounds, aim=None),
        _figure("guard: messages judged, with receipt", partial(_rate, known, receipts=True), rounds, aim=1.0),
        _figure("guard: messages judged, with the detector", partial(_rate, known, strict=True), rounds, aim=0.2),
    ]


def _figure(name: str, rate: partial[float], rounds: int, *, aim: float | None) -> Figure:
    rates = tuple(rate() for _ in range(rounds))
    return Figure(name=name, unit="messages per s", ours=rates, peer=(float(MESSAGES_A_SECOND),) * len(rates), aim=aim)


def _rate(messages: list[Judged], *, receipts: bool = False, strict: bool = False) -> float:
    began = process_time()
    for message, ground in messages:
        judge(message, ground, strict=Strictness(reports_in(message), "mark") if strict else None)
        if receipts:
            _ = receipt_of(ground).text
    return len(messages) / (process_time() - began)
