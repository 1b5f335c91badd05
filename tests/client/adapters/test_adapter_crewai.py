"""The adapter for CrewAI, in real crews with a model that says what it was told to say."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from counterfoil.agent import Agent
from tests.client.consoles import Answer, stand_in
from tests.client.sessions import NOT_EXECUTED, WAITING, a_day, blocks, gate, held_until_asked, stands

# CrewAI reports runs to its maker unless it is told not to.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
crewai = pytest.importorskip("crewai", reason="CrewAI is not installed: `make test-adapters`")
if crewai:
    from crewai.llms.base_llm import BaseLLM

    from counterfoil.adapters import crewai as adapter

GOOD = {"charge_id": "ch_1", "amount": 500}


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


class ScriptedModel(BaseLLM):
    """Says its turns one after the other, and keeps what it was shown."""

    turns: list[Any]
    shown: list[Any] = []
    offered: list[Any] = []

    def call(self, messages: Any, tools: Any = None, **more: Any) -> Any:
        self.shown.append(list(messages))
        self.offered.append(tools)
        return self.turns.pop(0)

    def supports_function_calling(self) -> bool:
        return True


def _call(tool: str, arguments: Any, call_id: str) -> list[dict[str, Any]]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return [{"id": call_id, "type": "function", "function": {"name": tool, "arguments": text}}]


def _run(session, *turns, guarded=False, **options):
    model = ScriptedModel(model="scripted", turns=list(turns), shown=[], offered=[])
    agent = crewai.Agent(
        role="cashier", goal="Refund.", backstory="-", llm=model, tools=adapter.tools(session, **options)
    )
    about = {"guardrail": adapter.guard(session)} if guarded else {}
    task = crewai.Task(description="Refund charge 1.", expected_output="A line.", agent=agent, **about)
    said = crewai.Crew(agents=[agent], tasks=[task]).kickoff().raw
    told = [each["content"] for each in model.shown[-1] if each["role"] == "tool"]
    return said, told, model


def _told(texts):
    return [json.loads(text) for text in texts]


def test_calls_are_proposed_and_answered_as_the_gate_says(console, session):
    turns = [
        _call("issue_refund", GOOD, "c1"),
        _call("issue_refund", GOOD | {"amount": "5 EUR"}, "c2"),
        _call("issue_refund", GOOD, "c3"),
        _call("check_action", {"action_id": "act-1"}, "c4"),
        _call("status_lines", {}, "c5"),
        "Done.",
    ]
    console.plan("/guard", Answer(200, {"items": [], "next": None, "receipt": {"lines": [], "open": [], "text": ""}}))
    _, texts, model = _run(session, *turns)
    first, drift, again, check, lines = _told(texts)
    assert first["completed"]
    assert (drift["code"], drift["suggestion"]) == ("SCHEMA_DRIFT", "amount")
    assert again["cite"] != first["cite"]
    assert check["state"] == "RECONCILED_SUCCESS"
    assert lines == {"lines": []}
    sent = [seen.body["calls"][0] for seen in console.to("/calls")]
    assert [each["arguments"] for each in sent] == [GOOD, GOOD | {"amount": "5 EUR"}, GOOD]
    refund = model.offered[0][0]["function"]["parameters"]
    assert refund["properties"] == {"charge_id": {"type": "string"}, "amount": {"type": "integer"}}


def test_calls_rejected_by_crewai_never_reach_the_gate(console, session):
    _, texts, _ = _run(session, _call("wire_money", {}, "c1"), _call("issue_refund", "{no", "c2"), "Done.")
    assert len(texts) == 2
    assert console.to("/calls") == []


def test_a_call_that_waits_for_people_is_shown_as_open_and_asking_again_gets_its_outcome(console, session):
    held_until_asked(console, 2)
    turns = [_call("issue_refund", GOOD, "c1"), *[_call("check_action", {"action_id": "act-1"}, "c2")] * 2, "Done."]
    _, texts, _ = _run(session, *turns, wait_s=0)
    first, second, third = _told(texts)
    assert first["approval"]["decision"] == "WAITING"
    assert "People have yet to decide; that is no denial." in first["note"]
    assert not second["completed"]
    assert (third["approval"]["decision"], third["completed"]) == ("APPROVED", True)
    assert len(console.to("/calls")) == 1


def test_a_denied_action_is_shown_with_the_persons_reason_and_an_unknown_one_stays_unknown(console, session):
    denied = WAITING | {"decision": "DENIED", "waiting": False, "reason": "The order was replaced."}
    unknown = {
        "state": "REVIEW_REQUIRED",
        "code": "FINAL_STATE_UNKNOWN",
        "text": "What came of it is not known.",
        "completed": False,
    }
    console.plan("/actions/act-1", stands("ABANDONED", approval=denied), stands("REVIEW_REQUIRED"))
    console.plan("/report", Answer(200, NOT_EXECUTED | {"state": "ABANDONED"}), Answer(200, unknown))
    turns = [_call("issue_refund", GOOD, "c1"), _call("check_action", {"action_id": "act-1"}, "c2"), "Done."]
    _, texts, _ = _run(session, *turns)
    first, second = _told(texts)
    assert first["approval"] == {"decision": "DENIED", "reason": "The order was replaced."}
    assert not second["completed"]
    assert second["text"] == "What came of it is not known."


def test_the_text_of_a_task_is_sent_as_the_guard_allows_it(console, session):
    assert _run(session, "I have refunded you.", guarded=True)[0] == "Nothing was paid back yet."
    assert _run(session, "How much was it?", guarded=True)[0] == "How much was it?"


def test_a_console_that_is_away_is_never_a_result(console, session):
    console.plan("/calls", Answer(403, {"code": "FORBIDDEN", "title": "No"}))
    _, (text,), _ = _run(session, _call("issue_refund", GOOD, "c1"), "Done.")
    assert text.startswith("Error executing tool")
    assert "FORBIDDEN" in text
