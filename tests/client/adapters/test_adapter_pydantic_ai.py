"""The adapter for Pydantic AI, with its own scripted model."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from counterfoil.adapters import pydantic_ai as adapter
from counterfoil.agent import AsyncAgent
from tests.client.consoles import stand_in
from tests.client.sessions import a_day, blocks, gate, held_until_asked

GOOD = {"charge_id": "ch_1", "amount": 500}


@pytest.fixture
def console():
    with stand_in() as server:
        a_day(server)
        server.plan("/calls", gate)
        server.plan("/guard", blocks)
        yield server


def _run(console, act):
    async def there():
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            return await act(await agent.open_session(goal="g", ttl_seconds=60))

    return asyncio.run(there())


def _agent(session, *turns, output_type=str, seen=None, **options):
    script = iter(turns)

    def model(messages, info):
        if seen is not None:
            seen.append(info)
        return ModelResponse(parts=list(next(script)))

    toolset = adapter.GatedToolset(session, **options)
    return Agent(FunctionModel(model), toolsets=[toolset], output_type=output_type)


def _answers(result):
    parts = [part for message in result.all_messages() for part in message.parts]
    return {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}


def test_calls_are_proposed_and_answered_as_the_gate_says(console):
    seen = []

    async def act(session):
        turns = [
            [ToolCallPart("issue_refund", GOOD, "c1"), ToolCallPart("issue_refund", '{"charge_id": ', "c2")],
            [ToolCallPart("issue_refund", '{"charge_id": "ch_1", "amount": "5"}', "c3")],
            [ToolCallPart("check_action", {"action_id": "act-1"}, "c4")],
            [TextPart("Done.")],
        ]
        return await _agent(session, *turns, seen=seen).run("Refund charge 1.")

    answers = _answers(_run(console, act))
    assert answers["c1"]["completed"]
    assert answers["c2"]["code"] == "UNPARSEABLE_ARGUMENTS"
    assert (answers["c3"]["code"], answers["c3"]["suggestion"]) == ("SCHEMA_DRIFT", "amount")
    assert answers["c4"]["state"] == "RECONCILED_SUCCESS"
    refund, _, _ = seen[0].function_tools
    assert refund.parameters_json_schema["required"] == ["charge_id", "amount"]


def test_a_final_text_is_sent_as_the_guard_allows_it(console):
    async def act(session):
        agent = _agent(session, [TextPart("I have refunded you.")], [TextPart("How much was it?")])
        agent.output_validator(adapter.guard(session))
        return [(await agent.run("Well?")).output, (await agent.run("Refund.")).output]

    assert _run(console, act) == ["Nothing was paid back yet.", "How much was it?"]


def test_a_call_that_waits_for_people_is_deferred_and_its_result_comes_from_the_console(console):
    held_until_asked(console, 2)

    async def act(session):
        turns = [[ToolCallPart("issue_refund", GOOD, "c1")], [TextPart("Waiting.")], [TextPart("Done.")]]
        agent = _agent(session, *turns, output_type=[str, DeferredToolRequests], defers=True)
        agent.output_validator(adapter.guard(session))
        asked = await agent.run("Refund charge 1.")
        told = []
        for wait_s in (0, 5):
            results = await adapter.deferred_results(session, asked.output, wait_s=wait_s)
            again = await agent.run(message_history=asked.all_messages(), deferred_tool_results=results)
            told.append(_answers(again)["c1"])
        return asked.output, told

    deferred, (first, second) = _run(console, act)
    assert [part.tool_call_id for part in deferred.calls] == ["c1"]
    assert deferred.metadata["c1"]["approval_id"] == "app-1"
    assert first["approval"]["decision"] == "WAITING"
    assert not first["completed"]
    assert second["approval"]["decision"] == "APPROVED"
    assert second["completed"]
    assert len(console.to("/calls")) == 1
