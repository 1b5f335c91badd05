"""Corrections: proposed from a case, filled from the difference, carried out as proposals, settled by a reading."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ledger.db import tenancy
from reviews import tasks as after
from reviews.models import Case
from reviews.verification.operations import rechecks
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import TOOL, Counter, refund_contract
from tests.web.recovery.test_recovery_path import CANCEL, cancelling, carried_out, child_of

CHARGE = "charge_back"
CORRECTIONS = {
    "duplicate": {"tool": CANCEL, "arguments": {"refund_id": "diff.row.id"}},
    "surplus": {
        "tool": CHARGE,
        "arguments": {"order_id": "sr.order_id", "amount": "diff.amount", "currency": "diff.currency"},
    },
    "missing": {
        "tool": TOOL,
        "arguments": {"order_id": "sr.order_id", "amount": "diff.amount", "currency": "diff.currency"},
    },
}


def refunding(**changes: Any) -> dict[str, Any]:
    """A refund that is never reversed without a person; its contract names the tool for each kind of difference."""
    document = refund_contract(side_effect_class="HIGH_RISK_EXTERNAL", recovery={"corrections": CORRECTIONS}, **changes)
    lookup = document["verification"]["lookup"]["effects"]["refund"]
    lookup["fields"] = ["id", "amount", "currency", "order_id", "status"]
    return document


def charging(**changes: Any) -> dict[str, Any]:
    """The tool that charges a surplus again; the till shows it as a refund of another kind."""
    document = refund_contract(
        name=CHARGE,
        description="Charge money again. Use when: too much went back. NOT for: anything else.",
        operation_kind="charge",
        side_effect_class="LOW_RISK_INTERNAL",
    )
    return document | changes


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir, refunding(), cancelling(), charging())


def held(counter: Counter, clock: Clock, *amounts: int) -> str:
    """A refund of 12.50 for which these amounts were paid, read and held."""
    started = counter.begun()
    for amount in amounts:
        counter.till.refund(started["idempotency_key"], amount=amount)
    counter.tell(started)
    clock.forward(seconds=30)
    counter.read_back(started["action_id"], clock)
    assert counter.state(started["action_id"]) == "REVIEW_REQUIRED"
    return str(started["action_id"])


def ids(counter: Counter) -> list[int]:
    return [row["id"] for row in counter.till.till.execute("SELECT id FROM refunds ORDER BY id").fetchall()]


def case_of(counter: Counter, action_id: str) -> Any:
    with tenancy(counter.tenant):
        found = Case.objects.get(action_id=action_id)
    return counter.operator.get(f"/reviews/{found.id}").json()


def offered(counter: Counter, action_id: str) -> dict[str, Any]:
    return {each["resolution"]: each for each in case_of(counter, action_id)["allowed"]}


def visitor_of(counter: Counter) -> Visitor:
    return Visitor(counter.operator.client, counter.slug)


def propose(counter: Counter, action_id: str) -> Any:
    return settling.settle(counter.operator, case_of(counter, action_id)["case_id"], "CORRECT")


def paid_by(counter: Counter, clock: Clock, child: Any, *, amount: int | None = None) -> dict[str, Any]:
    """The correction's own payload, after it paid that amount (all of it where none is given) and was read back."""
    if counter.waiting(str(child.id)):
        assert counter.vote(counter.approval_of(str(child.id))).status_code == 201
    order = next(each for each in counter.claim() if each["action_id"] == str(child.id))
    started = counter.start(order).json()
    counter.till.refund(started["idempotency_key"], amount=amount or started["payload"]["amount"])
    counter.tell(started, tool=child.tool)
    clock.forward(seconds=30)
    counter.read_back(str(child.id), clock)
    after.recover()
    return dict(started["payload"])


CONSEQUENCE = (
    "An action is proposed to {}. It passes the gate and its own approval. This case stays open until a reading"
    " confirms that the difference is corrected."
    " A repeat (same tool, target and values) is refused until the action is settled."
)


