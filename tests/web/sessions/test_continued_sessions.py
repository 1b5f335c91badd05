"""A session that continues another one: the calls that were made there are the same calls here."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.core.management import call_command

from tests.support.api_tenant import Workshop, document
from tests.support.callers import key_for


def call(shop: Workshop, session: dict[str, Any], call_id: str = "c1", text: str = "Quiet.") -> dict[str, Any]:
    body = {
        "call_id": call_id,
        "tool": "write_document",
        "arguments": document("notes/today.md", text),
        "pin_hash": session["pin"]["hash"],
    }
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]})
    found: dict[str, Any] = answer.json()["results"][0]
    return found


def code(answer: dict[str, Any]) -> str:
    return str(answer["result"]["error"]["code"])


def continued(shop: Workshop, before: dict[str, Any], **more: Any) -> dict[str, Any]:
    return shop.session(continues=before["session_id"], **more)


def test_a_call_that_left_an_action_in_a_continued_session_is_that_action(shop: Workshop):
    first = shop.session()
    made = call(shop, first)
    second = continued(shop, first)
    third = continued(shop, first)
    assert first["workflow_run_id"] == second["workflow_run_id"] == third["workflow_run_id"]
    for session in (second, third):
        again = call(shop, session)
        assert (again["accepted"], again["action_id"], again["state"]) == (True, made["action_id"], "VALIDATED")
    shop.agent.post(f"/actions/{made['action_id']}/cancel", {})
    # It has ended; a session of its own would take it for another call.
    assert call(shop, third)["action_id"] == made["action_id"]
    assert call(shop, shop.session())["action_id"] != made["action_id"]


def test_a_call_of_a_session_in_between_is_found_from_the_first_one(shop: Workshop):
    first = shop.session()
    made = call(shop, continued(shop, first))
    assert call(shop, continued(shop, first))["action_id"] == made["action_id"]


def test_the_same_id_with_other_arguments_is_a_conflict(shop: Workshop):
    first = shop.session()
    call(shop, first)
    assert code(call(shop, continued(shop, first), text="Loud.")) == "IDEMPOTENCY_CONFLICT"


def test_a_call_that_left_no_action_is_judged_anew(shop: Workshop):
    first = shop.session()
    shop.agent.post(f"/sessions/{first['session_id']}/close", {})
    assert code(call(shop, first)) == "PIN_EXPIRED"
    assert call(shop, continued(shop, first))["accepted"]


def test_a_continued_session_takes_no_more_calls(shop: Workshop):
    first = shop.session()
    second = continued(shop, first)
    assert code(call(shop, first)) == "PIN_EXPIRED"
    continued(shop, first)
    assert code(call(shop, second)) == "PIN_EXPIRED"


def test_only_the_same_key_and_agent_continue_a_session_and_only_in_its_run(shop: Workshop):
    first = shop.session()
    body = {"agent_id": "librarian", "goal": "Go on.", "ttl_seconds": 60, "continues": first["session_id"]}
    shop.operator_key.post("/agents", {"agent_id": "porter", "version": "1", "tools": ["write_document"]})
    refused = (
        key_for(shop.tenant, "agent").post("/sessions", body),
        shop.agent.post("/sessions", body | {"agent_id": "porter"}),
        shop.agent.post("/sessions", body | {"continues": str(uuid4())}),
        shop.agent.post("/sessions", body | {"workflow_run_id": "another"}),
    )
    told = [(each.status_code, each.json()["code"]) for each in refused]
    assert told == [(404, "NOT_FOUND")] * 3 + [(422, "OTHER_RUN")]
    assert call(shop, first)["accepted"]


def test_the_record_tells_which_session_is_continued(shop: Workshop):
    continued(shop, shop.session())
    call_command("verify_ledger")
