from __future__ import annotations

import asyncio

import httpx
import pytest

from counterfoil import problems
from counterfoil.agent import Agent, AsyncAgent, Call
from counterfoil.connection import Connection
from counterfoil.transport.request import Backoff, Trace, new_trace, read_trace
from tests.client.consoles import Answer, refusal, stand_in
from tests.client.sessions import NOT_EXECUTED, WAITING, stands

SESSION = {
    "session_id": "ses-1",
    "contract": {"sub_tools_disclosed": ["issue_refund"]},
    "pin": {"hash": "h" * 64, "expires_at": "2999-01-01T00:00:00Z"},
}
ACCEPTED = {
    "call_id": "c1",
    "accepted": True,
    "action_id": "act-1",
    "state": "VALIDATED",
    "approval": {"required": True, "approval_id": "app-1"},
    "user_status": {"code": "AWAITING_APPROVAL", "text": "Waiting."},
}
REFUSED = {
    "call_id": "c2",
    "accepted": False,
    "result": {"status": "failed", "error": {"code": "PHANTOM_TOOL", "message": "No such tool."}},
    "hint": "Did you mean issue_refund?",
    "suggestion": "issue_refund",
}


@pytest.fixture
def console():
    with stand_in() as server:
        server.plan("/sessions", Answer(201, SESSION))
        server.plan("/calls", Answer(200, {"results": [ACCEPTED, REFUSED], "nudge": None}))
        yield server


@pytest.fixture
def agent(console):
    brief = Backoff(give_up_after_s=1.0)
    agent = Agent(url=console.url, key="cf_agent_test", agent_id="shop-assistant", backoff=brief)
    yield agent
    agent.close()


def _open(agent):
    return agent.open_session(goal="Refund order 1", ttl_seconds=60, tools=["issue_refund"])


def test_a_handshake_pins_the_goal(console, agent):
    session = _open(agent)
    assert session.session_id == "ses-1"
    assert console.seen[0].headers["authorization"] == "Bearer cf_agent_test"
    assert console.seen[0].body == {
        "agent_id": "shop-assistant",
        "goal": "Refund order 1",
        "ttl_seconds": 60,
        "tools": ["issue_refund"],
    }


def test_a_session_may_belong_to_a_run_that_is_taken_back_when_a_step_fails(console, agent):
    console.plan("/sessions", Answer(201, SESSION | {"workflow_run_id": "day-1"}))
    session = agent.open_session(goal="Pack order 1", ttl_seconds=60, run_id="day-1", on_failure="compensate")
    assert session.run_id == "day-1"
    assert console.to("/sessions")[0].body["workflow_run_id"] == "day-1"
    assert console.to("/sessions")[0].body["on_failure"] == "compensate"
    console.plan("/runs/day-1", Answer(200, {"run_id": "day-1", "complete": False}))
    assert agent.run(session.run_id)["complete"] is False


def test_a_call_names_the_pin_unless_it_restates_the_goal(console, agent):
    session = _open(agent)
    call = Call(tool="issue_refund", arguments={"order_id": "1"}, call_id="c1")
    session.call(call)
    session.call(call, goal="Refund order 1")
    first, second = [seen.body["calls"][0] for seen in console.to("/calls")]
    assert first["pin_hash"] == "h" * 64
    assert "goal" not in first
    assert second["goal"] == "Refund order 1"
    assert "pin_hash" not in second


@pytest.mark.req("R-AP-04")
def test_a_call_carries_the_evidence_that_the_agent_states(console, agent):
    """The blocking agent and the awaited one send the same call."""
    said = [{"statement": "The customer wrote that it arrived broken.", "id": "ticket/7"}]
    call = Call(tool="issue_refund", arguments={"order_id": "1"}, evidence=said)

    async def there():
        async with AsyncAgent(url=console.url, key="k", agent_id="shop-assistant") as other:
            session = await other.open_session(goal="Refund order 1", ttl_seconds=60)
            await session.call(call)

    _open(agent).call(call)
    asyncio.run(there())
    assert [seen.body["calls"][0]["evidence"] for seen in console.to("/calls")] == [said, said]
    assert "evidence" not in Call(tool="issue_refund", arguments={}).body(goal=None, pin_hash="h")


def test_a_refused_call_does_not_affect_the_other_calls_of_its_batch(agent):
    calls = [Call(tool="issue_refund", arguments={}), Call(tool="wire_money", arguments={})]
    accepted, refused = _open(agent).calls(calls)
    assert accepted.accepted
    assert accepted.action_id == "act-1"
    assert not refused.accepted
    assert refused.code == "PHANTOM_TOOL"
    assert refused.suggestion == "issue_refund"