def test_a_duplicate_is_reversed_by_a_correction_and_a_reading_closes_the_case(cashier: Counter, clock: Clock):
    action_id = held(cashier, clock, 1250, 1250)
    first, second = ids(cashier)
    case = case_of(cashier, action_id)
    assert case["rows"] == [f"refund {first}", f"refund {second}"]
    way = offered(cashier, action_id)["CORRECT"]
    assert (way["needs_second"], way["proof"]) == (False, "C")
    assert way["consequence"] == CONSEQUENCE.format(f"reverse refund {second} (12.50 EUR) with {CANCEL}")
    assert propose(cashier, action_id).json()["state"] == "OPEN"
    child = child_of(cashier, action_id)
    assert (child.tool, child.target, child.relation) == (CANCEL, f"refund/{second}", "correction")
    [told] = case_of(cashier, action_id)["corrections"]
    assert (told["action_id"], told["said"]) == (str(child.id), f"{CANCEL} on refund/{second}: Ready to run.")
    report = cashier.report(action_id)
    assert (report["code"], report["completed"]) == ("RECOVERY_IN_PROGRESS", False)
    assert report["text"].endswith(
        "The difference is to be corrected: the correction is proposed as an action of its own, and after it the system"
        " of record is read again."
    )
    carried_out(cashier, clock, child)
    assert cashier.state(action_id) == "FORWARD_RECOVERY"
    cashier.read_back(action_id, clock)
    assert cashier.path(action_id)[-2:] == ["FORWARD_RECOVERY", "RECONCILED_SUCCESS"]
    report = cashier.report(action_id)
    assert (report["code"], report["completed"]) == ("COMPLETED", True)
    assert report["text"] == (
        "Done after a correction, and confirmed in the system of record. At first it was not as requested:"
        " refund 2 times instead of once."
    )
    closed = cashier.operator.get(f"/reviews/{case['case_id']}").json()
    assert (closed["state"], closed["resolution"]) == ("RESOLVED", "CORRECT")


def test_a_second_click_proposes_nothing_and_says_that_one_is_under_way(cashier: Counter, clock: Clock):
    action_id = held(cashier, clock, 1250, 1250)
    assert propose(cashier, action_id).json()["state"] == "OPEN"
    again = propose(cashier, action_id)
    assert (again.status_code, again.json()["code"]) == (409, "RESOLUTION_NOT_ALLOWED")
    page = visitor_of(cashier).page(f"cases/{case_of(cashier, action_id)['case_id']}")
    assert (
        "A correction is under way. This case closes when a reading confirms it, and stays open if none does." in page
    )
    child = child_of(cashier, action_id)
    assert child_of(cashier, action_id).id == child.id
    assert len(case_of(cashier, action_id)["corrections"]) == 1


def test_a_surplus_is_charged_again_exactly_and_missing_money_is_paid(cashier: Counter, clock: Clock):
    for paid, tool, owed, what in (
        (12500, CHARGE, 11250, "reverse the surplus of 112.50 EUR of refund {}"),
        (1200, TOOL, 50, "make up the missing 0.50 EUR"),
    ):
        cashier.till.clear()
        action_id = held(cashier, clock, paid)
        [row] = ids(cashier)
        way = offered(cashier, action_id)["CORRECT"]
        assert way["consequence"] == CONSEQUENCE.format(f"{what.format(row)} with {tool}")
        assert propose(cashier, action_id).status_code == 200
        child = child_of(cashier, action_id)
        assert child.tool == tool
        assert paid_by(cashier, clock, child) == {"order_id": "EX-1001", "amount": owed, "currency": "EUR"}
        cashier.read_back(action_id, clock)
        assert cashier.report(action_id)["text"] == (
            "Done after a correction, and confirmed in the system of record. At first it was not as requested:"
            f" amount {paid / 100:.2f} EUR instead of 12.50 EUR."
        )
        assert case_of(cashier, action_id)["state"] == "RESOLVED"


