"""Depth by class through the real path: what was checked is shown, and people are called as the class says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter, refund_contract


def unaddressed(**changes: Any) -> dict[str, Any]:
    """A contract whose lookup names no target: nothing checks the recipient."""
    document = refund_contract(**changes)
    del document["verification"]["lookup"]["effects"]["refund"]["target_column"]
    return document


def refunded(counter: Counter, clock: Clock, **row: Any) -> str:
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], **row)
    counter.tell(started)
    clock.forward(seconds=10)
    counter.read_back(started["action_id"], clock)
    return str(started["action_id"])


def newest(counter: Counter, action_id: str) -> dict[str, Any]:
    run: dict[str, Any] = counter.auditor.get(f"/actions/{action_id}/runs").json()["items"][0]
    return run


@pytest.mark.req("R-VD-05", "R-RC-12")
def test_every_required_check_of_a_run_is_shown_with_what_made_it(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir)
    action_id = refunded(counter, clock)
    run = newest(counter, action_id)
    assert {one["check"]: one["made"] for one in run["checks"]} == {
        "provider_transaction_id": "CHECKED",
        "delivery_status": "CHECKED",
        "recipient_or_target": "CHECKED",
        "amount": "CHECKED",
        "idempotency_key": "CHECKED",
        "externally_visible_state": "CHECKED",
    }
    assert [one["source"] for one in run["sources"]] == ["till"]
    page = counter.operator.client.get(f"/t/orchid/actions/{action_id}").content.decode()
    assert "Required checks" in page
    assert "Provider transaction id" in page


@pytest.mark.req("R-VD-05", "R-VD-10")
def test_a_check_that_nobody_makes_is_linted_and_holds_the_refund(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, unaddressed())
    stored = counter.operator_key.get("/contracts/refund_order/1").json()
    unchecked = [each["path"] for each in stored["lint"] if each["code"] == "UNCHECKED"]
    assert unchecked == ["/verification/checks/recipient_or_target"]
    action_id = refunded(counter, clock)
    assert counter.state(action_id) == "REVIEW_REQUIRED"
    unchecked = [one["check"] for one in newest(counter, action_id)["checks"] if one["made"] == "UNCHECKED"]
    assert unchecked == ["recipient_or_target"]
    assert counter.report(action_id)["completed"] is False


def test_an_author_may_say_why_a_check_does_not_apply(counter: Counter, clock: Clock, secrets_dir: Path):
    document = unaddressed()
    document["verification"]["checks"] = {"recipient_or_target": {"not_applicable": "The order is the account."}}
    counter.open(secrets_dir, document)
    action_id = refunded(counter, clock)
    assert counter.state(action_id) == "RECONCILED_SUCCESS"


@pytest.mark.req("R-VD-07")
@pytest.mark.parametrize(("sensitivity", "state"), [("LOW", "RECONCILED_SUCCESS"), ("HIGH", "REVIEW_REQUIRED")])
def test_sensitive_data_asks_more_of_a_lesser_class(
    counter: Counter, clock: Clock, secrets_dir: Path, sensitivity: str, state: str
):
    changes = {"side_effect_class": "MEDIUM_RISK_WRITE", "reversibility": "COMPENSABLE", "effect_domain": "OTHER"}
    counter.open(secrets_dir, refund_contract(data_sensitivity=sensitivity, **changes))
    assert counter.state(refunded(counter, clock)) == state


@pytest.mark.req("R-VD-13")
def test_a_new_version_of_the_verification_policy_changes_how_long_is_looked(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    document = refund_contract()
    del document["verification"]["polling"]
    counter.open(secrets_dir, document)
    started = counter.begun()
    counter.tell(started)
    (secrets_dir / "systems" / "orchid" / "till.json").unlink()
    clock.forward(seconds=200)
    counter.read_back(started["action_id"], clock)
    assert counter.state(started["action_id"]) == "PENDING"
    shorter = {"version": "2", "document": {"sla_s": {"HIGH_RISK_EXTERNAL": 100}}}
    assert counter.operator_key.release("verification", shorter).status_code == 201
    counter.read_back(started["action_id"], clock)
    assert counter.state(started["action_id"]) == "REVIEW_REQUIRED"


@pytest.mark.req("R-VD-05", "R-VD-16")
def test_a_provider_that_stays_unreachable_calls_a_person_who_acknowledges(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    counter.open(secrets_dir)
    credential = secrets_dir / "systems" / "orchid" / "till.json"
    kept = credential.read_text()
    credential.unlink()
    started = counter.begun()
    counter.till.refund(started["idempotency_key"])
    counter.tell(started)
    for _ in range(3):
        clock.forward(seconds=5)
        counter.read_back(started["action_id"], clock)
    action_id = str(started["action_id"])
    case = counter.case_of(action_id)
    assert case is not None
    assert (case["reason"], counter.state(action_id)) == ("PROVIDER_UNREACHABLE", "PENDING")
    credential.write_text(kept)
    counter.read_back(action_id, clock)
    assert counter.state(action_id) == "RECONCILED_SUCCESS"
    body = {"resolution": "ACKNOWLEDGE", "reason": "The till was down.", "evidence": ["status page"]}
    answer = counter.operator.post(f"/reviews/{case['case_id']}/resolve", body)
    assert (answer.status_code, answer.json()["state"]) == (200, "RESOLVED")
    assert counter.state(action_id) == "RECONCILED_SUCCESS"
    assert counter.report(action_id)["completed"] is True