def test_a_call_without_an_answer_is_sent_again_as_the_same_write(console, agent):
    session = _open(agent)
    console.plan("/calls", Answer(silent=True), Answer(200, {"results": [ACCEPTED]}))
    session.call(Call(tool="issue_refund", arguments={}))
    first, second = console.to("/calls")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


def test_the_calls_of_a_session_share_its_trace(console, agent):
    session = _open(agent)
    session.call(Call(tool="issue_refund", arguments={}))
    parents = [Trace(seen.headers["traceparent"]) for seen in console.seen]
    assert {parent.trace_id for parent in parents} == {session.trace.trace_id}
    assert len({parent.traceparent for parent in parents}) == 2


def test_a_report_is_read_as_it_is(console, agent):
    body = {"state": "COMMITTED", "code": "COMPLETED", "text": "Refunded.", "completed": True, "trust_level": 3}
    console.plan("/report", Answer(200, body))
    report = agent.report("act-1")
    assert (report.state, report.completed) == ("COMMITTED", True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, problems.BodyRefused),
        (401, problems.NotSignedIn),
        (403, problems.NotAllowed),
        (404, problems.NotFound),
        (409, problems.NotNow),
        (413, problems.BodyRefused),
        (422, problems.BodyRefused),
        (429, problems.TooMany),
        (500, problems.ConsoleFault),
    ],
)
def test_each_refusal_has_its_own_exception(console, agent, status, kind):
    console.plan("/actions/act-1", refusal(status, "SOME_CODE", hint="Try later."))
    with pytest.raises(kind) as caught:
        agent.status("act-1")
    assert caught.value.code == "SOME_CODE"
    assert caught.value.hint == "Try later."


def test_an_error_page_without_problem_details_becomes_a_console_fault(console, agent):
    console.plan("/actions/act-1", Answer(502, "<html>", {"Content-Type": "text/html"}))
    with pytest.raises(problems.ConsoleFault) as caught:
        agent.status("act-1")
    assert caught.value.code == "HTTP_502"


def test_an_unreachable_console_is_not_reported_as_a_refusal(agent, console):
    console.plan("/actions/act-1", Answer(silent=True))
    with pytest.raises(problems.Unreachable):
        agent.status("act-1")


def test_a_write_is_given_up_after_its_time_limit(console):
    console.plan("/things", refusal(503, "DOWN"))
    connection = Connection(url=console.url, key="k")
    with pytest.raises(problems.ConsoleFault):
        connection.write("/things", {}, give_up_after_s=0.5)
    connection.close()
    assert 1 < len(console.to("/things")) < 5


def test_a_write_is_retried_after_retry_after(console):
    busy = refusal(429, "RATE_LIMITED")
    busy.headers["Retry-After"] = "1"
    console.plan("/things", busy, Answer(200, {"done": True}))
    connection = Connection(url=console.url, key="k", http=httpx.Client())
    assert connection.write("/things", {}, give_up_after_s=5) == {"done": True}
    connection.close()


@pytest.mark.parametrize(
    "value",
    [
        f"00-{'c' * 32}-{'d' * 16}-01",
        {"trace_id": "c" * 32},
    ],
)
def test_a_trace_is_parsed_in_each_of_its_forms(value):
    assert read_trace(value).trace_id == "c" * 32


@pytest.mark.parametrize("value", [None, "nonsense", {}, 7])
def test_work_without_a_trace_gets_a_new_one(value):
    assert len(read_trace(value).trace_id) == 32


def test_a_child_span_keeps_the_trace_id():
    parent = new_trace()
    assert parent.child().trace_id == parent.trace_id
    assert parent.child() != parent


def test_an_outcome_that_was_decided_between_two_answers_tells_the_decision(console, agent):
    decided = WAITING | {"decision": "REJECTED", "waiting": False, "reason": "Not this one."}
    console.plan("/actions/act-1", stands("VALIDATED", approval=WAITING), stands("FAILED", approval=decided))
    console.plan("/report", Answer(200, NOT_EXECUTED | {"state": "FAILED"}))
    outcome = agent.wait("act-1", for_s=0)
    assert outcome.settled
    assert outcome.approval is not None
    assert (outcome.approval.decision, outcome.approval.reason) == ("REJECTED", "Not this one.")
