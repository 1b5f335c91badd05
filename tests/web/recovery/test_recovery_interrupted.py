"""Recovery that dies between two lines: nothing of the step is there, and the next tick takes it whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError

from approvals import tasks as before
from approvals.gate.operations import follow_ups
from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound
from reviews import tasks as after
from reviews.recovery.operations import recovery, recovery_outcome
from tests.support.api_tenant import Clock
from tests.support.browser_users import words
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


@pytest.mark.req("R-EX-26")
@pytest.mark.parametrize(
    ("owner", "name", "tick", "step"),
    [
        (follow_ups, "propose_order", before.propose_follow_ups, "propose the order"),
        (recovery_outcome, "carry_over_outcome", after.recover, "carry over the end"),
    ],
)
def test_a_step_that_a_task_could_not_write_is_recorded_once_with_its_reason(
    cashier: Counter, clock: Clock, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, tick: Any, step: str
):
    action_id = wrong(cashier, clock)
    child = child_of(cashier, action_id) if name == "carry_over_outcome" else None
    if child is not None:
        order = next(each for each in cashier.claim() if each["action_id"] == str(child.id))
        cashier.tell(cashier.start(order).json(), "failed", tool=child.tool, error={"code": "NO", "message": "No."})
        clock.forward(seconds=60)
        cashier.read_back(str(child.id), clock)

    def refuses(**_: Any) -> None:
        raise NotFound(detail="There is no such thing.")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, refuses)
        for _ in range(3):
            tick()
            clock.forward(minutes=5)
    failures = [each for each in cashier.history(action_id) if each["event"] == "step_failed"]
    [failure] = failures
    assert failure["detail"] == {"step": step, "code": "NOT_FOUND", "reason": "There is no such thing."}
    assert failure["state"] == cashier.state(action_id) == "COMPENSATING"
    page = words(cashier.operator.client.get(f"/t/orchid/actions/{action_id}").content.decode())
    assert "A background step failed" in page
    call_command("verify_ledger", verbosity=0)


@pytest.mark.req("R-EX-26")
def test_what_fails_again_after_something_else_has_happened_is_recorded_again(cashier: Counter, clock: Clock):
    action_id = UUID(wrong(cashier, clock))

    def fail(problem: Exception) -> None:
        ledger.record_failed_step(
            tenant_id=cashier.tenant, subject_id=action_id, step="renew", problem=problem, at=clock.now()
        )

    fail(OperationalError("the table is locked by secret-user"))
    fail(OperationalError("the table is locked by secret-user"))
    fail(NotFound())
    fail(OperationalError("the table is locked by secret-user"))
    told = [each["detail"]["code"] for each in cashier.history(str(action_id)) if each["event"] == "step_failed"]
    assert told == ["OperationalError", "NOT_FOUND", "OperationalError"]
    assert "secret-user" not in str(cashier.history(str(action_id)))
    with tenancy(cashier.tenant):
        contract = catalogue.newest_contracts(cashier.tenant, ["refund_order"])["refund_order"].id
    for other in (uuid4(), contract):
        ledger.record_failed_step(
            tenant_id=cashier.tenant, subject_id=other, step="renew", problem=NotFound(), at=clock.now()
        )


class Gone(BaseException):
    """The process is killed: no code of it handles that."""


@pytest.mark.req("R-EX-26")
@pytest.mark.parametrize("is_written", [False, True], ids=["before it is written", "before it is committed"])
def test_a_failed_step_whose_process_is_killed_while_recording_it_is_recorded_by_the_next_tick(
    cashier: Counter, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_written: bool
):
    action_id = wrong(cashier, clock)
    appended = ledger.append

    def killed(*given: Any, **named: Any) -> Any:
        if is_written:
            appended(*given, **named)
        raise Gone

    def refuses(**_: Any) -> None:
        raise NotFound(detail="There is no such thing.")

    with monkeypatch.context() as failing:
        failing.setattr(follow_ups, "propose_order", refuses)
        with patch.object(ledger, "append", killed), pytest.raises(Gone):
            before.propose_follow_ups()
        assert "step_failed" not in events(cashier, action_id)
        for _ in range(2):
            before.propose_follow_ups()
            clock.forward(minutes=5)
    assert events(cashier, action_id).count("step_failed") == 1
    assert child_of(cashier, action_id) is not None
    call_command("verify_ledger", verbosity=0)


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
