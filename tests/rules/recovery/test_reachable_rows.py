"""Every row of the recovery table is reachable: runs are judged as they come, and every row decides one of them.

The situations come from `judge_run`, never from the vocabulary of the table: a row may use only legal words and still
lie behind earlier rows that take everything that it is about.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest

from ledger.catalogue.rules.effects import Boundary, EffectDomain, Reversibility, SideEffectClass
from ledger.catalogue.rules.remedies import Recovery, Relation, Remedy
from ledger.record.rules.lifecycle import State
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.reconciliation.rules.facts import ReadFailure, RunInputs
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading
from reviews.recovery.rules.recovery_table import BUILT_IN, ROWS
from reviews.verification.rules.verification import judge_run
from tests.support.tables import every_row
from tests.support.verification_runs import FACTS, FIELDS, SLA, START, SUCCESS, failed, inputs, no_refund, refund
from tests.support.verification_runs import reading as read

ELSEWHERE = {
    "RT-18": "an action that waits for a system is never started (approvals/requests)",
    "RT-20": "a start refused because the policy has changed (approvals/requests)",
    "RT-21": "a start refused because of its payload (approvals/execution)",
}
"""Rows that are recorded before there is anything to verify, by the code that the reason names."""

UNDOABLE = Recovery(whole={Relation.COMPENSATION: Remedy("cancel_refund")}, idempotent=True)
CONTRACTS = [
    replace(
        FACTS,
        side_effect_class=kind,
        reversibility=reversibility,
        boundary=boundary,
        effect_domain=EffectDomain.SECURITY if tolerant else EffectDomain.OTHER,
        externally_visible=tolerant,
        required_effects=("refund", "fee"),
        predicates=("sa.effects.refund.amount == sr.amount",),
        recovery=UNDOABLE if tolerant else Recovery(),
        no_op_success_allowed=tolerant,
        keyed=tolerant,
        verifiable=verifiable,
    )
    for kind, (reversibility, boundary), tolerant, verifiable in itertools.product(
        SideEffectClass,
        [
            (Reversibility.COMPENSABLE, Boundary.COMPENSABLE_PRE_PIVOT),
            (Reversibility.IRREVERSIBLE, Boundary.PIVOT_COMMITTED),
        ],
        [False, True],
        [True, False],
    )
]
ANSWERS = [SUCCESS, ParsedObservation(status=ReportedStatus.TIMEOUT), failed("ODD"), failed("STALE_STATE"), None]
FEE = ReadEffect(name="fee", present=True, count=1, fields=FIELDS, scope={"tenant": ("acme",), "target": ("o-17",)})
NO_FEE = ReadEffect(name="fee", present=False, scope={"tenant": (), "target": ()})
READINGS: list[tuple[Reading, ...]] = [
    (),
    (read(refund(), FEE),),
    (read(refund(fields=FIELDS | {"amount": 999}), FEE),),
    (read(refund(), NO_FEE),),
    (read(no_refund(), NO_FEE),),
    (read(no_refund(), NO_FEE, target={"exists": False}),),
    (read(refund(), FEE, target={"exists": False}),),
    (read(no_refund(), NO_FEE, consistency=Consistency.REPLICA),),
    (read(refund(count=2, instances=(FIELDS, FIELDS)), FEE),),
    (read(refund(scope={"tenant": ("willow",), "target": ("o-17",)}), FEE),),
    (read(refund(pending=True), FEE),),
    (read(refund(), FEE, indicators=("stale_version",)),),
]
RECORDS = ["PENDING", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL", "COMPENSATED", "EXPIRED", None]
AWAY = ReadFailure("The system does not answer.", retryable=True)


def runs() -> Iterator[RunInputs]:
    """Generate runs of every kind of contract, answer, reading and time."""
    for facts, status in itertools.product(CONTRACTS, RECORDS):
        yield inputs(facts=facts, state=State.UNKNOWN, observation=None, idempotency_status=status)
    for answer, found, facts in itertools.product(ANSWERS, READINGS, CONTRACTS):
        if found and not facts.verifiable:
            continue
        run = inputs(*found, facts=facts, observation=answer, failure=None if found else AWAY)
        yield run
        yield replace(run, at=SLA + timedelta(hours=3))
        if found:
            yield replace(run, pivot_committed=True)
            yield replace(run, retry_safe=True, baseline=replace(found[0], observed_at=START))
            yield replace(run, unwinding=True, recovery_tools={"cancel_refund": frozenset()})


@cache
def undecided_rows() -> frozenset[str]:
    """The ids of the rows that decide no run, and nothing that a failed recovery action leaves."""
    missing = {row.id for row in ROWS} - set(ELSEWHERE)
    missing -= {BUILT_IN.match(facts.situation("COMPENSATION_FAILURE")).id for facts in CONTRACTS}
    for run in runs():
        outcome = judge_run(run)
        written = [step.entry.get("reconciliation", {}).get("recovery_decision") for step in outcome.steps]
        missing -= {outcome.decision.row, *(each.partition(" ")[0] for each in written if each)}
        if not missing:
            break
    return frozenset(missing)


@pytest.mark.req("R-RP-24")
@every_row("row", [row for row in ROWS if row.id not in ELSEWHERE])
def test_every_row_decides_a_run(row):
    assert row.id not in undecided_rows(), f"No run reaches {row.id}: earlier rows take every situation of its kind."
