"""Sagas: a run whose step failed is taken back, the last completed step first, each by a verified action."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from approvals import tasks as before
from ledger.actions.queries import actions, runs
from ledger.db import tenancy
from reviews import tasks as after
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.refund_shop import ORDER, Counter
from tests.web.recovery.test_recovery_path import cancelling, carried_out, lesser

ORDERS = ("EX-1001", "EX-1002", "EX-1003")


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    for order in ORDERS:
        counter.till.order(order)
    return counter.open(secrets_dir, lesser(), cancelling())


class Run:
    """One run of several refunds, in a session that asks for the run to be taken back when a step fails."""

    def __init__(self, counter: Counter, clock: Clock, on_failure: str = "compensate") -> None:
        self.counter, self.clock = counter, clock
        self.session = counter.session(workflow_run_id=uuid4().hex, on_failure=on_failure)
        self.run_id = self.session["session_id"]

    def call(self, order_id: str, **changes: Any) -> dict[str, Any]:
        call = {
            "call_id": uuid4().hex,
            "tool": "refund_order",
            "arguments": ORDER | {"order_id": order_id},
            "pin_hash": self.session["pin"]["hash"],
        }
        answer = self.counter.agent.post(f"/sessions/{self.session['session_id']}/calls", {"calls": [call | changes]})
        result: dict[str, Any] = answer.json()["results"][0]
        return result

    def step(self, order_id: str, *, works: bool = True, **changes: Any) -> str:
        """One refund, carried out and read back: done, or failed without a trace."""
        action_id = str(self.call(order_id, **changes)["action_id"])
        order = next(each for each in self.counter.claim() if each["action_id"] == action_id)
        started = self.counter.start(order).json()
        if works:
            self.counter.till.refund(started["idempotency_key"], order_id=order_id)
            self.counter.tell(started)
        else:
            self.counter.tell(started, "failed", evidence=None, error={"code": "NO", "message": "No.", "phase": "call"})
        self.clock.forward(seconds=60)
        self.counter.read_back(action_id, self.clock)
        return action_id

    def unwinding(self) -> Any:
        with tenancy(self.counter.tenant):
            name = actions.action(self.counter.tenant, UUID(self.step_ids()[0])).run_id
            return runs.unwinding(self.counter.tenant, name)

    def step_ids(self) -> list[str]:
        items = self.counter.operator_key.get(f"/actions?session={self.session['session_id']}").json()["items"]
        return [each["action_id"] for each in reversed(items)]

    def child(self) -> Any:
        """The recovery action that is to be carried out now."""
        after.recover()
        before.propose_follow_ups()
        with tenancy(self.counter.tenant):
            waiting = actions.actions(self.counter.tenant, agent="recovery", state="VALIDATED")
        return waiting[0] if waiting else None


@pytest.mark.req("R-RP-32", "R-RP-39")
def test_a_run_whose_third_step_fails_is_reversed_in_reverse_order(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    first, second = run.step("EX-1001"), run.step("EX-1002")
    third = run.step("EX-1003", works=False)
    assert [cashier.state(one) for one in (first, second, third)] == ["RECONCILED_SUCCESS"] * 2 + ["FAILED"]
    child = run.child()
    assert str(child.parent_id) == second
    assert run.child().id == child.id  # nothing else is ordered before this one has ended
    carried_out(cashier, clock, child)
    child = run.child()
    assert str(child.parent_id) == first
    carried_out(cashier, clock, child)
    assert run.child() is None
    assert run.unwinding().state == "DONE"
    for step in (first, second):
        told = cashier.report(step)
        assert (told["code"], told["completed"]) == ("COMPENSATED", False)
        assert cashier.state(step) == "RECONCILED_SUCCESS"


@pytest.mark.req("R-EX-20")
def test_a_run_in_rollback_starts_nothing_new(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    run.step("EX-1001")
    waiting = str(run.call("EX-1002")["action_id"])
    order = next(each for each in cashier.claim() if each["action_id"] == waiting)
    run.step("EX-1003", works=False)
    assert run.call("EX-1002", arguments=ORDER | {"amount": 7})["result"]["error"]["code"] == "UNRESOLVED_DEPENDENCY"
    assert cashier.start(order).json()["code"] == "RUN_TAKEN_BACK"
    before.propose_follow_ups()
    assert cashier.state(waiting) == "FAILED"
    assert cashier.report(waiting)["code"] == "NOT_EXECUTED"


def test_without_a_request_for_it_a_failed_step_causes_no_rollback(cashier: Counter, clock: Clock):
    run = Run(cashier, clock, on_failure="stop")
    run.step("EX-1001")
    run.step("EX-1002", works=False)
    assert run.child() is None
    assert run.unwinding() is None


@pytest.mark.req("R-DC-11", "R-RP-37")
def test_a_step_that_succeeds_during_the_rollback_is_reversed_too(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    late = str(run.call("EX-1001")["action_id"])
    started = cashier.start(next(each for each in cashier.claim() if each["action_id"] == late)).json()
    run.step("EX-1002", works=False)
    cashier.till.refund(started["idempotency_key"], order_id="EX-1001")
    cashier.tell(started)
    clock.forward(seconds=60)
    cashier.read_back(late, clock)
    entry = cashier.operator_key.get(f"/actions/{late}").json()["entry"]
    assert entry["reconciliation"]["recovery_decision"] == "RT-51 COMPENSATE"
    assert entry["reconciliation"]["discrepancy_class"] == "COMPENSATION_REQUIRED"
    carried_out(cashier, clock, run.child())
    assert cashier.state(late) == "COMPENSATED"
    after.recover()
    assert run.unwinding().state == "DONE"


def test_a_step_without_a_reversal_stops_the_rollback_until_a_person_decides(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    for order in ORDERS:
        counter.till.order(order)
    cashier = counter.open(secrets_dir, lesser(recovery={"idempotent": True}))
    run = Run(cashier, clock)
    stands = run.step("EX-1001")
    run.step("EX-1002", works=False)
    assert run.child() is None
    assert run.unwinding().state == "STUCK"
    case = cashier.case_of(stands)
    assert case is not None
    shown = cashier.operator.get(f"/reviews/{case['case_id']}").json()
    assert [one["resolution"] for one in shown["allowed"]] == ["ABANDON"]
    body = {"resolution": "ABANDON", "reason": "The customer keeps it.", "evidence": ["mail of the owner"]}
    assert settling.settle(cashier.operator, case["case_id"], **body).status_code == 200
    after.recover()
    assert run.unwinding().state == "DONE"
    assert cashier.report(stands)["code"] == "COMPLETED"


def test_a_failed_reversal_is_decided_by_a_person(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    stands = run.step("EX-1001")
    run.step("EX-1002", works=False)
    carried_out(cashier, clock, run.child(), status=None)
    case = cashier.case_of(stands)
    assert case is not None
    assert case["reason"] == "RT-50 MANUAL_REVIEW"
    assert run.child() is None
    assert run.unwinding().state == "STUCK"
    assert run.unwinding().reason == "refund_order on order/EX-1001: its case is not settled."
    assert cashier.state(stands) == "RECONCILED_SUCCESS"


def settle(run: Run, action_id: str, order_id: str, *, tool: str = "refund_order") -> None:
    """The pivot: approved, carried out, and confirmed."""
    cashier = run.counter
    cashier.vote(cashier.approval_of(action_id))
    started = cashier.start(next(each for each in cashier.claim() if each["action_id"] == action_id)).json()
    cashier.till.refund(started["idempotency_key"], order_id=order_id)
    cashier.tell(started, tool=tool)
    run.clock.forward(seconds=60)
    cashier.read_back(action_id, run.clock)
    assert cashier.state(action_id) == "RECONCILED_SUCCESS"


@pytest.mark.req("R-RP-38", "R-RP-39")
def test_after_the_pivot_nothing_is_rolled_back(counter: Counter, clock: Clock, secrets_dir: Path):
    for order in ORDERS:
        counter.till.order(order)
    pivot = lesser(name="settle_order", pivot=True, approval_required=True)
    cashier = counter.open(secrets_dir, lesser(), cancelling(), pivot)
    run = Run(cashier, clock)
    run.step("EX-1001")
    settle(run, str(run.call("EX-1002", tool="settle_order")["action_id"]), "EX-1002", tool="settle_order")
    run.step("EX-1003", works=False)
    assert run.unwinding() is None


@pytest.mark.req("R-RP-40")
def test_after_the_pivot_only_idempotent_tools_can_start(counter: Counter, clock: Clock, secrets_dir: Path):
    for order in ORDERS:
        counter.till.order(order)
    once = lesser(name="refund_once", recovery={})
    cashier = counter.open(secrets_dir, lesser(pivot=True, approval_required=True), once)
    run = Run(cashier, clock)
    assert run.call("EX-1002", tool="refund_once")["accepted"]
    settle(run, str(run.call("EX-1001")["action_id"]), "EX-1001")
    assert run.call("EX-1003", tool="refund_once")["result"]["error"]["code"] == "OUTSIDE_AUTONOMY"
    assert run.call("EX-1003")["accepted"]