def test_a_correction_that_pays_something_else_leaves_the_case_open_and_says_so(cashier: Counter, clock: Clock):
    action_id = held(cashier, clock, 1200)
    propose(cashier, action_id)
    child = child_of(cashier, action_id)
    paid_by(cashier, clock, child, amount=99)
    assert cashier.path(action_id)[-2:] == ["FORWARD_RECOVERY", "REVIEW_REQUIRED"]
    case = case_of(cashier, action_id)
    assert case["state"] == "OPEN"
    assert [each["said"] for each in case["corrections"]] == [f"{TOOL} on order/EX-1001: Needs review."]
    page = visitor_of(cashier).page(f"cases/{case['case_id']}")
    said = f"The correction with {TOOL} ended as: Needs review (value mismatch)."
    assert "Correction did not settle it" in page
    assert said in words(page)
    assert "a correction did not settle it" in visitor_of(cashier).page(f"actions/{action_id}")
    assert cashier.report(action_id)["completed"] is False


def test_a_correction_whose_outcome_is_unknown_keeps_the_case_open(cashier: Counter, clock: Clock):
    action_id = held(cashier, clock, 1250, 1250)
    propose(cashier, action_id)
    child = child_of(cashier, action_id)
    cashier.start(next(each for each in cashier.claim() if each["action_id"] == str(child.id)))
    clock.forward(minutes=30)
    after.recover()
    assert cashier.state(action_id) == "FORWARD_RECOVERY"
    case = case_of(cashier, action_id)
    assert case["state"] == "OPEN"
    assert [each["outcome"] for each in case["corrections"]] == ["EXECUTING"]


def test_a_verified_correction_does_not_close_a_case_whose_difference_has_changed_meanwhile(
    cashier: Counter, clock: Clock
):
    action_id = held(cashier, clock, 1250, 1250)
    key = cashier.till.till.execute("SELECT key FROM refunds LIMIT 1").fetchone()["key"]
    propose(cashier, action_id)
    carried_out(cashier, clock, child_of(cashier, action_id))
    cashier.till.refund(key, amount=1250)
    cashier.read_back(action_id, clock)
    assert cashier.path(action_id)[-2:] == ["FORWARD_RECOVERY", "REVIEW_REQUIRED"]
    assert case_of(cashier, action_id)["state"] == "OPEN"
    assert cashier.report(action_id)["completed"] is False
    # What is there now can be corrected again, the third refund as well.
    first, second, third = ids(cashier)
    assert case_of(cashier, action_id)["rows"] == [f"refund {each}" for each in (first, second, third)]
    assert "CORRECT" in offered(cashier, action_id)


