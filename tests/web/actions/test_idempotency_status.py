"""The idempotency record of a mutation says where it stands, whoever or whatever settled it (R-EX-05)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reviews.observations.operations import observations
from tests.support.api_tenant import Clock, Workshop
from tests.support.refund_shop import Counter
from tests.web.cases.test_cases import confirm, resolve
from tests.web.recovery.test_recovery_path import cancelling, carried_out, child_of, lesser, local, wrong
from tests.web.recovery.test_runs_taken_back import Run

pytestmark = pytest.mark.req("R-EX-05")


def status(shop: Workshop, action_id: str) -> str | None:
    entry = shop.operator_key.get(f"/actions/{action_id}").json()["entry"]
    said: str | None = entry["idempotency"]["status"]
    return said


def settled(counter: Counter, clock: Clock, started: dict[str, Any]) -> str:
    """What the record says after the refund was read back."""
    clock.forward(seconds=60)
    counter.read_back(started["action_id"], clock)
    return str(status(counter, started["action_id"]))


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir, lesser(), cancelling())


def test_the_idempotency_status_is_none_then_pending_then_completed_by_a_reading(cashier: Counter, clock: Clock):
    action_id = cashier.propose()
    assert status(cashier, action_id) is None
    started = cashier.start(cashier.claim()[0]).json()
    assert status(cashier, action_id) == "PENDING"
    cashier.till.refund(started["idempotency_key"])
    cashier.tell(started)
    assert status(cashier, action_id) == "PENDING"
    assert settled(cashier, clock, started) == "COMPLETED"


def test_an_action_cancelled_before_its_start_has_no_status(cashier: Counter):
    action_id = cashier.propose()
    cashier.agent.post(f"/actions/{action_id}/cancel")
    assert (cashier.state(action_id), status(cashier, action_id)) == ("FAILED", None)


@pytest.mark.parametrize(("code", "said"), [("NO", "FAILED_RETRYABLE"), ("STALE_STATE", "FAILED_FINAL")])
def test_a_proven_absence_may_be_tried_again_unless_the_target_moved_on(
    counter: Counter, clock: Clock, secrets_dir: Path, code: str, said: str
):
    cashier = counter.open(secrets_dir, lesser(recovery={}))
    started = cashier.begun()
    cashier.tell(started, "failed", evidence=None, error={"code": code, "message": "No."})
    assert settled(cashier, clock, started) == said
    assert cashier.state(started["action_id"]) == "FAILED"


@pytest.mark.req("R-LE-06", "R-LE-09")
def test_the_idempotency_status_is_compensated_after_a_verified_reversal(cashier: Counter, clock: Clock):
    action_id = wrong(cashier, clock)
    assert (cashier.state(action_id), status(cashier, action_id)) == ("COMPENSATING", "PENDING")
    carried_out(cashier, clock, child_of(cashier, action_id))
    assert (cashier.state(action_id), status(cashier, action_id)) == ("COMPENSATED", "COMPENSATED")
    history = cashier.history(action_id)
    begun = next(number for number, event in enumerate(history) if event["state"] == "COMPENSATING")
    assert all("recovery" in event["entry"] for event in history[begun:])
    assert all("idempotency" in event["entry"] for event in history)


def test_the_idempotency_status_is_compensated_after_its_run_was_rolled_back(cashier: Counter, clock: Clock):
    for order in ("EX-1002", "EX-1003"):
        cashier.till.order(order)
    run = Run(cashier, clock)
    first = run.step("EX-1001")
    assert status(cashier, first) == "COMPLETED"
    run.step("EX-1003", works=False)
    carried_out(cashier, clock, run.child())
    assert run.child() is None
    assert (cashier.state(first), status(cashier, first)) == ("RECONCILED_SUCCESS", "COMPENSATED")


def test_a_rolled_back_local_transaction_is_final(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, local(), cancelling())
    started = cashier.begun()
    rolled_back = {"code": "CONFLICT", "message": "Serialization failure.", "phase": "rolled_back"}
    cashier.tell(started, "failed", evidence=None, error=rolled_back)
    assert settled(cashier, clock, started) == "FAILED_FINAL"
    assert cashier.state(started["action_id"]) == "ROLLED_BACK"


@pytest.mark.parametrize(
    ("resolution", "said"),
    [
        ("ATTEST_PRESENT", "COMPLETED"),
        ("ATTEST_ABSENT", "FAILED_FINAL"),
        ("FAIL", "FAILED_FINAL"),
        ("ABANDON", "EXPIRED"),
    ],
)
def test_a_persons_settlement_ends_its_waiting(shop: Workshop, clock: Clock, resolution: str, said: str):
    case = shop.held(clock)
    assert status(shop, case["action_id"]) == "PENDING"
    assert resolve(shop, case, resolution).json()["state"] == "AWAITING_SECOND"
    assert status(shop, case["action_id"]) == "PENDING"
    assert confirm(shop, case).json()["state"] == "RESOLVED"
    assert status(shop, case["action_id"]) == said


def test_looking_again_goes_on_waiting(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    resolve(shop, case, "VERIFY_AGAIN")
    assert (shop.state(case["action_id"]), status(shop, case["action_id"])) == ("PENDING", "PENDING")


@pytest.mark.req("R-EX-22")
def test_an_idempotency_record_expires_unsettled_and_a_person_can_still_settle_it(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    clock.forward(days=29)
    assert observations.expire_records(at=clock.now()) == 0
    clock.forward(days=2)
    assert observations.expire_records(at=clock.now()) == 1
    assert status(shop, case["action_id"]) == "EXPIRED"
    assert shop.history(case["action_id"])[-1]["event"] == "idempotency_expired"
    assert observations.expire_records(at=clock.now()) == 0
    # Whoever was signed in a month ago is not any more.
    resolve(shop, case, "ATTEST_ABSENT", by=shop.person("operator", name="one@orchid"))
    confirm(shop, case, by=shop.person("reviewer", name="two@orchid"))
    assert status(shop, case["action_id"]) == "FAILED_FINAL"


def test_an_ended_record_does_not_expire(cashier: Counter, clock: Clock):
    started = cashier.begun()
    cashier.till.refund(started["idempotency_key"])
    cashier.tell(started)
    assert settled(cashier, clock, started) == "COMPLETED"
    clock.forward(days=40)
    assert observations.expire_records(at=clock.now()) == 0
    assert status(cashier, started["action_id"]) == "COMPLETED"
