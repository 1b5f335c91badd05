"""A run judged again from what evidence keeps of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import orjson
import pytest
from hypothesis import given, settings

from ledger.catalogue.rules.policies import default_policy
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.facts import ContractFacts, ReadFailure, ReadPacing, RunInputs
from reviews.reconciliation.rules.findings import run_bindings
from reviews.reconciliation.rules.reading import serialize_readings, to_json_default
from reviews.recovery.rules.recovery_table import ROWS, RecoveryPolicy, parse_policy
from reviews.replay.rules.replay import StoredPolicy, StoredRun, rebuild_inputs, replay_run, run_circumstances
from reviews.verification.rules.verification import judge_run
from tests.rules.catalogue.test_contract import document, validate
from tests.rules.reconciliation.test_reconcile import any_inputs
from tests.support.verification_runs import HORIZON, LATER, inputs, reading, refund

CONTRACT = validate(document(side_effect_class="MEDIUM_RISK_WRITE", reversibility="COMPENSABLE"))


def policy(kind: str, version: str = "1", **changes: object) -> StoredPolicy:
    data = canonical(default_policy(kind) | {"version": version} | changes)
    return StoredPolicy(kind=kind, version=version, digest=digest(data), document=data)


THEN = {kind: policy(kind) for kind in ("verification", "recovery")}


def as_contracted(case: RunInputs) -> RunInputs:
    """The case as an action of the contract would have it: what a policy says comes from the policy."""
    recovery = parse_policy(THEN["recovery"].document)
    return replace(case, facts=ContractFacts.of(CONTRACT), policy=recovery, bound_to="h" * 64, retry_safe=False)


def stored(case: RunInputs, **changes: object) -> StoredRun:
    """The case as the record keeps it, judged by the policies of `THEN`."""
    outcome = judge_run(case)
    readings, unfit = serialize_readings(case.readings)
    kept = {
        "layers": run_bindings(case, case.readings[0] if case.readings else None),
        "readings": orjson.Fragment(readings),
        "failure": case.failure,
        "silent": case.silent,
        "verdict": outcome.verdict,
        "decision": outcome.decision,
        "steps": [{"state": step.state, "kind": step.kind, "reason": step.reason} for step in outcome.steps],
        "horizon_at": case.horizon_at,
        "circumstances": {
            **run_circumstances(case, seq=7, contract=CONTRACT.digest, policies=THEN.values()),
            "unfit": unfit,
        },
    }
    run = StoredRun(
        action_id="a-1",
        number=1,
        pointer="ev-2",
        at=case.at,
        evidence=orjson.loads(orjson.dumps(kept, default=to_json_default)),
        entry=orjson.loads(orjson.dumps(case.entry)),
        contract=CONTRACT,
        policies=THEN,
    )
    return replace(run, **changes)


WRONG = as_contracted(inputs(reading(refund(fields={"amount": 1, "currency": "EUR"}))))


@pytest.mark.req("R-RC-14", "R-LE-15")
@settings(max_examples=100, deadline=None)
@given(any_inputs())
def test_replaying_the_evidence_of_a_run_gives_the_same_inputs_and_judgement(case):
    case = replace(
        as_contracted(case),
        silent=(ReadFailure("down", retryable=True, indicators=("lock_timeout",), source="books"),),
        pacing=ReadPacing(not_before=LATER, stretch=2.0),
        brought=frozenset({"notice"}),
        doubts=2,
    )
    assert rebuild_inputs(stored(case)) == case
    again = replay_run(stored(case))
    assert again.same, again.differences
    assert again.under == {"verification": "1", "recovery": "1"}


def test_a_policy_that_holds_the_row_would_have_held_the_run():
    was = replay_run(stored(as_contracted(inputs())), under=THEN)
    row = "RT-03"
    assert not was.recorded.held
    run = stored(WRONG)
    assert replay_run(run).recorded.recovery.startswith(row)
    table = [
        {"id": each.id, "discrepancy_type": each.trigger, "finding": each.finding, "condition": each.condition,
         "inputs": {"trigger": each.trigger, **each.inputs}, "action": each.action,
         "state_paths": [list(path) for path in each.paths], "effects": list(each.effects)}
        for each in ROWS
    ]  # fmt: skip
    held = next(each for each in table if each["id"] == row)
    held |= {"id": "T-1", "action": "HOLD_AND_ESCALATE", "state_paths": [["RECONCILIATION_FAILED", "REVIEW_REQUIRED"]]}
    other = replay_run(run, under={"recovery": policy("recovery", "2", table=table)})
    assert other.replayed.held
    assert other.replayed.recovery == "T-1 HOLD_AND_ESCALATE"
    assert other.under == {"verification": "1", "recovery": "2"}
    assert {"decision.row", "steps"} <= {each.part for each in other.differences}
    assert not other.same


def test_a_shorter_deadline_times_out_a_reading_that_was_inconclusive():
    """The deadline is counted anew from when the action was first due, under the policy that is asked."""
    contract = validate(
        document(
            side_effect_class="MEDIUM_RISK_WRITE",
            verification=document()["verification"] | {"polling": {"first_after_s": 1}},
        )
    )
    facts = ContractFacts.of(contract)
    case = replace(as_contracted(inputs(failure=ReadFailure("down", retryable=True))), facts=facts)
    case = replace(case, sla_at=HORIZON - timedelta(seconds=60) + timedelta(seconds=facts.polling.sla_s))
    case = replace(case, at=HORIZON + timedelta(seconds=30))
    run = stored(case, contract=contract)
    assert replay_run(run).same
    shorter = policy("verification", "2", sla_s={"MEDIUM_RISK_WRITE": 5})
    again = replay_run(run, under={"verification": shorter})
    assert (again.recorded.verdict["timed_out"], again.replayed.verdict["timed_out"]) == (False, True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"evidence": None, "missing": "Its evidence was erased."}, "Its evidence was erased."),
        ({"entry": None}, "The entry that it began with is not there."),
        ({"contract": None}, "The contract that it was judged by is not there."),
        (
            {"policies": {"verification": THEN["verification"]}},
            "Version 1 of the recovery policy, which judged it, is not there.",
        ),
    ],
)
def test_an_incomplete_run_is_not_replayable_and_names_what_is_missing(changes, said):
    again = replay_run(stored(WRONG, **changes))
    assert (again.not_replayable, again.replayed, again.same) == (said, None, False)


def test_missing_circumstances_in_old_evidence_are_not_guessed():
    run = stored(WRONG)
    older = {name: part for name, part in run.evidence.items() if name != "circumstances"}
    again = replay_run(replace(run, evidence=older))
    assert again.not_replayable == "Its evidence was stored before circumstances were kept with it."
    assert again.recorded.verdict["result"] == "MISMATCH"


def test_a_reading_with_a_value_outside_json_is_not_replayable():
    odd = as_contracted(inputs(reading(refund(fields={"amount": Decimal("10.00"), "currency": "EUR"}))))
    assert replay_run(stored(odd)).not_replayable == (
        "A reading held values that evidence does not keep exactly: Decimal."
    )


def test_a_former_built_in_table_must_be_supplied():
    earlier = RecoveryPolicy(ROWS[1:], "e" * 64)
    run = stored(replace(as_contracted(inputs()), policy=earlier))
    assert replay_run(run).not_replayable == (
        "The built-in recovery table that decided then is not the one of this release."
    )
    assert replay_run(replace(run, recovery_rows={"e" * 64: ROWS[1:]})).same


def test_a_recorded_verdict_is_recomputed_and_not_trusted():
    run = stored(WRONG)
    told = run.evidence | {"verdict": run.evidence["verdict"] | {"result": "SUCCESS"}}
    again = replay_run(replace(run, evidence=told))
    assert [(each.part, each.recorded, each.replayed) for each in again.differences] == [
        ("verdict.result", "SUCCESS", "MISMATCH")
    ]
    assert again.replayed.ends_in == State.REVIEW_REQUIRED
