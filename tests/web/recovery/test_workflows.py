"""Runs by API and page, and the recovery policy asked what it would decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from ledger.actions.queries import runs
from reviews.recovery.rules.recovery_table import TABLE
from tests.support.api_tenant import Clock, Workshop
from tests.support.refund_shop import ORDER, Counter
from tests.web.recovery.test_recovery_path import cancelling, lesser
from tests.web.recovery.test_runs_taken_back import ORDERS, Run

PLAIN = {
    "side_effect_class": "MEDIUM_RISK_WRITE",
    "reversibility": "COMPENSABLE",
    "transaction_boundary": "COMPENSABLE_PRE_PIVOT",
    "read_consistency": "PRIMARY",
    "idempotency_status": "PENDING",
}


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    for order in ORDERS:
        counter.till.order(order)
    return counter.open(secrets_dir, lesser(), cancelling())


def name_of(run: Run) -> str:
    action = run.counter.operator_key.get(f"/actions/{run.step_ids()[0]}").json()
    return str(action["entry"]["workflow_run_id"])


@pytest.mark.req("R-EX-19", "R-RP-39", "R-EX-20")
def test_a_run_shows_its_steps_and_the_failures_it_continued_after(cashier: Counter, clock: Clock):
    run = Run(cashier, clock, on_failure="stop")
    failed = run.step("EX-1001", works=False)
    clock.forward(seconds=5)
    # The gate lets nobody do this any more; runs that were made before it did not are still shown as they are.
    known = runs.surroundings

    def nothing_failed(*about: Any, **more: Any) -> runs.Surroundings:
        return known(*about, **more)._replace(unobserved=[], failed=[])

    with patch.object(runs, "surroundings", nothing_failed):
        run.step("EX-1002")
    shown = cashier.agent.get(f"/runs/{name_of(run)}").json()
    assert [(one["state"], one["region"]) for one in shown["steps"]] == [
        ("FAILED", "BEFORE_PIVOT"),
        ("RECONCILED_SUCCESS", "BEFORE_PIVOT"),
    ]
    assert shown["steps"][1]["silences"][0]["over"] == failed
    assert (shown["complete"], shown["verified"], shown["unwinding"]) == (False, False, None)
    page = cashier.operator.client.get(f"/t/orchid/runs/{name_of(run)}").content.decode()
    assert "continued after failure" in page
    assert "Roll back run" in page


def test_calls_of_one_batch_are_steps_in_order(cashier: Counter, clock: Clock):
    session = cashier.session(on_failure="compensate")
    calls = [
        {
            "call_id": uuid4().hex,
            "tool": "refund_order",
            "arguments": ORDER | {"order_id": f"EX-{number}"},
            "pin_hash": session["pin"]["hash"],
        }
        for number in range(2001, 2021)
    ]
    answer = cashier.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": calls}).json()
    proposed = [each["action_id"] for each in answer["results"]]
    assert len(set(proposed)) == len(calls)
    shown = cashier.agent.get(f"/runs/{session['workflow_run_id']}").json()
    assert [one["action_id"] for one in shown["steps"]] == proposed


def test_an_acknowledged_failure_does_not_count_as_silent(cashier: Counter, clock: Clock):
    run = Run(cashier, clock, on_failure="stop")
    failed = run.step("EX-1001", works=False)
    clock.forward(seconds=5)
    run.step("EX-1002", acknowledges=[failed])
    assert cashier.agent.get(f"/runs/{name_of(run)}").json()["steps"][1]["silences"] == []


@pytest.mark.req("R-RP-37")
def test_an_operator_rolls_a_run_back_with_a_reason(cashier: Counter, clock: Clock):
    run = Run(cashier, clock, on_failure="stop")
    stands = run.step("EX-1001")
    place = f"/runs/{name_of(run)}"
    assert cashier.reviewer.post(f"{place}/cancel", {"reason": "I would like to."}).status_code == 403
    assert cashier.operator.post(f"{place}/cancel", {"reason": ""}).status_code == 422
    answer = cashier.operator.post(f"{place}/cancel", {"reason": "The customer called."}).json()
    assert answer["unwinding"]["state"] == "OPEN"
    assert cashier.operator.post(f"{place}/cancel", {"reason": "Again."}).json()["code"] == "ALREADY_UNWINDING"
    assert str(run.child().parent_id) == stands
    page = cashier.operator.client.get(f"/t/orchid/actions/{stands}").content.decode()
    assert 'data-part="run"' in page
    assert "cancel_refund" in page


def test_a_run_can_be_rolled_back_from_its_page(cashier: Counter, clock: Clock):
    run = Run(cashier, clock, on_failure="stop")
    run.step("EX-1001")
    place = f"/t/orchid/runs/{name_of(run)}"
    cashier.operator.client.post(f"{place}/cancel", {"reason": ""})
    assert run.unwinding() is None
    cashier.operator.client.post(f"{place}/cancel", {"reason": "The customer called."})
    assert "Rolling back,</strong> last completed step first." in cashier.operator.client.get(place).content.decode()
    page = cashier.operator.client.get(f"/t/orchid/sessions/{run.session['session_id']}").content.decode()
    assert "nothing new starts in it" in page


def test_an_agent_sees_only_its_own_runs(cashier: Counter, clock: Clock):
    from tests.support.callers import key_for

    run = Run(cashier, clock)
    run.step("EX-1001")
    place = f"/runs/{name_of(run)}"
    assert key_for(cashier.tenant, "agent").get(place).status_code == 404
    assert cashier.agent.get(place).status_code == 200
    assert cashier.agent.get(f"/runs/{uuid4().hex}").status_code == 404
    assert cashier.agent.post(f"{place}/cancel", {"reason": "Undo it."}).status_code == 403


@pytest.mark.req("R-RP-26", "R-RP-35")
@pytest.mark.parametrize("row", TABLE["rows"][:-1], ids=lambda row: row["id"])
def test_the_api_returns_the_decision_of_each_row_of_the_policy(shop: Workshop, row: dict[str, Any]):
    wanted = dict(row["inputs"])
    trigger = wanted.pop("trigger")
    for part in wanted.pop("any_of", [])[:1]:
        wanted |= part
    given = {name: value[0] if isinstance(value, list) else value for name, value in wanted.items()}
    answer = shop.auditor.post("/recovery/decide", PLAIN | given | {"triggers": [trigger]})
    assert (answer.json()["row"], answer.json()["action"]) == (row["id"], row["action"])


def test_an_unknown_situation_is_held_and_an_invalid_one_refused(shop: Workshop):
    assert shop.auditor.post("/recovery/decide", PLAIN | {"triggers": ["MOON"]}).json()["row"] == "RT-99"
    assert shop.auditor.post("/recovery/decide", {"triggers": ["MOON"]}).status_code == 422
    assert shop.agent.post("/recovery/decide", PLAIN | {"triggers": ["MOON"]}).status_code == 403


@pytest.mark.req("R-RP-41")
def test_the_strategies_equal_those_of_the_table(shop: Workshop):
    shown = shop.reviewer.get("/recovery/strategies").json()
    assert json.dumps(shown["strategy_matrix"]) == json.dumps(TABLE["strategy_matrix"])
    assert len(shown["strategy_matrix"]) == 6
