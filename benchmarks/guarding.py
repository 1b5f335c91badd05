"""The guard: messages judged a second on one core, with their receipts, and those that are replaced in part.

The messages are those of the corpus of `tests/guard`, each against its own record. The words of their contracts are
made ready once, as they are for the sessions of an agent. Processor time is counted. The aim is 5,000 a second.

The long session has sixty actions, each with an answer of some two hundred values, and every message comes with a new
reading of the record, as in the console.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import process_time

from benchmarks.figures import Figure
from benchmarks.stand import Stand
from reviews.guarding.rules.detector import reports_in
from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.records import Ground
from reviews.guarding.rules.verdict import Strictness, judge
from tests.guard.evaluate import cases, ground_of
from tests.guard.records import TOOLS, record

MESSAGES_A_SECOND = 5_000
Judged = tuple[str, Ground]


def measure(stand: Stand, rounds: int) -> list[Figure]:
    known = [(case["message"], ground_of(case)) for case in cases("open.jsonl")]
    replaced = [each for each in known if judge(*each).verdict == "BLOCK"]
    return [
        _figure("guard: messages judged", partial(_rate, known), rounds, aim=1.0),
        _figure("guard: messages replaced in part", partial(_rate, replaced), rounds, aim=None),
        _figure("guard: messages judged, with receipt", partial(_rate, known, receipts=True), rounds, aim=1.0),
        _figure("guard: messages late in a long session, with receipt", partial(_rate_long, 100), rounds, aim=None),
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


def _rate_long(count: int) -> float:
    sessions = [_long_session() for _ in range(count)]
    return _rate([("I have refunded 14.00 EUR for order W1058.", each) for each in sessions], receipts=True)


def _long_session() -> Ground:
    """Sixty actions, every tenth of them a refund, and the last one new."""
    records = []
    for number in range(60):
        variants = {
            f"{number}{each:03}": {"item_id": f"{number}{each:03}", "price": each + 0.5, "options": {"size": each}}
            for each in range(50)
        }
        is_change = number % 10 == 8
        done = record(
            "issue_refund" if is_change else "get_plan", target=f"order/W10{number:02}", action_id=f"{number:03}"
        )
        arguments = {"order_id": f"W10{number:02}", "amount": 1400, "currency": "EUR"} if is_change else {}
        answer = {"order_id": f"W10{number:02}", "amount": 14.0} if is_change else {"variants": variants}
        records.append(replace(done, arguments=arguments, answer=answer, is_new=number == 58))
    return Ground(TOOLS, tuple(records))
