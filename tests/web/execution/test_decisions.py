"""`POST /decide`: one call of another gateway is allowed, denied or waits, and its outcome is reported."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from approvals.agents.operations import agents
from approvals.tasks import lapse
from counterfoil.proof import ExecutorKey
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.api_tenant import DELETE, Clock, Workshop, document, new_key, result
from tests.support.callers import Api, key_for
from tests.support.seals import seal_up

PATH = "/decide"
NOTE = document("notes/today.md", "Quiet.")


def send(shop: Workshop, **changes: Any) -> Any:
    """One request to decide; `changes` are parts of the call, of `start`, of the headers or of the request."""
    session = changes.pop("session", None) or shop.session()
    call = {"call_id": uuid4().hex, "tool": "write_document", "arguments": NOTE, "pin_hash": session["pin"]["hash"]}
    call |= changes.pop("call", {})
    start = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20} | changes.pop("start", {})
    bearer = changes.pop("by", shop.executor).headers["Authorization"]
    key: ExecutorKey = changes.pop("key", shop.key)
    token = bearer.removeprefix("Bearer ")
    at = timezone.now().timestamp()
    proof = key.proof(method="POST", url=f"http://testserver/api/v1{PATH}", token=token, at=at)
    headers = {"Executor-Authorization": bearer, "Executor-DPoP": proof} | changes.pop("headers", {})
    body = {"session_id": session["session_id"], "agent_id": "librarian", "call": call, "start": start}
    return changes.pop("agent", shop.agent).post(PATH, body | changes, **headers)


def decided(shop: Workshop, **changes: Any) -> dict[str, Any]:
    answer = send(shop, **changes)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def refused(answer: Any) -> tuple[int, str, str]:
    told = answer.json()
    return answer.status_code, told["code"], told["detail"]


def report(shop: Workshop, allowed: dict[str, Any], by: Api | None = None, **changes: Any) -> Any:
    sent = result(tool=allowed["started"]["tool"], **changes)
    path = f"/decisions/{allowed['decision_id']}/outcome?attempt={allowed['started']['attempt']}"
    return (by or shop.executor).post(path, {"result": sent})


def events(shop: Workshop, decision_id: str) -> list[str]:
    return [event["event"] for event in shop.history(decision_id)]


DELETION = {"tool": "delete_document", "arguments": DELETE}


# Allow


def test_an_allowed_call_is_an_action_that_has_started(shop: Workshop):
    allowed = decided(shop)
    assert (allowed["decision"], allowed["task_id"], allowed["reason"]) == ("allow", None, "")
    assert (allowed["state"], allowed["outcome"], allowed["waiting_for"]) == ("EXECUTING", "EXECUTING", [])
    assert allowed["started"]["action_id"] == allowed["decision_id"]
    assert (allowed["started"]["payload"], allowed["started"]["attempt"]) == (NOTE, 1)
    assert events(shop, allowed["decision_id"])[-2:] == ["grant_minted", "execution_started"]
    assert allowed["user_status"]["text"] == shop.report(allowed["decision_id"])["text"]


def test_the_same_request_under_its_idempotency_key_gets_the_same_decision(shop: Workshop):
    sent = {"session": shop.session(), "call": {"call_id": "one"}, "headers": {"Idempotency-Key": "one"}}
    first = decided(shop, **sent)
    assert decided(shop, **sent) == first
    assert refused(send(shop, key=new_key(), **sent))[:2] == (409, "IDEMPOTENCY_CONFLICT")
    assert events(shop, first["decision_id"]).count("execution_started") == 1


def test_a_call_that_was_allowed_is_not_allowed_again(shop: Workshop):
    sent = {"session": shop.session(), "call": {"call_id": "one"}}
    first = decided(shop, **sent)
    again = decided(shop, **sent)
    assert (again["decision"], again["code"], again["started"]) == ("deny", "ALREADY_ALLOWED", None)
    assert again["decision_id"] == first["decision_id"]
    assert again["reason"] == (
        "It was allowed once, as attempt 1, and is not allowed again. Report the outcome of that attempt, or read the"
        " action's report; another call needs a `call_id` of its own."
    )
    assert events(shop, first["decision_id"]).count("execution_started") == 1


def test_the_outcome_is_the_answer_of_the_attempt(shop: Workshop):
    allowed = decided(shop)
    told = report(shop, allowed)
    assert (told.status_code, told.json()) == (202, {"state": "PENDING"})
    assert shop.path(allowed["decision_id"])[-2:] == ["EXECUTING", "PENDING"]


# Deny


@pytest.mark.parametrize(
    ("call", "code", "accepted"),
    [
        ({"tool": "write_documents"}, "PHANTOM_TOOL", "write_document"),
        ({"arguments": {"path": "notes/today.md"}}, "SCHEMA_DRIFT", "sha256"),
        ({"pin_hash": "0" * 64}, "ASK_DRIFT", "goal"),
        ({"arguments": "not an object"}, "UNPARSEABLE_ARGUMENTS", "JSON"),
        ({"arguments": 7}, "UNPARSEABLE_ARGUMENTS", "object"),
    ],
)
def test_a_call_that_the_gate_refuses_is_denied_with_the_way_to_mend_it(
    shop: Workshop, call: dict[str, Any], code: str, accepted: str
):
    denied = decided(shop, call=call)
    assert (denied["decision"], denied["code"], denied["started"]) == ("deny", code, None)
    assert accepted in denied["reason"]
    assert shop.claim() == []


def test_a_denial_is_on_record(shop: Workshop):
    session = shop.session()
    assert decided(shop, session=session, call={"tool": "drop_table"})["decision"] == "deny"
    state = shop.agent.get(f"/sessions/{session['session_id']}").json()
    assert (state["calls_accepted"], state["calls_refused"]) == (0, 1)


def test_the_same_call_id_with_another_body_is_denied(shop: Workshop):
    session = shop.session()
    first = decided(shop, session=session, call={"call_id": "one"})
    other = decided(shop, session=session, call={"call_id": "one", "arguments": document("notes/b.md", "B.")})
    assert (other["decision"], other["code"], other["decision_id"]) == ("deny", "IDEMPOTENCY_CONFLICT", None)
    assert events(shop, first["decision_id"]).count("execution_started") == 1


# Wait


def test_a_call_waits_until_it_is_approved_and_is_then_allowed_once(shop: Workshop):
    sent = {"session": shop.session(), "call": DELETION | {"call_id": "one"}}
    waiting = decided(shop, **sent)
    assert (waiting["decision"], waiting["task_id"]) == ("wait", waiting["decision_id"])
    assert (waiting["outcome"], waiting["waiting_for"][0]) == ("WAITING_FOR_APPROVAL", "approval")
    assert waiting["reason"] == (
        "It waits for approval. Send the same request again: it is this decision, and is allowed once."
    )
    assert waiting["approval"]["approval_id"] == shop.approval_of(waiting["task_id"])["approval_id"]
    assert decided(shop, **sent) == waiting
    assert shop.vote(shop.approval_of(waiting["task_id"])).status_code == 201
    seal_up()
    allowed = decided(shop, **sent)
    assert (allowed["decision"], allowed["decision_id"]) == ("allow", waiting["task_id"])
    assert allowed["started"]["payload"] == DELETE
    assert decided(shop, **sent)["code"] == "ALREADY_ALLOWED"
    assert events(shop, waiting["task_id"]).count("execution_started") == 1


def test_a_rejected_call_is_denied_with_what_to_do_next(shop: Workshop):
    sent = {"session": shop.session(), "call": DELETION | {"call_id": "one"}}
    waiting = decided(shop, **sent)
    shop.vote(shop.approval_of(waiting["task_id"]), verdict="reject")
    denied = decided(shop, **sent)
    assert (denied["decision"], denied["code"], denied["outcome"]) == ("deny", "REJECTED", "REJECTED")
    verdict = shop.agent.get(f"/actions/{waiting['task_id']}").json()["approval"]
    assert denied["reason"] == f"{shop.report(waiting['task_id'])['text']} {verdict['next']['text']}"
    assert shop.claim() == []


def test_a_frozen_tool_holds_a_call_that_was_approved(shop: Workshop):
    sent = {"session": shop.session(), "call": DELETION | {"call_id": "one"}}
    waiting = decided(shop, **sent)
    shop.vote(shop.approval_of(waiting["task_id"]))
    seal_up()
    shop.operator.post("/freezes", {"scope": "tool", "value": "delete_document", "reason": "Wait."})
    held = decided(shop, **sent)
    assert (held["decision"], held["waiting_for"]) == ("wait", ["freeze"])
    assert held["reason"].startswith("It waits for: freeze.")


def test_a_decision_waits_longer_than_its_session(shop: Workshop, clock: Clock):
    sent = {"session": shop.session(ttl_seconds=300), "call": DELETION | {"call_id": "one"}}
    waiting = decided(shop, **sent)
    shop.vote(shop.approval_of(waiting["task_id"]))
    seal_up()
    clock.forward(seconds=600)
    assert decided(shop, **sent)["decision"] == "allow"


def test_a_stopped_agent_is_allowed_nothing(shop: Workshop):
    sent = {"session": shop.session(), "call": DELETION | {"call_id": "one"}}
    waiting = decided(shop, **sent)
    shop.vote(shop.approval_of(waiting["task_id"]))
    seal_up()
    with tenancy(shop.tenant):
        agents.revoke_agent(
            tenant_id=shop.tenant, agent_id="librarian", reason="Gone.", by=ledger.SYSTEM, at=timezone.now()
        )
    assert decided(shop, **sent)["decision"] != "allow"
    assert events(shop, waiting["task_id"]).count("execution_started") == 0


# The lease


def test_without_an_outcome_within_the_lease_it_is_unknown_and_read_back(shop: Workshop, clock: Clock):
    allowed = decided(shop)
    clock.forward(seconds=21)
    lapse()
    assert shop.state(allowed["decision_id"]) == "UNKNOWN"
    assert shop.report(allowed["decision_id"])["code"] == "FINAL_STATE_UNKNOWN"
    assert shop.root is not None
    (shop.root / "notes").mkdir()
    (shop.root / NOTE["path"]).write_text(NOTE["text"])
    clock.forward(seconds=90)
    shop.read_back(allowed["decision_id"], clock)
    assert shop.state(allowed["decision_id"]) == "RECONCILED_SUCCESS"
    assert events(shop, allowed["decision_id"]).count("execution_started") == 1


def test_a_late_outcome_and_a_second_one_are_evidence_and_no_more(shop: Workshop, clock: Clock):
    allowed = decided(shop)
    clock.forward(seconds=30)
    lapse()
    for status in ("success", "failed"):
        told = report(shop, allowed, status=status)
        assert (told.status_code, told.json()) == (202, {"state": "PENDING"})
    assert shop.path(allowed["decision_id"])[-2:] == ["UNKNOWN", "PENDING"]
    assert shop.report(allowed["decision_id"])["completed"] is False


def test_only_the_executor_of_an_attempt_can_report_its_outcome(shop: Workshop, elsewhere: Any):
    allowed = decided(shop)
    other = key_for(shop.tenant, "exec")
    shop.register(executor_id="second", by=other, key=new_key())
    assert refused(report(shop, allowed, by=other))[:2] == (404, "NOT_FOUND")
    assert refused(report(shop, allowed, by=key_for(elsewhere, "exec")))[:2] == (404, "NOT_FOUND")
    assert refused(report(shop, allowed, by=shop.agent))[:2] == (403, "FORBIDDEN")
    nothing = {"decision_id": str(uuid4()), "started": allowed["started"]}
    assert refused(report(shop, nothing))[:2] == (404, "NOT_FOUND")
    second = allowed | {"started": allowed["started"] | {"attempt": 2}}
    assert refused(report(shop, second))[:2] == (404, "NOT_FOUND")
    assert shop.state(allowed["decision_id"]) == "EXECUTING"


def test_an_outcome_without_its_attempt_is_refused(shop: Workshop):
    allowed = decided(shop)
    for attempt in ("", "?attempt=0", "?attempt=first"):
        answer = shop.executor.post(f"/decisions/{allowed['decision_id']}/outcome{attempt}", {"result": result()})
        assert answer.status_code == 422
    assert shop.state(allowed["decision_id"]) == "EXECUTING"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"done"'])
def test_an_outcome_that_is_no_object_is_refused_and_leaves_the_attempt_open(shop: Workshop, body: bytes):
    allowed = decided(shop)
    path = f"/api/v1/decisions/{allowed['decision_id']}/outcome?attempt=1"
    answer = shop.executor.client.generic("POST", path, body, "application/json", headers=shop.executor.headers)
    assert answer.status_code in (400, 422)
    assert shop.state(allowed["decision_id"]) == "EXECUTING"


def test_an_outcome_of_another_shape_is_kept_as_malformed(shop: Workshop):
    allowed = decided(shop)
    path = f"/decisions/{allowed['decision_id']}/outcome?attempt=1"
    assert shop.executor.post(path, {"result": "all went well"}).status_code == 202
    assert shop.report(allowed["decision_id"])["completed"] is False


# Who


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"headers": {"Executor-Authorization": "Bearer cf_exec_unknown"}}, (401, "UNAUTHENTICATED")),
        ({"headers": {"Executor-Authorization": ""}}, (401, "UNAUTHENTICATED")),
        ({"headers": {"Executor-DPoP": ""}}, (403, "INVALID_DPOP_PROOF")),
        ({"key": new_key()}, (403, "FORBIDDEN")),
        ({"start": {"executor_id": "nobody"}}, (404, "NOT_FOUND")),
        ({"agent_id": "clerk"}, (403, "FORBIDDEN")),
        ({"session_id": str(uuid4())}, (404, "NOT_FOUND")),
    ],
)
def test_a_request_that_could_start_nothing_decides_nothing(
    shop: Workshop, given: dict[str, Any], expected: tuple[int, str]
):
    session = shop.session()
    assert refused(send(shop, session=session, **given))[:2] == expected
    assert shop.agent.get(f"/sessions/{session['session_id']}").json()["calls_accepted"] == 0


def test_an_executor_that_is_not_for_the_tool_is_refused_and_nothing_is_proposed(shop: Workshop):
    session = shop.session()
    scoped = key_for(shop.tenant, "exec", scopes=["tool:delete_document"])
    shop.executor.post(
        "/executors", {"executor_id": "other", "public_jwk": shop.key.public_jwk, "tools": ["delete_document"]}
    )
    assert refused(send(shop, session=session, start={"executor_id": "other"})) == (
        403,
        "FORBIDDEN",
        "The executor other is not registered for the tool write_document.",
    )
    key = new_key()
    body = {"executor_id": "scoped", "public_jwk": key.public_jwk, "tools": ["delete_document"]}
    assert scoped.post("/executors", body).status_code == 201
    answer = send(shop, session=session, by=scoped, key=key, start={"executor_id": "scoped"})
    assert refused(answer) == (403, "FORBIDDEN", "This key is not for the tool write_document.")
    assert shop.agent.get(f"/sessions/{session['session_id']}").json()["calls_accepted"] == 0


def test_a_session_of_another_key_is_not_there(shop: Workshop):
    other = key_for(shop.tenant, "agent")
    assert refused(send(shop, session=shop.session(), agent=other))[:2] == (404, "NOT_FOUND")


@pytest.mark.parametrize("call_id", [None, "", 7, ["one"]])
def test_a_call_without_an_id_is_refused(shop: Workshop, call_id: Any):
    status, code, detail = refused(send(shop, call={"call_id": call_id}))
    assert (status, code) == (422, "CALL_UNNAMED")
    assert detail == "A call to decide on has a `call_id` of yours, by which the same request is known again."


def test_a_dry_run_is_no_decision(shop: Workshop):
    assert refused(send(shop, call={"dry_run": True}))[:2] == (422, "DRY_RUN")


@pytest.mark.parametrize("call", [None, "call", [], 7])
def test_a_call_that_is_no_object_is_refused(shop: Workshop, call: Any):
    start = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}
    body = {"session_id": shop.session()["session_id"], "agent_id": "librarian", "call": call, "start": start}
    assert refused(shop.agent.post(PATH, body))[:2] == (422, "CALL_UNNAMED")


def test_the_decision_is_the_action_that_everybody_sees(shop: Workshop):
    allowed = decided(shop)
    shown = shop.agent.get(f"/actions/{allowed['decision_id']}").json()
    assert (UUID(shown["action_id"]), shown["state"]) == (UUID(allowed["decision_id"]), "EXECUTING")
