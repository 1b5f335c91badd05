"""The agent is told the exact verdict, and a wait that ends tells it nothing that nobody has said."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from console.actions.routes import actions as actions
from console.edge import stream, waiting
from console.models import ApiKey
from console.sessions import session_stream
from tests.support.api_tenant import GOAL, Workshop, anonymous, workshop
from tests.support.callers import answered


def verdict_of(shop: Workshop, action_id: str, **query: Any) -> dict[str, Any]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    answer = answered(shop.agent.client, lambda: shop.agent.get(f"/actions/{action_id}?{asked}"))
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()["approval"]
    return told


def policy(shop: Workshop, **document: Any) -> None:
    body = {"version": "2", "document": {"version": "2"} | document}
    assert shop.operator_key.release("approval", body).status_code in (200, 201)


def test_a_wait_that_times_out_is_not_a_denial_and_writes_nothing(shop: Workshop):
    """Trap: the time-out of a caller's wait written as a human denial."""
    action_id = shop.propose()
    before = shop.history(action_id)
    told = verdict_of(shop, action_id, wait_s=1)
    assert (told["decision"], told["waiting"], told["next"]["code"]) == ("WAITING", True, "WAIT")
    assert shop.state(action_id) == "VALIDATED"
    assert shop.approval_of(action_id)["state"] == "REQUESTED"
    assert shop.history(action_id) == before


@pytest.mark.parametrize("wait_s", ["-1", "31", "soon"])
def test_waiting_longer_than_the_limit_is_refused(shop: Workshop, wait_s: str):
    assert shop.agent.get(f"/actions/{shop.propose()}?wait_s={wait_s}").status_code == 422


