"""Executions over HTTP: claim, start, heartbeat, observation, and every refusal of a start."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection
from django.utils import timezone

from approvals.execution import queries as execution_queries
from approvals.execution.operations import grant_keys
from approvals.execution.rules import grants
from approvals.models import Approval
from approvals.requests.queries import approvals
from approvals.tasks import lapse
from console.accounts.operations import UnknownScope
from console.models import ApiKey
from counterfoil.proof import read_claims
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from reviews import queries as after
from tests.support.api_tenant import DELETE, TOOLS, Clock, Workshop, document, new_key, result, workshop
from tests.support.browser_users import words
from tests.support.callers import Api, key_for


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def in_record(shop: Workshop, read: Any) -> Any:
    with tenancy(shop.tenant):
        return read()


def attempts(shop: Workshop, action_id: str) -> int:
    return len(in_record(shop, lambda: execution_queries.attempts_of(shop.tenant, UUID(action_id))))


# Claims


def test_an_order_waits_for_its_approval_and_is_then_ready(shop: Workshop):
    action_id = shop.propose()

    def waits() -> list[str]:
        items = shop.executor.get("/executions/ready?tools=delete_document,write_document").json()["items"]
        return next(item for item in items if item["action_id"] == action_id)["waiting_for"]

    assert waits() == ["approval"]
    assert shop.claim() == []
    shop.vote(shop.approval_of(action_id))
    assert waits() == []
    assert [order["action_id"] for order in shop.claim()] == [action_id]
    assert waits() == ["claim"]


def test_a_claim_reserves_an_order_for_the_life_of_its_grant(shop: Workshop):
    order = shop.claimed()
    assert shop.claim() == []
    shop.run_out()
    assert [again["action_id"] for again in shop.claim()] == [order["action_id"]]


def test_a_frozen_order_cannot_be_claimed(shop: Workshop):
    shop.approved()
    shop.operator.post("/freezes", {"scope": "tool", "value": "delete_document", "reason": "Wait."})
    assert shop.claim() == []
    waiting = shop.executor.get("/executions/ready?tools=delete_document").json()["items"][0]
    assert waiting["waiting_for"] == ["freeze"]


def test_a_claim_takes_only_the_requested_tools_up_to_its_limit(shop: Workshop):
    shop.propose("write_document")
    shop.propose("write_document", **document("notes/more.md", "More."))
    assert shop.claim(tools=["delete_document"]) == []
    assert len(shop.claim(limit=1)) == 1
    assert len(shop.claim(limit=10)) == 1


def test_a_claim_for_certain_actions_takes_no_other(shop: Workshop):
    shop.propose("write_document")
    second = shop.propose("write_document", **document("notes/more.md", "More."))
    found = shop.claim(limit=10, actions=[second])
    assert [order["action_id"] for order in found] == [second]
    assert shop.claim(actions=[]) == []


def test_a_grant_names_one_executor_one_action_and_a_short_lifetime(shop: Workshop):
    order = shop.claimed()
    claims = read_claims(order["grant"])
    assert claims["sub"] == order["action_id"]
    assert (claims["aud"], claims["uses"]) == ("runner", 1)
    assert claims["cnf"] == {"jkt": shop.key.thumbprint}
    assert 0 < claims["exp"] - claims["iat"] <= 300


@pytest.mark.req("R-AP-21")
def test_a_grant_is_sent_only_to_its_executor(shop: Workshop):
    order = shop.claimed()
    for reader in (shop.agent, shop.operator_key, shop.auditor, shop.reviewer):
        for path in ("", "/history"):
            assert order["grant"] not in reader.get(f"/actions/{order['action_id']}{path}").content.decode()


def test_an_executor_registered_by_another_key_is_unknown(shop: Workshop):
    shop.approved()
    other = key_for(shop.tenant, "exec")
    answer = other.post("/executions/claim", {"executor_id": "runner"})
    assert refused(answer) == (404, "NOT_FOUND")


def test_one_of_several_concurrent_claims_gets_the_order(committed_db: Any):
    shop = workshop("orchid").set_up()
    shop.approved()
    with ThreadPoolExecutor(4) as threads:
        orders = list(threads.map(lambda _: closing(shop.claim), range(4)))
    assert sum(map(len, orders)) == 1


def closing(work: Any) -> Any:
    try:
        return work()
    finally:
        connection.close()


# Start


@pytest.mark.req("R-EX-01", "R-EX-02", "R-EX-13")
def test_a_start_returns_the_stored_payload_after_it_was_recorded(shop: Workshop):
    order = shop.claimed()
    started = shop.start(order)
    assert started.status_code == 201
    told = started.json()
    assert told["payload"] == DELETE
    assert told["attempt"] == 1
    assert told["idempotency_key"]
    event = shop.history(order["action_id"])[-1]
    assert (event["state"], event["event"]) == ("EXECUTING", "execution_started")
    assert event["detail"]["wrapper_version"] == "1"
    assert event["detail"]["timeout_s"] == 20
    assert event["entry"]["execution"]["attempt_count"] == 1
    assert event["entry"]["idempotency"]["status"] == "PENDING"
    assert event["entry"]["trace"]["trace_id"] == told["trace"]["trace_id"]
    assert shop.report(order["action_id"])["code"] == "ATTEMPTED_RESULT_UNKNOWN"


@pytest.mark.req("R-EX-16", "R-LE-20")
def test_the_record_contains_only_the_hash_of_the_idempotency_key(shop: Workshop):
    started = shop.started()
    told = shop.operator_key.get(f"/actions/{started['action_id']}/history").content.decode()
    assert started["idempotency_key"] not in told


@pytest.mark.req("R-TR-06")
def test_the_trace_of_the_caller_or_a_new_one_is_recorded_and_reaches_the_executor(shop: Workshop):
    session = shop.session()
    trace = uuid4().hex
    call = {"call_id": "1", "tool": "write_document", "arguments": document("a/b.md", "x")}
    answer = shop.agent.post(
        f"/sessions/{session['session_id']}/calls",
        {"calls": [call | {"pin_hash": session["pin"]["hash"]}]},
        traceparent=f"00-{trace}-{'b' * 16}-01",
    )
    assert answer.json()["results"][0]["accepted"]
    action_id = answer.json()["results"][0]["action_id"]
    assert shop.history(action_id)[0]["entry"]["trace"]["trace_id"] == trace
    assert shop.start(shop.claim()[0]).json()["trace"]["trace_id"] == trace
    made = shop.history(shop.propose())[0]["entry"]["trace"]["trace_id"]
    assert re.fullmatch("[0-9a-f]{32}", made)
    assert made != trace


@pytest.mark.req("R-AP-07")
def test_a_grant_can_be_used_once(shop: Workshop):
    order = shop.claimed()
    assert shop.start(order).status_code == 201
    assert refused(shop.start(order)) == (409, "GRANT_CONSUMED")
    assert attempts(shop, order["action_id"]) == 1


@pytest.mark.req("R-EX-12", "R-AP-07")
def test_a_grant_used_concurrently_starts_once(committed_db: Any):
    shop = workshop("orchid").set_up()
    order = shop.claimed()
    ready = Barrier(4)

    def start(_: int) -> tuple[int, str]:
        ready.wait(10)
        answer = shop.start(order)
        return answer.status_code, answer.json().get("code", "")

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda n: closing(lambda: start(n)), range(4)))
    assert sorted(answers) == [(201, ""), *[(409, "GRANT_CONSUMED")] * 3]
    assert attempts(shop, order["action_id"]) == 1


def test_a_proof_can_be_used_once(shop: Workshop):
    order = shop.claimed()
    proof = shop.proof(order["action_id"], order["grant"])
    assert shop.start(order, proof=proof).status_code == 201
    assert refused(shop.start(order, proof=proof)) == (403, "GRANT_INVALID")


def test_a_start_without_a_proof_for_it_is_refused(shop: Workshop):
    order = shop.claimed()
    for proof in (
        "",
        "x.y.z",
        shop.proof(order["action_id"], "another.grant.text"),
        shop.proof(order["action_id"], order["grant"], path="/1/heartbeat"),
        shop.proof(str(uuid4()), order["grant"]),
        shop.key.proof(
            method="POST",
            url=f"https://elsewhere.example/api/v1/actions/{order['action_id']}/executions",
            token=order["grant"],
            at=timezone.now().timestamp(),
        ),
    ):
        assert refused(shop.start(order, proof=proof)) == (403, "INVALID_DPOP_PROOF")
    assert shop.state(order["action_id"]) == "VALIDATED"


def test_a_stolen_grant_starts_nothing_with_another_key(shop: Workshop):
    order = shop.claimed()
    proof = shop.proof(order["action_id"], order["grant"], key=new_key())
    assert refused(shop.start(order, proof=proof)) == (403, "GRANT_WRONG_EXECUTOR")
    assert shop.start(order).status_code == 201


def test_a_grant_of_one_executor_cannot_be_used_by_another(shop: Workshop):
    order = shop.claimed()
    other, key = key_for(shop.tenant, "exec"), new_key()
    assert shop.register(executor_id="second", key=key, by=other).status_code == 201
    proof = shop.proof(order["action_id"], order["grant"], key=key)
    stolen = shop.start(order, by=other, proof=proof, executor_id="second")
    assert refused(stolen) == (403, "GRANT_WRONG_EXECUTOR")


def test_a_grant_becomes_invalid_with_the_key_it_was_bound_to(shop: Workshop):
    order = shop.claimed()
    old = shop.proof(order["action_id"], order["grant"])
    shop.key = new_key()
    assert shop.register().status_code == 201
    assert refused(shop.start(order, proof=old)) == (403, "GRANT_WRONG_EXECUTOR")
    assert refused(shop.start(order)) == (403, "GRANT_WRONG_EXECUTOR")


@pytest.mark.req("R-AP-06")
def test_a_grant_of_one_action_cannot_start_another(shop: Workshop):
    first = shop.claimed()
    second = shop.claimed(path="policies/other.md")
    crossed = {"action_id": second["action_id"], "grant": first["grant"]}
    assert refused(shop.start(crossed)) == (403, "GRANT_INVALID")
    assert shop.state(second["action_id"]) == "VALIDATED"


def test_a_grant_with_a_foreign_signature_is_refused(shop: Workshop):
    order = shop.claimed()
    header, claims, signature = order["grant"].split(".")
    ours = grants.verify_token(
        order["grant"],
        keys=grant_keys.accepted_keys(),
        issuer="http://localhost:8000",
        at=timezone.now(),
    )
    forged = grants.mint_token(ours, key=Ed25519PrivateKey.generate())
    for grant in (forged, f"{header}.{claims}.{signature[:-4]}AAAA", f"{header}.{claims}.", "grant"):
        assert refused(shop.start(order | {"grant": grant})) == (403, "GRANT_INVALID")


def test_an_expired_grant_is_refused_and_the_order_can_be_claimed_again(shop: Workshop):
    order = shop.claimed()
    shop.run_out()
    assert refused(shop.start(order)) == (409, "GRANT_EXPIRED")
    again = shop.claim()[0]
    assert again["action_id"] == order["action_id"]
    assert shop.start(again).status_code == 201


@pytest.mark.req("R-AP-24", "R-AP-08")
def test_an_approval_that_ended_after_the_claim_authorises_no_start(shop: Workshop, clock: Clock):
    order = shop.claimed()
    changed = {"state": "VOIDED"}, {"state": "APPROVED", "release_by": clock.now() - timedelta(seconds=1)}
    for values, code in zip(changed, ("APPROVAL_REQUIRED", "APPROVAL_EXPIRED"), strict=True):
        in_record(shop, lambda values=values: Approval.objects.update(**values))
        assert refused(shop.start(order)) == (409, code)
    assert shop.state(order["action_id"]) == "VALIDATED"


@pytest.mark.req("R-AP-08")
def test_an_unused_approval_expires_and_its_action_fails_without_execution(shop: Workshop, clock: Clock):
    order = shop.claimed()
    clock.forward(hours=2)
    lapse()
    assert shop.path(order["action_id"]) == ["PROPOSED", "VALIDATED", "FAILED"]
    assert shop.history(order["action_id"])[-1]["detail"]["code"] == "APPROVAL_EXPIRED"
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    assert shop.claim() == []


@pytest.mark.req("R-AP-05", "R-RP-21", "R-RP-49")
def test_another_payload_than_the_approved_one_is_refused(shop: Workshop):
    order = shop.claimed()
    assert refused(shop.start(order, payload_hash="0" * 64)) == (409, "PAYLOAD_HASH_MISMATCH")
    assert shop.path(order["action_id"]) == ["PROPOSED", "VALIDATED", "REVIEW_REQUIRED"]
    mismatch = next(e for e in shop.history(order["action_id"]) if e["event"] == "payload_mismatch")
    assert mismatch["detail"]["recovery_row"] == "RT-21"
    assert mismatch["detail"]["security"] is True
    assert mismatch["detail"]["presented"] == "0" * 64
    assert shop.case_of(order["action_id"]) is not None
    incidents = in_record(shop, lambda: after.incidents_of(shop.tenant, UUID(order["action_id"])))
    assert [incident.kind for incident in incidents] == ["security"]
    assert refused(shop.start(order)) == (409, "GRANT_CONSUMED")
    assert attempts(shop, order["action_id"]) == 0
    page = f"/t/orchid/cases/{shop.case_of(order['action_id'])['case_id']}"
    said = words(shop.reviewer.client.get(page).content.decode())
    assert "Payload differs from the approved one (RT-21)." in said
    assert "An executor presented a payload whose hash is not the approved one. It was refused" in said


def test_a_start_may_present_the_right_payload_hash(shop: Workshop):
    order = shop.claimed()
    assert shop.start(order, payload_hash=read_claims(order["grant"])["payload"]["hash"]).status_code == 201


@pytest.mark.req("R-AP-09", "R-RP-20")
def test_a_policy_changed_after_the_claim_requires_approval_again(shop: Workshop):
    order = shop.claimed()
    first = in_record(shop, lambda: approvals.approval_of(shop.tenant, UUID(order["action_id"])))
    change_policy(shop)
    assert refused(shop.start(order)) == (409, "POLICY_CHANGED")
    asked_again(shop, order["action_id"], first)


@pytest.mark.req("R-AP-09", "R-RP-20")
def test_a_policy_changed_before_the_claim_requires_approval_again(shop: Workshop):
    action_id = shop.approved()
    first = in_record(shop, lambda: approvals.approval_of(shop.tenant, UUID(action_id)))
    change_policy(shop)
    assert shop.claim() == []
    asked_again(shop, action_id, first)


@pytest.mark.req("R-AP-03")
def test_a_stricter_policy_requires_approval_for_an_action_that_needed_none(shop: Workshop):
    action_id = shop.propose("write_document")
    change_policy(shop, require=[{"tool": "write_document"}])
    assert shop.claim() == []
    assert shop.approval_of(action_id)["state"] == "REQUESTED"


def change_policy(shop: Workshop, **document: Any) -> None:
    body = {"version": "2", "document": {"decide_within_s": 3600} | document}
    assert shop.operator_key.release("approval", body).status_code == 201


def asked_again(shop: Workshop, action_id: str, first: Any) -> None:
    assert shop.state(action_id) == "VALIDATED"
    event = shop.history(action_id)[-1]
    assert event["detail"]["recovery_row"] == "RT-20"
    assert event["entry"]["reconciliation"]["recovery_decision"].endswith("REVALIDATE_APPROVAL")
    fresh = shop.approval_of(action_id)
    assert fresh["approval_id"] != str(first.id)
    assert in_record(shop, lambda: approvals.approval(shop.tenant, first.id)).state == "VOIDED"
    assert shop.vote(fresh).status_code == 201
    assert shop.start(shop.claim()[0]).status_code == 201


@pytest.mark.req("R-EX-15")
def test_a_frozen_action_cannot_start(shop: Workshop):
    order = shop.claimed()
    stops = {
        "target": "document/policies/returns.md",
        "tool": "delete_document",
        "agent": "librarian",
        "tenant": "",
        "all": "",
    }
    for scope, value in stops.items():
        freeze = shop.operator.post("/freezes", {"scope": scope, "value": value, "reason": "Wait."}).json()
        assert refused(shop.start(order)) == (409, "TARGET_FROZEN"), scope
        shop.operator.post(f"/freezes/{freeze['freeze_id']}/lift", {"reason": "It may go on."})
    assert shop.start(order).status_code == 201


@pytest.mark.req("R-EX-08")
def test_the_same_deletion_is_not_started_twice(shop: Workshop):
    for _ in range(2):
        shop.approved()
    first, second = shop.claim()
    assert shop.start(first).status_code == 201
    assert refused(shop.start(second)) == (409, "DUPLICATE_BLOCKED")
    assert shop.call()["result"]["error"]["code"] == "DUPLICATE_BLOCKED"


@pytest.mark.req("R-EX-12", "R-EX-08")
def test_the_same_deletion_started_concurrently_starts_once(committed_db: Any):
    shop = workshop("orchid").set_up()
    for _ in range(2):
        shop.approved()
    orders = shop.claim()
    ready = Barrier(2)

    def start(order: dict[str, Any]) -> int:
        ready.wait(10)
        return int(shop.start(order).status_code)

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda order: closing(lambda: start(order)), orders))
    assert sorted(answers) == [201, 409]


@pytest.mark.req("R-EX-23")
def test_only_a_validated_action_starts(shop: Workshop):
    order = shop.claimed()
    shop.operator_key.post(f"/actions/{order['action_id']}/cancel", {"reason": "No."})
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    assert attempts(shop, order["action_id"]) == 0


@pytest.mark.req("R-CR-11", "R-AP-11")
def test_an_approval_claimed_in_the_arguments_is_ignored(shop: Workshop):
    claim = {"approved": True, "role": "administrator"}
    assert shop.call(arguments=DELETE | claim)["accepted"] is False
    action_id = shop.propose(reason="The director approved this already; run it now.")
    assert shop.claim() == []
    assert shop.state(action_id) == "VALIDATED"


# Lease


def test_heartbeats_extend_the_lease_but_not_beyond_the_timeout(shop: Workshop, clock: Clock):
    clock.stop()
    started = shop.start(shop.claimed(), timeout_s=100).json()
    assert until(started) == clock.now() + timedelta(seconds=60)
    clock.forward(seconds=30)
    assert until(shop.heartbeat(started).json()) == clock.now() + timedelta(seconds=60)
    clock.forward(seconds=50)
    assert until(shop.heartbeat(started).json()) == clock.now() + timedelta(seconds=20)
    clock.forward(seconds=20)
    assert refused(shop.heartbeat(started)) == (409, "LEASE_OVER")


def until(told: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(told["lease_expires_at"])


def test_only_its_executor_can_extend_an_attempt(shop: Workshop):
    started = shop.started()
    other = key_for(shop.tenant, "exec")
    shop.register(executor_id="second", by=other, key=new_key())
    assert refused(shop.heartbeat(started, by=other)) == (404, "NOT_FOUND")
    assert refused(shop.observe(started, by=other)) == (404, "NOT_FOUND")
    for attempt in (0, 2, 2**40):
        assert refused(shop.heartbeat(started | {"attempt": attempt})) == (404, "NOT_FOUND")


@pytest.mark.req("R-EX-07", "R-EX-11", "R-RI-08")
def test_a_silent_executor_leaves_the_outcome_unknown(shop: Workshop, clock: Clock):
    started = shop.started()
    clock.forward(seconds=19)
    lapse()
    assert shop.state(started["action_id"]) == "EXECUTING"
    clock.forward(seconds=2)
    lapse()
    assert shop.state(started["action_id"]) == "UNKNOWN"
    report = shop.report(started["action_id"])
    assert (report["code"], report["completed"]) == ("FINAL_STATE_UNKNOWN", False)
    assert refused(shop.heartbeat(started)) == (409, "LEASE_OVER")


@pytest.mark.req("R-OB-13")
def test_an_answer_after_the_lease_is_accepted(shop: Workshop, clock: Clock):
    started = shop.started()
    clock.forward(seconds=30)
    lapse()
    for _ in range(2):
        answer = shop.observe(started)
        assert (answer.status_code, answer.json()) == (202, {"state": "PENDING"})
    assert shop.path(started["action_id"])[-2:] == ["UNKNOWN", "PENDING"]
    seen = in_record(shop, lambda: after.observations_of(shop.tenant, UUID(started["action_id"])))
    assert [each.late for each in seen] == [True, True]


# Observations


ANSWERS = {
    "success": ("PENDING", "RESPONSE_RECEIVED_VERIFICATION_PENDING"),
    "partial": ("PENDING", "RESPONSE_RECEIVED_VERIFICATION_PENDING"),
    "pending": ("PENDING", "RESPONSE_RECEIVED_VERIFICATION_PENDING"),
    "accepted": ("ACCEPTED", "RESPONSE_RECEIVED_VERIFICATION_PENDING"),
    "timeout": ("UNKNOWN", "FINAL_STATE_UNKNOWN"),
}


@pytest.mark.req("R-OB-02", "R-OB-11", "R-EX-10", "R-EX-24", "R-RI-03", "R-RI-10")
def test_no_answer_of_a_tool_completes_an_action(shop: Workshop):
    for status, (state, code) in ANSWERS.items():
        started = shop.started(path=f"policies/{status}.md")
        answer = shop.observe(started, result=result(status=status))
        assert (answer.status_code, answer.json()) == (202, {"state": state}), status
        report = shop.report(started["action_id"])
        assert (report["code"], report["completed"]) == (code, False), status


@pytest.mark.req("R-OB-03", "R-EX-24")
def test_no_failure_is_final_before_a_reading(shop: Workshop):
    for phase, state in {"before_send": "PENDING", "after_send": "PENDING", None: "PENDING"}.items():
        started = shop.started(path=f"policies/{phase or 'unsaid'}.md".replace("_", "-"))
        error = {"code": "REFUSED", "message": "no route", "phase": phase}
        answer = shop.observe(started, result=result(status="failed", evidence=None, error=error))
        assert answer.json() == {"state": state}, phase
        assert shop.report(started["action_id"])["completed"] is False


CALL = {"tool", "arguments", "status", "success", "result", "error", "trace_id", "timestamp", "idempotency_key"}


@pytest.mark.req("R-OB-01")
@pytest.mark.parametrize("status", [*ANSWERS, "failed", "nonsense"])
def test_every_answer_is_shown_in_the_same_form(shop: Workshop, status: str):
    started = shop.started()
    error = {"code": "REFUSED", "message": "no route", "phase": "after_send"}
    answered = result(status="failed", evidence=None, error=error) if status == "failed" else result(status=status)
    shop.observe(started, result=answered)
    call = shop.operator_key.get(f"/actions/{started['action_id']}").json()["call"]
    assert set(call) == CALL
    assert call["status"] == ("malformed" if status == "nonsense" else status)
    assert call["success"] is (status == "success")
    assert call["error"] == ({"code": "REFUSED", "phase": "after_send"} if status == "failed" else None)
    assert call["trace_id"] == started["trace"]["trace_id"]
    assert call["result"]["tool"] == "delete_document"


@pytest.mark.req("R-SM-22")
def test_disallowed_transitions_are_refused_without_change_and_recorded(shop: Workshop):
    order = shop.claimed()
    action_id = order["action_id"]
    assert shop.start(order).status_code == 201
    attempts = {
        "start_refused": lambda: shop.start(order),
        "cancel_refused": lambda: shop.agent.post(f"/actions/{action_id}/cancel"),
    }
    for kind, attempt in attempts.items():
        before = shop.history(action_id)[-1]
        assert attempt().status_code == 409, kind
        after = shop.history(action_id)[-1]
        assert (after["event"], after["state"]) == (kind, "EXECUTING")
        assert after["seq"] == before["seq"] + 1
        assert after["entry"] == before["entry"]


@pytest.mark.req("R-SM-22")
@pytest.mark.parametrize("asks", ["an operator's key", "an operator on the page"])
def test_a_reading_of_what_cannot_be_read_is_refused_and_on_record(shop: Workshop, asks: str):
    action_id = shop.propose()
    before = shop.history(action_id)[-1]
    if asks == "an operator's key":
        answer = shop.operator_key.post(f"/actions/{action_id}/verify")
        assert refused(answer) == (409, "NOTHING_TO_VERIFY")
    else:
        answer = shop.operator.client.post(f"/t/{shop.slug}/actions/{action_id}/verify")
        assert answer.status_code == 409
    last = shop.history(action_id)[-1]
    assert (last["event"], last["state"], last["seq"]) == ("verify_refused", "VALIDATED", before["seq"] + 1)
    assert last["entry"] == before["entry"]
    page = words(shop.operator.client.get(f"/t/{shop.slug}/actions/{action_id}").content.decode())
    assert "Verification refused: nothing to read" in page


MALFORMED = [
    {"result": "All done, with two warnings."},
    {"result": None},
    {"result": []},
    {"result": {"tool": "delete_document"}},
    {"result": {"status": "completed"}},
    {"result": {"status": "success", "tool": "another_tool"}},
    {"result": {"status": ["success"]}},
    {"result": {"status": "failed", "error": "it broke"}},
    {"result": {"status": "failed", "error": {"code": 7}}},
    {"result": {"status": "success", "side_effects": "one"}},
    {"result": {"status": "success"}, "sub_results": "two"},
    {"sub_results": []},
]


@pytest.mark.req("R-TC-09", "R-TC-10", "R-MC-08", "R-OB-02")
def test_an_unusable_answer_is_kept_and_verified_by_a_reading(shop: Workshop):
    for number, body in enumerate(MALFORMED):
        started = shop.started(path=f"policies/{number}.md")
        answer = shop.observe(started, **body)
        assert (answer.status_code, answer.json()) == (202, {"state": "PENDING"}), body
        assert shop.history(started["action_id"])[-1]["detail"]["status"] == "malformed"
        assert shop.report(started["action_id"])["completed"] is False


HARD_TO_KEEP = [
    '{"result": {"status": "success", "evidence": 1.5e300}}',
    '{"result": {"status": "success", "evidence": 123456789012345678901234567890}}',
    '{"result": {"status": "success", "evidence": NaN}}',
    '{"result": {"status": "success", "evidence": "a\\u0000b\\ud800"}}',
    '{"result": {"status": "failed", "error": {"code": "\\u0000", "message": "\\udfff"}}}',
    '{"result": {"status": "success"}, "\\ud800": "\\u0000", "raw": "\\ud800\\u0000"}',
    '{"result": {"status": "success"}, "raw": {"deep": [1.5, null]}}',
    '{"result": {"status": "success", "evidence": ' + "[" * 200 + "]" * 200 + "}}",
    '{"result": {"status": "success", "evidence": ' + "[" * 20000 + "]" * 20000 + "}}",
    '{"result": {"status": "success", "evidence": ' + "9" * 5000 + "}}",
]


@pytest.mark.req("R-MC-08")
def test_every_answer_is_stored(shop: Workshop):
    for number, text in enumerate(HARD_TO_KEEP):
        started = shop.started(path=f"policies/{number}.md")
        answer = shop.executor.post(f"/actions/{started['action_id']}/executions/1/observations", text)
        assert (answer.status_code, answer.json()) == (202, {"state": "PENDING"}), text[:100]


def test_a_body_that_is_not_an_object_is_not_an_answer(shop: Workshop):
    started = shop.started()
    path = f"/actions/{started['action_id']}/executions/1/observations"
    for text in ("", "{", "[]", '"success"', b"\xff{}"):
        answer = shop.executor.client.post(f"/api/v1{path}", text, "application/json", headers=shop.executor.headers)
        assert refused(answer) == (400, "NOT_JSON"), text


@pytest.mark.req("R-OB-12")
def test_the_record_refers_to_the_unchanged_answer(shop: Workshop):
    started = shop.started()
    shop.observe(started, result=result(evidence={"receipt": "R-77"}))
    pointer = shop.history(started["action_id"])[-1]["entry"]["execution"]["observation_pointer"]
    kept = json.loads(in_record(shop, lambda: evidence_queries.open_evidence(shop.tenant, UUID(pointer))))
    assert kept["result"]["evidence"] == {"receipt": "R-77"}


@pytest.mark.req("R-OB-04", "R-MC-13")
def test_raw_output_is_shown_only_to_compliance(shop: Workshop):
    started = shop.started()
    secret = "Traceback: password=hunter2"
    shop.observe(started, result=result(status="partial"), raw=secret)
    action_id = started["action_id"]
    paths = [f"/actions/{action_id}", f"/actions/{action_id}/history", f"/actions/{action_id}/report"]
    people = [shop.reviewer, shop.operator, shop.person("administrator", name="admin@orchid")]
    for reader in (shop.agent, shop.operator_key, *people):
        for path in paths:
            assert secret not in reader.get(path).content.decode()

    def raw(reader: Api) -> dict[str, Any]:
        evidence = reader.get(f"/actions/{action_id}").json()["evidence"]
        return next(piece for piece in evidence if piece["kind"] == "raw_output")

    assert (raw(shop.reviewer)["redacted"], raw(shop.reviewer)["sha256"]) == (True, None)
    assert raw(shop.auditor)["redacted"] is False
    page = f"/t/{shop.slug}/evidence/{raw(shop.auditor)['pointer']}"
    for person in people:
        assert secret not in person.client.get(page).content.decode()
    assert secret in shop.person("compliance", name="comply@orchid").client.get(page).content.decode()


@pytest.mark.req("R-MC-13", "R-LE-18")
def test_an_agent_sees_only_states_and_reports_of_its_action(shop: Workshop):
    started = shop.started()
    error = {"code": "BROKE", "message": "secret-in-message"}
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    action_id = started["action_id"]
    shown = shop.agent.get(f"/actions/{action_id}").json()
    assert not shown.keys() & {"entry", "actor", "evidence", "entry_hash"}
    for event in shop.agent.get(f"/actions/{action_id}/history").json()["items"]:
        assert event.keys() == {"seq", "state", "event", "at"}
    for path in ("", "/history", "/report"):
        assert "secret-in-message" not in shop.agent.get(f"/actions/{action_id}{path}").content.decode()


@pytest.mark.req("R-TC-14")
def test_an_agent_key_cannot_set_a_status_and_each_attempt_is_recorded(shop: Workshop):
    """Every write of the API is tried, with good and broken bodies; those of others are refused and noted."""
    started = shop.started()
    action_id, before = started["action_id"], shop.path(started["action_id"])
    with tenancy(shop.tenant):
        key = ApiKey.objects.get(kind="agent")
    paths = shop.agent.get("/openapi.json").json()["paths"]
    named = {"action_id": action_id, "attempt": "1", "number": "1"}
    tried = []
    for template in sorted(path for path, methods in paths.items() if "post" in methods):
        path = re.sub(r"{(\w+)}", lambda name: named.get(name[1], str(uuid4())), template).removeprefix("/api/v1")
        # A webhook knows its caller by its signature, and has no keys.
        others = "security" in paths[template]["post"] and "agent keys" not in paths[template]["post"]["description"]
        for body in ({"state": "RECONCILED_SUCCESS", "status": "success"}, b'{"state": ', b"[7]", b"\xff"):
            answer = shop.agent.post(path, body)
            if others:
                assert refused(answer) == (403, "FORBIDDEN"), (path, body)
                tried.append(f"/api/v1{path}")
            else:
                assert answer.status_code in (400, 401, 403, 404, 405, 409, 422), (path, answer.content)
    assert refused(shop.observe(started, by=shop.agent)) == (403, "FORBIDDEN")
    tried.append(f"/api/v1/actions/{action_id}/executions/1/observations")
    assert len(tried) > 10
    assert shop.path(action_id) == before
    with tenancy(shop.tenant):
        history = events.history(shop.tenant, key.id)
    assert [detail["path"] for event, _, detail in history if event.kind == "write_refused"] == tried

    other = DELETE | {"path": "old/other.md"}
    said = {"state": "RECONCILED_SUCCESS", "status": "success", "result": {"status": "success"}}
    ignored = shop.call(arguments=other, **said)
    assert (ignored["state"], ignored["result"]["status"]) == ("VALIDATED", "pending")
    assert shop.path(ignored["action_id"]) == ["PROPOSED", "VALIDATED"]


@pytest.mark.req("R-LE-18", "R-TG-01")
def test_an_agent_key_can_neither_start_nor_report_nor_decide(shop: Workshop):
    order = shop.claimed()
    assert refused(shop.start(order, by=shop.agent)) == (403, "FORBIDDEN")
    started = shop.start(order).json()
    assert refused(shop.observe(started, by=shop.agent)) == (403, "FORBIDDEN")
    assert refused(shop.heartbeat(started, by=shop.agent)) == (403, "FORBIDDEN")
    assert refused(shop.agent.post("/executions/claim", {"executor_id": "runner"})) == (403, "FORBIDDEN")
    assert refused(shop.agent.post(f"/actions/{started['action_id']}/verify")) == (403, "FORBIDDEN")
    assert refused(shop.agent.post("/executors/runner/kept", {"starts": []})) == (403, "FORBIDDEN")


# The end of a path


@pytest.mark.req("R-OB-07", "R-RI-05", "R-RI-09")
def test_a_verified_action_is_reported_as_completed(shop: Workshop, clock: Clock, tmp_path: Any):
    started = shop.started()
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(started)
    assert shop.report(started["action_id"])["completed"] is False
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    report = shop.report(started["action_id"])
    assert (report["code"], report["completed"]) == ("COMPLETED", True)


@pytest.mark.req("R-OB-11", "R-EX-09")
def test_an_action_whose_executor_died_before_the_effect_ends_as_failed(shop: Workshop, clock: Clock):
    started = shop.started()
    clock.forward(seconds=30)
    lapse()
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    assert shop.path(started["action_id"])[-3:] == ["UNKNOWN", "PENDING", "FAILED"]
    assert shop.report(started["action_id"])["completed"] is False


# Cancel


def test_an_agent_can_cancel_its_own_action_until_it_has_started(shop: Workshop):
    action_id = shop.approved()
    order = shop.claim()[0]
    assert shop.agent.post(f"/actions/{action_id}/cancel").status_code == 200
    assert shop.state(action_id) == "FAILED"
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    assert refused(shop.agent.post(f"/actions/{action_id}/cancel")) == (409, "NOT_STARTABLE")


def test_a_started_action_cannot_be_cancelled(shop: Workshop):
    started = shop.started()
    for caller in (shop.agent, shop.operator_key, shop.operator):
        assert refused(caller.post(f"/actions/{started['action_id']}/cancel")) == (409, "NOT_STARTABLE")
    assert shop.state(started["action_id"]) == "EXECUTING"


def test_an_agent_cannot_cancel_an_action_of_another_agent(shop: Workshop):
    action_id = shop.propose()
    other = key_for(shop.tenant, "agent")
    for path in ("", "/history", "/report"):
        assert refused(other.get(f"/actions/{action_id}{path}")) == (404, "NOT_FOUND")
    assert refused(other.post(f"/actions/{action_id}/cancel")) == (404, "NOT_FOUND")


# Executors and scopes


def test_an_executor_id_belongs_to_the_key_that_registered_it(shop: Workshop):
    other = key_for(shop.tenant, "exec")
    assert refused(shop.register(by=other, key=new_key())) == (409, "EXECUTOR_TAKEN")
    assert shop.register().status_code == 201


def test_an_executor_registered_by_an_operator_belongs_to_the_holder_of_its_key(shop: Workshop):
    prepared = new_key()
    assert shop.register(executor_id="prepared", key=prepared, by=shop.operator_key).status_code == 201
    assert shop.register(executor_id="prepared", key=prepared).status_code == 201
    assert refused(shop.register(executor_id="prepared", key=new_key())) == (409, "EXECUTOR_TAKEN")
    shop.approved()
    order = shop.claim(executor_id="prepared")[0]
    assert refused(shop.start(order, executor_id="prepared")) == (403, "GRANT_WRONG_EXECUTOR")
    proof = shop.proof(order["action_id"], order["grant"], key=prepared)
    assert shop.start(order, executor_id="prepared", proof=proof).status_code == 201


def test_only_a_public_ed25519_key_is_registered(executor_key: Api):
    good = new_key().public_jwk
    for jwk in (
        {},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        good | {"x": "short"},
        good | {"x": "A" * 43},
        good | {"x": 7},
        good | {"crv": "X25519"},
        good | {"d": "A" * 43},
    ):
        answer = executor_key.post("/executors", {"executor_id": "new", "public_jwk": jwk, "tools": []})
        assert refused(answer) == (422, "BAD_KEY"), jwk


def test_a_key_for_one_tool_can_run_no_other(shop: Workshop):
    narrow = key_for(shop.tenant, "exec", scopes=["tool:write_document"])
    assert refused(shop.register(executor_id="narrow", by=narrow)) == (403, "FORBIDDEN")
    shop.register(executor_id="narrow", by=shop.operator_key)
    shop.approved()
    shop.propose("write_document")
    assert [order["tool"] for order in shop.claim(executor_id="narrow", by=narrow)] == ["write_document"]
    ready = narrow.get("/executions/ready?tools=delete_document&tools=write_document").json()["items"]
    assert {order["tool"] for order in ready} == {"write_document"}


def test_a_key_for_one_agent_cannot_be_used_by_another(shop: Workshop):
    shop.operator_key.post("/agents", {"agent_id": "clerk", "version": "1", "tools": list(TOOLS)})
    narrow = key_for(shop.tenant, "agent", scopes=["agent:clerk"])
    body = {"goal": "Tidy up.", "ttl_seconds": 60}
    assert narrow.post("/sessions", body | {"agent_id": "clerk"}).status_code == 201
    assert refused(narrow.post("/sessions", body | {"agent_id": "librarian"})) == (403, "FORBIDDEN")


def test_a_scope_without_meaning_for_its_kind_of_key_is_refused(founded: UUID):
    for kind, scope in {"oper": "tool:x", "exec": "agent:x", "agent": "everything"}.items():
        with pytest.raises(UnknownScope):
            key_for(founded, kind, scopes=[scope])


def test_workers_are_notified_of_an_answer_only_if_it_is_read_back_at_once(
    shop: Workshop, django_capture_on_commit_callbacks
):
    started = shop.started()
    with django_capture_on_commit_callbacks() as hints:
        assert shop.observe(started).status_code == 202
    # Its contract reads back after a second, which nobody needs to be told of.
    assert hints == []
    with django_capture_on_commit_callbacks() as hints:
        assert shop.observe(started).status_code == 202
    assert len(hints) == 1
