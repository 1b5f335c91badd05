"""What a person signs of a repeat, tried at the gate, the claim and the start."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from reviews.verification.operations import rechecks
from tests.support.callers import key_for
from tests.support.refund_shop import ORDER, TOOL, refund_contract
from tests.support.settling import confirm, settle

FOR_A_TIME = "A repeat (same tool, target and values) is refused for 30 days, from every agent and in every session."
AFTER_LATE_EFFECTS = "A repeat (same tool, target and values) is possible again as soon as no late effect can come."
AT_ONCE = "A repeat (same tool, target and values) is possible again at once."
UNTIL_SETTLED = "A repeat (same tool, target and values) is refused until the action is settled."
WHILE_IN_DOUBT = "A repeat (same tool, target and values) is refused while the contradiction stands."


@pytest.fixture
def ready(counter, secrets_dir):
    return counter.open(secrets_dir, refund_contract())


@pytest.fixture
def unread(counter, secrets_dir):
    """The same shop, where nothing can be read back."""
    document = refund_contract(approval_required=True)
    del document["verification"]
    return counter.open(secrets_dir, document | {"unverifiable_acknowledged": True})


def promised(shop: Any, case: dict[str, Any], resolution: str) -> str:
    allowed = shop.operator.get(f"/reviews/{case['case_id']}").json()["allowed"]
    return str(next(each["consequence"] for each in allowed if each["resolution"] == resolution))


def settled(shop: Any, case: dict[str, Any], resolution: str) -> None:
    answer = settle(shop.operator, case["case_id"], resolution)
    if answer.json().get("state") == "AWAITING_SECOND":
        answer = confirm(shop.reviewer, case["case_id"])
    assert answer.json()["state"] == "RESOLVED", answer.content


def without_effect(shop: Any, clock: Any) -> dict[str, Any]:
    """The case of a refund that was reported done and is not there."""
    started = shop.begun()
    shop.tell(started)
    clock.forward(seconds=60)
    shop.read_back(started["action_id"], clock)
    return shop.case_of(started["action_id"])


def refusal(answer: dict[str, Any]) -> tuple[str, str, str]:
    error = answer["result"]["error"]
    return error["code"], error["message"], answer["hint"]


@pytest.mark.req("R-EX-08")
@pytest.mark.parametrize(
    ("resolution", "promise"),
    [
        ("ATTEST_PRESENT", FOR_A_TIME),
        ("ATTEST_ABSENT", AFTER_LATE_EFFECTS),
        ("FAIL", AFTER_LATE_EFFECTS),
        ("ABANDON", AT_ONCE),
        ("VERIFY_AGAIN", UNTIL_SETTLED),
        ("STRONG_READ", UNTIL_SETTLED),
    ],
)
def test_the_gate_treats_a_repeat_as_the_settlement_stated(ready, clock, resolution, promise):
    case = without_effect(ready, clock)
    assert promised(ready, case, resolution).endswith(promise)
    assert refusal(ready.call(TOOL, ORDER))[0] == "DUPLICATE_BLOCKED"
    settled(ready, case, resolution)
    again = ready.call(TOOL, ORDER)
    assert again["accepted"] is ("possible again" in promise), again
    assert ready.call(TOOL, ORDER | {"amount": 1251})["accepted"] is True


@pytest.mark.req("R-EX-08")
def test_an_attested_effect_blocks_its_repeat_for_thirty_days(ready, clock):
    case = without_effect(ready, clock)
    settled(ready, case, "ATTEST_PRESENT")
    clock.stop()
    code, message, hint = refusal(ready.call(TOOL, ORDER))
    assert (code, message) == ("DUPLICATE_BLOCKED", "A person has settled that the same operation took effect.")
    assert hint.startswith(f"Do not repeat the action {case['action_id']}. A repeat is refused until ")
    assert refusal(ready.call(TOOL, ORDER, supersedes=case["action_id"]))[0] == "UNRESOLVED_DEPENDENCY"

    ready.operator_key.post("/agents", {"agent_id": "teller", "version": "1", "tools": [TOOL]})
    mine, ready.agent = ready.agent, key_for(ready.tenant, "agent")
    session = ready.session(agent_id="teller", goal="Pay EX-1001 back.", workflow_run_id="another-run")
    body = {"call_id": "first", "tool": TOOL, "arguments": ORDER, "pin_hash": session["pin"]["hash"]}
    [other] = ready.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]}).json()["results"]
    assert refusal(other)[0] == "DUPLICATE_BLOCKED"
    ready.agent = mine

    clock.forward(days=29, hours=23, minutes=59)
    assert refusal(ready.call(TOOL, ORDER))[0] == "DUPLICATE_BLOCKED"
    clock.forward(minutes=2)
    assert ready.call(TOOL, ORDER)["accepted"] is True


@pytest.mark.req("R-EX-08")
def test_an_attested_effect_blocks_claims_and_starts_of_the_same_operation(unread, clock):
    ids = [unread.propose() for _ in range(3)]
    for action_id in ids[:2]:
        unread._made(unread.vote(unread.approval_of(action_id)))
    first, second = unread.claim()
    started = unread._made(unread.start(first))
    unread.tell(started)
    unread.read_back(started["action_id"], clock)
    case = unread.case_of(started["action_id"])
    settled(unread, case, "ATTEST_PRESENT")
    refused = unread.start(second)
    assert (refused.status_code, refused.json()["code"]) == (409, "DUPLICATE_BLOCKED")
    unread._made(unread.vote(unread.approval_of(ids[2])))
    assert unread.claim() == []
    assert unread.report(started["action_id"])["text"] == (
        "A person has attested that it took effect; it was not verified by a reading."
    )


def test_a_repeat_waits_for_the_late_effect_horizon_of_an_attested_absence(unread, clock):
    started = unread.begun()
    unread.tell(started, status="timeout", evidence=None)
    unread.read_back(started["action_id"], clock)
    case = unread.case_of(started["action_id"])
    assert promised(unread, case, "ATTEST_ABSENT").endswith(AFTER_LATE_EFFECTS)
    settled(unread, case, "ATTEST_ABSENT")
    code, message, hint = refusal(unread.call(TOOL, ORDER))
    assert (code, message) == ("DUPLICATE_BLOCKED", "The same operation failed and may still take effect.")
    assert hint.startswith(f"Do not repeat the action {case['action_id']} before ")
    clock.forward(minutes=2)
    assert unread.call(TOOL, ORDER)["accepted"] is True


@pytest.mark.parametrize(
    ("resolution", "promise", "days", "accepted"),
    [
        ("ATTEST_PRESENT", FOR_A_TIME, 29, False),
        ("ATTEST_PRESENT", FOR_A_TIME, 31, True),
        ("ATTEST_ABSENT", WHILE_IN_DOUBT, 31, False),
    ],
)
def test_a_reopened_case_ends_as_the_settlement_stated(ready, clock, resolution, promise, days, accepted):
    case = without_effect(ready, clock)
    settled(ready, case, "ATTEST_PRESENT")
    path = f"/reviews/{case['case_id']}/reopen"
    assert ready.operator.post(path, {"reason": "The customer asks."}).status_code == 200
    assert refusal(ready.call(TOOL, ORDER))[1] == "The outcome of the same operation is in doubt."
    said = promised(ready, case, resolution)
    assert said.endswith(promise)
    settled(ready, case, resolution)
    clock.forward(days=days)
    assert ready.call(TOOL, ORDER)["accepted"] is accepted
    word = {"ATTEST_PRESENT": "Attested (not verified)", "ATTEST_ABSENT": "final state is not known"}[resolution]
    assert word in said
    told = ready.report(case["action_id"])
    assert told["code"] == {"ATTEST_PRESENT": "ATTESTED", "ATTEST_ABSENT": "FINAL_STATE_UNKNOWN"}[resolution]


def test_a_later_reading_does_not_turn_an_attested_action_into_a_verified_one(ready, clock):
    started = ready.begun()
    ready.tell(started)
    clock.forward(seconds=60)
    ready.read_back(started["action_id"], clock)
    case = ready.case_of(started["action_id"])
    assert promised(ready, case, "ATTEST_PRESENT").startswith("The action ends as attested by a person, never as veri")
    settled(ready, case, "ATTEST_PRESENT")
    ready.till.refund(started["idempotency_key"])
    ready.operator.post(f"/reviews/{case['case_id']}/reopen", {"reason": "It is there now."})
    settled(ready, case, "VERIFY_AGAIN")
    assert rechecks.recheck_action(
        tenant_id=ready.tenant, action_id=UUID(started["action_id"]), clock=clock.now
    ) is False  # fmt: skip
    action = ready.operator_key.get(f"/actions/{started['action_id']}").json()
    assert (action["outcome"], action["contradicted"]) == ("ATTESTED", False)
    assert action["axes"]["effect"] == "Attested by a person; a reading showed it as requested"
