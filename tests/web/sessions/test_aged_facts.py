"""Facts age: what was read too long ago is read again before a model may build on it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from reviews import queries
from reviews.readback.operations import schedules
from reviews.verification.operations import rechecks
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter, refund_contract


@pytest.fixture
def refunded(counter: Counter, secrets_dir, clock: Clock):
    """The counter, its session and a refund of it that was verified."""
    counter.open(secrets_dir, refund_contract(side_effect_class="MEDIUM_RISK_WRITE", reversibility="COMPENSABLE"))
    started = counter.begun()
    counter.till.refund(started["idempotency_key"])
    counter.tell(started)
    clock.forward(seconds=30)
    counter.read_back(started["action_id"], clock)
    session = counter.operator_key.get(f"/actions/{started['action_id']}").json()["session_id"]
    return counter, session, started["action_id"]


def context(counter: Counter, session: str):
    return counter.agent.get(f"/sessions/{session}/context").json()


def test_an_aged_fact_is_read_again_once_and_is_a_fact_anew_when_the_reading_agrees(refunded, clock: Clock):
    counter, session, action_id = refunded
    [fact] = context(counter, session)["facts"]
    assert (fact["action_id"], fact["next_behaviour"]["code"]) == (action_id, "CONTINUE")
    assert queries.schedule_of(counter.tenant, UUID(action_id)) is None
    clock.forward(days=1)
    told = context(counter, session)
    assert (told["facts"], [each["action_id"] for each in told["aged"]]) == ([], [action_id])
    assert told["aged"][0]["next_behaviour"]["code"] == "WAIT"
    assert "Settled, and read too long ago to build on:" in told["text"]
    ordered = queries.schedule_of(counter.tenant, UUID(action_id))
    clock.forward(seconds=5)
    context(counter, session)
    assert queries.schedule_of(counter.tenant, UUID(action_id)).opened_at == ordered.opened_at
    assert rechecks.recheck_action(tenant_id=counter.tenant, action_id=UUID(action_id), clock=clock.now) is False
    told = context(counter, session)
    assert ([each["action_id"] for each in told["facts"]], told["aged"]) == ([action_id], [])
    assert told["facts"][0]["as_of"] > fact["fresh_until"]


def test_an_aged_fact_that_is_no_longer_so_is_unresolved(refunded, clock: Clock):
    counter, session, action_id = refunded
    clock.forward(days=1)
    context(counter, session)
    counter.till.till.execute("DELETE FROM refunds")
    assert rechecks.recheck_action(tenant_id=counter.tenant, action_id=UUID(action_id), clock=clock.now) is True
    told = context(counter, session)
    assert (told["facts"], told["aged"]) == ([], [])
    assert [each["code"] for each in told["unresolved"]] == ["FINAL_STATE_UNKNOWN"]


class Gone(BaseException):
    """The process is killed: no code of it handles that."""


@pytest.mark.parametrize("is_ordered", [False, True], ids=["before it is ordered", "before it is committed"])
def test_a_process_killed_while_it_orders_a_reading_leaves_nothing_and_the_next_request_orders_it(
    refunded, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_ordered: bool
):
    counter, session, action_id = refunded
    clock.forward(days=1)
    order = schedules.recheck_now

    def killed(**given: Any) -> None:
        if is_ordered:
            order(**given)
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(schedules, "recheck_now", killed)
        with pytest.raises(Gone):
            context(counter, session)
    assert queries.schedule_of(counter.tenant, UUID(action_id)) is None
    assert [each["next_behaviour"]["code"] for each in context(counter, session)["aged"]] == ["WAIT"]
    assert queries.schedule_of(counter.tenant, UUID(action_id)) is not None
    assert rechecks.recheck_action(tenant_id=counter.tenant, action_id=UUID(action_id), clock=clock.now) is False
    assert [each["action_id"] for each in context(counter, session)["facts"]] == [action_id]


def test_whoever_only_looks_orders_no_reading(refunded, clock: Clock):
    counter, session, action_id = refunded
    clock.forward(days=1)
    assert len(counter.operator_key.get(f"/sessions/{session}/context").json()["aged"]) == 1
    assert queries.schedule_of(counter.tenant, UUID(action_id)) is None
