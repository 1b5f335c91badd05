"""Idempotency-Key: the same write again gets the first answer, another write is refused, and a crash leaves nothing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from console.accounts import operations as accounts_operations
from console.models import AnsweredWrite, SpentProof
from console.tasks import tidy
from ledger.record.rules.canonical import digest
from tests.support import api_tour, people
from tests.support.api_tenant import DELETE, PASSWORD, Clock, Workshop, document, new_key, result, workshop
from tests.support.api_tour import FREEZE
from tests.support.callers import Api


class Twice:
    """A caller that sends each write twice under one key, and a third time with other bytes."""

    def __init__(self, api: Api, sent: set[str], shop: Workshop | None = None) -> None:
        self.api = api
        self.sent = sent
        self.shop = shop
        self.headers = api.headers

    def get(self, path: str, **headers: str) -> Any:
        return self.api.get(path, **headers)

    def release(self, kind: str, body: dict[str, Any]) -> Any:
        """Not a step of its own: it prepares one."""
        return self.api.release(kind, body)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        if path.startswith("/hooks/"):
            self.sent.add(path)
            return self.api.post(path, body, **headers)
        key = uuid4().hex
        text = json.dumps(body if body is not None else {})
        first, second, third = (
            self.api.post(path, sent, **self._proven(path, body, headers), **{"Idempotency-Key": key})
            for sent in (text, text, f"{text} ")
        )
        assert first.status_code < 300, (path, first.content)
        assert told(second) == told(first), path
        assert (third.status_code, third.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT"), path
        self.sent.add(path)
        return first

    def _proven(self, path: str, body: Any, headers: dict[str, str]) -> dict[str, str]:
        """A proof of possession is good once, so each try brings one of its own."""
        if self.shop is None:
            return headers
        if "Executor-DPoP" in headers:
            token = headers["Executor-Authorization"].removeprefix("Bearer ")
            sent = {"method": "POST", "url": f"http://testserver/api/v1{path}", "at": timezone.now().timestamp()}
            return headers | {"Executor-DPoP": self.shop.key.proof(token=token, **sent)}
        if "DPoP" not in headers:
            return headers
        return headers | {"DPoP": self.shop.proof(path.split("/")[2], body["grant"])}


def told(answer: Any) -> tuple[int, str, bytes]:
    return answer.status_code, answer["Content-Type"], answer.content


def once(api: Api, path: str, body: Any, key: str = "one") -> Any:
    return api.post(path, body, **{"Idempotency-Key": key})


@pytest.fixture
def doubled(shop: Workshop, settings: Any) -> set[str]:
    """The shop's callers, sending everything twice; the paths that they sent to."""
    settings.COUNTERFOIL_EVENT_DESTINATIONS = api_tour.DESTINATIONS
    sent: set[str] = set()
    for name in ("agent", "operator_key", "executor", "auditor", "reviewer", "operator"):
        setattr(shop, name, Twice(getattr(shop, name), sent, shop))
    return sent


@pytest.mark.req("R-EX-03", "R-EX-04")
def test_every_write_sent_twice_is_carried_out_once(shop: Workshop, doubled: set[str], clock: Clock):
    api_tour.register(shop)
    api_tour.propose(shop)
    api_tour.talk(shop)
    api_tour.change(shop)
    api_tour.sign(shop)
    case = api_tour.execute(shop, clock)
    api_tour.settle(shop, case)
    api_tour.measure(shop, case)
    api_tour.let_through(shop)
    shop.auditor.post("/exports", {"from": 1, "to": 9})
    api_tour.agree(shop, clock, lambda api: Twice(api, doubled))
    api_tour.tell(shop, lambda api: Twice(api, doubled))
    api_tour.retain(shop, lambda api: Twice(api, doubled))
    people.administer(shop, lambda api: Twice(api, doubled))

    document = shop.operator.get("/openapi.json").json()
    writes = {path for path, methods in document["paths"].items() if "post" in methods}
    missed = {write for write in writes if not any(api_tour.is_of(path, write) for path in doubled)}
    assert missed == set(), "a write that is not sent twice here"


def test_the_same_key_for_another_address_is_a_conflict(shop: Workshop):
    assert once(shop.operator, "/freezes", FREEZE).status_code == 201
    action_id = shop.propose("write_document")
    answer = once(shop.operator, f"/actions/{action_id}/cancel", {"reason": "No longer wanted."})
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert shop.state(action_id) == "VALIDATED"


def test_two_callers_may_use_the_same_key(shop: Workshop):
    assert once(shop.operator, "/freezes", FREEZE).status_code == 201
    assert once(shop.operator_key, "/freezes", FREEZE | {"value": "write_document"}).status_code == 201


def test_a_refused_write_leaves_its_key_free(shop: Workshop):
    placed = shop.operator.post("/freezes", FREEZE).json()
    assert once(shop.operator, "/freezes", FREEZE).json()["code"] == "ALREADY_FROZEN"
    shop.operator.post(f"/freezes/{placed['freeze_id']}/lift", {"reason": "Mended."})
    assert once(shop.operator, "/freezes", FREEZE).status_code == 201


def test_a_refusal_that_is_on_record_is_repeated_as_a_problem(shop: Workshop):
    order = shop.claimed()
    body = {
        "grant": order["grant"],
        "executor_id": "runner",
        "wrapper_version": "1",
        "timeout_s": 20,
        "payload_hash": "0" * 64,
    }
    path = f"/actions/{order['action_id']}/executions"
    answers = [
        shop.executor.post(
            path, body, DPoP=shop.proof(order["action_id"], order["grant"]), **{"Idempotency-Key": "one"}
        )
        for _ in range(2)
    ]
    assert told(answers[0]) == told(answers[1])
    assert answers[1]["Content-Type"] == "application/problem+json"
    assert answers[1].json()["code"] == "PAYLOAD_HASH_MISMATCH"


