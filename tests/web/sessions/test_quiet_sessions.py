"""A session that nobody uses for the tenant's quiet time is over; what it proposed goes on."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.support.api_tenant import GOAL, Clock, Workshop, document, result


def quiet_after(shop: Workshop, seconds: int) -> None:
    body = {"version": "quiet", "document": {"session": {"quiet_s": seconds}}}
    assert shop.operator_key.release("autonomy", body).status_code == 201


def call(shop: Workshop, session: dict[str, Any], call_id: str = "", **more: Any) -> dict[str, Any]:
    name = uuid4().hex
    body = {
        "call_id": call_id or name,
        "tool": "write_document",
        "arguments": document(f"notes/{call_id or name}.md", "Quiet."),
        "pin_hash": session["pin"]["hash"],
    }
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body | more]})
    found: dict[str, Any] = answer.json()["results"][0]
    return found


def is_over(result: dict[str, Any]) -> bool:
    return not result["accepted"] and result["result"]["error"]["code"] == "PIN_EXPIRED"


@pytest.mark.req("R-PA-05")
def test_an_idle_session_expires_with_its_own_message(shop: Workshop, clock: Clock):
    quiet_after(shop, 50)
    session = shop.session()
    accepted = call(shop, session)
    clock.forward(seconds=51)
    refused = call(shop, session)
    assert is_over(refused)
    assert refused["result"]["error"]["message"] == (
        "The session was quiet for 50 seconds, after which its goal is no longer trusted; a new session is needed."
    )
    # Neither that call nor a restatement of the goal brings it back.
    checked = shop.agent.post(f"/sessions/{session['session_id']}/ask-check", {"goal": GOAL}).json()
    assert (checked["match"], checked["reason"]) == (False, "PIN_EXPIRED")
    assert is_over(call(shop, session))
    assert [each["action_id"] for each in shop.claim()] == [accepted["action_id"]]
    assert call(shop, shop.session())["accepted"]


def test_any_use_of_a_session_keeps_it_open(shop: Workshop, clock: Clock):
    quiet_after(shop, 50)
    session = shop.session()
    path = f"/sessions/{session['session_id']}"
    uses = (
        lambda: shop.agent.post(f"{path}/ask-check", {"goal": GOAL}),
        lambda: shop.agent.get(f"{path}/context"),
        lambda: shop.agent.post(
            f"{path}/calls", {"calls": [{"call_id": "x", "tool": "no_such_tool", "arguments": {}}]}
        ),
        lambda: shop.agent.post(f"{path}/guard", {"message": "Good morning."}),
        lambda: shop.agent.post(f"{path}/surface", {"withheld": []}),
    )
    for use in uses:
        clock.forward(seconds=27)
        assert use().status_code == 200
    assert call(shop, session)["accepted"]


def test_reading_a_session_by_others_does_not_keep_it_open(shop: Workshop, clock: Clock):
    quiet_after(shop, 50)
    session = shop.session()
    for _ in range(3):
        clock.forward(seconds=20)
        assert shop.operator_key.get(f"/sessions/{session['session_id']}/context").status_code == 200
    assert is_over(call(shop, session))


def test_the_default_idle_time_is_ten_minutes(shop: Workshop, clock: Clock):
    kept, left = shop.session(), shop.session()
    clock.forward(minutes=9)
    assert call(shop, kept)["accepted"]
    clock.forward(minutes=2)
    assert call(shop, kept)["accepted"]
    refused = call(shop, left)
    assert refused["result"]["error"]["message"].startswith("The session was quiet for 10 minutes,")


def test_using_a_session_does_not_extend_its_pin(shop: Workshop, clock: Clock):
    session = shop.session(ttl_seconds=50)
    for _ in range(3):
        clock.forward(seconds=20)
        last = call(shop, session)
    assert is_over(last)
    assert last["result"]["error"]["message"] == "The session's pin has expired."


def test_a_step_that_depends_on_an_earlier_session_continues_in_the_same_run(shop: Workshop, clock: Clock):
    first = shop.session()
    call(shop, first, "one")
    [order] = shop.claim()
    started = shop.start(order).json()
    assert shop.root is not None
    (shop.root / "notes").mkdir(exist_ok=True)
    (shop.root / "notes" / "one.md").write_text("Quiet.")
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    for run, accepted in ((first["workflow_run_id"], True), (uuid4().hex, False)):
        second = shop.session(workflow_run_id=run)
        assert call(shop, second, depends_on=[started["action_id"]])["accepted"] is accepted
