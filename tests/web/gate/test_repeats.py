"""A refused repeat says which action blocks it, until when, and what ends that; and then it is possible."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import ORDER, Counter
from tests.web.cases.test_ways_out import UNREAD, unread

SETTLES = {"ATTEST_PRESENT", "ATTEST_ABSENT", "ABANDON"}
CASEWORK = {"claim", "assign", "release", "snooze", "wake", "comments", "steps"}


@pytest.fixture
def desk(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir, unread())


def started(desk: Counter) -> dict[str, Any]:
    action_id = desk.call(UNREAD, ORDER)["action_id"]
    if desk.waiting(action_id):
        desk.vote(desk.approval_of(action_id))
    answer = desk.start(next(each for each in desk.claim() if each["action_id"] == action_id))
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


def unknown(desk: Counter, clock: Clock) -> str:
    begun = started(desk)
    desk.tell(begun, tool=UNREAD)
    clock.forward(seconds=60)
    desk.read_back(begun["action_id"], clock)
    return str(begun["action_id"])


def refusal(desk: Counter) -> dict[str, Any]:
    """Why the same call is refused now; empty where it is not."""
    answer = desk.call(UNREAD, ORDER, dry_run=True)
    if answer["accepted"]:
        return {}
    error = answer["result"]["error"]
    assert error["code"] == "DUPLICATE_BLOCKED"
    return {"message": error["message"], "hint": answer["hint"], **answer["errors"][0]}


def settled(desk: Counter, case_id: str, resolution: str) -> None:
    answer = settling.settle(desk.operator, case_id, resolution)
    assert answer.status_code == 200, answer.content


@pytest.mark.req("R-EX-08")
def test_a_repeat_waits_for_an_action_in_progress(desk: Counter):
    action_id = started(desk)["action_id"]
    told = refusal(desk)
    assert (told["action_id"], told["ends"], told["until"]) == (action_id, "WHEN_VERIFIED", None)
    assert told["hint"] == f"Wait for the action {action_id}; do not repeat it."
    assert desk.operator.get(f"/actions/{action_id}").json()["repeat_refused"]["ends"] == "WHEN_VERIFIED"


@pytest.mark.req("R-EX-08")
def test_a_repeat_of_an_action_that_may_still_take_effect_states_when_it_becomes_possible(desk: Counter, clock: Clock):
    begun = started(desk)
    error = {"code": "DOWN", "message": "No line.", "phase": "before_send"}
    desk.tell(begun, "failed", tool=UNREAD, evidence=None, error=error)
    told = refusal(desk)
    assert (told["action_id"], told["ends"]) == (begun["action_id"], "AT_TIME")
    assert told["message"] == "The same operation failed and may still take effect."
    shown = desk.operator.get(f"/actions/{begun['action_id']}").json()["repeat_refused"]
    assert datetime.fromisoformat(shown["until"]).replace(microsecond=0) == datetime.fromisoformat(told["until"])
    clock.forward(seconds=(datetime.fromisoformat(told["until"]) - clock.now()).total_seconds() + 1)
    assert refusal(desk) == {}


@pytest.mark.req("R-EX-08", "R-SM-26")
def test_a_repeat_of_an_unknown_action_is_refused_until_an_operator_closes_it(desk: Counter, clock: Clock):
    action_id = unknown(desk, clock)
    told = refusal(desk)
    assert (told["action_id"], told["ends"], told["until"]) == (action_id, "WHEN_SETTLED", None)
    assert told["message"] == "The same operation was attempted, and nobody knows yet whether it took effect."
    assert told["hint"] == (
        f"Wait until a person has settled the action {action_id}; do not repeat it. No time ends this."
        " An operator can also close it unresolved, which allows a repeat."
    )
    page = words(Visitor(desk.operator.client, desk.slug).page(f"actions/{action_id}"))
    assert "A repeat is refused, without a time limit, until an operator settles this or closes it unresolved." in page

    case_id = desk.operator.post(f"/actions/{action_id}/case", {"reason": "The agent waits."}).json()["case_id"]
    consequences = {
        each["resolution"]: each["consequence"] for each in desk.operator.get(f"/reviews/{case_id}").json()["allowed"]
    }
    assert consequences["ABANDON"].endswith("A repeat (same tool, target and values) is possible again at once.")
    settled(desk, case_id, "ABANDON")
    assert refusal(desk) == {}
    assert desk.call(UNREAD, ORDER)["state"] == "VALIDATED"


@pytest.mark.req("R-UI-09")
def test_an_unknown_action_can_be_settled_and_by_nobody_be_run_again(desk: Counter, clock: Clock):
    action_id = desk.call(UNREAD, ORDER)["action_id"]
    [order] = desk.claim()
    desk.tell(desk.start(order).json(), tool=UNREAD)
    clock.forward(seconds=60)
    desk.read_back(action_id, clock)
    assert desk.state(action_id) == "UNKNOWN"
    visitor = Visitor(desk.operator.client, desk.slug)
    assert _posts(visitor.page(f"actions/{action_id}")) == {f"actions/{action_id}/case"}, "no system shows it"

    case = desk.operator.post(f"/actions/{action_id}/case", {"reason": "The agent waits."}).json()["case_id"]
    page = visitor.page(f"cases/{case}")
    assert set(re.findall(r'name="resolution"[^>]* value="(\w+)"', page)) == SETTLES
    ours = {each.rpartition("/")[2] for each in _posts(page) if each.startswith(("actions/", "cases/"))}
    assert ours <= {"resolve", *CASEWORK}

    assert desk.claim() == []
    assert desk.start(order).status_code == 409
    for name in ("execute", "run", "retry"):
        assert desk.operator.post(f"/actions/{action_id}/{name}").status_code == 404
    assert [each["event"] for each in desk.history(action_id)].count("execution_started") == 1


def _posts(page: str) -> set[str]:
    """What the forms of a page post to."""
    forms = re.findall(r"<form[^>]*>", page[page.index("<main") : page.index("</main>")])
    return {found[1] for each in forms if (found := re.search(r'(?:action|hx-post)="/t/orchid/([^"]+)"', each))}


@pytest.mark.req("R-EX-08")
def test_a_repeat_blocked_by_two_people_is_released_by_two(counter: Counter, clock: Clock, secrets_dir: Path):
    own = {"side_effect_class": "HIGH_RISK_EXTERNAL", "unverifiable_acknowledged": True}
    desk = counter.open(secrets_dir, unread(**own))
    action_id = unknown(desk, clock)
    case = desk.case_of(action_id)
    assert case is not None
    settled(desk, case["case_id"], "ABANDON")
    assert refusal(desk)["ends"] == "WHEN_SETTLED"
    assert settling.confirm(desk.operator, case["case_id"]).status_code == 403
    assert settling.confirm(desk.reviewer, case["case_id"]).status_code == 200
    assert refusal(desk) == {}


@pytest.mark.req("R-EX-08")
def test_a_contradiction_closed_unresolved_remains_and_allows_a_repeat(desk: Counter, clock: Clock):
    action_id = unknown(desk, clock)
    case_id = desk.operator.post(f"/actions/{action_id}/case", {"reason": "The agent waits."}).json()["case_id"]
    settled(desk, case_id, "ATTEST_PRESENT")

    def doubted() -> None:
        answer = desk.operator.post(f"/reviews/{case_id}/reopen", {"reason": "The customer says no."})
        assert answer.status_code == 200

    doubted()
    assert refusal(desk)["ends"] == "WHEN_SETTLED"
    settled(desk, case_id, "ABANDON")
    assert refusal(desk) == {}
    shown = desk.operator.get(f"/actions/{action_id}").json()
    assert (shown["outcome"], shown["way_out"], shown["repeat_refused"]) == ("CONTRADICTED", None, None)
    assert desk.history(action_id)[-1]["event"] == "repeat_released"
    doubted()
    assert refusal(desk)["ends"] == "WHEN_SETTLED"
