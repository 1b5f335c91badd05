"""Before people are asked: the target is read in a real PostgreSQL, and what is doomed costs nobody's attention."""

from __future__ import annotations

from uuid import UUID

import pytest

from approvals.requests.queries import approvals
from ledger.actions.queries import readings
from ledger.db import tenancy
from ledger.record.queries import events
from tests.support.preparing import PREFLIGHT, asked, prepared_contract, read, tick
from tests.support.refund_shop import refund_contract


@pytest.fixture
def ready(counter, secrets_dir):
    return counter.open(secrets_dir, prepared_contract())


def approval_of(counter, action_id):
    with tenancy(counter.tenant):
        return approvals.approval_of(counter.tenant, UUID(action_id))


def kinds(counter, action_id):
    return [event["event"] for event in counter.history(action_id)]


def ended(counter, action_id):
    return counter.history(action_id)[-1]


def test_approval_is_requested_only_after_the_target_was_read(ready, clock):
    answer = ready.call("refund_order", {"order_id": "EX-1001", "amount": 1250, "currency": "EUR"})
    action_id = answer["action_id"]
    assert approval_of(ready, action_id).state == "PREPARING"
    assert not ready.waiting(action_id)
    assert ready.claim() == []
    tick(clock)
    approval = approval_of(ready, action_id)
    assert approval.state == "REQUESTED"
    assert kinds(ready, action_id) == ["proposed", "validated", "reading_wanted", "reading_taken"]
    assert answer["approval"]["expires_at"] == ready.approval_of(action_id)["decide_by"]


def test_the_baseline_is_frozen_in_the_approval_and_can_be_computed_again(ready, clock):
    action_id = asked(ready, clock)
    approval = approval_of(ready, action_id)
    with tenancy(ready.tenant):
        taken = readings.newest_reading_pointers(ready.tenant, [UUID(action_id)])
        requested = events.history(ready.tenant, approval.id)[-1][2]
    assert taken[UUID(action_id)] == approval.baseline_pointer
    assert requested["before"]["baseline_digest"] == approval.baseline_digest
    assert [each["truth"] for each in requested["before"]["preflight"]] == ["TRUE"] * 3


@pytest.mark.parametrize(
    ("damage", "condition", "told"),
    [
        ("UPDATE orders SET status = 'refunded'", 1, "pre.target.status is refunded"),
        ("DELETE FROM orders", 0, "There is no such order. Read before anybody was asked: pre.target.exists is false."),
    ],
)
def test_a_doomed_action_is_refused_before_approval_is_requested(ready, till, clock, damage, condition, told):
    """What shows that the action cannot succeed costs no approval; the agent is told what was read."""
    action_id = ready.propose()
    till.till.execute(damage)
    tick(clock)
    last = ended(ready, action_id)
    assert (last["event"], last["state"]) == ("preflight_refused", "FAILED")
    assert last["detail"]["code"] == "PREFLIGHT_REFUSED"
    holds = PREFLIGHT[condition] if isinstance(PREFLIGHT[condition], str) else PREFLIGHT[condition]["holds"]
    assert holds in [each["holds"] for each in last["detail"]["conditions"]]
    assert told in last["detail"]["reason"]
    approval = approval_of(ready, action_id)
    assert approval.state == "VOIDED"
    with tenancy(ready.tenant):
        assert [event.kind for event, _, _ in events.history(ready.tenant, approval.id)] == [
            "approval_preparing",
            "approval_voided",
        ]
    assert ready.till.count() == 0
    assert ready.report(action_id)["code"] == "NOT_EXECUTED"


def test_the_target_of_another_tenant_is_refused_without_showing_it(ready, till, clock):
    till.till.execute("UPDATE orders SET tenant = 'willow-and-sons'")
    action_id = ready.propose()
    tick(clock)
    last = ended(ready, action_id)
    assert last["state"] == "FAILED"
    assert "willow" not in str(last["detail"])


def test_a_silent_system_is_waited_for_a_few_seconds_before_approval_is_requested(ready, secrets_dir, clock):
    (secrets_dir / "systems" / ready.slug / "till.json").unlink()
    action_id = ready.propose()
    tick(clock)
    assert approval_of(ready, action_id).state == "PREPARING"
    clock.forward(seconds=6)
    tick(clock)
    approval = approval_of(ready, action_id)
    assert (approval.state, approval.risk, approval.baseline_pointer) == ("REQUESTED", "HIGH", None)
    with tenancy(ready.tenant):
        before = events.history(ready.tenant, approval.id)[-1][2]["before"]
    assert before["raises"] == ["BASELINE_UNKNOWN", "PREFLIGHT_UNDECIDED"]


def test_a_contract_without_a_baseline_waits_for_no_reading(counter, secrets_dir):
    counter.open(secrets_dir, refund_contract())
    action_id = counter.propose()
    assert counter.waiting(action_id)
    assert kinds(counter, action_id) == ["proposed", "validated"]


@pytest.mark.parametrize(
    ("radius", "risk"),
    [
        ({"count": "pre.effects.refund.count"}, "NORMAL"),
        ({"count": "sr.amount", "high_above": 1000}, "HIGH"),
        ({"count": "pre.target.lines"}, "HIGH"),
    ],
)
def test_an_unknown_or_large_blast_radius_raises_the_risk(counter, secrets_dir, clock, radius, risk):
    small = {"side_effect_class": "MEDIUM_RISK_WRITE", "reversibility": "COMPENSABLE", "approval_required": True}
    counter.open(secrets_dir, prepared_contract(approval={"blast_radius": radius}, **small))
    assert approval_of(counter, asked(counter, clock)).risk == risk


def test_an_action_cancelled_during_the_reading_requests_no_approval(ready, clock):
    action_id = ready.propose()
    assert ready.agent.post(f"/actions/{action_id}/cancel", {"reason": "Changed my mind."}).status_code == 200
    tick(clock)
    assert approval_of(ready, action_id).state == "VOIDED"
    assert ready.state(action_id) == "FAILED"


def test_after_a_worker_dies_the_next_tick_uses_its_reading(ready, clock):
    action_id = ready.propose()
    read(clock)
    assert approval_of(ready, action_id).state == "PREPARING"
    tick(clock)
    assert approval_of(ready, action_id).state == "REQUESTED"
    assert kinds(ready, action_id).count("reading_taken") == 1


def test_an_approval_that_is_requested_again_is_prepared_again(ready, clock):
    action_id = asked(ready, clock)
    ready._made(ready.vote(ready.approval_of(action_id)))
    policy = {"version": "2", "document": {"require": [{"tool": "refund_order"}]}}
    assert ready.operator_key.release("approval", policy).status_code == 201
    clock.forward(seconds=1)
    assert ready.claim() == []
    read(clock)
    assert ready.claim() == []
    fresh = approval_of(ready, action_id)
    assert fresh.state == "PREPARING"
    tick(clock)
    fresh = approval_of(ready, action_id)
    assert (fresh.state, fresh.policy_version) == ("REQUESTED", "2")
    assert fresh.baseline_pointer is not None
