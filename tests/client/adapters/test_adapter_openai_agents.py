"""The adapter for the OpenAI Agents SDK, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
import json

import agents
import pytest
from agents import Runner
from agents.exceptions import OutputGuardrailTripwireTriggered
from agents.testing import ScriptedModel, assistant_message, function_call

from counterfoil.adapters import openai_agents as adapter
from counterfoil.agent import AsyncAgent
from tests.client.consoles import stand_in
from tests.client.sessions import a_day, blocks, gate, held_until_asked

GOOD = {"charge_id": "ch_1", "amount": 500}


@pytest.fixture
def console():
    agents.set_tracing_disabled(True)
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


def _agent(session, *steps, guarded=False, **options):
    guards = [adapter.output_guardrail(session)] if guarded else []
    model = ScriptedModel([step if isinstance(step, list) else [step] for step in steps])
    return agents.Agent(name="cashier", model=model, tools=adapter.tools(session, **options), output_guardrails=guards)


def _answers(result):
    return [json.loads(item.output) for item in result.new_items if item.type == "tool_call_output_item"]


def test_calls_are_proposed_and_answered_as_the_gate_says(console):
    async def act(session):
        steps = [
            [function_call("issue_refund", GOOD, call_id="c1"), function_call("issue_refund", "{", call_id="c2")],
            function_call("issue_refund", GOOD | {"amount": "5"}, call_id="c3"),
            function_call("check_action", {"action_id": "act-1"}, call_id="c4"),
            assistant_message("Done."),
        ]
        return await Runner.run(_agent(session, *steps), "Refund charge 1.", run_config=adapter.run_config(session))

    done, broken, drifted, checked = _answers(_run(console, act))
    assert done["completed"]
    assert broken["code"] == "UNPARSEABLE_ARGUMENTS"
    assert (drifted["code"], drifted["suggestion"]) == ("SCHEMA_DRIFT", "amount")
    assert checked["state"] == "RECONCILED_SUCCESS"


def test_the_gate_answers_a_call_to_a_tool_that_is_absent(console):
    async def act(session):
        agent = _agent(session, function_call("wire_money", {"to": "me"}, call_id="c1"), assistant_message("Oh."))
        return await Runner.run(agent, "Pay me.", run_config=adapter.run_config(session))

    (answer,) = _answers(_run(console, act))
    assert answer["code"] == "PHANTOM_TOOL"
    assert console.to("/calls")[0].body["calls"][0]["tool"] == "wire_money"


def test_a_final_message_with_an_unsupported_claim_stops_the_run(console):
    async def act(session):
        await Runner.run(_agent(session, assistant_message("I have refunded you."), guarded=True), "Well?")

    with pytest.raises(OutputGuardrailTripwireTriggered) as caught:
        _run(console, act)
    info = caught.value.guardrail_result.output.output_info
    assert (info["verdict"], info["violations"]) == ("BLOCK", ["PHANTOM"])
    assert info["corrected"] == info["sendable"] == "Nothing was paid back yet."


def test_an_honest_final_message_passes(console):
    async def act(session):
        return await Runner.run(_agent(session, assistant_message("How much was it?"), guarded=True), "Refund.")

    assert _run(console, act).final_output == "How much was it?"


def test_a_call_that_waits_for_people_interrupts_and_approving_it_there_decides_nothing(console):
    held_until_asked(console, 2)

    async def act(session):
        steps = [function_call("issue_refund", GOOD, call_id="c1"), assistant_message("Still waiting.")]
        agent = _agent(session, *steps, interrupts=True, wait_s=0)
        first = await Runner.run(agent, "Refund charge 1.")
        state = first.to_state()
        for item in first.interruptions:
            state.approve(item)
        return first, await Runner.run(agent, state)

    first, second = _run(console, act)
    assert [item.name for item in first.interruptions] == ["issue_refund"]
    (answer,) = _answers(second)
    assert answer["approval"] == {"decision": "WAITING"}
    assert not answer["completed"]
    bodies = [seen.body for seen in console.to("/calls")]
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
