"""A claim whose actions are started at once, by the executor that claims them: one transaction."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from approvals.execution.operations import executors
from console.accounts import operations as accounts
from console.execution import routes
from console.models import ApiKey
from counterfoil.proof import ExecutorKey, read_claims
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.api_tenant import DELETE, Workshop, document, new_key
from tests.support.callers import answered
from tests.support.seals import seal_up

PATH = "/executions/claim"


def proof(shop: Workshop, *, key: ExecutorKey | None = None, token: str | None = None) -> str:
    bearer = token if token is not None else shop.executor.headers["Authorization"].removeprefix("Bearer ")
    url, at = f"http://testserver/api/v1{PATH}", timezone.now().timestamp()
    return (key or shop.key).proof(method="POST", url=url, token=bearer, at=at)


def send(shop: Workshop, *, headers: dict[str, str] | None = None, **changes: Any) -> Any:
    body = {"executor_id": "runner", "limit": 10, "start": {"wrapper_version": "1", "timeout_s": 20}} | changes
    return shop.executor.post(PATH, body, **(headers if headers is not None else {"DPoP": proof(shop)}))


def orders(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.content
    return list(answer.json()["orders"])


def events(shop: Workshop, action_id: str) -> list[str]:
    return [event["event"] for event in shop.history(action_id)]


@pytest.mark.req("R-EX-01", "R-AP-24")
def test_an_approved_action_is_claimed_and_started_in_one_request(shop: Workshop):
    action_id = shop.approved()
    [order] = orders(send(shop))
    started = order["started"]
    assert (order["action_id"], started["action_id"], started["attempt"]) == (action_id, action_id, 1)
    assert started["payload"]["path"] == DELETE["path"]
    assert shop.state(action_id) == "EXECUTING"
    assert events(shop, action_id)[-2:] == ["grant_minted", "execution_started"]
    claims = read_claims(order["grant"])
    assert (claims["sub"], claims["aud"], len(claims["approval"]["votes"])) == (action_id, "runner", 1)
    again = shop.start(order)
    assert (again.status_code, again.json()["code"]) == (409, "GRANT_CONSUMED")
    assert shop.observe(started).status_code == 202


def test_every_action_of_a_claim_is_started_and_the_others_wait(shop: Workshop):
    ready = {shop.propose("write_document", **document(f"notes/{number}.md", "Quiet.")) for number in range(3)}
    waiting = shop.propose()
    assert {order["started"]["action_id"] for order in orders(send(shop))} == ready
    assert {shop.state(action_id) for action_id in ready} == {"EXECUTING"}
    assert shop.state(waiting) == "VALIDATED"
    assert orders(send(shop)) == []


def test_a_claim_without_start_starts_nothing(shop: Workshop):
    action_id = shop.approved()
    [order] = orders(send(shop, start=None, headers={}))
    assert "started" not in order
    assert shop.state(action_id) == "VALIDATED"


@pytest.mark.parametrize("wrong", ["no proof", "another address", "another token", "sent again"])
def test_a_claim_that_starts_without_a_proof_of_its_own_claims_nothing(shop: Workshop, wrong: str):
    action_id = shop.approved()
    told = {
        "no proof": "",
        "another address": shop.proof(action_id, shop.executor.headers["Authorization"].removeprefix("Bearer ")),
        "another token": proof(shop, token="somebody else's"),
        "sent again": proof(shop),
    }[wrong]
    if wrong == "sent again":
        assert orders(send(shop, actions=[str(uuid4())], headers={"DPoP": told})) == []
    assert send(shop, headers={"DPoP": told}).status_code in (401, 403, 409)
    assert events(shop, action_id)[-1] == "approval_granted"


@pytest.mark.unsealed
@pytest.mark.req("R-AP-24")
def test_a_proof_of_another_key_than_the_executors_claims_nothing_and_is_on_record(shop: Workshop):
    action_id = shop.approved()
    seal_up()
    answer = send(shop, headers={"DPoP": proof(shop, key=new_key())})
    assert (answer.status_code, answer.json()["code"]) == (403, "GRANT_WRONG_EXECUTOR")
    assert events(shop, action_id)[-2:] == ["approval_granted", "start_refused"]
    assert len(orders(send(shop))) == 1


@pytest.mark.parametrize("stop", ["freeze", "executor"])
def test_what_stops_a_start_stops_a_claim_that_starts(shop: Workshop, stop: str):
    action_id = shop.approved()
    if stop == "freeze":
        shop.operator.post("/freezes", {"scope": "tool", "value": "delete_document", "reason": "Wait."})
        assert orders(send(shop)) == []
    else:
        with tenancy(shop.tenant):
            executors.revoke_executor(
                tenant_id=shop.tenant, executor_id="runner", reason="Lost.", by=ledger.SYSTEM, at=timezone.now()
            )
        answer = send(shop)
        assert (answer.status_code, answer.json()["code"]) == (403, "EXECUTOR_REVOKED")
    assert shop.state(action_id) == "VALIDATED"


def test_a_repeat_of_the_request_gets_the_same_starts(shop: Workshop):
    shop.approved()
    key = {"Idempotency-Key": uuid4().hex}
    first = orders(send(shop, headers=key | {"DPoP": proof(shop)}))
    assert orders(send(shop, headers=key | {"DPoP": proof(shop)})) == first
    assert send(shop, headers=key | {"DPoP": proof(shop, key=new_key())}).json()["code"] == "IDEMPOTENCY_CONFLICT"


def test_a_claim_that_waits_looks_without_writing_until_there_is_something_to_claim(shop: Workshop, monkeypatch: Any):
    action_id, looks, naps = shop.propose(), 0, 0

    def look(*args: Any, **kwargs: Any) -> Any:
        nonlocal looks
        looks += 1
        return claim_orders(*args, **kwargs)

    def nap(_: float) -> None:
        nonlocal naps
        naps += 1
        if naps == 5:
            assert looks == 1
            shop.vote(shop.approval_of(action_id))

    claim_orders = routes._claim_orders
    monkeypatch.setattr(routes, "_claim_orders", look)
    claim = partial(send, shop, start=None, wait_s=20, headers={"Idempotency-Key": "once"})
    [order] = orders(answered(shop.executor.client, claim, nap=nap))
    assert order["action_id"] == action_id
    assert (looks, naps) == (2, 5)


def test_a_claim_that_waits_in_vain_asks_once_more_at_the_end(shop: Workshop):
    shop.propose()
    assert orders(answered(shop.executor.client, partial(send, shop, start=None, wait_s=1, headers={}))) == []


def test_a_key_that_is_revoked_during_a_wait_claims_nothing(shop: Workshop):
    action_id = shop.propose()

    def revoke_and_approve(_: float) -> None:
        with tenancy(shop.tenant):
            [key] = ApiKey.objects.filter(kind="exec", revoked_at=None)
            accounts.revoke_key(
                tenant_id=shop.tenant, key_id=key.id, by=ledger.SYSTEM, reason="Lost.", at=timezone.now()
            )
        shop.vote(shop.approval_of(action_id))

    claim = partial(send, shop, start=None, wait_s=20, headers={})
    answer = answered(shop.executor.client, claim, nap=revoke_and_approve)
    assert answer.status_code == 401
    assert shop.state(action_id) == "VALIDATED"


def test_a_claim_that_waits_starts_what_it_claims_with_the_proof_of_before(shop: Workshop):
    action_id = shop.propose()
    claim = partial(send, shop, wait_s=20, headers={"DPoP": proof(shop)})
    [order] = orders(answered(shop.executor.client, claim, nap=lambda _: shop.vote(shop.approval_of(action_id))))
    assert order["started"]["action_id"] == action_id
    assert claim().json()["code"] == "GRANT_INVALID", "the proof is spent"