def test_beyond_the_limit_of_waiting_requests_the_next_is_answered_at_once(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(waiting, "MOST_WAITING", 0)
    path = f"/actions/{shop.propose()}?wait_s=30"
    answer = answered(shop.agent.client, lambda: shop.agent.get(path), nap=pytest.fail)
    assert answer.json()["approval"]["waiting"]


def test_a_wait_ends_with_the_decision(shop: Workshop):
    action_id = shop.propose()

    def decide(_: float) -> None:
        assert shop.vote(shop.approval_of(action_id)).status_code == 201

    answer = answered(shop.agent.client, lambda: shop.agent.get(f"/actions/{action_id}?wait_s=30"), nap=decide)
    assert answer.json()["approval"]["decision"] == "APPROVED"


def test_approved_is_not_shown_as_done(shop: Workshop):
    """Trap: "approved" covering failure. The report still says that nothing ran."""
    action_id = shop.approved()
    told = verdict_of(shop, action_id, wait_s=30)
    assert (told["decision"], told["waiting"], told["next"]["code"]) == ("APPROVED", False, "READ_REPORT")
    report = shop.report(action_id)
    assert report["completed"] is False
    assert shop.state(action_id) == "VALIDATED"


@pytest.mark.parametrize(
    ("verdict", "decision", "step"),
    [("reject", "REJECTED", "STOP"), ("request_changes", "CHANGES_REQUESTED", "PROPOSE_CHANGED")],
)
def test_the_agent_reads_the_reason_but_never_the_reviewer(shop: Workshop, verdict: str, decision: str, step: str):
    """Trap: a reject reason that stands where nobody can read it. People find it in the history, the agent here."""
    action_id = shop.propose()
    said = "The 2021 policy refers to it."
    assert shop.vote(shop.approval_of(action_id), verdict=verdict, reason=said).status_code == 201
    told = verdict_of(shop, action_id)
    assert (told["decision"], told["reason"], told["next"]["code"]) == (decision, said, step)
    voter = [event["actor"]["id"] for event in shop.history(action_id) if event["actor"]["kind"] == "person"]
    seen = shop.agent.get(f"/actions/{action_id}").content.decode()
    assert voter
    assert not [each for each in voter if each in seen]
    assert "Reviewer" not in seen
    assert said in json.dumps(shop.history(action_id))


def test_a_policy_may_withhold_the_reason_of_the_reviewer(shop: Workshop):
    policy(shop, privacy={"reasons_to_agents": False})
    action_id = shop.propose()
    shop.vote(shop.approval_of(action_id), verdict="reject", reason="Ask Ada Lovelace first.")
    told = verdict_of(shop, action_id)
    assert (told["decision"], told["reason"]) == ("REJECTED", None)
    assert b"Lovelace" not in shop.agent.get(f"/actions/{action_id}").content


def test_an_expired_request_is_not_a_rejection_and_a_late_decision_is_refused(shop: Workshop, clock: Any):
    """Traps: silence told as a denial; a late decision accepted after the held call has gone."""
    from console import tasks

    policy(shop, decide_within_s=60)
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    clock.forward(seconds=61)
    late = shop.vote(approval)
    assert (late.status_code, late.json()["code"]) == (409, "APPROVAL_LAPSED")
    tasks.lapse()
    told = verdict_of(shop, action_id)
    assert (told["decision"], told["reason"]) == ("EXPIRED", "Nobody decided in time.")
    assert "Nobody denied it" in told["next"]["text"]
    after = shop.vote(approval)
    assert after.status_code == 409
    assert shop.state(action_id) == "FAILED"


def test_a_cancelled_action_has_the_cancelled_verdict(shop: Workshop):
    action_id = shop.propose()
    shop.agent.post(f"/actions/{action_id}/cancel", {"reason": "No longer wanted."})
    assert verdict_of(shop, action_id)["decision"] == "CANCELLED"


# The stream of a session


@pytest.fixture
def busy(committed_db: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stream, "EVERY_S", 0.02)
    monkeypatch.setattr(stream, "KEEPALIVE_S", 0.04)
    yield workshop("orchid").set_up()
    asyncio.run(_leave())


async def _leave() -> None:
    await sync_to_async(connections.close_all)()


async def heard(shop: Workshop, session: str, *, until: str, meanwhile: Any = None, **headers: str) -> list[str]:
    response: Any = await AsyncClient().get(f"/api/v1/sessions/{session}/stream", headers=shop.agent.headers | headers)
    assert response.status_code == 200, response.content
    chunks: list[str] = []

    async def listen() -> None:
        async for chunk in response.streaming_content:
            chunks.append(chunk.decode())
            if len(chunks) == 1 and meanwhile is not None:
                await asyncio.to_thread(meanwhile)
            if until in chunks[-1]:
                return

    await asyncio.wait_for(listen(), 10)
    return chunks


def told_in(chunks: list[str], kind: str) -> list[dict[str, Any]]:
    events = [chunk.split("\n") for chunk in chunks if chunk.startswith("id: ")]
    return [json.loads(lines[2].removeprefix("data: ")) for lines in events if lines[1] == f"event: {kind}"]


def proposed(shop: Workshop) -> tuple[str, str]:
    """A session with one action that waits for people."""
    session = shop.session()
    call = {
        "call_id": "1",
        "tool": "delete_document",
        "arguments": {"path": "policies/returns.md", "reason": "Old."},
        "pin_hash": session["pin"]["hash"],
    }
    result = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
    return session["session_id"], result["action_id"]


def test_the_stream_carries_the_whole_verdict_without_names(busy: Workshop):
    session, action_id = proposed(busy)
    approval = busy.approval_of(action_id)

    def decide() -> None:
        busy.reviewer.post(f"/approvals/{approval['approval_id']}/claim")
        assert busy.vote(approval, verdict="reject", reason="It is still in force.").status_code == 201
        connections.close_all()

    chunks = asyncio.run(heard(busy, session, until='"state": "FAILED"', meanwhile=decide))
    said = told_in(chunks, "approval")[-1]
    assert said["action_id"] == action_id
    assert (said["verdict"]["decision"], said["verdict"]["reason"]) == ("REJECTED", "It is still in force.")
    assert [each["event"] for each in told_in(chunks, "approval")] == ["approval_requested", "rejected"]
    assert told_in(chunks, "action")[-1] == {
        "event_id": told_in(chunks, "action")[-1]["event_id"],
        "event": "rejected",
        "action_id": action_id,
        "state": "FAILED",
    }
    assert "actor" not in "".join(chunks)
    assert GOAL not in "".join(chunks)


def test_a_returning_client_gets_the_missed_events(busy: Workshop):
    session, action_id = proposed(busy)
    first = asyncio.run(heard(busy, session, until="still here", **{"Last-Event-ID": "1.0"}))
    places = [chunk.split("\n")[0].removeprefix("id: ") for chunk in first if chunk.startswith("id: ")]
    assert len(places) >= 3, first
    busy.vote(busy.approval_of(action_id))
    again = asyncio.run(heard(busy, session, until="approval_granted", **{"Last-Event-ID": places[-1]}))
    assert "APPROVED" in json.dumps(told_in(again, "approval"))


def test_only_the_key_of_the_session_can_listen_and_only_while_it_is_valid(busy: Workshop):
    session, _ = proposed(busy)
    other = workshop("willow")
    cases = [(anonymous(), 401), (other.agent, 404), (busy.reviewer, 401), (busy.operator_key, 403)]

    async def refusals() -> None:
        for caller, status in cases:
            client = AsyncClient()
            client.cookies = caller.client.cookies
            answer = await client.get(f"/api/v1/sessions/{session}/stream", headers=caller.headers)
            assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
        assert (await AsyncClient().post(f"/api/v1/sessions/{session}/stream")).status_code == 405

    asyncio.run(refusals())

    def revoke() -> None:
        ApiKey.objects.filter(kind="agent").update(revoked_at=timezone.now())
        connections.close_all()

    async def ends() -> list[str]:
        return await heard(busy, session, until="never", meanwhile=revoke)

    assert "still here" not in asyncio.run(ends())[-1]


@pytest.mark.parametrize("text", ["", "x", "99999999999999999999999.1", "-1"])
def test_an_invalid_event_id_starts_the_stream_from_now(text: str):
    assert session_stream._place(text) is None or text == "-1"
