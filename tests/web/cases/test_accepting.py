"""What is there instead of the request: offered, accepted, and told with its values wherever the action is told of."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import Any
from uuid import UUID

import pytest

from reviews.readback.operations import schedules
from reviews.verification.operations import rechecks
from tests.support.browser_users import words
from tests.support.refund_shop import ORDER, TOOL, refund_contract
from tests.support.settling import confirm, covers_of, settle

THERE = "amount 99.99 EUR instead of 12.50 EUR"
CHOICE = f"Accept what is there ({THERE})"
TOLD = f"Not as requested: the system of record shows {THERE}. A person has accepted this."
OUTCOME = "Accepted (not as requested)"


@pytest.fixture
def ready(counter, secrets_dir):
    return counter.open(secrets_dir, refund_contract())


@pytest.fixture
def small(counter, secrets_dir):
    """A tool of a class that one person settles."""
    changes = {"side_effect_class": "MEDIUM_RISK_WRITE", "reversibility": "COMPENSABLE"}
    return counter.open(secrets_dir, refund_contract(**changes))


def read_wrong(shop: Any, clock: Any, *effects: dict[str, Any]) -> dict[str, Any]:
    """The case of a refund that was reported done, with these refunds in the till instead of it."""
    started = shop.begun()
    for each in effects:
        shop.till.refund(started["idempotency_key"], **each)
    shop.tell(started)
    clock.forward(seconds=60)
    shop.read_back(started["action_id"], clock)
    case = shop.case_of(started["action_id"])
    assert case is not None, shop.history(started["action_id"])
    return case


def look(shop: Any, path: str, **query: Any) -> str:
    answer = shop.operator.client.get(f"/t/{shop.slug}/{path}", query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def allowed(shop: Any, case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = shop.operator.get(f"/reviews/{case['case_id']}").json()["allowed"]
    return {each["resolution"]: each for each in found}


def accepted(shop: Any, case: dict[str, Any]) -> None:
    assert settle(shop.operator, case["case_id"], "ACCEPT").json()["state"] == "AWAITING_SECOND"
    assert confirm(shop.reviewer, case["case_id"]).json()["state"] == "RESOLVED"


@pytest.mark.req("R-UI-08", "R-SM-18")
def test_a_different_effect_can_be_accepted_but_not_attested(ready, clock):
    case = read_wrong(ready, clock, {"amount": 9999})
    ways = allowed(ready, case)
    assert set(ways) == {"VERIFY_AGAIN", "STRONG_READ", "ACCEPT", "ABANDON"}
    assert (ways["ACCEPT"]["label"], ways["ACCEPT"]["needs_second"], ways["ACCEPT"]["proof"]) == (CHOICE, True, "C")
    assert ways["ACCEPT"]["meaning"] == (
        f"I have seen this case and its evidence. I accept what is there, which is not as requested: {THERE}."
    )
    assert ways["ACCEPT"]["consequence"] == (
        "The action ends as it is and not as requested, accepted by a person. Agents and users are told so."
        " A repeat (same tool, target and values) is refused for 30 days, from every agent and in every session."
    )
    for resolution in ("ATTEST_PRESENT", "ATTEST_ABSENT", "FAIL"):
        answer = settle(ready.operator, case["case_id"], resolution)
        assert (answer.status_code, answer.json()["code"]) == (409, "RESOLUTION_NOT_ALLOWED")
    page = look(ready, f"cases/{case['case_id']}")
    assert CHOICE in words(page)
    assert "is 99.99, 12.50 was" in words(page)
    assert 'value="ATTEST_PRESENT"' not in page
    assert 'value="ACCEPT"' in page
    assert ">Propose: accept what is there</button>" in page


@pytest.mark.req("R-UI-08", "R-RI-12")
def test_an_accepted_difference_is_shown_with_its_values_on_every_surface(ready, clock):
    case = read_wrong(ready, clock, {"amount": 9999})
    accepted(ready, case)
    action_id = case["action_id"]
    assert ready.call(TOOL, ORDER)["result"]["error"]["code"] == "DUPLICATE_BLOCKED"

    report = ready.report(action_id)
    assert (report["code"], report["text"], report["completed"]) == ("ACCEPTED_AS_IT_IS", TOLD, False)
    action = ready.agent.get(f"/actions/{action_id}").json()
    assert (action["outcome"], action["accepted"], action["user_status"]["text"]) == ("ACCEPTED_AS_IT_IS", THERE, TOLD)
    assert (action["settlement"]["text"], action["settlement"]["by"]) == (CHOICE, None)
    assert action["axes"]["effect"] == f"Accepted by a person: {THERE}"
    listed = ready.operator_key.get("/actions").json()["items"]
    assert [each["accepted"] for each in listed if each["action_id"] == action_id] == [THERE]

    context = ready.agent.get(f"/sessions/{action['session_id']}/context").json()
    assert TOLD in context["text"]
    assert "Continue from what is there, not from what was requested" in context["text"]
    summary = ready.agent.get(f"/sessions/{action['session_id']}/summary").json()
    assert any(line.startswith("Not fully completed: ") and TOLD in line for line in summary["lines"])
    message = {"message": "I have refunded 12.50 EUR on order EX-1001."}
    judged = ready.agent.post(f"/sessions/{action['session_id']}/guard", message).json()
    assert judged["verdict"] == "BLOCK"
    assert "The amount is 9999; 1250 was asked for." in judged["corrected"]

    for path in (f"actions/{action_id}", f"cases/{case['case_id']}"):
        said = words(look(ready, path))
        assert TOLD in said
        assert OUTCOME in said
        assert f"accepted what is there ({THERE}), confirmed by" in said
        assert ", no reading" not in said
        assert "not verified by a reading" not in said
    assert f"Accepted as it is by a person: {THERE}" in words(look(ready, f"actions/{action_id}"))
    assert f"Accepted: {THERE}" in words(look(ready, "actions"))
    assert f"Settled: accepted what is there ({THERE})" in words(look(ready, "cases", tab="settled"))
    [row] = csv.DictReader(io.StringIO(look(ready, "actions.csv", outcome="ACCEPTED_AS_IT_IS")))
    assert (row["Outcome"], row["Discrepancy"]) == (OUTCOME, f"Accepted: {THERE}")
    [row] = csv.DictReader(io.StringIO(look(ready, "cases.csv", tab="settled")))
    assert row["Reason"] == f"Settled: accepted what is there ({THERE})"
    sealed = ready.operator_key.get(f"/actions/{action_id}/effect-receipt").json()
    ended = json.loads(base64.b64decode(sealed["payload"]))["predicate"]["ended"]
    assert (ended["outcome"], ended["verified"], ended["text"]) == ("ACCEPTED_AS_IT_IS", False, TOLD)


@pytest.mark.parametrize(
    ("effects", "there"),
    [
        (({"amount": 9999, "currency": "USD"},), "amount 99.99 USD instead of 12.50 EUR, currency USD instead of EUR"),
        (({}, {}, {}), "refund 3 times instead of once"),
        (({"status": "held back"},), "status “held back” instead of succeeded"),
    ],
)
def test_several_fields_and_rows_of_a_difference_are_named(ready, clock, effects, there):
    case = read_wrong(ready, clock, *effects)
    assert allowed(ready, case)["ACCEPT"]["label"] == f"Accept what is there ({there})"


def test_one_person_accepts_where_the_class_requires_one(small, clock):
    case = read_wrong(small, clock, {"amount": 9999})
    assert allowed(small, case)["ACCEPT"]["needs_second"] is False
    assert settle(small.operator, case["case_id"], "ACCEPT").json()["state"] == "RESOLVED"
    assert small.report(case["action_id"])["text"] == TOLD


def test_an_outdated_page_cannot_accept_a_value(ready, clock):
    case = read_wrong(ready, clock, {"amount": 9999})
    seen = covers_of(look(ready, f"cases/{case['case_id']}"))
    settle(ready.operator, case["case_id"], "VERIFY_AGAIN")
    ready.till.till.execute("UPDATE refunds SET amount = 8888")
    clock.forward(seconds=60)
    ready.read_back(case["action_id"], clock)
    now = ready.case_of(case["action_id"])
    assert allowed(ready, now)["ACCEPT"]["label"].startswith("Accept what is there (amount 88.88 EUR ")
    answer = settle(ready.operator, now["case_id"], "ACCEPT", covers=seen)
    assert (answer.status_code, answer.json()["code"]) == (409, "CASE_CHANGED")


def test_an_accepted_difference_is_contradicted_only_by_a_further_change(ready, clock):
    case = read_wrong(ready, clock, {"amount": 9999})
    accepted(ready, case)
    ready.operator.post(f"/reviews/{case['case_id']}/reopen", {"reason": "Is it still so?"})

    def read_again() -> bool | None:
        return rechecks.recheck_action(tenant_id=ready.tenant, action_id=UUID(case["action_id"]), clock=clock.now)

    ways = allowed(ready, case)
    assert ways["ACCEPT"]["consequence"].startswith(
        f"The contradiction is withdrawn on a person's word. The action is told as: {OUTCOME}."
    )
    accepted(ready, case)
    schedules.recheck_now(tenant_id=ready.tenant, action_id=UUID(case["action_id"]), at=clock.now())
    assert read_again() is False
    assert ready.report(case["action_id"])["text"] == TOLD
    ready.till.till.execute("UPDATE refunds SET amount = 8888")
    schedules.recheck_now(tenant_id=ready.tenant, action_id=UUID(case["action_id"]), at=clock.now())
    assert read_again() is True
    assert ready.report(case["action_id"])["code"] == "FINAL_STATE_UNKNOWN"
