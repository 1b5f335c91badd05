"""Done in part: every surface says which parts took effect and which did not, until and after it was recovered.

And a rollback that is under way is told as one, and not as a failure.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from reviews import tasks as after
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter
from tests.web.recovery.test_recovery_path import cancelling, carried_out, child_of, in_parts, local, refund_part, wrong

FOUND = "euros and dollars took effect; pounds did not take effect"
PARTS = [("euros", "APPLIED"), ("dollars", "APPLIED"), ("pounds", "NOT_APPLIED")]


def begun_in_part(cashier: Counter, clock: Clock) -> str:
    """Two of three parts are paid; the tool says so, and the till is read."""
    started = cashier.begun()
    for currency in ("EUR", "USD"):
        cashier.till.refund(started["idempotency_key"], currency=currency)
    cashier.tell(started, "partial")
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    return str(started["action_id"])


def page(cashier: Counter, path: str) -> str:
    """The words of a page, on one line."""
    answer = cashier.operator.client.get(f"/t/orchid/{path}")
    assert answer.status_code == 200, answer.status_code
    text = re.sub(r"<[^>]*>", " ", answer.content.decode())
    return re.sub(r"\s+", " ", html.unescape(text))


def fact(cashier: Counter, action_id: str) -> dict[str, Any]:
    """What the model is told of the action."""
    session = cashier.operator_key.get(f"/actions/{action_id}").json()["session_id"]
    context = cashier.agent.get(f"/sessions/{session}/context").json()
    found = next(each for each in (*context["facts"], *context["unresolved"]) if each["action_id"] == action_id)
    assert found["statement"] in context["text"]
    return dict(found)


def told_everywhere(cashier: Counter, action_id: str) -> dict[str, Any]:
    """The report, once every surface was seen to say the same words and the same parts."""
    report = cashier.report(action_id)
    action = cashier.operator_key.get(f"/actions/{action_id}").json()
    known = fact(cashier, action_id)
    summary = cashier.agent.get(f"/sessions/{action['session_id']}/summary").json()
    for parts in (report["parts"], action["parts"], known["parts"]):
        assert [(part["name"], part["outcome"]) for part in parts] == PARTS
    assert FOUND in report["text"]
    assert action["user_status"] == {"code": report["code"], "text": report["text"]}
    assert known["statement"].endswith(report["text"])
    assert report["text"] in summary["text"]
    pages = [f"actions/{action_id}", f"actions/{action_id}/narrative"]
    case = cashier.case_of(action_id)
    for path in [*pages, *([f"cases/{case['case_id']}"] if case else [])]:
        words = page(cashier, path)
        assert report["text"] in words, path
        if not path.endswith("narrative"):
            assert "pounds did not take effect" in words
    return report | {"fact": known}


@pytest.mark.req("R-RI-06", "R-RI-16", "R-PL-02", "R-HS-04", "R-UI-25")
def test_a_forward_recovery_is_shown_as_partial_until_everything_was_read(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    cashier = counter.open(secrets_dir, in_parts(pivot=True, approval_required=True), cancelling(), refund_part())
    action_id = begun_in_part(cashier, clock)
    told = told_everywhere(cashier, action_id)
    assert (told["code"], told["completed"]) == ("PARTIALLY_COMPLETED", False)
    assert told["text"] == (
        f"Done in part: {FOUND}. What is missing is being finished: the forward recovery is ordered and has not begun,"
        " and after it the whole is read again."
    )
    assert told["fact"]["result"] == "PARTIAL_SUCCESS"
    assert told["fact"]["next_behaviour"]["code"] == "RECOVER_FORWARD"

    child = child_of(cashier, action_id)
    told = told_everywhere(cashier, action_id)
    assert (told["code"], told["completed"]) == ("RECOVERY_IN_PROGRESS", False)
    assert "the forward recovery is proposed as an action of its own" in told["text"]

    begun = cashier.start(next(each for each in cashier.claim() if each["action_id"] == str(child.id))).json()
    cashier.till.refund(begun["idempotency_key"], currency="GBP")
    cashier.tell(begun, tool="refund_part")
    clock.forward(seconds=60)
    cashier.read_back(str(child.id), clock)
    after.recover()
    told = told_everywhere(cashier, action_id)
    assert told["text"].endswith("the forward recovery is settled, and the whole is being read again.")
    assert not told["completed"]

    cashier.read_back(action_id, clock)
    told = told_everywhere(cashier, action_id)
    assert (told["code"], told["completed"]) == ("COMPLETED", True)
    assert told["text"].endswith(
        f" At first it was done in part: {FOUND}. After a forward recovery a reading showed all of it."
    )


@pytest.mark.req("R-RI-16", "R-PL-02", "R-HS-04")
def test_a_reversal_of_a_partial_result_is_shown_while_and_after_it_runs(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    cashier = counter.open(secrets_dir, in_parts(), cancelling(), refund_part())
    action_id = begun_in_part(cashier, clock)
    for expected in ("is ordered and has not begun", "is proposed as an action of its own"):
        told = told_everywhere(cashier, action_id)
        assert (told["code"], told["fact"]["result"]) == ("RECOVERY_IN_PROGRESS", "PARTIAL_SUCCESS")
        assert told["text"].startswith(f"Done in part: {FOUND}. It is being reversed: the compensation {expected}")
        assert told["fact"]["next_behaviour"]["code"] == "COMPENSATE"
        child = child_of(cashier, action_id)
    carried_out(cashier, clock, child)
    carried_out(cashier, clock, child_of(cashier, action_id))
    told = told_everywhere(cashier, action_id)
    assert (told["code"], told["fact"]["result"]) == ("COMPENSATED", "COMPENSATED")
    assert told["text"].endswith(f" Before that it was done in part: {FOUND}.")


@pytest.mark.req("R-RI-16", "R-PL-02", "R-HS-04")
@pytest.mark.parametrize(
    ("resolution", "code"),
    [("ACCEPT", "ACCEPTED_AS_IT_IS"), ("ABANDON", "ABANDONED_UNRESOLVED")],
)
def test_a_partial_result_held_for_review_keeps_its_parts_after_the_settlement(
    counter: Counter, clock: Clock, secrets_dir: Path, resolution: str, code: str
):
    cashier = counter.open(secrets_dir, in_parts(recovery={"idempotent": True}))
    action_id = begun_in_part(cashier, clock)
    told = told_everywhere(cashier, action_id)
    assert (told["code"], told["fact"]["result"]) == ("REVIEW_REQUIRED", "PARTIAL_SUCCESS")
    assert told["text"].startswith(f"Done in part: {FOUND}. Not settled. A person decides what follows")
    assert told["fact"]["next_behaviour"]["code"] == "ESCALATE"

    case = cashier.case_of(action_id)
    assert case is not None
    assert settling.settle(cashier.operator, case["case_id"], resolution).status_code == 200
    report = cashier.report(action_id)
    assert report["code"] == code
    settled = report["text"]
    assert settled.endswith(f" A reading had found it done in part: {FOUND}.")
    assert settled in page(cashier, f"cases/{case['case_id']}")
    assert settled in page(cashier, f"actions/{action_id}")


@pytest.mark.req("R-RI-16")
def test_a_rollback_is_shown_as_in_progress_and_not_as_a_failure(counter: Counter, clock: Clock, secrets_dir: Path):
    document = local()
    document["verification"]["lookup"]["effects"]["refund"]["present_if"] = "row.status != 'cancelled'"
    cashier = counter.open(secrets_dir, document, cancelling())
    action_id = wrong(cashier, clock)
    told = cashier.report(action_id)
    assert told["code"] == "RECOVERY_IN_PROGRESS"
    assert told["text"] == (
        "It did not go as planned. It is being rolled back: the rollback is ordered and has not begun, and after it the"
        " target is read again."
    )
    child = child_of(cashier, action_id)
    told = cashier.report(action_id)
    assert (told["code"], told["completed"]) == ("RECOVERY_IN_PROGRESS", False)
    assert "the rollback is proposed as an action of its own" in told["text"]
    assert fact(cashier, action_id)["statement"].endswith(told["text"])
    assert told["text"] in page(cashier, f"actions/{action_id}")
    carried_out(cashier, clock, child)
    told = cashier.report(action_id)
    assert told["text"].endswith("the rollback is settled, and the target is being read again.")
    cashier.read_back(action_id, clock)
    assert cashier.report(action_id)["code"] == "ROLLED_BACK"
