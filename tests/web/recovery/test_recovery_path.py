"""Recovery through the real path: what went wrong is reversed, finished or held, by verified actions of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from approvals import tasks as before
from ledger.actions.queries import actions
from ledger.db import tenancy
from reviews import tasks as after
from reviews.verification.operations import rechecks
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.refund_shop import ORDER, TOOL, Counter, refund_contract

CANCEL = "cancel_refund"


def lesser(**changes: Any) -> dict[str, Any]:
    """A refund that may be reversed without a person: below HIGH_RISK_EXTERNAL, with a tool that cancels it."""
    recovery = {"compensation_tool": CANCEL, "compensation_arguments": {"refund_id": "sa.id"}, "idempotent": True}
    base = {
        "side_effect_class": "MEDIUM_RISK_WRITE",
        "reversibility": "COMPENSABLE",
        "transaction_boundary": "EXTERNAL",
        "effect_domain": "OTHER",
        "recovery": recovery,
    }
    return refund_contract(**(base | changes))


def cancelling(**changes: Any) -> dict[str, Any]:
    """The tool that cancels a refund, and what shows that it did."""
    effect = {
        "table": "refunds",
        "where": {"id": "sr.refund_id"},
        "present_if": "row.status == 'cancelled'",
        "tenant_column": "tenant",
        "fields": ["status"],
    }
    document = refund_contract(
        name=CANCEL,
        description="Cancel a refund. Use when: it was wrong. NOT for: refunds that the bank has settled.",
        arguments_schema={
            "type": "object",
            "required": ["refund_id"],
            "additionalProperties": False,
            "properties": {"refund_id": {"type": "integer"}},
        },
        side_effect_class="LOW_RISK_INTERNAL",
        target_resource="refund/{refund_id}",
        operation_kind="cancel",
        required_effects=["cancellation"],
        effect_domain="OTHER",
    )
    document["verification"] |= {
        "lookup": {"effects": {"cancellation": effect}},
        "predicates": ["sa.status == 'cancelled'"],
    }
    return document | changes


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir, lesser(), cancelling())


def wrong(counter: Counter, clock: Clock, **changes: Any) -> str:
    """A refund that the tool claims and that came out wrong, read once."""
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], **({"amount": 99} | changes))
    counter.tell(started)
    clock.forward(seconds=30)
    counter.read_back(started["action_id"], clock)
    return str(started["action_id"])


def child_of(counter: Counter, action_id: str) -> Any:
    before.propose_follow_ups()
    with tenancy(counter.tenant):
        children = actions.children_of(counter.tenant, UUID(action_id))
    return children[-1] if children else None


def carried_out(counter: Counter, clock: Clock, child: Any, *, status: str | None = "cancelled") -> None:
    """The recovery action is executed by the executor and read back."""
    order = next(each for each in counter.claim() if each["action_id"] == str(child.id))
    started = counter.start(order).json()
    if status is not None:
        counter.till.till.execute(
            "UPDATE refunds SET status = %s WHERE id = %s", [status, started["payload"]["refund_id"]]
        )
    counter.tell(started, tool=child.tool)
    clock.forward(seconds=30)
    counter.read_back(str(child.id), clock)
    after.recover()


@pytest.mark.req("R-RP-03", "R-RP-37", "R-RP-44", "R-RP-45", "R-SM-14")
def test_a_wrong_refund_is_cancelled_by_its_own_verified_action(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    assert cashier.state(action_id) == "COMPENSATING"
    child = child_of(cashier, action_id)
    assert (child.tool, child.agent, child.relation) == (CANCEL, "recovery", "compensation")
    entry = cashier.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["recovery"]["compensation_action_id"] == str(child.id)
    assert entry["reconciliation"]["recovery_decision"] == "RT-03 COMPENSATE_OR_ROLL_BACK"
    assert cashier.report(action_id)["code"] == "RECOVERY_IN_PROGRESS"
    carried_out(cashier, clock, child)
    assert cashier.path(action_id)[-2:] == ["COMPENSATING", "COMPENSATED"]
    told = cashier.report(action_id)
    assert (told["code"], told["completed"]) == ("COMPENSATED", False)


@pytest.mark.req("R-HS-13", "R-RP-43", "R-RP-47", "R-RP-17", "R-RB-05")
def test_a_compensation_without_an_effect_has_failed(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, lesser(externally_visible=True), cancelling())
    action_id = wrong(cashier, clock)
    carried_out(cashier, clock, child_of(cashier, action_id), status=None)
    assert cashier.path(action_id)[-3:] == ["COMPENSATING", "COMPENSATION_FAILED", "REVIEW_REQUIRED"]
    entry = cashier.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["reconciliation"]["recovery_decision"] == "RT-17 MANUAL_REVIEW_AND_INCIDENT"
    assert entry["recovery"]["incident_id"]
    assert entry["recovery"]["review_id"]


@pytest.mark.req("R-RP-45")
def test_an_ordered_recovery_is_proposed_once_however_often_the_task_runs(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    first = child_of(cashier, action_id)
    assert child_of(cashier, action_id).id == first.id
    with tenancy(cashier.tenant):
        assert len(actions.children_of(cashier.tenant, UUID(action_id))) == 1


def test_a_revoked_recovery_agent_stops_automatic_recovery(cashier: Counter, clock: Clock):
    carried_out(cashier, clock, child_of(cashier, wrong(cashier, clock)))
    cashier.operator_key.post("/agents/recovery/revoke", {"reason": "We want to look at each one."})
    cashier.till.order("EX-1002")
    action_id = wrong(cashier, clock, order_id="EX-1001")
    assert child_of(cashier, action_id) is None
    after.recover()
    assert cashier.state(action_id) == "REVIEW_REQUIRED"


def test_a_recovery_agent_registered_by_people_gets_the_tool(cashier: Counter, clock: Clock):
    own = {"agent_id": "recovery", "version": "spring", "tools": ["refund_order"]}
    assert cashier.operator_key.post("/agents", own).status_code == 201
    assert child_of(cashier, wrong(cashier, clock)).tool == CANCEL
    versions = cashier.operator_key.get("/agents/recovery").json()["versions"]
    assert {"cancel_refund", "refund_order"} in [set(each["tools"]) for each in versions]


def test_a_frozen_target_delays_the_recovery(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    freeze = cashier.operator.post("/freezes", {"scope": "tool", "value": CANCEL, "reason": "Not now."}).json()
    assert child_of(cashier, action_id) is None
    after.recover()
    assert cashier.state(action_id) == "COMPENSATING"
    cashier.operator.post(f"/freezes/{freeze['freeze_id']}/lift", {"reason": "Go on."})
    clock.forward(seconds=60)
    assert child_of(cashier, action_id) is not None


def test_nobody_can_open_a_session_as_the_recovery_agent(cashier: Counter, clock: Clock):
    child_of(cashier, wrong(cashier, clock))
    answer = cashier.agent.post("/sessions", {"agent_id": "recovery", "goal": "Undo it.", "ttl_seconds": 60})
    assert answer.status_code == 403


# Several effects: backward before the pivot, forward after it


def part(currency: str, key: str = "scope.idempotency_key") -> dict[str, Any]:
    return {
        "table": "refunds",
        "where": {"key": key, "currency": f"'{currency}'"},
        "tenant_column": "tenant",
        "target_column": "order_id",
        "fields": ["id", "amount", "status"],
    }


def in_parts(**changes: Any) -> dict[str, Any]:
    """A refund in euros and dollars and pounds; each part has its own remedies."""
    names = {"euros": "EUR", "dollars": "USD", "pounds": "GBP"}
    remedies = {
        name: {
            "compensation_tool": CANCEL,
            "compensation_arguments": {"refund_id": f"sa.effects.{name}.id"},
            "forward_tool": "refund_part",
            "forward_arguments": {"order_id": "sr.order_id", "amount": "sr.amount", "currency": f"'{currency}'"},
        }
        for name, currency in names.items()
    }
    document = lesser(required_effects=list(names), recovery={"effects": remedies, "idempotent": True})
    document["verification"] |= {
        "lookup": {"effects": {name: part(currency) for name, currency in names.items()}},
        "predicates": [f"sa.effects.{name}.amount == sr.amount" for name in names],
    }
    return document | changes


def refund_part() -> dict[str, Any]:
    """The tool that pays what is missing."""
    document = lesser(name="refund_part", side_effect_class="LOW_RISK_INTERNAL", recovery={"idempotent": True})
    document["arguments_schema"]["properties"]["currency"] = {"enum": ["EUR", "USD", "GBP"]}
    return document


@pytest.mark.req("R-RP-09", "R-RP-32", "R-DC-05", "R-EX-19")
def test_before_the_pivot_the_parts_are_reversed_in_reverse_order(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, in_parts(), cancelling(), refund_part())
    started = cashier.begun()
    for currency in ("EUR", "USD"):
        cashier.till.refund(started["idempotency_key"], currency=currency)
    cashier.tell(started, "partial")
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    action_id = started["action_id"]
    assert cashier.path(action_id)[-2:] == ["PARTIALLY_COMMITTED", "COMPENSATING"]
    reversed_ids = []
    for _ in range(2):
        child = child_of(cashier, action_id)
        reversed_ids.append(int(child.target.removeprefix("refund/")))
        carried_out(cashier, clock, child)
    assert reversed_ids == sorted(reversed_ids, reverse=True)
    assert cashier.state(action_id) == "COMPENSATED"


@pytest.mark.req("R-RP-10", "R-RP-33", "R-RP-38", "R-SM-16")
def test_after_the_pivot_missing_parts_are_completed_and_read_back(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, in_parts(pivot=True, approval_required=True), cancelling(), refund_part())
    started = cashier.begun()
    for currency in ("EUR", "USD"):
        cashier.till.refund(started["idempotency_key"], currency=currency)
    cashier.tell(started, "partial")
    clock.forward(seconds=60)
    action_id = started["action_id"]
    cashier.read_back(action_id, clock)
    assert cashier.path(action_id)[-2:] == ["PARTIALLY_COMMITTED", "FORWARD_RECOVERY"]
    entry = cashier.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["reconciliation"]["recovery_decision"] == "RT-10 FORWARD_RECOVERY"
    child = child_of(cashier, action_id)
    order = next(each for each in cashier.claim() if each["action_id"] == str(child.id))
    begun = cashier.start(order).json()
    assert begun["payload"] == {"amount": 1250, "currency": "GBP", "order_id": "EX-1001"}
    cashier.till.refund(begun["idempotency_key"], currency="GBP")
    cashier.tell(begun, tool="refund_part")
    clock.forward(seconds=60)
    cashier.read_back(str(child.id), clock)
    after.recover()
    assert cashier.state(action_id) == "FORWARD_RECOVERY"
    cashier.read_back(action_id, clock)
    assert cashier.path(action_id)[-2:] == ["FORWARD_RECOVERY", "RECONCILED_SUCCESS"]
    assert cashier.report(action_id)["completed"]


@pytest.mark.req("R-RP-38")
@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "never arrives"])
@pytest.mark.parametrize("status", ["success", "accepted"], ids=["delayed consistency", "settlement pending"])
def test_what_comes_late_after_the_pivot_is_waited_for_and_never_reversed(
    counter: Counter, clock: Clock, secrets_dir: Path, status: str, arrives: bool
):
    cashier = counter.open(secrets_dir, lesser(pivot=True, approval_required=True), cancelling())
    started = cashier.begun()
    action_id = started["action_id"]
    cashier.tell(started, status)
    cashier.read_back(action_id, clock)
    assert cashier.state(action_id) in ("PENDING", "ACCEPTED")
    clock.forward(seconds=10)
    if arrives:
        cashier.till.refund(started["idempotency_key"])
    else:
        clock.forward(seconds=400)
    cashier.read_back(action_id, clock)
    assert cashier.state(action_id) == ("RECONCILED_SUCCESS" if arrives else "REVIEW_REQUIRED")
    assert child_of(cashier, action_id) is None
    assert "COMPENSATING" not in cashier.path(action_id)


@pytest.mark.req("R-RP-38")
def test_a_forward_recovery_that_fails_is_held(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, in_parts(pivot=True, approval_required=True), cancelling(), refund_part())
    started = cashier.begun()
    cashier.till.refund(started["idempotency_key"], currency="EUR")
    cashier.tell(started, "partial")
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    child = child_of(cashier, started["action_id"])
    begun = cashier.start(next(each for each in cashier.claim() if each["action_id"] == str(child.id))).json()
    error = {"code": "NO", "message": "No.", "phase": "before_send"}
    cashier.tell(begun, "failed", tool="refund_part", evidence=None, error=error)
    after.recover()
    assert cashier.state(started["action_id"]) == "FORWARD_RECOVERY"  # the executor's word ends nothing
    clock.forward(seconds=60)
    cashier.read_back(str(child.id), clock)
    after.recover()
    assert cashier.path(started["action_id"])[-2:] == ["FORWARD_RECOVERY", "REVIEW_REQUIRED"]


# Local transactions


def local(**changes: Any) -> dict[str, Any]:
    undo = {"rollback_tool": CANCEL, "rollback_arguments": {"refund_id": "sa.id"}}
    return lesser(transaction_boundary="LOCAL_TRANSACTION", externally_visible=False, recovery=undo, **changes)


@pytest.mark.req("R-RP-31", "R-RP-36", "R-SM-17", "R-LE-09")
def test_a_local_transaction_is_rolled_back_and_its_target_read(counter: Counter, clock: Clock, secrets_dir: Path):
    document = local()
    # What was cancelled is gone for this lookup: that is how the till shows that nothing stands.
    document["verification"]["lookup"]["effects"]["refund"]["present_if"] = "row.status != 'cancelled'"
    cashier = counter.open(secrets_dir, document, cancelling())
    action_id = wrong(cashier, clock)
    assert cashier.state(action_id) == "RECONCILIATION_FAILED"
    carried_out(cashier, clock, child_of(cashier, action_id))
    assert cashier.state(action_id) == "RECONCILIATION_FAILED"
    cashier.read_back(action_id, clock)
    assert cashier.path(action_id)[-2:] == ["RECONCILIATION_FAILED", "ROLLED_BACK"]
    assert cashier.report(action_id)["code"] == "ROLLED_BACK"
    phases = ["proposed", "execution_started", "observed", "verified", "reconciliation_failed", "ordered"]
    assert [event for event in phases if event in [each["event"] for each in cashier.history(action_id)]] == phases


@pytest.mark.req("R-RP-36", "R-SM-05")
def test_an_effect_that_the_tool_reported_as_rolled_back_is_read_at_once(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    cashier = counter.open(secrets_dir, local(), cancelling())
    started = cashier.begun()
    error = {"code": "CONFLICT", "message": "Serialization failure.", "phase": "rolled_back"}
    told = cashier.tell(started, "failed", evidence=None, error=error)
    assert told["state"] == "EXECUTING"
    cashier.read_back(started["action_id"], clock)
    # Until the horizon an effect may still arrive; an operator may have it read at any time.
    assert cashier.state(started["action_id"]) == "EXECUTING"
    assert cashier.operator_key.post(f"/actions/{started['action_id']}/verify").status_code == 202
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    assert cashier.path(started["action_id"])[-2:] == ["EXECUTING", "ROLLED_BACK"]


def test_a_false_report_of_a_rollback_is_detected(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, local(), cancelling())
    started = cashier.begun()
    cashier.till.refund(started["idempotency_key"])
    error = {"code": "CONFLICT", "message": "Serialization failure.", "phase": "rolled_back"}
    cashier.tell(started, "failed", evidence=None, error=error)
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    assert "ROLLED_BACK" not in cashier.path(started["action_id"])
    assert cashier.state(started["action_id"]) == "RECONCILED_SUCCESS"


# People and policy


@pytest.mark.req("R-AP-18", "R-SM-18", "R-RP-45")
@pytest.mark.parametrize("why", [{"approval_required": True}, {"reversibility": "IRREVERSIBLE"}])
def test_the_person_who_ordered_a_compensation_cannot_approve_it(
    counter: Counter, clock: Clock, secrets_dir: Path, why: dict[str, Any]
):
    cashier = counter.open(secrets_dir, lesser(side_effect_class="HIGH_RISK_EXTERNAL"), cancelling(**why))
    action_id = wrong(cashier, clock)
    assert cashier.state(action_id) == "REVIEW_REQUIRED"
    both = cashier.person("operator", "reviewer", name="both@orchid")
    case = cashier.case_of(action_id)
    assert case is not None
    ways = {each["resolution"]: each for each in both.get(f"/reviews/{case['case_id']}").json()["allowed"]}
    assert ways["COMPENSATE"]["consequence"] == (
        "An action is ordered that acts on the real system, once it is allowed to."
        " A repeat (same tool, target and values) is refused until the action is settled."
    )
    body = {"resolution": "COMPENSATE", "reason": "The amount is wrong.", "evidence": ["reading 1"]}
    proposed = settling.settle(both, case["case_id"], **body).json()
    assert proposed["state"] == "AWAITING_SECOND"
    settling.confirm(cashier.operator, case["case_id"])
    assert cashier.state(action_id) == "COMPENSATING"
    assert cashier.call(TOOL, ORDER)["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    child = child_of(cashier, action_id)
    approval = cashier.approval_of(str(child.id))
    assert cashier.claim() == []
    assert cashier.vote(approval, by=both).json()["code"] == "SELF_APPROVAL"
    assert cashier.vote(approval).status_code == 201
    carried_out(cashier, clock, child)
    assert cashier.state(action_id) == "COMPENSATED"
    assert cashier.call(TOOL, ORDER)["accepted"] is True


@pytest.mark.req("R-RP-24", "R-SM-18")
def test_a_policy_may_hold_a_row_or_bring_its_own_table(cashier: Counter, clock: Clock):
    held = {"version": "2", "document": {"table": "built-in", "hold": ["RT-03"]}}
    assert cashier.operator_key.release("recovery", held).status_code == 201
    assert cashier.state(wrong(cashier, clock)) == "REVIEW_REQUIRED"
    last = {
        "id": "OWN-1",
        "finding": "whatever it is",
        "condition": None,
        "inputs": {"trigger": "*"},
        "action": "HOLD_AND_ESCALATE",
        "state_paths": [["REVIEW_REQUIRED"]],
        "effects": ["open review"],
    }
    own = {"version": "3", "document": {"table": [last]}}
    assert cashier.operator_key.release("recovery", own).status_code == 201
    cashier.till.order("EX-1002")
    started = cashier.begun(order_id="EX-1002")
    cashier.till.refund(started["idempotency_key"], amount=99, order_id="EX-1002")
    cashier.tell(started)
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    entry = cashier.operator_key.get(f"/actions/{started['action_id']}").json()["entry"]
    assert entry["reconciliation"]["recovery_decision"] == "OWN-1 HOLD_AND_ESCALATE"


@pytest.mark.parametrize(
    "table",
    [
        [],
        ["row"],
        [{"id": "X"}],
        [{"id": "X", "finding": "f", "action": "DANCE", "inputs": {"trigger": "*"}, "state_paths": [], "effects": []}],
        [{"id": "X", "finding": "f", "action": "FAIL_CLOSED", "inputs": {"trigger": "*", "moon": True},
          "state_paths": [["REVIEW_REQUIRED"]], "effects": []}],
        [{"id": "X", "finding": "f", "action": "FAIL_CLOSED", "inputs": {"trigger": "*"},
          "state_paths": [["PROPOSED"]], "effects": []}],
    ],
    ids=["empty", "text", "bare", "action", "input", "way"],
)  # fmt: skip
def test_an_invalid_recovery_table_is_refused(cashier: Counter, table: list[Any]):
    answer = cashier.operator_key.release("recovery", {"version": "2", "document": {"table": table}})
    assert (answer.status_code, answer.json()["code"]) == (422, "BAD_POLICY")
    assert answer.json()["errors"]


# Late truth about what was put right


@pytest.mark.req("R-RP-44", "R-RP-47")
def test_a_compensation_contradicted_later_makes_the_outcome_unknown_again(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    looked_at_again = cancelling()
    looked_at_again["verification"]["recheck_after"] = ["PT1H"]
    cashier = counter.open(secrets_dir, lesser(), looked_at_again)
    action_id = wrong(cashier, clock)
    child = child_of(cashier, action_id)
    carried_out(cashier, clock, child)
    assert cashier.report(action_id)["code"] == "COMPENSATED"
    counter.till.till.execute("UPDATE refunds SET status = 'succeeded'")
    clock.forward(hours=2)
    rechecks.recheck_action(tenant_id=cashier.tenant, action_id=child.id, clock=clock.now)
    for one in (str(child.id), action_id):
        told = cashier.report(one, by=cashier.operator_key)
        assert (told["code"], told["completed"]) == ("FINAL_STATE_UNKNOWN", False), told
        assert cashier.case_of(one) is not None


def test_a_reversed_success_is_not_rechecked_as_a_success(counter: Counter, clock: Clock, secrets_dir: Path):
    from tests.web.recovery.test_runs_taken_back import Run

    document = lesser()
    document["verification"]["recheck_after"] = ["PT1H"]
    cashier = counter.open(secrets_dir, document, cancelling())
    counter.till.order("EX-1002")
    run = Run(cashier, clock)
    stands = run.step("EX-1001")
    run.step("EX-1002", works=False)
    carried_out(cashier, clock, run.child())
    clock.forward(hours=2)
    rechecks.recheck_action(tenant_id=cashier.tenant, action_id=UUID(stands), clock=clock.now)
    assert cashier.report(stands)["code"] == "COMPENSATED"
