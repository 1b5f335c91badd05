"""One refund from the handshake to the confirmed end, step by step over HTTP, on the real processes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from example.stage import Order, refund_of
from tests.journeys.ground import Caller, Ground, locked, moves
from tests.journeys.hands import hands

GOAL = "Refund the damaged order in full."
TIMES = ("proposed_at", "validated_at", "executed_at", "verified_at", "reconciled_at")


@dataclass(frozen=True)
class Journey:
    """One action, as its agent and as everybody else sees it."""

    ground: Ground
    agent: Caller
    order: Order
    action_id: str

    def told(self) -> tuple[str, bool]:
        report = self.agent.get(f"/actions/{self.action_id}/report")
        return report["code"], report["completed"]

    def refunds(self) -> list[dict[str, Any]]:
        return self.ground.rows("refunds", self.order.order_id)


@pytest.mark.req("R-CX-08", "R-RI-01", "R-RI-02", "R-RI-03", "R-RI-05", "R-RI-09", "R-RI-14")
@pytest.mark.req("R-AP-13", "R-AP-19", "R-EX-01", "R-EX-16", "R-OB-03", "R-OB-07", "R-RC-15", "R-LE-12")
def test_a_refund_goes_from_the_handshake_to_verified(quiet):
    journey = _proposed(quiet)
    approval = _approved(journey)
    # Without a worker nothing is read back, so nothing can be confirmed.
    quiet.stack.stop("worker")
    _started_and_held_up_in_the_shop(journey)
    _done_as_the_tool_says(journey)
    quiet.stack.start("worker")
    quiet.wait_for(journey.action_id, "RECONCILED_SUCCESS")
    assert journey.told() == ("COMPLETED", True)
    assert len(journey.refunds()) == 1
    _the_record_shows_it(journey, approval)


def _proposed(ground):
    """The contract is the registry's, the goal is pinned; the proposal is validated, and nothing was attempted."""
    agent, order = ground.machine("agent"), ground.stage(approved=True).order()
    opened = agent.post("/sessions", {"agent_id": "shop-assistant", "goal": GOAL, "ttl_seconds": 600})
    assert opened.status_code == 201, opened.text
    session = opened.json()
    assert "issue_refund" in session["contract"]["sub_tools_disclosed"]
    call = {
        "call_id": "call-1",
        "tool": "issue_refund",
        "arguments": refund_of(order),
        "pin_hash": session["pin"]["hash"],
        "target_resource": f"order/{order.order_id}",
    }
    result = agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
    assert (result["accepted"], result["state"], result["approval"]["required"]) == (True, "VALIDATED", True)
    assert result["user_status"]["code"] == "NOT_EXECUTED"
    journey = Journey(ground, agent, order, result["action_id"])
    assert journey.told() == ("NOT_EXECUTED", False)
    return journey


def _approved(journey):
    """An executor may not have it before a reviewer has signed; their approval is permission and nothing more."""
    ground = journey.ground
    ready = ground.machine("exec").items("/executions/ready", tools="issue_refund")
    assert [each["waiting_for"] for each in ready if each["action_id"] == journey.action_id] == [["approval"]]
    approval = ground.approval_of(journey.action_id)
    assert approval["payload"]["amount"] == journey.order.amount
    unsigned = ground.vote_on(approval, password="a guess")
    assert (unsigned.status_code, unsigned.json()["code"]) == (403, "STEP_UP_REQUIRED")
    assert ground.vote_on(approval).status_code == 201
    assert journey.told() == ("NOT_EXECUTED", False)
    assert journey.refunds() == []
    return approval


def _started_and_held_up_in_the_shop(journey):
    """The attempt is on record before there is any effect."""
    ground = journey.ground
    wanted = "SELECT 1 FROM shop.orders WHERE id = %s FOR UPDATE"
    with locked(ground.database_url("shop"), wanted, journey.order.order_id):
        ground.start("executor")
        ground.until_blocked("shop")
        assert journey.told() == ("ATTEMPTED_RESULT_UNKNOWN", False)
        started = ground.history(journey.action_id)[-1]
        assert (started["event"], started["state"]) == ("execution_started", "EXECUTING")
        assert {"attempt", "wrapper_version", "timeout_s", "executor_id"} <= set(started["detail"])
        assert started["entry"]["idempotency"]["status"] == "PENDING"
        assert journey.refunds() == []


def _done_as_the_tool_says(journey):
    """The effect is there and the tool claims it. That is evidence; nobody has looked yet."""
    journey.ground.wait_for(journey.action_id, "PENDING")
    assert [each["amount"] for each in journey.refunds()] == [journey.order.amount]
    assert journey.told() == ("RESPONSE_RECEIVED_VERIFICATION_PENDING", False)


def _the_record_shows_it(journey, approval):
    ground, action_id = journey.ground, journey.action_id
    history = ground.history(action_id)
    path = [move["to"] for move in moves(history)]
    assert path == ["PROPOSED", "VALIDATED", "EXECUTING", "PENDING", "COMMITTED", "RECONCILED_SUCCESS"]
    assert [event["seq"] for event in history] == list(range(1, len(history) + 1))
    assert [event["prev_hash"] for event in history[1:]] == [event["entry_hash"] for event in history[:-1]]
    by_kind = {event["event"]: event for event in history}
    actors = {name: by_kind[name]["actor"]["kind"] for name in ("approval_granted", "execution_started", "reconciled")}
    assert actors == {"approval_granted": "person", "execution_started": "executor", "reconciled": "system"}
    entry = history[-1]["entry"]
    bound = {approval["payload_hash"], entry["requested_operation"]["validated_payload_hash"]}
    assert bound == {entry["approval"]["payload_hash"]}
    assert entry["approval"]["approver_id"] == by_kind["approval_granted"]["actor"]["id"]
    times = [entry["timestamps"][name] for name in TIMES]
    assert sorted(times, key=datetime.fromisoformat) == times
    report = ground.operator.get(f"/actions/{action_id}/report")
    assert (report["entry_id"], report["trust_level"] >= 3) == (history[-1]["entry_id"], True)
    # The key that would repeat the refund is nowhere in what can be read of it.
    key = journey.refunds()[0]["idempotency_key"]
    for part in ("", "/history"):
        assert key not in ground.operator.http.get(f"/api/v1/actions/{action_id}{part}").text


def test_the_console_takes_the_heartbeats_of_the_client_library(quiet, caplog):
    sent = quiet.send("small_refund")
    with hands(quiet, timeout_s=4, after=lambda work: time.sleep(2)) as executor:
        executor.claim()
        executor.begin()
        assert executor.said() == "success"
    assert not [
        each.message for each in caplog.records if each.name == "counterfoil.executor" and each.levelname != "INFO"
    ]
    quiet.wait_for(sent.action_id, "RECONCILED_SUCCESS")
