"""Recovery that dies between two lines: nothing of the step is there, and the next tick takes it whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import DatabaseError

from approvals import tasks as before
from approvals.gate.operations import follow_ups
from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record import operations as ledger
from reviews import tasks as after
from reviews.recovery.operations import recovery
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter
from tests.web.recovery.test_recovery_path import cancelling, carried_out, child_of, lesser, wrong
from tests.web.recovery.test_runs_taken_back import Run


class Died(DatabaseError):
    """The process is gone: what it had not committed was never there."""


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    counter.till.order("EX-1002")
    return counter.open(secrets_dir, lesser(), cancelling())


def children(counter: Counter, action_id: str) -> list[Any]:
    with tenancy(counter.tenant):
        return actions.children_of(counter.tenant, UUID(action_id))


def events(counter: Counter, action_id: str) -> list[str]:
    return [event["event"] for event in counter.history(action_id)]


def test_a_verdict_and_its_recovery_order_are_committed_together(cashier: Counter, clock: Clock):
    started = cashier.begun()
    cashier.till.refund(started["idempotency_key"], amount=99)
    cashier.tell(started)
    clock.forward(seconds=30)
    with patch.object(recovery, "order_recovery", side_effect=Died), pytest.raises(Died):
        cashier.read_back(started["action_id"], clock)
    assert cashier.state(started["action_id"]) == "PENDING"
    cashier.read_back(started["action_id"], clock)
    assert cashier.state(started["action_id"]) == "COMPENSATING"
    assert events(cashier, started["action_id"]).count("ordered") == 1


def test_a_recovery_action_and_its_link_to_the_parent_are_committed_together(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    appended = ledger.append

    def dying(head: Any, happening: Any, **more: Any) -> Any:
        if happening.kind == "recovery_proposed":
            raise Died
        return appended(head, happening, **more)

    with patch.object(follow_ups.ledger, "append", dying):
        before.propose_follow_ups()
    assert children(cashier, action_id) == []
    clock.forward(seconds=60)
    assert child_of(cashier, action_id) is not None
    assert len(children(cashier, action_id)) == 1
    assert events(cashier, action_id).count("recovery_proposed") == 1


def test_an_interrupted_end_of_a_recovery_is_resumed(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    child = child_of(cashier, action_id)
    following = ledger_orders.unwind_after_failure

    def dying(action: Any, state: str, **more: Any) -> Any:
        if state == "COMPENSATED":
            raise Died
        return following(action, state, **more)

    with patch.object(ledger_orders, "unwind_after_failure", dying):
        carried_out(cashier, clock, child)
    assert cashier.state(action_id) == "COMPENSATING"
    clock.forward(seconds=60)
    after.recover()
    assert cashier.state(action_id) == "COMPENSATED"
    after.recover()
    assert events(cashier, action_id).count("compensated") == 1


def test_a_failed_step_and_the_rollback_of_its_run_are_committed_together(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    run.step("EX-1001")
    with patch.object(ledger_orders, "unwind_run", side_effect=Died), pytest.raises(Died):
        run.step("EX-1002", works=False)
    failing = run.step_ids()[-1]
    assert cashier.state(failing) == "PENDING"
    assert run.unwinding() is None
    cashier.read_back(failing, clock)
    assert cashier.state(failing) == "FAILED"
    assert run.unwinding().state == "OPEN"
