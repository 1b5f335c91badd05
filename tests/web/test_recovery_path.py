"""Recovery through the real path: what went wrong is reversed, finished or held, by verified actions of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from approvals import tasks as before
from ledger import queries as record
from ledger.tenancy import tenancy
from reviews import tasks as after
from tests.till import Counter, refund_contract
from tests.workshop import Clock

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
        children = record.children_of(counter.tenant, UUID(action_id))
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
def test_a_wrong_refund_is_cancelled_by_a_verified_action_of_its_own(cashier: Counter, clock: Clock):
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


@pytest.mark.req("R-HS-13", "R-RP-47", "R-RP-17", "R-RB-05")
def test_a_compensation_that_changes_nothing_has_failed(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, lesser(externally_visible=True), cancelling())
    action_id = wrong(cashier, clock)
    carried_out(cashier, clock, child_of(cashier, action_id), status=None)
    assert cashier.path(action_id)[-3:] == ["COMPENSATING", "COMPENSATION_FAILED", "REVIEW_REQUIRED"]
    entry = cashier.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["reconciliation"]["recovery_decision"] == "RT-17 MANUAL_REVIEW_AND_INCIDENT"
    assert entry["recovery"]["incident_id"]
    assert entry["recovery"]["review_id"]


@pytest.mark.req("R-RP-45")
def test_an_order_is_proposed_once_however_often_the_task_runs(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    first = child_of(cashier, action_id)
    assert child_of(cashier, action_id).id == first.id
    with tenancy(cashier.tenant):
        assert len(record.children_of(cashier.tenant, UUID(action_id))) == 1


def test_a_revoked_recovery_agent_stops_automatic_recovery(cashier: Counter, clock: Clock):
    carried_out(cashier, clock, child_of(cashier, wrong(cashier, clock)))
    cashier.operator_key.post("/agents/recovery/revoke", {"reason": "We want to look at each one."})
    cashier.till.order("EX-1002")
    action_id = wrong(cashier, clock, order_id="EX-1001")
    assert child_of(cashier, action_id) is None
    after.recover()
    assert cashier.state(action_id) == "REVIEW_REQUIRED"


def test_a_frozen_target_keeps_the_order_waiting(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    freeze = cashier.operator.post("/freezes", {"scope": "tool", "value": CANCEL, "reason": "Not now."}).json()
    assert child_of(cashier, action_id) is None
    after.recover()
    assert cashier.state(action_id) == "COMPENSATING"
    cashier.operator.post(f"/freezes/{freeze['freeze_id']}/lift", {"reason": "Go on."})
    assert child_of(cashier, action_id) is not None


def test_nobody_opens_a_session_as_the_recovery_agent(cashier: Counter, clock: Clock):
    child_of(cashier, wrong(cashier, clock))
    answer = cashier.agent.post("/sessions", {"agent_id": "recovery", "goal": "Undo it.", "ttl_seconds": 60})
    assert answer.status_code == 403
