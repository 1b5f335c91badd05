"""Gated tools: called they propose, an executor runs them, and nothing else does."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil.agent import Agent, AsyncAgent
from counterfoil.execution.lease import Lease, LeaseOver
from counterfoil.tool import NoSession, gated, handlers
from counterfoil.transport.request import new_trace
from counterfoil.work import NothingSent, Result, Work, succeeded
from tests.client.consoles import Answer, stand_in
from tests.client.sessions import NOT_EXECUTED, a_day, refused, stands

RAN: list[object] = []


@gated(version="1.0.0", side_effect_class="HIGH_RISK_EXTERNAL", target_resource="charge/{charge_id}", wait_s=0.2)
def issue_refund(charge_id: str, amount: int, currency: str = "EUR") -> str:
    """Refund a captured charge."""
    RAN.append((charge_id, amount, currency))
    return f"re_{charge_id}"


@gated(version="1.0.0", side_effect_class="READ_ONLY", target_resource="x/{x}", name="told", description="Say.")
def with_work(work: Work, x: str) -> Result:
    """Whatever."""
    with work.effect("said"):
        RAN.append(work.idempotency_key)
    return succeeded(x)


@gated(version="1.0.0", side_effect_class="READ_ONLY", target_resource="x/{x}")
async def awaited(x: str) -> dict[str, str]:
    """Whatever."""
    await asyncio.sleep(0)
    return {"x": x}


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


@pytest.fixture
def console():
    with stand_in() as server:
        a_day(server)
        yield server


@pytest.fixture
def session(console):
    with Agent(url=console.url, key="k", agent_id="a") as agent:
        yield agent.open_session(goal="g", ttl_seconds=60)


def _work(payload, *, for_s=60.0):
    lease = Lease(for_s=for_s, timeout_s=60)
    return Work("act-1", "t", "1.0.0", "1", payload, "", "key-1", new_trace(), lease)


def test_a_call_in_a_session_is_proposed_and_does_not_run(console, session):
    with session:
        outcome = issue_refund("ch_1", amount=500)
    assert outcome.completed
    assert RAN == []
    (call,) = console.to("/calls")[0].body["calls"]
    assert call["tool"] == "issue_refund"
    assert call["arguments"] == {"charge_id": "ch_1", "amount": 500, "currency": "EUR"}


def test_a_call_outside_of_a_session_is_refused_and_does_not_run(session):
    with pytest.raises(NoSession):
        issue_refund("ch_1", 500)
    with session:
        pass
    with pytest.raises(NoSession):
        issue_refund("ch_1", 500)
    assert RAN == []


def test_a_call_is_proposed_in_the_innermost_session(console, session):
    console.plan("/sessions", Answer(201, {"session_id": "inner"}))
    with Agent(url=console.url, key="k", agent_id="a") as agent, session:
        with agent.open_session(goal="g", ttl_seconds=60):
            issue_refund("ch_1", 500)
        issue_refund("ch_2", 500)
    assert [seen.path.split("/")[-2] for seen in console.to("/calls")] == ["inner", "ses-1"]


def test_an_action_still_open_when_waiting_ends_is_returned_with_its_id(console, session):
    console.plan("/actions/act-1", stands("EXECUTING"))
    console.plan("/report", Answer(200, NOT_EXECUTED))
    outcome = issue_refund.on(session, wait_s=0)("ch_1", 500)
    assert (outcome.settled, outcome.refused, outcome.action_id) == (False, False, "act-1")


def test_a_refusal_is_returned_as_an_outcome(console, session):
    console.plan("/calls", Answer(200, {"results": [refused()]}))
    assert issue_refund.on(session)("ch_1", 500).call.code == "SCHEMA_DRIFT"


def test_arguments_that_the_function_does_not_take_are_never_sent(console, session):
    with pytest.raises(TypeError):
        issue_refund.on(session)("ch_1", amont=500)
    assert console.to("/calls") == []


def test_a_tool_of_an_asynchronous_session_is_awaited(console):
    async def there():
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            return await issue_refund.on(await agent.open_session(goal="g", ttl_seconds=60))("ch_1", 500)

    assert asyncio.run(there()).completed


def test_the_contract_follows_the_decorator_and_the_signature():
    document = issue_refund.contract(reversibility="IRREVERSIBLE", version="1.0.1")
    assert document["name"] == "issue_refund"
    assert document["description"] == "Refund a captured charge."
    assert document["arguments_schema"]["properties"]["currency"] == {"type": "string", "default": "EUR"}
    assert (document["version"], document["reversibility"]) == ("1.0.1", "IRREVERSIBLE")
    assert with_work.contract()["description"] == "Say."
    assert list(with_work.contract()["arguments_schema"]["properties"]) == ["x"]


def test_the_handler_runs_the_function_as_one_effect():
    work = _work({"charge_id": "ch_1", "amount": 500})
    assert issue_refund.handler(work) == Result("success", evidence="re_ch_1")
    assert RAN == [("ch_1", 500, "EUR")]
    assert work.begun == ["issue_refund"]


def test_nothing_runs_after_the_lease_has_expired():
    with pytest.raises(LeaseOver):
        issue_refund.handler(_work({"charge_id": "ch_1", "amount": 500}, for_s=0))
    assert RAN == []


def test_a_payload_that_the_function_does_not_take_is_reported_as_nothing_sent():
    work = _work({"charge_id": "ch_1", "sum": 500})
    with pytest.raises(NothingSent):
        issue_refund.handler(work)
    assert (RAN, work.begun) == ([], [])


def test_a_function_that_takes_the_work_begins_its_own_effects():
    work = _work({"x": "receipt"})
    assert with_work.handler(work) == succeeded("receipt")
    assert work.begun == ["said"]
    assert RAN == ["key-1"]


def test_a_function_may_be_asynchronous_and_its_result_becomes_raw_output():
    assert awaited.handler(_work({"x": "1"})) == Result("success", raw={"x": "1"})


def test_handlers_are_named_after_their_tools():
    assert sorted(handlers(issue_refund, with_work, awaited)) == ["awaited", "issue_refund", "told"]