def test_a_crash_before_the_answer_is_kept_leaves_nothing(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as broken:
        broken.setattr(accounts_operations, "store_answer", lambda **_: 1 / 0)
        assert once(shop.operator, "/freezes", FREEZE).status_code == 500
    assert shop.operator.get("/freezes").json()["items"] == []
    assert not AnsweredWrite.objects.exists()
    assert once(shop.operator, "/freezes", FREEZE).status_code == 201


def test_two_at_once_are_one_write(committed_db: Any):
    shop = workshop("orchid")
    ready = Barrier(2)

    def send(_: int) -> tuple[int, str, bytes]:
        try:
            ready.wait(10)
            return told(once(shop.operator, "/freezes", {"scope": "all", "reason": "Look."}))
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(send, range(2))
    assert first == second
    assert first[0] == 201
    assert len(shop.operator.get("/freezes").json()["items"]) == 1


@pytest.mark.req("R-AP-21")
def test_a_kept_answer_reveals_nothing(shop: Workshop):
    action_id = shop.approved()
    claim = once(shop.executor, "/executions/claim", {"executor_id": "runner", "limit": 10})
    order = claim.json()["orders"][0]
    body = {"grant": order["grant"], "executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}
    proof = shop.proof(action_id, order["grant"])
    once_more = {"Idempotency-Key": "two", "DPoP": proof}
    started = shop.executor.post(f"/actions/{action_id}/executions", body, **once_more).json()

    kept = b"".join(bytes(row.body) for row in AnsweredWrite.objects.all())
    assert kept
    for secret in (order["grant"], DELETE["path"], started["idempotency_key"]):
        assert secret.encode() not in kept


def test_a_kept_request_cannot_be_guessed_from_its_hash(shop: Workshop):
    approval = shop.approval_of(shop.propose())
    body = {
        "verdict": "approve",
        "payload_hash": approval["payload_hash"],
        "rendering_digest": approval["rendering_digest"],
        "without_reading": approval["target_unread"],
        "password": PASSWORD,
    }
    path = f"/approvals/{approval['approval_id']}/votes"
    assert once(shop.reviewer, path, body).status_code == 201
    row = AnsweredWrite.objects.get()
    # Whoever reads the database knows all of it but the password.
    sent = json.dumps(body).encode()
    guesses = (sent, f"/api/v1{path}\n".encode() + sent, f"/api/v1{path}\n\n".encode() + sent)
    assert row.request_hash not in {digest(guess) for guess in guesses}


@pytest.mark.req("R-EX-03")
def test_a_start_is_repeated_only_for_who_holds_the_key(shop: Workshop):
    order = shop.claimed()
    path = f"/actions/{order['action_id']}/executions"
    body = {"grant": order["grant"], "executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}

    def send(proof: str) -> Any:
        return shop.executor.post(path, body, DPoP=proof, **{"Idempotency-Key": "one"})

    proof = shop.proof(order["action_id"], order["grant"])
    first = send(proof)
    assert first.status_code == 201
    repeated = shop.proof(order["action_id"], order["grant"])
    assert told(send(repeated)) == told(first)
    assert send("").status_code == 403
    for spent in (proof, repeated):
        replayed = send(spent)
        assert (replayed.status_code, replayed.json()["code"]) == (403, "GRANT_INVALID")
    thief = send(shop.proof(order["action_id"], order["grant"], key=new_key()))
    assert "payload" not in thief.json()


def test_a_claim_that_found_nothing_may_be_asked_again_and_waits_in_vain_only_once(shop: Workshop):
    first = once(shop.executor, "/executions/claim", {"executor_id": "runner", "limit": 10})
    assert first.json() == {"orders": []}
    shop.approved()
    assert told(once(shop.executor, "/executions/claim", {"executor_id": "runner", "limit": 10})) == told(first)
    assert len(once(shop.executor, "/executions/claim", {"executor_id": "runner", "limit": 10}, "two").json()["orders"])


def test_an_observation_sent_twice_is_one_observation(shop: Workshop):
    started = shop.started()
    path = f"/actions/{started['action_id']}/executions/{started['attempt']}/observations"
    sent = {"result": result()}
    for _ in range(2):
        assert once(shop.executor, path, sent).status_code == 202
    assert [event["event"] for event in shop.history(started["action_id"])].count("observed") == 1


def test_documents_written_twice_are_one_action(shop: Workshop):
    session = shop.session()
    call = {
        "call_id": "c-1",
        "tool": "write_document",
        "arguments": document("a/b.md", "x"),
        "pin_hash": session["pin"]["hash"],
    }
    path = f"/sessions/{session['session_id']}/calls"
    first, second = (once(shop.agent, path, {"calls": [call]}) for _ in range(2))
    assert first.content == second.content
    assert len(shop.agent.get("/actions").json()["items"]) == 1


def test_answers_that_can_no_longer_be_repeated_are_deleted(shop: Workshop, clock: Clock):
    shop.started()
    assert once(shop.operator, "/freezes", FREEZE).status_code == 201
    clock.forward(days=1)
    tidy()
    assert (AnsweredWrite.objects.count(), SpentProof.objects.count()) == (1, 1)
    clock.forward(days=2)
    tidy()
    assert (AnsweredWrite.objects.count(), SpentProof.objects.count()) == (0, 0)
