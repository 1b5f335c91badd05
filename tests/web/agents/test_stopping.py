"""An agent that is stopped, or that loses a tool: nothing of it starts, and nothing brings it back."""

from __future__ import annotations

from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from approvals import tasks
from approvals.agents.operations import agents, stops
from approvals.agents.rules.registry import RegistryEntry
from approvals.gate.operations import calls
from approvals.models import Agent
from approvals.sessions.operations import sessions
from console import tasks as notices
from console.notifications.messages import TITLES
from console.notifications.rules import Occasion
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from tests.support.api_tenant import DELETE, GOAL, TOOLS, Clock, Workshop, contract, document, result

REASON = {"reason": "It deletes what nobody asked for."}


def stop(shop: Workshop) -> dict[str, Any]:
    answer = shop.operator_key.post("/agents/librarian/revoke", REASON)
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def register(shop: Workshop, version: str, tools: list[str], **more: Any) -> None:
    body = {"agent_id": "librarian", "version": version, "tools": tools} | more
    assert shop.operator_key.post("/agents", body).status_code == 201


def call(shop: Workshop, session: dict[str, Any], tool: str, arguments: Any, **changes: Any) -> dict[str, Any]:
    body = {"call_id": uuid4().hex, "tool": tool, "arguments": arguments, "pin_hash": session["pin"]["hash"]}
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body | changes]})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()["results"][0]
    return found


def refusal(result: dict[str, Any]) -> str:
    assert not result["accepted"]
    return str(result["result"]["error"]["code"])


@pytest.mark.req("R-CR-07", "R-CR-14")
def test_an_accepted_action_of_a_stopped_agent_is_neither_claimed_nor_started(shop: Workshop):
    action_id = shop.propose("write_document")
    [order] = shop.claim()
    other = shop.call("write_document", document("notes/later.md", "Later."))["action_id"]
    told = stop(shop)
    assert told["stopped"] == {"actions": 2, "requests": 0, "grants": 1, "sessions": 2, "left": 0}
    assert shop.claim() == []
    refused = shop.start(order)
    assert (refused.status_code, refused.json()["code"]) == (403, "AGENT_NOT_REGISTERED")
    assert refused.json()["detail"] == "The agent was revoked."
    for each in (action_id, other):
        assert shop.state(each) == "FAILED"
        ended = [event for event in shop.history(each) if event["event"] == "cancelled"]
        assert [(event["state"], event["detail"]["code"]) for event in ended] == [("FAILED", "AGENT_REVOKED")]
        assert ended[0]["detail"]["reason"] == "The agent was revoked. This had not started, and will not."
        assert shop.report(each)["completed"] is False


def test_an_approved_irreversible_action_of_a_stopped_agent_is_neither_claimed_nor_started(shop: Workshop):
    order = shop.claimed()
    waiting = shop.propose(path="policies/imprint.md")
    approval = shop.approval_of(waiting)
    told = stop(shop)
    assert told["stopped"] == {"actions": 2, "requests": 2, "grants": 1, "sessions": 2, "left": 0}
    assert shop.claim() == []
    refused = shop.start(order)
    assert (refused.status_code, refused.json()["code"]) == (403, "AGENT_NOT_REGISTERED")
    assert [shop.state(each) for each in (order["action_id"], waiting)] == ["FAILED", "FAILED"]
    voted = shop.vote(approval)
    assert (voted.status_code, voted.json()["code"]) == (409, "REQUEST_WITHDRAWN")
    assert voted.json()["detail"] == "The agent was revoked. The request is withdrawn; nobody needs to decide."
    assert shop.reviewer.get("/approvals").json()["items"] == []


def test_assigned_reviewers_are_notified_of_the_withdrawal(shop: Workshop, clock: Clock):
    shop.propose()
    notices.tell_people()
    stop(shop)
    notices.tell_people()
    inbox = unescape(shop.reviewer.client.get("/t/orchid/notices").content.decode())
    assert "Request withdrawn" in inbox
    assert "Its agent was stopped, or may no longer do this. Nobody needs to decide." in TITLES[Occasion.WITHDRAWN]


def test_a_started_attempt_of_a_stopped_agent_is_listed_observed_and_read_back(
    shop: Workshop, clock: Clock, tmp_path: Any
):
    started = shop.started()
    told = stop(shop)
    [running] = told["running"]
    assert running["action_id"] == started["action_id"]
    assert (running["executor_id"], running["state"], running["reported"]) == ("runner", "EXECUTING", False)
    assert running["lease_expires_at"] == started["lease_expires_at"]
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    assert shop.heartbeat(started).status_code == 200
    assert shop.observe(started).status_code == 202
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    assert shop.state(started["action_id"]) == "RECONCILED_SUCCESS"
    assert shop.operator_key.get("/agents/librarian/revocation").json()["running"] == []


