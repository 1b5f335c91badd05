"""A standing approval in the running example: earned in the shop, used three times, and paused by the fourth refund,
whose amount is not what the shop shows.

Everything is asked over HTTP by the tenant's own people, the second of whom comes in by an invitation.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from example.environment import AGENT_ID
from example.faults import Fault
from example.stage import Sent
from tests.journeys.ground import Caller, Ground, sign_in
from tests.support.browser_users import words

AMOUNT = 6000
SECOND = {"username": "second-reviewer@example.com", "password": "a long enough pass phrase"}


def refund(ground: Ground, *, fault: Fault | None = None) -> Sent:
    """A refund of 60.00 GBP on an order of its own; nobody else in the example pays in pounds."""
    stage = ground.stage(approved=True)
    order = stage.order(fault=fault, amount=AMOUNT, currency="GBP")
    arguments = {"order_id": order.order_id, "amount": AMOUNT, "currency": "GBP", "reason": "damaged"}
    goal = f"Example: the lamp came broken. Refund 60.00 GBP on order/{order.order_id}."
    target = f"order/{order.order_id}"
    return stage.send(case="refund", goal=goal, tool="issue_refund", arguments=arguments, target=target)


def invite_second_reviewer(ground: Ground) -> Caller:
    """A second reviewer, invited by the administrator, with a password of their own."""
    body = {"email": SECOND["username"], "name": "Second", "roles": ["reviewer"], "groups": []}
    invited = ground.person("administrator").post("/members", body | {"password": ground.password("administrator")})
    assert invited.status_code == 201, invited.text
    door = urlsplit(invited.json()["invitation"]).path
    with httpx.Client(base_url=ground.stack.url, timeout=30) as newcomer:
        newcomer.get(door)
        form = {"password": SECOND["password"], "csrfmiddlewaretoken": newcomer.cookies["csrftoken"]}
        assert newcomer.post(door, data=form).status_code == 302
    client = httpx.Client(base_url=ground.stack.url, timeout=30)
    ground.callers.append(client)
    return sign_in(client, **SECOND)


def agreed(ground: Ground, offer: dict[str, Any], second: Caller) -> str:
    """The offer in force, for five more refunds within a week, by the words of two persons."""
    proposal = {
        "shape_digest": offer["shape_digest"],
        "count": 5,
        "sum_minor": 5 * AMOUNT,
        "ends_at": (datetime.now(UTC) + timedelta(days=7)).isoformat(),
        "reason": "The same broken lamp each day.",
    }
    made = ground.reviewer.post(
        "/standing-approvals",
        proposal | {"password": ground.password("reviewer")},
        **{"Idempotency-Key": uuid4().hex},
    )
    assert made.status_code == 201, made.text
    path = f"/standing-approvals/{made.json()['standing_approval_id']}"
    word = {"agree": True, "reason": "I have seen the three.", "password": SECOND["password"]}
    answer = second.post(f"{path}/answer", word, **{"Idempotency-Key": uuid4().hex})
    assert (answer.status_code, answer.json()["state"]) == (200, "ACTIVE"), answer.text
    return path


def test_a_standing_approval_passes_three_refunds_and_pauses_when_the_fourth_differs(busy_ground: Ground):
    ground, second = busy_ground, invite_second_reviewer(busy_ground)
    asked = [refund(ground) for _ in range(3)]
    assert [each.approval_required for each in asked] == [True] * 3
    for each in asked:
        ground.approve(str(each.action_id))
    for each in asked:
        ground.wait_for(str(each.action_id), "RECONCILED_SUCCESS")

    offers = ground.reviewer.items("/standing-approvals/offers")
    (offer,) = (each for each in offers if each["shape"]["currency"] == "GBP")
    assert set(offer["evidence"]) == {each.action_id for each in asked}
    assert offer["said"] == (
        f"3 of 3 calls of issue_refund by agent {AGENT_ID} (amount up to 60.00 GBP, any order id, reason damaged)"
        " were approved by 1 person and confirmed in shop."
    )
    path = agreed(ground, offer, second)

    passed = [refund(ground) for _ in range(3)]
    assert [each.approval_required for each in passed] == [False] * 3
    for each in passed:
        ground.wait_for(str(each.action_id), "RECONCILED_SUCCESS")
        assert len(ground.rows("refunds", str(each.arguments["order_id"]))) == 1
    standing = ground.reviewer.get(path)
    assert (standing["state"], standing["used_count"], standing["used_minor"]) == ("ACTIVE", 3, 3 * AMOUNT)

    wrong = refund(ground, fault=Fault.WRONG_AMOUNT)
    assert wrong.approval_required is False
    ground.wait_for(str(wrong.action_id), "REVIEW_REQUIRED")
    ground.until(lambda: bool(ground.reviewer.get(path)["case_id"]), lambda: ground.reviewer.get(path))
    standing = ground.reviewer.get(path)
    assert (standing["state"], standing["pause_reason"], standing["pause_action"]) == (
        "PAUSED",
        "DISCREPANCY",
        wrong.action_id,
    )
    assert standing["stopped"] == "An action that passed under it is not as the system of record shows."
    assert [each["case_id"] for each in ground.cases(str(wrong.action_id))] == [standing["case_id"]]
    assert ground.agent.report(str(wrong.action_id)).completed is False
    assert refund(ground).approval_required is True

    for person in (ground.reviewer, second):
        ground.until(lambda who=person: bool(_told(who)), lambda who=person: who.items("/notices"))
        (told,) = _told(person)
        assert told["text"] == "A standing approval that you agreed to is paused"
        assert urlsplit(told["url"]).path == f"/t/example{path}"
    page = words(ground.reviewer.http.get(f"/t/example{path}").text)
    assert "An action that passed under it is not as the system of record shows. Paused" in page
    assert "4 of 5 passed, 240.00 GBP of 300.00 GBP." in page


def _told(person: Caller) -> list[dict[str, Any]]:
    return [each for each in person.items("/notices") if each["kind"] == "standing_approval_paused"]
