"""The LangGraph adapter in real graphs, with a model that says what it was told to say."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from counterfoil.adapters import langgraph as adapter
from counterfoil.agent import Agent, AsyncAgent
from tests.client.consoles import Answer, refusal, stand_in
from tests.client.sessions import (
    COMPLETED,
    LINE,
    NOT_EXECUTED,
    RUNNING,
    WAITING,
    a_day,
    blocks,
    fills_in,
    gate,
    held_until_asked,
    stands,
)

GOOD = {"name": "issue_refund", "args": {"charge_id": "ch_1", "amount": 500}, "id": "call-1", "type": "tool_call"}
BAD = GOOD | {"args": {"charge_id": "ch_1", "amount": "5 EUR"}, "id": "call-2"}
PHANTOM = GOOD | {"name": "wire_money", "id": "call-3"}
BROKEN = {"name": "issue_refund", "args": '{"charge_id": ', "id": "call-4", "error": "", "type": "invalid_tool_call"}
DONE = stands("RECONCILED_SUCCESS")
CHECK = {"name": "check_action", "args": {"action_id": "act-1"}, "id": "call-5", "type": "tool_call"}


@pytest.fixture
def console():
    with stand_in() as server:
        a_day(server)
        server.plan("/calls", gate)
        server.plan("/guard", blocks)
        yield server


@pytest.fixture
def session(console):
    with Agent(url=console.url, key="k", agent_id="a") as agent:
        yield agent.open_session(goal="g", ttl_seconds=60)


def _graph(session, *says, nodes=None, checkpointer=None):
    script = iter(says)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [next(script)]})
    graph.add_node("tools", nodes or adapter.call_tools(session))
    graph.add_node("guard", adapter.guard(session))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", adapter.wants_tools, {True: "tools", False: "guard"})
    graph.add_edge("tools", "model")
    graph.add_edge("guard", END)
    return graph.compile(checkpointer=checkpointer)


def _start():
    return {"messages": [HumanMessage("Please refund charge 1.")]}


def _thread():
    return {"configurable": {"thread_id": uuid4().hex}}


def _answers(state):
    return {one.tool_call_id: json.loads(one.content) for one in state["messages"] if one.type == "tool"}


def _calling(*calls, broken=()):
    return AIMessage("", tool_calls=list(calls), invalid_tool_calls=list(broken))


def test_a_model_gets_the_contract_tools_a_status_tool_and_one_for_ready_lines(session):
    refund, check, lines = adapter.tools(session)
    assert lines.name == "status_lines"
    assert "{{CALL_ID.field}}" in lines.description
    assert refund.tool_call_schema["properties"]["amount"] == {"type": "integer"}
    assert (refund.name, check.name) == ("issue_refund", "check_action")


def test_every_call_of_a_turn_is_proposed_and_answered(console, session):
    graph = _graph(session, _calling(GOOD, BAD, PHANTOM, broken=[BROKEN]), AIMessage("It is done."))
    answers = _answers(graph.invoke(_start()))
    assert answers["call-1"]["completed"]
    assert answers["call-2"]["code"] == "SCHEMA_DRIFT"
    assert answers["call-2"]["hint"] == "Send `amount` as an integer of minor units."
    assert answers["call-2"]["suggestion"] == "amount"
    assert answers["call-3"]["code"] == "PHANTOM_TOOL"
    assert answers["call-4"]["code"] == "UNPARSEABLE_ARGUMENTS"
    (sent,) = console.to("/calls")
    assert [call["call_id"] for call in sent.body["calls"]] == ["call-1", "call-2", "call-3", "call-4"]
    assert sent.body["calls"][3]["arguments"] == '{"charge_id": '


def test_an_open_action_is_shown_as_open_and_can_be_asked_about(console, session):
    console.plan("/actions/act-1", stands("EXECUTING"), stands("RECONCILED_SUCCESS"))
    console.plan("/report", Answer(200, RUNNING), Answer(200, COMPLETED))
    node = adapter.call_tools(session, wait_s=0)
    answers = _answers(
        _graph(session, _calling(GOOD), _calling(CHECK), AIMessage("Done."), nodes=node).invoke(_start())
    )
    assert "do not say that it is done" in answers["call-1"]["note"]
    assert answers["call-1"]["action_id"] == "act-1"
    assert answers["call-5"]["state"] == "RECONCILED_SUCCESS"
    assert len(console.to("/calls")) == 1


@pytest.mark.parametrize("action_id", ["../../keys", "", 7, "gone"])
def test_the_status_of_an_action_that_does_not_exist_is_answered_as_not_accepted(console, session, action_id):
    console.plan("/actions/gone", refusal(404, "NOT_FOUND"))
    asking = CHECK | {"args": {"action_id": action_id}}
    answers = _answers(_graph(session, _calling(asking), AIMessage("Hm.")).invoke(_start()))
    assert answers["call-5"]["accepted"] is False


def test_a_final_message_with_an_unsupported_claim_is_replaced(session):
    messages = _graph(session, AIMessage("I have refunded you.", id="m1")).invoke(_start())["messages"]
    assert [one.text for one in messages[1:]] == ["Nothing was paid back yet."]
    messages = _graph(session, AIMessage("How much was it?")).invoke(_start())["messages"]
    assert messages[-1].text == "How much was it?"


def test_the_tools_work_in_the_frameworks_own_node(console, session):
    graph = _graph(session, _calling(GOOD, BAD), AIMessage("Done."), nodes=ToolNode(adapter.tools(session)))
    answers = _answers(graph.invoke(_start()))
    assert answers["call-1"]["completed"]
    assert answers["call-2"]["code"] == "SCHEMA_DRIFT"
    assert {seen.body["calls"][0]["call_id"] for seen in console.to("/calls")} == {"call-1", "call-2"}


@pytest.mark.parametrize("own_node", [True, False])
def test_a_call_that_waits_for_people_interrupts_and_resuming_only_asks_for_the_outcome(console, session, own_node):
    held_until_asked(console, 4)
    node = adapter.call_tools(session, interrupts=True)
    if not own_node:
        node = ToolNode(adapter.tools(session, interrupts=True))
    graph = _graph(session, _calling(GOOD), AIMessage("Done."), nodes=node, checkpointer=InMemorySaver())
    thread = _thread()
    first = graph.invoke(_start(), thread)
    assert first["__interrupt__"][0].value[0]["approval_id"] == "app-1"
    # Whatever somebody resumes with, the console has not heard of an approval.
    second = graph.invoke(Command(resume={"approved": True}), thread)
    assert second["__interrupt__"][0].value[0]["action_id"] == "act-1"
    last = graph.invoke(Command(resume="look"), thread)
    assert _answers(last)["call-1"]["approval"]["decision"] == "APPROVED"
    assert _answers(last)["call-1"]["completed"]
    assert len({seen.body["calls"][0]["call_id"] for seen in console.to("/calls")}) == 1


@pytest.mark.parametrize("own_node", [True, False])
def test_a_graph_whose_process_was_killed_goes_on_with_its_calls_in_another_one(console, tmp_path, own_node):
    decided, thread = [], _thread()

    def waits():
        return len(console.to("/calls")) > 1 and not decided

    console.plan("/actions/act-1", lambda _: stands("VALIDATED", approval=WAITING) if waits() else DONE)
    console.plan("/report", lambda _: Answer(200, NOT_EXECUTED if waits() else COMPLETED))

    def run(asked, *says, **options):
        """One process: its own connection, session, graph and checkpointer."""
        with (
            Agent(url=console.url, key="k", agent_id="a") as agent,
            closing(sqlite3.connect(tmp_path / "threads", check_same_thread=False)) as store,
        ):
            session = agent.open_session(goal="g", ttl_seconds=60, **options)
            node = adapter.call_tools(session, interrupts=True)
            if not own_node:
                node = ToolNode(adapter.tools(session, interrupts=True))
            return _graph(session, *says, nodes=node, checkpointer=SqliteSaver(store)).invoke(asked, thread)

    # Its model gives one id to all its calls; the second one waits.
    first = run(_start(), _calling(GOOD), _calling(GOOD))
    assert first["__interrupt__"][0].value[0]["action_id"] == "act-1"
    decided.append(True)
    last = run(Command(resume=True), AIMessage("Done."), continues="ses-1")
    assert [one.type for one in last["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert console.to("/sessions")[-1].body["continues"] == "ses-1"
    other, *held = [seen.body["calls"][0]["call_id"] for seen in console.to("/calls")]
    assert len(held) == 2
    assert len(set(held)) == 1
    assert other not in held


def test_a_graph_cites_what_it_did_and_the_user_reads_the_consoles_line_and_the_receipt(console, session):
    console.plan("/guard", fills_in)
    asks = {"name": "status_lines", "args": {}, "id": "call-2", "type": "tool_call"}
    says = AIMessage("Here you are. {{action:call-1}}")
    state = _graph(session, _calling(GOOD), _calling(asks), says).invoke(_start())
    assert _answers(state)["call-1"]["cite"] == "{{action:call-1}}"
    assert _answers(state)["call-2"] == {"lines": [{"text": LINE, "cite": "{{action:act-1}}"}]}
    assert state["messages"][-1].text == f"Here you are. {LINE}\n\nOn record:\n- {LINE}"


def test_an_asynchronous_graph_proposes_interrupts_and_replaces_in_the_same_way(console):
    async def there(interrupts):
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            session = await agent.open_session(goal="g", ttl_seconds=60)
            nodes = [
                adapter.call_tools(session, interrupts=interrupts),
                ToolNode(adapter.tools(session, interrupts=interrupts)),
            ]
            says = (_calling(GOOD, BAD), AIMessage("You are refunded."))
            return [
                await _graph(session, *says, nodes=node, checkpointer=InMemorySaver()).ainvoke(_start(), _thread())
                for node in nodes
            ]

    for state in asyncio.run(there(False)):
        assert _answers(state)["call-1"]["completed"]
        assert _answers(state)["call-2"]["code"] == "SCHEMA_DRIFT"
        assert state["messages"][-1].text == "Nothing was paid back yet."
    held_until_asked(console, 9)
    for state in asyncio.run(there(True)):
        assert state["__interrupt__"][0].value[0]["action_id"] == "act-1"


def test_a_console_that_is_away_ends_the_turn_and_is_never_a_result(console, session):
    console.plan("/calls", Answer(403, {"code": "FORBIDDEN", "title": "No"}))
    with pytest.raises(Exception, match="FORBIDDEN"):
        _graph(session, _calling(GOOD), AIMessage("Done.")).invoke(_start())