def test_a_verified_write_is_listed_as_reversible(shop: Workshop, clock: Clock):
    reversible = contract("write_document") | {
        "version": "1.1.0",
        "recovery": {
            "rollback_tool": "delete_document",
            "rollback_arguments": {"path": "si.path", "reason": "'Its agent was stopped.'"},
        },
    }
    assert shop.operator_key.post("/contracts", reversible).status_code == 201
    action_id = shop.propose("write_document")
    [order] = shop.claim()
    started = shop.start(order).json()
    assert shop.root is not None
    (shop.root / "notes").mkdir(exist_ok=True)
    (shop.root / "notes" / "today.md").write_text("Quiet.")
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=90)
    shop.read_back(action_id, clock)
    assert shop.state(action_id) == "RECONCILED_SUCCESS"
    [undoable] = stop(shop)["undoable"]
    assert (undoable["action_id"], undoable["undo_tool"]) == (action_id, "delete_document")
    assert shop.operator_key.get(f"/runs/{undoable['run_id']}").status_code == 200


def test_an_agent_registered_again_after_a_stop_regains_neither_sessions_nor_actions(shop: Workshop):
    session = shop.session()
    order_of = call(shop, session, "write_document", document("notes/a.md", "A."))["action_id"]
    [order] = shop.claim()
    stop(shop)
    register(shop, "2", list(TOOLS))
    assert shop.start(order).json()["code"] == "AGENT_NOT_REGISTERED"
    assert shop.claim() == []
    assert shop.state(order_of) == "FAILED"
    answer = call(shop, session, "write_document", document("notes/b.md", "B."))
    assert refusal(answer) == "PIN_EXPIRED"
    assert answer["hint"] == "Open a new session."
    again = shop.propose("write_document")
    assert [each["action_id"] for each in shop.claim()] == [again]


