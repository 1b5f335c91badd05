"""What reconciliation comes to: each result and each status of the entry is reached, and each is told and planned for.

Every result is reached as an agent reaches it, at a real till: what it is told then is what the table says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from reviews.reporting.rules.results import RULES, PlannerResult
from tests.rules.reporting.test_session_reports import TASK_STATES
from tests.support import settling
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.refund_shop import Counter, refund_contract
from tests.web.actions.test_partial_success import begun_in_part, fact
from tests.web.cases.test_cases import confirm
from tests.web.recovery.test_recovery_path import (
    cancelling,
    carried_out,
    child_of,
    in_parts,
    lesser,
    local,
    refund_part,
    wrong,
)

NO = {"code": "NO", "message": "No."}
ROLLED_BACK = {"code": "CONFLICT", "message": "Serialization failure.", "phase": "rolled_back"}


def read(counter: Counter, clock: Clock, started: dict[str, Any], *, after_s: int = 60) -> str:
    clock.forward(seconds=after_s)
    counter.read_back(started["action_id"], clock)
    return str(started["action_id"])


def refunded(counter: Counter, clock: Clock, *, times: int = 1) -> str:
    started = counter.begun()
    for _ in range(times):
        counter.till.refund(started["idempotency_key"])
    counter.tell(started)
    return read(counter, clock, started)


def accepted(counter: Counter, clock: Clock) -> str:
    started = counter.begun()
    counter.tell(started, "accepted", evidence=None)
    return str(started["action_id"])


def silent(counter: Counter, clock: Clock, **arguments: Any) -> str:
    started = counter.begun(**arguments)
    counter.tell(started, "timeout", evidence=None, error={"code": "TIMEOUT", "message": "No answer."})
    return str(started["action_id"])


def refused(counter: Counter, clock: Clock) -> str:
    started = counter.begun()
    counter.tell(started, "failed", evidence=None, error=NO)
    return read(counter, clock, started)


def reversed_(counter: Counter, clock: Clock, *, status: str | None = "cancelled") -> str:
    action_id = wrong(counter, clock)
    carried_out(counter, clock, child_of(counter, action_id), status=status)
    return action_id


def rolled_back(counter: Counter, clock: Clock) -> str:
    started = counter.begun()
    counter.tell(started, "failed", evidence=None, error=ROLLED_BACK)
    return read(counter, clock, started)


@dataclass(frozen=True)
class Journey:
    """How a result is reached, and what is told and recorded then; `statuses` are those of the entry on the way."""

    contract: Callable[[], dict[str, Any]]
    walk: Callable[[Counter, Clock], str]
    code: str
    next: str
    statuses: tuple[str, ...]
    discrepancy: str = ""


def irreparable() -> dict[str, Any]:
    return lesser(recovery={"idempotent": True})


JOURNEYS: dict[PlannerResult, Journey] = {
    PlannerResult.SUCCESS: Journey(lesser, refunded, "COMPLETED", "CONTINUE", ("NOT_STARTED", "RECONCILED_SUCCESS")),
    PlannerResult.PARTIAL_SUCCESS: Journey(
        lambda: in_parts(pivot=True, approval_required=True),
        begun_in_part,
        "PARTIALLY_COMPLETED",
        "RECOVER_FORWARD",
        ("NOT_STARTED", "RECONCILED_PARTIAL"),
        "PARTIAL_APPLICATION",
    ),
    PlannerResult.PENDING: Journey(
        lesser, accepted, "RESPONSE_RECEIVED_VERIFICATION_PENDING", "WAIT", ("NOT_STARTED",)
    ),
    PlannerResult.FAILURE: Journey(
        lambda: lesser(recovery={}),
        refused,
        "FAILED",
        "REPAIR",
        ("NOT_STARTED", "RECONCILED_FAILURE"),
    ),
    PlannerResult.COMPENSATED: Journey(
        lesser,
        reversed_,
        "COMPENSATED",
        "PROPOSE_ANEW",
        ("NOT_STARTED", "RECONCILED_FAILURE", "COMPENSATED"),
        "VALUE_MISMATCH",
    ),
    PlannerResult.ROLLED_BACK: Journey(local, rolled_back, "ROLLED_BACK", "REPLAN", ("NOT_STARTED", "ROLLED_BACK")),
    PlannerResult.UNKNOWN: Journey(
        lesser, silent, "FINAL_STATE_UNKNOWN", "RECONCILE_FIRST", ("NOT_STARTED", "UNKNOWN")
    ),
    PlannerResult.REVIEW_REQUIRED: Journey(
        irreparable,
        wrong,
        "REVIEW_REQUIRED",
        "WAIT_FOR_PEOPLE",
        ("NOT_STARTED", "RECONCILED_FAILURE", "REVIEW_REQUIRED"),
        "VALUE_MISMATCH",
    ),
    PlannerResult.WRONG_TARGET: Journey(
        irreparable,
        lambda counter, clock: wrong(counter, clock, tenant="willow"),
        "REVIEW_REQUIRED",
        "STOP",
        ("NOT_STARTED", "RECONCILED_FAILURE", "REVIEW_REQUIRED"),
        "WRONG_TARGET_MODIFIED",
    ),
    PlannerResult.COMPENSATION_FAILED: Journey(
        lambda: lesser(externally_visible=True),
        lambda counter, clock: reversed_(counter, clock, status=None),
        "REVIEW_REQUIRED",
        "ESCALATE",
        ("NOT_STARTED", "RECONCILED_FAILURE", "REVIEW_REQUIRED"),
        "VALUE_MISMATCH",
    ),
    PlannerResult.DUPLICATE: Journey(
        irreparable,
        lambda counter, clock: refunded(counter, clock, times=2),
        "REVIEW_REQUIRED",
        "WAIT_FOR_PEOPLE",
        ("NOT_STARTED", "RECONCILED_FAILURE", "REVIEW_REQUIRED"),
        "DUPLICATE_SIDE_EFFECT",
    ),
}


def statuses(counter: Counter, action_id: str) -> tuple[str, ...]:
    """The reconciliation statuses of the entries, each once, in the order in which they were reached."""
    return tuple(dict.fromkeys(event["entry"]["reconciliation"]["status"] for event in counter.history(action_id)))


@pytest.mark.req("R-PL-16")
def test_after_a_version_that_was_refused_the_context_hands_over_the_current_one(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    document = refund_contract()
    document["verification"]["lookup"]["target"] = {
        "table": "orders",
        "where": {"id": "sr.order_id"},
        "tenant_column": "tenant",
        "version_column": "version",
    }
    counter.open(secrets_dir, document)
    started = counter.begun()
    session = counter.operator_key.get(f"/actions/{started['action_id']}").json()["session_id"]
    counter.till.till.execute("UPDATE orders SET version = 8 WHERE id = 'EX-1001'")
    stale = {"code": "STALE_STATE", "message": "Version 1 is not the current one.", "phase": "after_send"}
    counter.tell(started, "failed", error=stale)
    action_id = read(counter, clock, started)
    entry = counter.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["reconciliation"]["recovery_decision"] == "RT-11 REFRESH_AND_REPLAN"
    told = counter.agent.get(f"/sessions/{session}/context").json()["text"]
    assert "current version is 8" in told


@pytest.mark.req("R-RC-07", "R-PL-12", "R-HO-08")
@pytest.mark.parametrize("result", JOURNEYS)
def test_each_result_has_the_report_and_advice_of_the_table(
    counter: Counter, clock: Clock, secrets_dir: Path, result: PlannerResult
):
    journey = JOURNEYS[result]
    cashier = counter.open(secrets_dir, journey.contract(), cancelling(), refund_part())
    action_id = journey.walk(cashier, clock)
    known = fact(cashier, action_id)
    assert (known["result"], known["next_behaviour"]["code"]) == (result, journey.next)
    told = cashier.report(action_id)
    assert (told["code"], told["completed"]) == (journey.code, result is PlannerResult.SUCCESS)
    assert known["code"] == told["code"] in RULES[result].statuses
    assert known["statement"].endswith(f": {told['text']}")
    assert known["task_state"] == TASK_STATES[result]
    assert (known["discrepancy"] or "") == journey.discrepancy
    assert statuses(cashier, action_id) == journey.statuses
    planned = {RULES[result].planning, *(way["planning"] for way in RULES[result].chosen.values())}
    assert known["next_behaviour"]["text"] in planned
    session = cashier.operator_key.get(f"/actions/{action_id}").json()["session_id"]
    context = cashier.agent.get(f"/sessions/{session}/context").json()["text"]
    [line] = [each for each in context.split("\n") if f"[{action_id}]" in each]
    assert f"] {known['statement']}" in line
    assert line.endswith(f" Next: {known['next_behaviour']['text']}")


@pytest.mark.req("R-RC-15")
def test_an_action_is_complete_only_once_a_reading_is_committed_and_no_signal_before_it_completes_it(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    """Neither a statement, a dispatch, the target's acceptance, the answer's HTTP code nor the observation does."""
    cashier = counter.open(secrets_dir, lesser(), cancelling())
    action_id = cashier.propose()

    def assert_open(code: str) -> None:
        told, action = cashier.report(action_id), cashier.operator_key.get(f"/actions/{action_id}").json()
        assert (told["code"], told["completed"]) == (code, False)
        assert action["entry"]["reconciliation"]["status"] == "NOT_STARTED"
        assert fact(cashier, action_id)["result"] in ("NOT_STARTED", "PENDING")

    session = cashier.operator_key.get(f"/actions/{action_id}").json()["session_id"]
    claimed = cashier.agent.post(f"/sessions/{session}/guard", {"message": "I have refunded order EX-1001."})
    assert claimed.json()["verdict"] == "BLOCK"
    assert_open("NOT_EXECUTED")
    started = cashier.start(next(each for each in cashier.claim() if each["action_id"] == action_id)).json()
    assert_open("ATTEMPTED_RESULT_UNKNOWN")
    cashier.tell(started, "accepted", evidence=None)
    assert_open("RESPONSE_RECEIVED_VERIFICATION_PENDING")
    cashier.till.refund(started["idempotency_key"])
    cashier.tell(started)
    assert_open("RESPONSE_RECEIVED_VERIFICATION_PENDING")
    read(cashier, clock, started)
    told = cashier.report(action_id)
    assert (told["code"], told["completed"]) == ("COMPLETED", True)
    reconciled = next(each for each in cashier.history(action_id) if each["event"] == "reconciled")
    assert reconciled["entry"]["reconciliation"]["status"] == "RECONCILED_SUCCESS"


@pytest.mark.req("R-RC-07")
def test_the_journeys_reach_every_status_of_the_entry():
    schema = json.loads(files("ledger.record.rules").joinpath("ledger_entry.schema.json").read_bytes())
    named = schema["properties"]["reconciliation"]["properties"]["status"]["enum"]
    assert {status for journey in JOURNEYS.values() for status in journey.statuses} == set(named)


# What cannot be told


def ambiguous() -> dict[str, Any]:
    """A refund of which the till can say too little: whether it is there hangs on a column that may be empty."""
    document = refund_contract(approval_required=False)
    document["verification"]["lookup"]["effects"]["refund"]["present_if"] = "row.status.startsWith('succ')"
    return document


@pytest.mark.req("R-DC-12", "R-RB-07")
def test_an_ambiguous_refund_is_unknown_opens_a_case_and_blocks_its_repeat(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    cashier = counter.open(secrets_dir, ambiguous())
    started = cashier.begun()
    cashier.till.refund(started["idempotency_key"], status=None)
    cashier.tell(started)
    action_id = read(cashier, clock, started)
    assert cashier.state(action_id) == "PENDING"
    read(cashier, clock, started, after_s=600)
    run = cashier.operator_key.get(f"/actions/{action_id}/runs").json()["items"][0]
    assert run["reason"] == "No verdict came in time. The source could not tell about refund."
    entry = cashier.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["reconciliation"]["discrepancy_class"] == "UNKNOWN_STATE"
    assert cashier.report(action_id)["completed"] is False
    again = cashier.call("refund_order", started["payload"])
    assert (again["accepted"], again["result"]["error"]["code"]) == (False, "DUPLICATE_BLOCKED")

    case = cashier.case_of(action_id)
    assert case is not None
    assert (case["discrepancy"], case["side_effect_class"]) == ("UNKNOWN_STATE", "HIGH_RISK_EXTERNAL")
    for person, waits in ((cashier.operator, True), (cashier.reviewer, False)):
        home = person.client.get("/t/orchid/").content.decode()
        assert (case["case_id"] in home.split('data-part="waits"')[1].split("</section>")[0]) is waits
    assert cashier.reviewer.post(f"/reviews/{case['case_id']}/claim").status_code == 403
    assert cashier.operator.post(f"/reviews/{case['case_id']}/claim").status_code == 200
    page = words(cashier.operator.client.get(f"/t/orchid/cases/{case['case_id']}").content.decode())
    assert "Outcome unknown" in page


@pytest.mark.req("R-HO-07")
def test_open_actions_are_found_by_their_state(counter: Counter, clock: Clock, secrets_dir: Path):
    unchecked = refund_contract(
        name="note_refund", verification=None, side_effect_class="LOW_RISK_INTERNAL", unverifiable_acknowledged=True
    )
    unchecked["verification"] = None
    cashier = counter.open(secrets_dir, refund_contract(), unchecked)
    for order in ("EX-1002", "EX-1003"):
        cashier.till.order(order)
    started = cashier.begun()
    cashier.tell(started)
    pending = str(started["action_id"])
    unknown = silent(cashier, clock, order_id="EX-1002")
    started = cashier.begun(tool="note_refund")
    cashier.tell(started, tool="note_refund")
    unverifiable = read(cashier, clock, started)
    (secrets_dir / "systems" / "orchid" / "till.json").unlink()
    started = cashier.begun(order_id="EX-1003")
    cashier.tell(started)
    read(cashier, clock, started)
    away = read(cashier, clock, started, after_s=600)

    for query, found in (
        ("outcome=VERIFYING", pending),
        ("outcome=UNKNOWN", unknown),
        ("discrepancy=UNVERIFIABLE_STATE", unverifiable),
        ("outcome=NEEDS_REVIEW&discrepancy=UNKNOWN_STATE", away),
    ):
        listed = cashier.operator_key.get(f"/actions?{query}").json()["items"]
        assert found in [each["action_id"] for each in listed], query
        page = cashier.operator.client.get(f"/t/orchid/actions?{query}").content.decode()
        others = {pending, unknown, unverifiable, away} - {each["action_id"] for each in listed}
        assert f'data-part="{found}"' in page
        assert not [each for each in others if f'data-part="{each}"' in page]
        assert len(others) >= 2
    # Home counts what nobody knows, also while people have it, and leads to all of it.
    assert "Unknown 3 oldest" in words(cashier.operator.client.get("/t/orchid/").content.decode())
    page = cashier.operator.client.get("/t/orchid/actions?outcome=NOT_KNOWN").content.decode()
    assert [f'data-part="{each}"' in page for each in (unknown, unverifiable, away, pending)] == [True] * 3 + [False]


@pytest.mark.req("R-HO-13")
def test_wrong_targets_duplicates_and_high_risk_unknowns_open_incidents(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    cashier = counter.open(secrets_dir, ambiguous())
    for order in ("EX-1002", "EX-1003"):
        cashier.till.order(order)
    made = {}
    for order, ways in (
        ("EX-1001", [{"tenant": "willow"}]),
        ("EX-1002", [{}, {}]),
        ("EX-1003", [{"status": None}]),
    ):
        started = cashier.begun(order_id=order)
        for changes in ways:
            cashier.till.refund(started["idempotency_key"], order_id=order, **changes)
        cashier.tell(started)
        read(cashier, clock, started)
        made[order] = read(cashier, clock, started, after_s=600)
    unknown = cashier.case_of(made["EX-1003"])
    assert unknown is not None
    body = {
        "title": "Nobody can tell whether EX-1003 was refunded",
        "kind": "operations",
        "severity": 3,
        "runbook": "unknown-high-risk",
        "reason": "It is a lot of money.",
        "cases": [unknown["case_id"]],
    }
    assert cashier.operator.post("/incidents", body).status_code == 201
    told = {}
    for row in cashier.operator_key.get("/incidents").json()["items"]:
        detail = cashier.operator_key.get(f"/incidents/{row['incident_id']}").json()
        assert len(detail["cases"]) == 1
        told[tuple(detail["actions"])] = (row["kind"], row["title"].partition(":")[0], row["runbook"])
    assert told == {
        (made["EX-1001"],): ("security", "Wrong target modified", "wrong-target"),
        (made["EX-1002"],): ("operations", "Duplicate side effect", "duplicate"),
        (made["EX-1003"],): ("operations", body["title"], "unknown-high-risk"),
    }


# What a model believes


@pytest.mark.req("R-RC-08")
def test_only_a_reading_or_a_settlement_changes_the_facts_for_a_model(shop: Workshop, clock: Clock):
    started = shop.started()
    action_id = started["action_id"]
    session = shop.operator_key.get(f"/actions/{action_id}").json()["session_id"]

    def believed() -> Any:
        context = shop.agent.get(f"/sessions/{session}/context").json()
        shown = [{**each, "as_of": None} for each in (*context["facts"], *context["unresolved"])]
        return [each["action_id"] for each in context["facts"]], shown

    shop.heartbeat(started)
    assert believed()[0] == []
    shop.observe(started)
    settled, answered = believed()
    assert settled == []
    shop.observe(started)
    shop.agent.post(f"/sessions/{session}/guard", {"message": "I have deleted policies/returns.md."})
    assert shop.agent.post(f"/actions/{action_id}/cancel").status_code == 409
    assert shop.operator_key.post(f"/actions/{action_id}/verify").status_code == 202
    assert believed() == ([], answered)

    clock.forward(seconds=90)
    shop.read_back(action_id, clock)
    case = shop.case_of(action_id)
    assert case is not None
    held = believed()
    assert held[0] == []
    assert held[1] != answered
    path = f"/reviews/{case['case_id']}"
    until = (clock.now() + timedelta(hours=1)).isoformat()
    evidence = {"action_id": action_id, "text": "The owner says that it is gone."}
    for sent in (
        shop.operator.post(f"{path}/claim"),
        shop.operator.post(f"{path}/comments", {"text": "It is done."}),
        shop.operator.post("/evidence", evidence),
        shop.operator.post(f"{path}/snooze", {"until": until, "reason": "The owner is away."}),
        shop.operator.post(f"{path}/wake"),
        shop.operator.post(f"{path}/release"),
    ):
        assert sent.status_code in (200, 201), sent.content
    shop.observe(started)
    assert shop.report(action_id)["completed"] is False
    assert believed() == held
    assert settling.settle(shop.operator, case["case_id"], "FAIL").json()["state"] == "AWAITING_SECOND"
    assert believed() == held
    assert confirm(shop, case).json()["state"] == "RESOLVED"
    assert believed()[0] == [action_id]
