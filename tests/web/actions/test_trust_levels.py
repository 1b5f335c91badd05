"""Trust levels over HTTP and on the page: a reading lifts an action by what it showed, and by nothing else."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.api_tenant import Clock, Workshop, result
from tests.support.browser_users import words
from tests.support.refund_shop import Counter
from tests.support.seals import seal_up
from tests.web.cases.test_cases import settled

SHOWN = "A strong reading of the system of record shows that it exists."
NOT_SHOWN = "What was read does not confirm it."
ABSENT = "The system of record was read, and shows no effect."


def page(shop: Workshop, action_id: str) -> str:
    return words(shop.operator.client.get(f"/t/orchid/actions/{action_id}").content.decode())


@pytest.mark.req("R-OB-06")
def test_a_refund_of_another_amount_reaches_the_level_of_a_reading_only(counter: Counter, clock: Clock, secrets_dir):
    counter.open(secrets_dir)
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], amount=99)
    counter.tell(started)
    assert counter.report(started["action_id"])["trust_level"] == 1
    clock.forward(seconds=60)
    counter.read_back(started["action_id"], clock)
    assert counter.report(started["action_id"])["trust_level"] == 2
    said = page(counter, started["action_id"])
    assert SHOWN in said
    assert "Not every predicate holds." in said


@pytest.mark.req("R-OB-09")
def test_a_level_that_agent_and_executor_claim_is_ignored_and_no_write_takes_one(shop: Workshop):
    claimed = {"trust_level": 4, "trust": {"level": 4}, "level": 4}
    call = shop.call(**claimed)
    assert (call["state"], shop.report(call["action_id"])["trust_level"]) == ("VALIDATED", 0)
    shop.vote(shop.approval_of(call["action_id"]))
    started = shop.start(shop.claim()[0]).json()
    answer = shop.observe(started, result=result(evidence=claimed) | claimed)
    assert answer.status_code == 202, answer.content
    assert shop.report(started["action_id"])["trust_level"] == 1
    document = shop.operator_key.get("/openapi.json").json()
    writes = [
        json.dumps(operation.get("requestBody", {})) + json.dumps(operation.get("parameters", []))
        for methods in document["paths"].values()
        for method, operation in methods.items()
        if method in ("post", "put", "patch", "delete")
    ]
    bodies = {name for text in writes for name in re.findall(r"#/components/schemas/(\w+)", text)}
    assert len(writes) > 50
    assert not [name for name in bodies if "trust" in json.dumps(document["components"]["schemas"][name]).lower()]


@pytest.mark.req("R-OB-06")
@pytest.mark.parametrize(
    ("status", "state", "because"), [("success", "REVIEW_REQUIRED", NOT_SHOWN), ("failed", "FAILED", ABSENT)]
)
def test_a_missing_refund_is_not_verified(
    counter: Counter, clock: Clock, secrets_dir: Any, status: str, state: str, because: str
):
    counter.open(secrets_dir)
    started = counter.begun()
    counter.tell(started, status, error=None if status == "success" else {"code": "NO", "message": "No."})
    clock.forward(seconds=60)
    counter.read_back(started["action_id"], clock)
    assert counter.state(started["action_id"]) == state
    assert counter.report(started["action_id"])["trust_level"] == 1
    said = page(counter, started["action_id"])
    assert because in said
    assert SHOWN not in said


@pytest.mark.req("R-OB-06")
def test_a_reading_of_a_replica_does_not_raise_the_trust_level(shop: Workshop, clock: Clock, tmp_path: Any):
    system = {"name": "documents", "pattern": "filesystems"}
    settings = {"root": str(shop.root), "consistency": "REPLICA"}
    with tenancy(shop.tenant):
        at, by = datetime.now(UTC), ledger.SYSTEM
        registration.register_system(tenant_id=shop.tenant, **system, settings=settings, actor=by, at=at)
    started = shop.started()
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(started)
    for _ in range(4):
        clock.forward(hours=2)
        shop.read_back(started["action_id"], clock)
    entry = shop.operator_key.get(f"/actions/{started['action_id']}").json()["entry"]
    assert entry["verification"]["verified_state_pointer"]
    assert shop.report(started["action_id"])["trust_level"] == 1
    said = page(shop, started["action_id"])
    assert NOT_SHOWN in said
    assert "authoritative source was read" not in said


def test_a_statement_by_a_person_does_not_raise_the_trust_level(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    settled(shop, case, "ATTEST_PRESENT")
    seal_up()
    assert shop.state(case["action_id"]) == "RECONCILED_SUCCESS"
    assert shop.report(case["action_id"])["trust_level"] == 1
    said = page(shop, case["action_id"])
    assert "A person's word settled it, and not a reading." in said
    assert "Every predicate holds." not in said


# The trace


@pytest.mark.req("R-OB-08", "R-TR-06")
@pytest.mark.parametrize("sent", [True, False])
def test_the_record_distinguishes_a_received_trace_from_a_generated_one(shop: Workshop, sent: bool):
    if sent:
        shop.agent.headers["traceparent"] = f"00-{'a' * 32}-{'b' * 16}-01"
    action_id = shop.propose()
    trace = shop.operator_key.get(f"/actions/{action_id}").json()["entry"]["trace"]
    assert trace["parent_span_id"] == ("b" * 16 if sent else None)
    assert (trace["trace_id"] == "a" * 32) is sent
    assert len(trace["trace_id"]) == 32


# Before anything was sent


UNSENT = {"code": "REFUSED", "message": "no route", "phase": "before_send"}
BY_WORD = "Failed before anything was sent, on the executor's word; no reading confirms it."


def unsent(shop: Workshop, started: dict[str, Any]) -> str:
    answer = shop.observe(started, result=result(status="failed", evidence=None, error=UNSENT))
    assert answer.status_code == 202, answer.content
    return str(answer.json()["state"])


@pytest.mark.req("R-EX-09", "R-EX-24", "R-TC-19")
def test_a_failure_before_sending_is_final_only_after_a_strong_reading_past_the_horizon(shop: Workshop, clock: Clock):
    started = shop.started()
    action_id = started["action_id"]
    assert unsent(shop, started) == "PENDING"
    assert shop.report(action_id)["text"] == "The tool has answered. Whether it is so is still being checked."
    assert shop.call()["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    shop.read_back(action_id, clock)
    assert shop.state(action_id) == "PENDING"
    clock.forward(seconds=90)
    assert shop.read_back(action_id, clock) == "FAILED"
    assert shop.report(action_id)["text"] == "Failed. The system of record shows that nothing happened."
    assert shop.history(action_id)[-1]["detail"]["grounds"] == ["decisive_read", "no_effect_no_claim"]
    said = page(shop, action_id)
    assert "executor's word" not in said
    assert ABSENT in said
    assert shop.propose()


@pytest.mark.req("R-EX-09")
def test_an_effect_that_the_executor_denied_is_found_by_a_reading(shop: Workshop, clock: Clock, tmp_path: Any):
    started = shop.started()
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    assert unsent(shop, started) == "PENDING"
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    assert shop.state(started["action_id"]) == "RECONCILED_SUCCESS"
    assert shop.report(started["action_id"])["text"] == "Done, and confirmed in the system of record."


@pytest.fixture
def unreadable(shop: Workshop) -> Workshop:
    """A shop whose tool changes something that nobody can look at."""
    from tests.support.api_tenant import contract

    document = contract("delete_document") | {"version": "9.0.0", "unverifiable_acknowledged": True}
    del document["verification"], document["preview"]
    shop.operator_key.release_contract(document)
    return shop


def test_every_sentence_names_the_source_of_a_failure(unreadable: Workshop, clock: Clock):
    shop, started = unreadable, unreadable.started()
    action_id = started["action_id"]
    assert unsent(shop, started) == "FAILED"
    report = shop.report(action_id)
    assert (report["text"], report["completed"], report["trust_level"]) == (BY_WORD, False, 1)
    action = shop.operator_key.get(f"/actions/{action_id}").json()
    assert action["user_status"]["text"] == BY_WORD
    session = action["session_id"]
    assert BY_WORD in shop.agent.get(f"/sessions/{session}/summary").content.decode()
    assert BY_WORD in shop.agent.get(f"/sessions/{session}/context").content.decode()
    said = page(shop, action_id)
    assert BY_WORD in said
    assert "Failed before anything was sent, on the executor's word" in said
    assert "Verification Nothing was sent, on the executor's word" in said
    assert "that is its word, and no reading" in said


def test_without_a_reading_a_repeat_waits_for_the_late_effect_horizon(unreadable: Workshop, clock: Clock):
    shop, started = unreadable, unreadable.started()
    assert unsent(shop, started) == "FAILED"
    assert shop.call()["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    clock.forward(seconds=90)
    assert shop.propose()
