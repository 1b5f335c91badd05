"""Ids that a framework or its model uses again: every call is its own, and every answer is that of its call."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from uuid import uuid4

import agents
import pytest
from agents import Runner
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from counterfoil.adapters import langgraph, openai_agents, pydantic_ai
from counterfoil.agent import Agent, AsyncAgent, CallNames
from tests.client.consoles import Answer, stand_in
from tests.client.sessions import COMPLETED, SESSION

FIRST, SECOND, THIRD = ({"charge_id": f"ch_{number}", "amount": number} for number in (1, 2, 3))
TURNS = [[FIRST, SECOND], [THIRD], [FIRST]]
"""Two calls in the first message, and the first call again in the last."""
IDS = ["functions.issue_refund:0", "", "x" * 300, "call|fc_1/æ", "nul\x00"]


class Gate:
    """Knows a call by its id, as the console does: the same body again is the same action, another body is refused."""

    def __init__(self):
        self.actions = {}
        self.known = {}
        self.numbers = count(1)

    def __call__(self, seen):
        path = seen.path.partition("?")[0].removeprefix("/api/v1")
        if path == "/sessions":
            return Answer(201, SESSION)
        if path.endswith("/calls"):
            return Answer(200, {"results": [self.result(call) for call in seen.body["calls"]], "nudge": ""})
        if path.endswith("/report"):
            return Answer(200, COMPLETED)
        return Answer(200, {"action_id": path.split("/")[2], "state": "RECONCILED_SUCCESS"})

    def result(self, call):
        body, action_id = self.known.setdefault(call["call_id"], (call["arguments"], f"act-{next(self.numbers)}"))
        if body != call["arguments"]:
            error = {"code": "IDEMPOTENCY_CONFLICT", "message": "This call id was already used."}
            return {"call_id": call["call_id"], "accepted": False, "action_id": None, "result": {"error": error}}
        self.actions[action_id] = body
        return {"call_id": call["call_id"], "accepted": True, "action_id": action_id, "state": "VALIDATED"}


@pytest.fixture
def gate():
    agents.set_tracing_disabled(True)
    with stand_in() as server:
        made = Gate()
        made.url = server.url
        server.plan("", made)
        yield made


def _langchain(call_id, arguments):
    return {"name": "issue_refund", "args": arguments, "id": call_id, "type": "tool_call"}


def _node_alone(gate, call_id):
    with Agent(url=gate.url, key="k", agent_id="a") as agent:
        node = langgraph.call_tools(agent.open_session(goal="g", ttl_seconds=60))
        for turn in TURNS:
            message = AIMessage("", tool_calls=[_langchain(call_id, one) for one in turn])
            yield from (json.loads(one.content) for one in node({"messages": [message]})["messages"])


def _graph(gate, call_id, nodes):
    with Agent(url=gate.url, key="k", agent_id="a") as agent:
        session = agent.open_session(goal="g", ttl_seconds=60)
        script = iter([AIMessage("", tool_calls=[_langchain(call_id, one) for one in turn]) for turn in TURNS])
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": [next(script, AIMessage("Done."))]})
        graph.add_node("tools", nodes(session))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", langgraph.wants_tools, {True: "tools", False: END})
        graph.add_edge("tools", "model")
        state = graph.compile().invoke({"messages": [HumanMessage("Refund.")]})
        return [json.loads(one.content) for one in state["messages"] if one.type == "tool"]


def _in_a_graph(gate, call_id):
    return _graph(gate, call_id, langgraph.call_tools)


def _in_a_tool_node(gate, call_id):
    return _graph(gate, call_id, lambda session: ToolNode(langgraph.tools(session)))


def _awaited(gate, act):
    async def there():
        async with AsyncAgent(url=gate.url, key="k", agent_id="a") as agent:
            return await act(await agent.open_session(goal="g", ttl_seconds=60))

    return asyncio.run(there())


def _openai(gate, call_id, **options):
    # Within a run the SDK itself refuses an id that is used again: each message is a run of its own here.
    async def act(session):
        answers = []
        for turn in TURNS:
            calls = [function_call("issue_refund", one, call_id=call_id + "+" * at) for at, one in enumerate(turn)]
            model = ScriptedModel([calls, [assistant_message("Done.")]])
            made = agents.Agent(name="cashier", model=model, tools=openai_agents.tools(session, **options))
            result = await Runner.run(made, "Refund.")
            answers += [json.loads(one.output) for one in result.new_items if one.type == "tool_call_output_item"]
        return answers

    return _awaited(gate, act)


def _openai_with_interrupts(gate, call_id):
    return _openai(gate, call_id, interrupts=True)


def _pydantic(gate, call_id):
    answers = []

    async def act(session):
        script = iter(TURNS)

        def model(messages, info):
            answers.extend(
                part.content for part in messages[-1].parts if getattr(part, "part_kind", "") == "tool-return"
            )
            turn = next(script, None)
            if turn is None:
                return ModelResponse([TextPart("Done.")])
            # Within a message Pydantic AI itself refuses an id that is used again.
            calls = [ToolCallPart("issue_refund", one, tool_call_id=call_id + "+" * at) for at, one in enumerate(turn)]
            return ModelResponse(calls)

        await PydanticAgent(FunctionModel(model), toolsets=[pydantic_ai.GatedToolset(session)]).run("Refund.")

    _awaited(gate, act)
    return answers


FRAMEWORKS = [_node_alone, _in_a_graph, _in_a_tool_node, _openai, _openai_with_interrupts, _pydantic]


@pytest.mark.parametrize("call_id", IDS, ids=["reused", "empty", "long", "odd", "nul"])
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__.strip("_"))
def test_calls_that_share_an_id_are_separate_actions_each_with_its_own_answer(gate, framework, call_id):
    if framework in (_openai, _openai_with_interrupts) and not call_id:
        pytest.skip("the SDK itself refuses a call without an id")
    answers = list(framework(gate, call_id))
    assert [answer["accepted"] for answer in answers] == [True] * 4, answers
    assert [gate.actions[answer["action_id"]] for answer in answers] == [FIRST, SECOND, THIRD, FIRST]
    assert len({answer["action_id"] for answer in answers}) == 4
    assert all(0 < len(name) <= 128 for name in gate.known)


def test_a_step_that_is_run_again_is_the_same_call(gate):
    with Agent(url=gate.url, key="k", agent_id="a") as agent:
        node = langgraph.call_tools(agent.open_session(goal="g", ttl_seconds=60))
        state = {"messages": [AIMessage("", id=uuid4().hex, tool_calls=[_langchain("c1", FIRST)])]}
        first, again = (json.loads(node(state)["messages"][0].content) for _ in range(2))
    assert first["action_id"] == again["action_id"]
    assert len(gate.actions) == 1


def test_a_call_keeps_its_id_unless_another_call_already_has_it():
    names = CallNames()
    assert [names.of("c1", "m1"), names.of("c1", "m2"), names.of("c1", "m1"), names.of("c1.2", "m3")] == [
        "c1",
        "c1.2",
        "c1",
        "c1.2.2",
    ]
    assert names.reserve("d", "t", {}) == names.reserve("d", "t", {}) == names.take("d", "t", {}) == "d"
    assert names.take("d", "t", {}) == "d.2"