def test_a_stopped_agent_starts_nothing_even_before_its_old_work_is_ended(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """The tidying has not come to it, as after a crash: the registry alone refuses."""
    session = shop.session()
    call(shop, session, "write_document", document("notes/a.md", "A."))
    [order] = shop.claim()
    other = call(shop, session, "write_document", document("notes/b.md", "B."))["action_id"]
    waiting = shop.approval_of(shop.propose())
    monkeypatch.setattr(stops, "go_on", lambda **_: True)
    stop(shop)
    for _ in range(2):
        assert shop.state(other) == "VALIDATED"
        assert shop.claim() == []
        assert shop.start(order).json()["code"] == "AGENT_NOT_REGISTERED"
        assert shop.vote(waiting).json()["code"] == "REQUEST_WITHDRAWN"
        register(shop, "2", list(TOOLS))
    ready = {
        each["action_id"]: each["waiting_for"]
        for each in shop.executor.get("/executions/ready?tools=write_document").json()["items"]
    }
    assert "agent" in ready[other]
    monkeypatch.undo()
    assert tasks.end_stopped_work() == 1
    assert shop.state(other) == shop.state(order["action_id"]) == shop.state(waiting["action_id"]) == "FAILED"


def test_a_registration_without_a_tool_removes_only_that_tool_from_old_sessions(shop: Workshop):
    session = shop.session()
    deletion = shop.claimed()
    written = call(shop, session, "write_document", document("notes/a.md", "A."))["action_id"]
    register(shop, "2", ["write_document"])
    assert shop.start(deletion).json()["code"] == "CAPABILITY_NOT_REGISTERED"
    assert shop.state(deletion["action_id"]) == "FAILED"
    assert [each["action_id"] for each in shop.claim()] == [written]
    assert refusal(call(shop, session, "delete_document", DELETE)) == "CAPABILITY_NOT_REGISTERED"
    assert call(shop, session, "write_document", document("notes/b.md", "B."))["accepted"]
    [told] = [event["detail"] for event in shop.history(deletion["action_id"]) if event["event"] == "cancelled"]
    assert (told["code"], told["reason"]) == (
        "TOOL_WITHDRAWN",
        "`delete_document` was taken from this agent. This had not started, and will not.",
    )


def test_a_tool_that_is_registered_again_is_available_only_to_new_sessions(shop: Workshop):
    session = shop.session()
    register(shop, "2", ["write_document"])
    register(shop, "3", list(TOOLS))
    assert refusal(call(shop, session, "delete_document", DELETE)) == "CAPABILITY_NOT_REGISTERED"
    assert call(shop, shop.session(), "delete_document", DELETE)["accepted"]


def test_a_narrower_version_range_removes_the_other_versions(shop: Workshop):
    session = shop.session()
    deletion = shop.claimed()
    written = call(shop, session, "write_document", document("notes/a.md", "A."))["action_id"]
    register(shop, "2", list(TOOLS), versions={"delete_document": "2.x", "write_document": "1.x"})
    assert shop.start(deletion).json()["code"] == "CAPABILITY_NOT_REGISTERED"
    assert [each["action_id"] for each in shop.claim()] == [written]
    register(shop, "3", list(TOOLS))
    assert refusal(call(shop, session, "delete_document", DELETE)) == "CAPABILITY_NOT_REGISTERED"
    assert call(shop, session, "write_document", document("notes/b.md", "B."))["accepted"]


def test_stopping_twice_gives_the_same_answer_and_changes_nothing(shop: Workshop):
    shop.propose()
    first = stop(shop)
    assert stop(shop) == first
    with tenancy(shop.tenant):
        agent = Agent.objects.get(agent_id="librarian")
        kinds = [event.kind for event, _, _ in events.history(shop.tenant, agent.id)]
    assert kinds == ["agent_registered", "agent_revoked", "agent_work_ended"]


def test_work_beyond_one_transaction_is_ended_by_the_next_ticks(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stops, "PORTION", 2)
    session = shop.session()
    for number in range(7):
        call(shop, session, "write_document", document(f"notes/{number}.md", "A."))
    told = stop(shop)
    assert told["stopped"] == {"actions": 2, "requests": 0, "grants": 0, "sessions": 1, "left": 5}
    assert shop.claim() == []
    tasks.end_stopped_work()
    told = shop.operator_key.get("/agents/librarian/revocation").json()["stopped"]
    assert told == {"actions": 7, "requests": 0, "grants": 0, "sessions": 1, "left": 0}


def test_recovery_continues_while_an_agent_is_stopped(shop: Workshop):
    stop(shop)
    entry = RegistryEntry(
        tenant=str(shop.tenant),
        agent_id="recovery",
        version="1",
        tools=("write_document",),
        output_tags=(),
        model_tier="",
        registered_by="the recovery policy",
        registered_at=timezone.now(),
    )
    with tenancy(shop.tenant):
        agents.register_agent(tenant_id=shop.tenant, entry=entry, by=ledger.SYSTEM, at=timezone.now())
        wanted = sessions.SessionRequest(agent_id="recovery", goal=GOAL, ttl_seconds=60, tools=("write_document",))
        session = sessions.open_session(
            tenant_id=shop.tenant, wanted=wanted, key_actor=ledger.SYSTEM.id, at=timezone.now()
        )
        body = {
            "call_id": "1",
            "tool": "write_document",
            "arguments": document("notes/r.md", "R."),
            "pin_hash": session.pin_hash,
        }
        [answer], _ = calls.propose_calls(
            tenant_id=shop.tenant,
            session_id=session.id,
            key_actor=ledger.SYSTEM.id,
            raw_calls=[body],
            trace=calls.Trace("0" * 32),
            compile_predicate=lambda _contract, _text: None,
            at=timezone.now(),
        )
    assert answer.document["accepted"]
    assert [each["action_id"] for each in shop.claim()] == [str(answer.action_id)]


def test_an_agent_that_was_never_stopped_has_no_revocation_report(shop: Workshop):
    assert shop.operator_key.get("/agents/librarian/revocation").status_code == 404
    assert shop.operator.client.get("/t/orchid/agents/librarian/stopped").status_code == 404


def test_the_page_shows_the_same_revocation_report_as_the_api(shop: Workshop):
    shop.propose()
    running = shop.started(path="policies/imprint.md")
    asked = unescape(shop.operator.client.post("/t/orchid/agents/librarian/revoke", REASON).content.decode())
    assert "1 accepted action that has not started will never start." in asked
    assert "1 request for approval is withdrawn; reviewers are notified." in asked
    assert "1 started action goes on and is verified; stopping the agent does not stop an executor." in asked
    sent = REASON | {"confirmed": "librarian"}
    done = shop.operator.client.post("/t/orchid/agents/librarian/revoke", sent, follow=True)
    text = unescape(done.content.decode())
    told = shop.operator_key.get("/agents/librarian/revocation").json()
    for part, count in told["stopped"].items():
        if part != "left":
            assert f'data-part="{part}">{count}</dd>' in text
    assert REASON["reason"] in text
    assert [each["action_id"] for each in told["running"]] == [running["action_id"]]
    assert f"/actions/{running['action_id']}" in text
    assert "attempt 1 by runner; lease ends" in text