def test_a_correction_needs_the_approval_of_its_own_contract_and_not_from_who_proposed_it(
    counter: Counter, clock: Clock, secrets_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    cashier = counter.open(secrets_dir, refunding(), cancelling(), charging(approval_required=True))
    monkeypatch.setattr(cashier, "session", partial(cashier.session, "Refund 12.50 EUR to order EX-1."))
    action_id = held(cashier, clock, 4000)
    both = cashier.person("operator", "reviewer", name="both@orchid")
    settling.settle(both, case_of(cashier, action_id)["case_id"], "CORRECT")
    approval = cashier.approval_of(str(child_of(cashier, action_id).id))
    assert cashier.claim() == []
    assert approval["contradictions"] == [], "the goal speaks of the refund that is corrected"
    assert cashier.vote(approval, by=both).json()["code"] == "SELF_APPROVAL"
    assert cashier.vote(approval).status_code == 201


def test_a_proposed_correction_is_said_to_be_proposed_and_to_wait_for_nobody(cashier: Counter, clock: Clock):
    action_id = held(cashier, clock, 1250, 1250)
    case_id = case_of(cashier, action_id)["case_id"]
    operator, why = visitor_of(cashier), {"reason": "Paid twice.", "evidence": "Statement, line 4"}
    assert settling.settle_on_page(operator, case_id, "CORRECT", **why).status_code == 302
    shown = words(operator.page(f"cases/{case_id}"))
    assert "Recorded. The case stays open." in shown
    assert "second approver must confirm" not in shown


def test_money_of_an_action_that_nobody_started_is_not_at_stake(cashier: Counter):
    order = cashier.claimed()
    assert cashier.start(order, payload_hash="0" * 64).status_code == 409
    assert case_of(cashier, order["action_id"])["state"] == "OPEN"
    shown = words(visitor_of(cashier).page("cases"))
    assert "Fail closed" in shown
    assert "At stake" not in shown
    assert "actual amount not known" not in words(visitor_of(cashier).page())


def test_a_recheck_of_a_corrected_action_finds_the_same_and_no_contradiction(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    document = refunding()
    document["verification"]["recheck_after"] = ["PT1H", "PT2H"]
    cashier = counter.open(secrets_dir, document, cancelling(), charging())
    action_id = held(cashier, clock, 1250, 1250)
    key = cashier.till.till.execute("SELECT key FROM refunds LIMIT 1").fetchone()["key"]
    propose(cashier, action_id)
    carried_out(cashier, clock, child_of(cashier, action_id))
    cashier.read_back(action_id, clock)
    clock.forward(hours=1)
    assert rechecks.recheck_action(tenant_id=cashier.tenant, action_id=UUID(action_id), clock=clock.now) is False
    assert cashier.report(action_id)["completed"] is True
    cashier.till.refund(key)
    clock.forward(hours=1)
    assert rechecks.recheck_action(tenant_id=cashier.tenant, action_id=UUID(action_id), clock=clock.now) is True
    assert cashier.report(action_id)["code"] == "FINAL_STATE_UNKNOWN"


@pytest.mark.parametrize("amounts", [(99, 1250), (99, 99)], ids=["the first is wrong", "both are wrong"])
def test_no_correction_is_offered_where_it_cannot_be_told_which_row_is_the_requested_one(
    cashier: Counter, clock: Clock, amounts: tuple[int, ...]
):
    assert "CORRECT" not in offered(cashier, held(cashier, clock, *amounts))


def test_no_correction_is_offered_without_a_tool_for_the_difference(counter: Counter, clock: Clock, secrets_dir: Path):
    document = refunding()
    document["recovery"] = {"corrections": {"missing": CORRECTIONS["missing"]}}
    cashier = counter.open(secrets_dir, document, cancelling(), charging())
    assert "CORRECT" not in offered(cashier, held(cashier, clock, 1250, 1250))


def test_the_case_page_names_the_rows_and_suggests_the_correction(cashier: Counter, clock: Clock):
    action_id = held(cashier, clock, 1250, 1250)
    first, second = ids(cashier)
    operator = visitor_of(cashier)
    case_id = case_of(cashier, action_id)["case_id"]
    page = operator.page(f"cases/{case_id}")
    damage = f"12.50 EUR too much: refund {first} and refund {second} exist, one of 12.50 was"
    assert damage in words(page)
    step = words(page.split('data-part="next"')[1].split("</div>")[0])
    assert "Propose correction Propose the action that corrects exactly the difference." in step
    assert f"An action is proposed to reverse refund {second}" in step
    why = {"reason": "The second one is too many.", "evidence": "The reading."}
    settling.settle_on_page(operator, case_id, "CORRECT", **why)
    page = operator.page(f"cases/{case_id}")
    assert f"Correction: {CANCEL} is ordered and has not passed the gate yet." in words(page)
    child = child_of(cashier, action_id)
    assert f"{CANCEL} on refund/{second}: Ready to run." in operator.page(f"cases/{case_id}")
    own = operator.page(f"actions/{child.id}")
    assert "This is the correction of another action:" in own
    assert f'/cases/{case_id}">Its case</a>' in own
    carried_out(cashier, clock, child)
    cashier.read_back(action_id, clock)
    page = operator.page(f"cases/{case_id}")
    assert "proposed a correction, which a reading confirmed" in page
    assert "Verified after a correction" in operator.page(f"actions/{action_id}")
