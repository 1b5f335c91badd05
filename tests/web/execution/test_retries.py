"""Retries, replays and freshness through the real path: never blindly, never twice, never by an old reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from approvals import tasks
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter, refund_contract

AGAIN: dict[str, Any] = {"recovery": {"idempotent": True}}
ACCOUNTING = {"effect_domain": "OTHER", "side_effect_class": "MEDIUM_RISK_WRITE", "reversibility": "COMPENSABLE"}


def allow(counter: Counter, attempts: int) -> None:
    body = {"version": "2", "document": {"table": "built-in", "max_attempts": attempts}}
    assert counter.operator_key.release("recovery", body).status_code == 201


def read(counter: Counter, started: dict[str, Any], clock: Clock, **later: float) -> str:
    clock.forward(**(later or {"seconds": 60}))
    counter.read_back(started["action_id"], clock)
    return counter.state(started["action_id"])


def rows(counter: Counter, started: dict[str, Any]) -> list[str]:
    return [each["entry"]["reconciliation"]["recovery_decision"] for each in counter.history(started["action_id"])]


@pytest.mark.req("R-EX-21", "R-EX-13", "R-EX-05")
@pytest.mark.parametrize(("status", "row"), [("failed", "RT-33"), ("timeout", "RT-47")])
def test_a_proven_absence_is_retried_with_the_same_key(
    counter: Counter, clock: Clock, secrets_dir: Path, status: str, row: str
):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, **AGAIN))
    allow(counter, 2)
    started = counter.begun()
    failed = {"error": {"code": "NOPE", "message": "No."}} if status == "failed" else {}
    counter.tell(started, status, evidence=None, **failed)
    assert read(counter, started, clock) == "VALIDATED"
    assert rows(counter, started)[-1] == f"{row} REFRESH_AND_RETRY"
    assert counter.report(started["action_id"])["completed"] is False
    clock.forward(seconds=10)
    order = next(each for each in counter.claim() if each["action_id"] == started["action_id"])
    again = counter.start(order).json()
    assert (again["attempt"], again["idempotency_key"]) == (2, started["idempotency_key"])
    counter.till.refund(again["idempotency_key"])
    counter.tell(again)
    assert read(counter, again, clock) == "RECONCILED_SUCCESS"
    assert counter.till.count() == 1
    entry = counter.operator_key.get(f"/actions/{started['action_id']}").json()["entry"]
    assert entry["execution"]["attempt_count"] == 2
    assert entry["idempotency"]["status"] == "COMPLETED"


@pytest.mark.req("R-EX-08")
def test_a_claimed_effect_that_is_absent_is_not_retried(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, **AGAIN))
    allow(counter, 3)
    started = counter.begun()
    counter.tell(started)
    assert read(counter, started, clock) == "REVIEW_REQUIRED"


@pytest.mark.req("R-EX-21")
def test_a_retry_waits_for_its_back_off_and_the_number_of_retries_is_limited(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, **AGAIN))
    allow(counter, 2)
    clock.stop()
    started = counter.begun()
    counter.tell(started, "failed", error={"code": "NOPE", "message": "No."})
    assert read(counter, started, clock) == "VALIDATED"
    assert counter.claim() == []
    ready = counter.executor.get("/executions/ready?tools=refund_order").json()["items"]
    assert ready[0]["waiting_for"] == ["back_off"]
    clock.forward(seconds=10)
    again = counter.start(counter.claim()[0]).json()
    counter.tell(again, "failed", error={"code": "NOPE", "message": "No."})
    assert read(counter, again, clock) == "FAILED"


@pytest.mark.req("R-EX-21", "R-EX-08")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"recovery": {"idempotent": False}},
        {"recovery": {"idempotent": True}, "stale_errors": ["NOPE"]},
    ],
)
def test_nothing_is_retried_without_the_contracts_consent_or_after_a_final_failure(
    counter: Counter, clock: Clock, secrets_dir: Path, changes: dict[str, Any]
):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, **changes))
    allow(counter, 3)
    started = counter.begun()
    counter.tell(started, "failed", error={"code": "NOPE", "message": "No."})
    assert read(counter, started, clock) == "FAILED"


def test_the_built_in_policy_never_retries_a_mutation(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, **AGAIN))
    started = counter.begun()
    counter.tell(started, "failed", error={"code": "NOPE", "message": "No."})
    assert read(counter, started, clock) == "FAILED"


@pytest.mark.req("R-EX-08", "R-EX-21")
def test_a_mutation_is_never_retried_before_the_late_effect_horizon(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, **AGAIN))
    allow(counter, 3)
    started = counter.begun()
    counter.tell(started, "timeout", evidence=None)
    assert read(counter, started, clock, seconds=5) == "PENDING"
    counter.till.refund(started["idempotency_key"])
    assert read(counter, started, clock) == "RECONCILED_SUCCESS"
    assert counter.till.count() == 1


@pytest.mark.req("R-EX-21")
def test_a_retry_of_an_irreversible_action_needs_approval_again(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, refund_contract(**AGAIN))
    allow(counter, 2)
    started = counter.begun()
    first = counter.reviewer.get("/approvals?state=CONSUMED").json()["items"][0]["approval_id"]
    counter.tell(started, "failed", error={"code": "NOPE", "message": "No."})
    assert read(counter, started, clock) == "VALIDATED"
    clock.forward(seconds=10)
    assert counter.claim() == []
    tasks.lapse()
    asked = counter.approval_of(started["action_id"])
    assert asked["approval_id"] != first
    assert counter.vote(asked).status_code == 201
    again = counter.start(counter.claim()[0]).json()
    assert again["idempotency_key"] == started["idempotency_key"]


# Replays


@pytest.mark.req("R-DC-06", "R-EX-18")
@pytest.mark.parametrize(
    ("allowed", "second", "state"),
    [
        (True, {}, "RECONCILED_SUCCESS"),
        (False, {}, "REVIEW_REQUIRED"),
        (True, {"amount": 1}, "REVIEW_REQUIRED"),
        (True, {"order_id": "EX-9999"}, "REVIEW_REQUIRED"),
    ],
)
def test_a_retry_with_the_same_key_has_one_effect_where_the_contract_allows_it(
    counter: Counter, clock: Clock, secrets_dir: Path, allowed: bool, second: dict[str, Any], state: str
):
    counter.open(secrets_dir, refund_contract(**ACCOUNTING, no_op_success_allowed=allowed))
    started = counter.begun()
    counter.till.refund(started["idempotency_key"])
    counter.till.refund(started["idempotency_key"], **second)
    counter.tell(started)
    assert read(counter, started, clock) == state
    entry = counter.operator_key.get(f"/actions/{started['action_id']}").json()["entry"]
    if state == "RECONCILED_SUCCESS":
        assert entry["reconciliation"]["recovery_decision"] == "RT-13 RECORD_IDEMPOTENT_REPLAY"
        assert entry["reconciliation"]["discrepancy_class"] == "DUPLICATE_SIDE_EFFECT"


# Freshness


FRESH = {"fresh_after": {"version": "so.evidence.version"}}


def versioned() -> dict[str, Any]:
    document = refund_contract(verification=FRESH)
    document["verification"]["lookup"]["effects"]["refund"]["fields"].append("version")
    return document


@pytest.mark.req("R-VD-09")
def test_a_reading_older_than_the_version_in_the_answer_decides_nothing(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    counter.open(secrets_dir, versioned())
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], version=1)
    counter.tell(started, evidence={"version": 2})
    assert read(counter, started, clock, seconds=10) == "PENDING"
    run = counter.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
    assert "STALE_ENDPOINT" in run["reason"]
    assert run["recovery_decision"] == "RT-02 FORCE_STRONG_READ"
    counter.till.till.execute("UPDATE refunds SET version = 2")
    assert read(counter, started, clock, seconds=10) == "RECONCILED_SUCCESS"


@pytest.mark.req("R-VD-09")
def test_without_an_answer_a_reading_of_the_primary_is_sufficient(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, versioned())
    started = counter.begun()
    counter.till.refund(started["idempotency_key"])
    counter.tell(started, "timeout", evidence=None)
    assert read(counter, started, clock, seconds=10) == "RECONCILED_SUCCESS"


def test_an_impossible_version_token_is_refused(counter: Counter):
    document = refund_contract(verification={"fresh_after": {"version": "so.evidence +"}})
    answer = counter.operator_key.post("/contracts", document)
    assert [each["code"] for each in answer.json()["errors"]] == ["BAD_TOKEN"]


# No-op


@pytest.mark.req("R-DC-01")
@pytest.mark.parametrize(
    ("allowed", "state", "row"),
    [(True, "RECONCILED_SUCCESS", "RT-31 RECORD_NO_OP"), (False, "REVIEW_REQUIRED", "RT-32 HOLD_AND_ESCALATE")],
)
def test_a_refund_that_already_existed_is_a_no_op(
    counter: Counter, clock: Clock, secrets_dir: Path, allowed: bool, state: str, row: str
):
    document = refund_contract(**ACCOUNTING, no_op_success_allowed=allowed, verification={"baseline": True})
    document["verification"]["lookup"]["effects"]["refund"]["where"] = {"order_id": "sr.order_id"}
    counter.open(secrets_dir, document)
    counter.till.refund("another-key")
    action_id = counter.propose()
    assert counter.claim() == []
    from reviews.tasks import take_readings

    assert take_readings() == 1
    started = counter.start(counter.claim()[0]).json()
    counter.tell(started)
    assert started["action_id"] == action_id
    assert read(counter, started, clock) == state
    assert rows(counter, started)[-1] == row
