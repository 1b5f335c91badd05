"""From the start to the truth: the target refuses, lies are found, and what comes late is neither lost nor repeated."""

from __future__ import annotations

from uuid import UUID

import pytest

from approvals.execution.operations import executions
from ledger.db import tenancy
from tests.support.preparing import asked, prepared_contract, read
from tests.support.refund_shop import ORDER, refund_contract


@pytest.fixture
def ready(counter, secrets_dir):
    return counter.open(secrets_dir, refund_contract())


def settled(counter, started, clock):
    clock.forward(seconds=60)
    return counter.read_back(started["action_id"], clock)


def lost(counter, started, clock):
    """The executor is never heard of again."""
    clock.forward(seconds=60)
    with tenancy(counter.tenant):
        executions.end_lease(tenant_id=counter.tenant, action_id=UUID(started["action_id"]), at=clock.now())


def test_the_target_itself_refuses_what_changed_between_the_start_and_the_effect(counter, secrets_dir, till, clock):
    """B31: a conditional write on the version that was read changes nothing, and nothing is believed but that."""
    counter.open(secrets_dir, prepared_contract())
    action_id = asked(counter, clock)
    version = next(
        int(each["value"])
        for each in counter.approval_of(action_id)["baseline"]["fields"]
        if each["field"] == "target.version"
    )
    counter._made(counter.vote(counter.approval_of(action_id)))
    clock.forward(seconds=1)
    counter.claim()
    read(clock)
    started = counter._made(counter.start(counter.claim()[0]))
    till.till.execute("UPDATE orders SET version = version + 1")
    written = till.till.execute(
        "UPDATE orders SET status = 'refunded' WHERE id = 'EX-1001' AND version = %s", [version]
    )
    assert written.rowcount == 0
    counter.tell(started, status="failed", error={"code": "STALE_STATE", "message": "The order has moved on."})
    assert settled(counter, started, clock) == "FAILED"
    assert (till.count(), counter.report(action_id)["completed"]) == (0, False)
    assert counter.history(action_id)[-1]["entry"]["reconciliation"]["discrepancy_class"] == "STALE_STATE"


def test_a_success_that_never_happened_is_found(ready, clock):
    """B32: reported, without effect."""
    started = ready.begun()
    ready.tell(started)
    assert settled(ready, started, clock) != "RECONCILED_SUCCESS"
    assert ready.report(started["action_id"])["completed"] is False


def test_an_effect_that_nobody_reported_is_found(ready, clock):
    """B32: there, without a report."""
    started = ready.begun()
    ready.till.refund(started["idempotency_key"])
    lost(ready, started, clock)
    assert settled(ready, started, clock) == "RECONCILED_SUCCESS"


def test_another_effect_than_the_approved_one_is_found(ready, clock):
    """B32: reported as done, and done with another amount."""
    started = ready.begun()
    ready.till.refund(started["idempotency_key"], amount=9999)
    ready.tell(started)
    assert settled(ready, started, clock) != "RECONCILED_SUCCESS"
    entry = ready.history(started["action_id"])[-1]["entry"]
    assert entry["reconciliation"]["discrepancy_class"] == "VALUE_MISMATCH"


@pytest.mark.req("R-EX-06")
def test_a_late_effect_ends_in_the_truth_and_is_granted_once(ready, clock):
    """B33: a time-out, then the effect; until that is settled there is no second grant and no repeat."""
    started = ready.begun()
    clock.forward(seconds=25)
    with tenancy(ready.tenant):
        executions.end_lease(tenant_id=ready.tenant, action_id=UUID(started["action_id"]), at=clock.now())
    assert ready.state(started["action_id"]) in ("PENDING", "UNKNOWN")
    assert ready.claim() == []
    repeat = ready.call("refund_order", ORDER)
    assert repeat["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    assert ready.history(started["action_id"])[-1]["entry"]["idempotency"]["status"] == "PENDING"
    ready.till.refund(started["idempotency_key"])
    assert settled(ready, started, clock) == "RECONCILED_SUCCESS"
    assert (ready.till.count(), ready.claim()) == (1, [])
    entry = ready.history(started["action_id"])[-1]["entry"]
    assert entry["idempotency"]["status"] == "COMPLETED"
    assert entry["reconciliation"]["recovery_decision"] == "RT-07 POLL_IDEMPOTENCY_RECORD"
    assert [each["event"] for each in ready.history(started["action_id"])].count("grant_minted") == 1
