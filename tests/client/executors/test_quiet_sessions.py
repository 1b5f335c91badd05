"""A session that the console ended because it was quiet is followed by another one, without its user doing anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.agent import Agent, AsyncAgent, Call
from tests.client.consoles import Answer, StandIn, stand_in
from tests.client.sessions import SESSION, accepted, refused

CALL = Call("issue_refund", {"charge_id": "ch_1", "amount": 500}, call_id="c1", depends_on=["act-0"])
AGAIN = SESSION | {"session_id": "ses-2", "pin": {"hash": "i" * 64, "expires_at": "2999-01-01T00:00:00Z"}}


def over(code: str) -> Answer:
    error = {"path": "", "code": code, "detail": "It is over."}
    told = {"status": "failed", "error": {"code": "PIN_EXPIRED", "message": "It is over."}}
    return Answer(200, {"results": [refused(result=told, errors=[error])], "nudge": ""})


@pytest.fixture
def console():
    with stand_in() as server:
        server.plan("/sessions", Answer(201, SESSION | {"workflow_run_id": "run-1"}), Answer(201, AGAIN))
        server.plan("/ses-1/calls", over("SESSION_QUIET"))
        server.plan("/ses-2/calls", Answer(200, {"results": [accepted()], "nudge": "Go on."}))
        server.plan("/close", Answer(200, {}))
        yield server


def opened(agent: Agent, **options: Any) -> Any:
    return agent.open_session(goal="Refund charge 1", ttl_seconds=3600, tools=["issue_refund"], **options)


def assert_followed(console: StandIn) -> None:
    first, second = (seen.body for seen in console.to("/sessions"))
    left = second.pop("ttl_seconds")
    assert 3590 <= left <= first.pop("ttl_seconds")
    assert second == first | {"continues": "ses-1"}
    [sent] = console.to("/ses-2/calls")
    assert sent.body == {"calls": [CALL.body(goal=None, pin_hash="i" * 64)]}


def test_the_next_call_opens_another_session_of_the_same_run_and_is_sent_again_there(console):
    with Agent(url=console.url, key="k", agent_id="cashier") as agent:
        session = opened(agent)
        assert session.call(CALL).accepted
        assert (session.session_id, session.pin.hash) == ("ses-2", "i" * 64)
        assert [each.accepted for each in session.calls([CALL])] == [True]
    assert len(console.to("/sessions")) == 2


def test_an_awaited_session_is_renewed_the_same_way(console):
    async def there() -> None:
        async with AsyncAgent(url=console.url, key="k", agent_id="cashier") as agent:
            session = await agent.open_session(goal="Refund charge 1", ttl_seconds=3600, tools=["issue_refund"])
            assert (await session.call(CALL)).accepted

    asyncio.run(there())
    assert_followed(console)


def test_a_renewed_session_keeps_goal_tools_and_remaining_life(console):
    with Agent(url=console.url, key="k", agent_id="cashier") as agent:
        assert opened(agent).call(CALL).accepted
    assert_followed(console)


@pytest.mark.parametrize(("code", "renew", "follows"), [("PIN_EXPIRED", False, False), ("PIN_EXPIRED", True, True)])
def test_an_expired_session_is_renewed_only_if_its_caller_allows_it(console, code, renew, follows):
    console.plan("/ses-1/calls", over(code))
    with Agent(url=console.url, key="k", agent_id="cashier") as agent:
        assert opened(agent, renew=renew).call(CALL).accepted is follows


def test_a_session_that_its_user_closed_is_not_renewed(console):
    with Agent(url=console.url, key="k", agent_id="cashier") as agent:
        session = opened(agent)
        session.close()
        assert session.call(CALL).code == "PIN_EXPIRED"
    assert len(console.to("/sessions")) == 1
