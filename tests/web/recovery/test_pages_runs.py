"""What people see of a run that is taken back: why, by whom, what it waits for, and what belongs to what."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from console.runs.context import RunView
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter
from tests.web.recovery.test_recovery_path import (
    cancelling,
    carried_out,
    child_of,
    in_parts,
    lesser,
    refund_part,
    wrong,
)
from tests.web.recovery.test_runs_taken_back import ORDERS, Run


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    for order in ORDERS:
        counter.till.order(order)
    return counter.open(secrets_dir, lesser(), cancelling())


def seen(counter: Counter, path: str = "") -> str:
    """A page as the operator sees it, its white space made even."""
    answer = counter.operator.client.get(f"/t/orchid/{path}")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_run_shows_why_it_is_rolled_back_and_which_step_waits_for_whom(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    for order in ORDERS:
        counter.till.order(order)
    cashier = counter.open(secrets_dir, lesser(recovery={"idempotent": True}))
    run = Run(cashier, clock)
    stands = run.step("EX-1001")
    run.step("EX-1002", works=False)
    run.child()
    page = seen(cashier, f"runs/{run.session['workflow_run_id']}")
    case = cashier.case_of(stands)
    assert case is not None
    assert "Rollback needs review." in page
    assert f'href="/t/orchid/cases/{case["case_id"]}">Resolve its case' in page
    assert "by Counterfoil: The step refund_order on order/EX-1002 ended FAILED." in page
    assert "no point of no return reached" not in page


def test_a_run_rolled_back_by_a_person_names_the_person(cashier: Counter, clock: Clock):
    run = Run(cashier, clock, on_failure="stop")
    run.step("EX-1001")
    name = run.session["workflow_run_id"]
    cashier.operator.post(f"/runs/{name}/cancel", {"reason": "The customer called."})
    page = seen(cashier, f"runs/{name}")
    assert "Rolling back," in page
    assert "by Operator: The customer called." in page


def test_a_recovery_delayed_by_a_freeze_is_shown_as_ordered(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    stands = run.step("EX-1001")
    cashier.operator.post("/freezes", {"scope": "tool", "value": "cancel_refund", "reason": "Not now."})
    run.step("EX-1002", works=False)
    assert run.child() is None
    page = seen(cashier, f"runs/{run.session['workflow_run_id']}")
    assert '<span class="mono">cancel_refund</span> ordered' in page
    assert "ordered, not proposed yet" in seen(cashier, f"actions/{stands}")
    assert "compensation with cancel_refund: Compensate (RT-51)" in seen(cashier, f"actions/{stands}")


def test_a_recovery_action_shows_its_purpose(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    child = child_of(cashier, action_id)
    page = seen(cashier, f"actions/{child.id}")
    assert "This is the compensation of another action:" in page
    assert f'href="/t/orchid/actions/{action_id}">' in page
    assert "ordered by: Compensate or roll back (RT-03)" in page
    assert f'aria-current="step" href="/t/orchid/actions/{child.id}"' in page
    assert 'data-part="origin"' not in seen(cashier, f"actions/{action_id}")


def test_home_shows_a_reversed_success_as_reversed(cashier: Counter, clock: Clock):
    run = Run(cashier, clock)
    run.step("EX-1002")
    run.step("EX-1003", works=False)
    assert "Compensated" not in seen(cashier)
    carried_out(cashier, clock, run.child())
    assert seen(cashier).count("Compensated") == 1


def test_home_shows_the_outcome_of_the_action_behind_a_case(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, in_parts(), cancelling(), refund_part())
    started = cashier.begun()
    cashier.till.refund(started["idempotency_key"], currency="EUR")
    cashier.tell(started, "partial")
    clock.forward(seconds=60)
    cashier.read_back(started["action_id"], clock)
    assert "Partial application. Unassigned." in seen(cashier)
    carried_out(cashier, clock, child_of(cashier, started["action_id"]))
    assert "Partial application, compensated by now. Unassigned." in seen(cashier)


def test_an_attempted_recovery_is_named_in_the_headline(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    carried_out(cashier, clock, child_of(cashier, action_id), status=None)
    assert "Needs review: values differ from the request; a reversal did not settle it" in seen(
        cashier, f"actions/{action_id}"
    )


def test_a_page_of_a_long_run_shows_the_newest_steps_or_those_around_an_action():
    steps = [SimpleNamespace(row=SimpleNamespace(id=place)) for place in range(100)]
    run = RunView(run_id="r", steps=steps, unwinding=None, complete=False, outcomes=frozenset(), can_return=True)
    newest, around, first = run.around(None, 10), run.around(50, 10), run.around(0, 10)
    assert ([each.row.id for each in newest.steps], newest.earlier, newest.later) == (list(range(90, 100)), 90, 0)
    assert ([each.row.id for each in around.steps], around.earlier, around.later) == (list(range(46, 56)), 46, 44)
    assert ([each.row.id for each in first.steps], first.count) == (list(range(10)), 100)
