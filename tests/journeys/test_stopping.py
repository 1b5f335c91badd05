"""Stop this agent, on the real processes, while an executor claims all the while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from example.environment import AGENT_ID
from example.stage import Order, refund_of
from tests.journeys.ground import Caller, Ground, locked
from tests.journeys.hands import hands

MANY = 100
BODY = {"agent_id": AGENT_ID, "goal": "Refund what is small.", "ttl_seconds": 3600}


@pytest.fixture
def ground(quiet: Ground) -> Iterator[Ground]:
    """The ground, whose agent is registered again afterwards as it was."""
    agent = quiet.operator.get(f"/agents/{AGENT_ID}")
    [current] = [each for each in agent["versions"] if each["version"] == agent["version"]]
    yield quiet
    again = {name: current[name] for name in ("agent_id", "version", "tools", "versions", "output_tags", "model_tier")}
    assert quiet.operator.post("/agents", again).status_code == 201


def propose(agent: Caller, session: dict[str, Any], orders: list[Order]) -> list[str]:
    """Refunds that nobody needs to approve, one of each order."""
    path, found = f"/sessions/{session['session_id']}/calls", []
    for start in range(0, len(orders), 20):
        calls = [
            {
                "call_id": uuid4().hex,
                "tool": "refund_small_amount",
                "arguments": refund_of(order),
                "pin_hash": session["pin"]["hash"],
            }
            for order in orders[start : start + 20]
        ]
        results = agent.post(path, {"calls": calls}).json()["results"]
        assert all(each["accepted"] for each in results), results
        found += [str(each["action_id"]) for each in results]
    return found


@pytest.mark.req("R-CR-14")
def test_an_agent_is_stopped_while_an_executor_keeps_claiming(ground: Ground):
    agent, stage = ground.machine("agent"), ground.stage()
    session, held = agent.post("/sessions", BODY).json(), stage.order()
    orders = [stage.order() for _ in range(MANY)]
    with hands(ground) as busy:
        # One attempt is on its way in the shop when the agent is stopped.
        [started] = propose(agent, session, [held])
        with locked(ground.database_url("shop"), "SELECT 1 FROM shop.orders WHERE id = %s FOR UPDATE", held.order_id):
            busy.claim()
            busy.begin()
            ground.until_blocked("shop")
            waiting = propose(agent, session, orders)
            ground.start("executor")
            ground.until(
                lambda: any("execution_started" in ground.events(each) for each in waiting[:3]),
                lambda: "the executor has started nothing",
            )
            told = ground.operator.post(f"/agents/{AGENT_ID}/revoke", {"reason": "It refunds what nobody asked for."})
            assert told.status_code == 200, told.text
            assert started in [each["action_id"] for each in told.json()["running"]]
        assert busy.said() == "success"
    [revoked_at] = {told.json()["revoked_at"]}
    ground.until(
        lambda: ground.operator.get(f"/agents/{AGENT_ID}/revocation")["stopped"]["left"] == 0,
        lambda: "the worker has not ended the rest",
    )
    ended = []
    for action_id in waiting:
        starts = [event["at"] for event in ground.history(action_id) if event["event"] == "execution_started"]
        if not starts:
            assert ground.state(action_id) == "FAILED"
            ended.append(action_id)
        # The web host's clock stamps both; a start is judged a little before it is on record.
        assert all(at <= revoked_at for at in starts), (starts, revoked_at)
    assert ended
    assert ground.operator.get(f"/agents/{AGENT_ID}/revocation")["stopped"]["actions"] == len(ended)
    for action_id in {started, *waiting} - {*ended}:
        ground.wait_for(action_id, "RECONCILED_SUCCESS")
    refused = agent.post("/sessions", BODY)
    assert (refused.status_code, refused.json()["code"]) == (403, "AGENT_NOT_REGISTERED")
