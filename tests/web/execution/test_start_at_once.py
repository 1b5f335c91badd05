"""A call that its executor starts in the same request: proposal, claim and start in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from approvals.agents.operations import agents
from approvals.execution.operations import executors
from counterfoil.proof import ExecutorKey, read_claims
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.api_tenant import DELETE, Workshop, document, new_key
from tests.support.callers import Api, key_for


def send(shop: Workshop, *, by: Api | None = None, key: ExecutorKey | None = None, **changes: Any) -> Any:
    """One call with its executor at hand; `changes` are parts of the call, of `start`, or of the request."""
    session = changes.pop("session", None) or shop.session()
    path = f"/sessions/{session['session_id']}/calls"
    call = {
        "call_id": changes.pop("call_id", None) or uuid4().hex,
        "tool": changes.pop("tool", "write_document"),
        "arguments": changes.pop("arguments", document("notes/today.md", "Quiet.")),
        "pin_hash": session["pin"]["hash"],
    }
    calls = [call] * changes.pop("times", 1)
    start = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20} | changes.pop("start", {})
    bearer = (by or shop.executor).headers["Authorization"]
    token = bearer.removeprefix("Bearer ")
    at = timezone.now().timestamp()
    proof = (key or shop.key).proof(
        method="POST", url=f"http://testserver/api/v1{path}", token=changes.pop("token", token), at=at
    )
    headers = {"Executor-Authorization": bearer, "Executor-DPoP": proof} | changes.pop("headers", {})
    return shop.agent.post(path, {"calls": calls, "start": start} | changes, **headers)


def only(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    (result,) = answer.json()["results"]
    return dict(result)


def actions_of(shop: Workshop) -> list[Any]:
    return list(shop.operator_key.get("/actions").json()["items"])


def test_a_call_that_needs_no_approval_is_proposed_claimed_and_started_in_one_request(shop: Workshop):
    result = only(send(shop))
    started = result["started"]
    assert result["state"] == "EXECUTING"
    assert result["user_status"]["text"] == shop.report(result["action_id"])["text"]
    assert started["payload"] == document("notes/today.md", "Quiet.")
    assert started["attempt"] == 1
    claims = read_claims(started["grant"])
    assert (claims["sub"], claims["aud"]) == (result["action_id"], "runner")
    assert [event["event"] for event in shop.history(result["action_id"])][-2:] == ["grant_minted", "execution_started"]
    assert shop.claim() == []
    again = shop.start({"action_id": result["action_id"], "grant": started["grant"]})
    assert (again.status_code, again.json()["code"]) == (409, "GRANT_CONSUMED")


def test_an_observation_after_an_immediate_start_returns_the_report(shop: Workshop):
    started = only(send(shop))["started"]
    path = f"/actions/{started['action_id']}/executions/1/observations"
    answer = shop.executor.post(f"{path}?report=true", {"result": {"tool": "write_document", "status": "success"}})
    told = answer.json()
    assert (answer.status_code, told["state"]) == (202, shop.state(started["action_id"]))
    assert told["report"]["text"] == shop.report(started["action_id"])["text"]
    assert told["report"]["completed"] is False
    assert told["approval"] is None


def test_a_call_that_requires_approval_is_proposed_and_waits(shop: Workshop):
    result = only(send(shop, tool="delete_document", arguments=DELETE))
    assert (result["state"], result["started"]) == ("VALIDATED", None)
    assert result["approval"]["required"] is True
    assert shop.approval_of(result["action_id"])["state"] == "REQUESTED"


def test_a_frozen_tool_is_proposed_and_not_started(shop: Workshop):
    shop.operator.post("/freezes", {"scope": "tool", "value": "write_document", "reason": "Wait."})
    result = only(send(shop))
    assert result.get("started") is None
    assert all(action["state"] != "EXECUTING" for action in actions_of(shop))


def test_a_refused_call_starts_nothing(shop: Workshop):
    result = only(send(shop, arguments={"path": "notes/today.md"}))
    assert (result["accepted"], result["started"]) == (False, None)


def test_a_repeated_request_returns_the_same_attempt_only_to_the_holder_of_its_key(shop: Workshop):
    sent = {"session": shop.session(), "call_id": "one", "headers": {"Idempotency-Key": "one"}}
    first = only(send(shop, **sent))
    assert only(send(shop, **sent)) == first
    thief = send(shop, key=new_key(), **sent)
    assert (thief.status_code, thief.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert [action["action_id"] for action in actions_of(shop)] == [first["action_id"]]


@pytest.mark.parametrize("missing", ["key", "proof", "tenant", "kind", "wrong token", "stranger"])
def test_a_request_without_the_proof_of_its_executor_proposes_nothing(shop: Workshop, elsewhere: Any, missing: str):
    given: dict[str, Any] = {
        "key": {"headers": {"Executor-Authorization": "Bearer cf_exec_unknown"}},
        "proof": {"headers": {"Executor-DPoP": ""}},
        "tenant": {"by": key_for(elsewhere, "exec")},
        "kind": {"by": shop.operator_key},
        "wrong token": {"token": "another"},
        "stranger": {"key": new_key()},
    }[missing]
    answer = send(shop, **given)
    if missing == "stranger":
        # A key that holds, of somebody who is not this executor: proposed as any call, and not started.
        assert only(answer)["started"] is None
        return
    expected = {"key": (401, "UNAUTHENTICATED"), "proof": (403, "INVALID_DPOP_PROOF")}
    expected |= {"tenant": (403, "FORBIDDEN"), "kind": (403, "FORBIDDEN"), "wrong token": (403, "INVALID_DPOP_PROOF")}
    assert (answer.status_code, answer.json()["code"]) == expected[missing]
    assert actions_of(shop) == []


def test_a_key_not_valid_for_the_tool_starts_nothing(shop: Workshop):
    scoped = key_for(shop.tenant, "exec", scopes=["tool:delete_document"])
    assert only(send(shop, by=scoped))["started"] is None


def test_an_unregistered_executor_starts_nothing(shop: Workshop):
    assert only(send(shop, start={"executor_id": "nobody"}))["started"] is None


def test_only_one_call_at_a_time_is_started(shop: Workshop):
    answer = send(shop, times=2)
    assert (answer.status_code, answer.json()["code"]) == (422, "ONE_CALL_AT_A_TIME")
    assert answer.json()["detail"] == "`start` is for one call; send the others in requests of their own."


def test_a_used_proof_starts_nothing_again(shop: Workshop):
    session = shop.session()
    path = f"/sessions/{session['session_id']}/calls"
    token = shop.executor.headers["Authorization"].removeprefix("Bearer ")
    proof = shop.key.proof(
        method="POST", url=f"http://testserver/api/v1{path}", token=token, at=timezone.now().timestamp()
    )
    assert only(send(shop, session=session, headers={"Executor-DPoP": proof}))["started"]
    replayed = send(shop, session=session, headers={"Executor-DPoP": proof})
    assert replayed.status_code == 403
    assert len(actions_of(shop)) == 1


def stop_executor(shop: Workshop) -> None:
    executors.revoke_executor(
        tenant_id=shop.tenant, executor_id="runner", reason="Gone.", by=ledger.SYSTEM, at=timezone.now()
    )


def stop_agent(shop: Workshop) -> None:
    agents.revoke_agent(
        tenant_id=shop.tenant, agent_id="librarian", reason="Gone.", by=ledger.SYSTEM, at=timezone.now()
    )


def freeze_target(shop: Workshop) -> None:
    registration.place_freeze(
        tenant_id=shop.tenant,
        scope="target",
        value="document/notes/next.md",
        reason="Wait.",
        actor=ledger.SYSTEM,
        at=timezone.now(),
    )


def release_rule(shop: Workshop, rule: dict[str, str]) -> None:
    assert shop.operator_key.release("approval", {"version": "2", "document": {"rules": [rule]}}).status_code == 201


def hold_everything(shop: Workshop) -> None:
    release_rule(shop, {"name": "all", "outcome": "hold"})


def refuse_everything(shop: Workshop) -> None:
    release_rule(shop, {"name": "none", "outcome": "refuse", "reason": "Nothing is written any more."})


@pytest.mark.parametrize(
    ("change", "accepted", "code"),
    [
        (stop_executor, True, None),
        (stop_agent, False, "AGENT_NOT_REGISTERED"),
        (freeze_target, False, "TARGET_FROZEN"),
        (hold_everything, True, None),
        (refuse_everything, False, "OUTSIDE_AUTONOMY"),
    ],
)
def test_a_change_between_two_calls_affects_the_second(
    shop: Workshop, change: Callable[[Workshop], None], accepted: bool, code: str | None
):
    session = shop.session()
    assert only(send(shop, session=session))["state"] == "EXECUTING"
    with tenancy(shop.tenant):
        change(shop)
    result = only(send(shop, session=session, arguments=document("notes/next.md", "Quiet.")))
    assert (result["accepted"], result["started"], (result["result"]["error"] or {}).get("code")) == (
        accepted,
        None,
        code,
    )
    assert result["approval"]["required"] is (change is hold_everything)
