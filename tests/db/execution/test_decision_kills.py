"""Identical requests to decide at once, and a web process that is killed between a decision and its answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from approvals.tasks import lapse
from tests.db.races import on_its_own_connection
from tests.support.api_tenant import Clock, Workshop, document
from tests.support.outside.forking import forks
from tests.support.probes import opened

PATH = "/api/v1/decide"
NOTE = document("notes/today.md", "Quiet.")
KILLED_SENDER = """
import json, os, signal, sys, django
django.setup()
from django.test import Client
from console.decisions import routes
once = routes.run_once
def run_and_die(*given, **named):
    once(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
routes.run_once = run_and_die
path, body, headers = json.loads(sys.argv[1])
print(Client().post(path, body, "application/json", headers=headers).content)
"""


@pytest.fixture
def opening(committed_db: Any, run: Any, tmp_path: Path) -> Iterator[tuple[Workshop, Clock]]:
    with opened(tmp_path, run.secrets) as made:
        yield made


def body_of(shop: Workshop) -> dict[str, Any]:
    session = shop.session()
    call = {"call_id": "one", "tool": "write_document", "arguments": NOTE, "pin_hash": session["pin"]["hash"]}
    at_hand = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}
    return {"session_id": session["session_id"], "agent_id": "librarian", "call": call, "start": at_hand}


def headers_of(shop: Workshop) -> dict[str, str]:
    bearer = shop.executor.headers["Authorization"]
    token, at = bearer.removeprefix("Bearer "), timezone.now().timestamp()
    proof = shop.key.proof(method="POST", url=f"http://testserver{PATH}", token=token, at=at)
    return dict(shop.agent.headers) | {"Executor-Authorization": bearer, "Executor-DPoP": proof}


def decided(shop: Workshop, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    answer = shop.agent.again().client.post(PATH, body, "application/json", headers=headers)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_of_many_identical_requests_at_once_one_is_allowed(opening: tuple[Workshop, Clock]):
    shop, _ = opening
    body = body_of(shop)
    proofs = [headers_of(shop) for _ in range(6)]
    with ThreadPoolExecutor(len(proofs)) as threads:
        sent = [threads.submit(on_its_own_connection(partial(decided, shop, body, each))) for each in proofs]
        answers = [each.result() for each in sent]
    assert sorted(each["decision"] for each in answers) == ["allow", *["deny"] * 5]
    assert {each["code"] for each in answers} == {None, "ALREADY_ALLOWED"}
    [decision_id] = {each["decision_id"] for each in answers}
    assert [each["event"] for each in shop.history(decision_id)].count("execution_started") == 1


def test_a_decision_whose_answer_was_lost_is_unknown_after_its_lease_and_never_allowed_again(
    opening: tuple[Workshop, Clock], committed_db: Any, settings: Any, tmp_path: Path
):
    shop, clock = opening
    body = body_of(shop)
    environment = os.environ | committed_db.environment
    environment |= {
        "COUNTERFOIL_SECRETS_DIR": str(settings.COUNTERFOIL_SECRETS_DIR),
        "COUNTERFOIL_PUBLIC_URL": "http://testserver",
    }
    said = tmp_path / "said"
    argument = json.dumps([PATH, body, headers_of(shop)])
    process = forks().start(["-c", KILLED_SENDER, argument], environment, out=said, err=said)
    assert process.wait() == -signal.SIGKILL, said.read_text()

    # The gateway knows nothing of the answer and asks again.
    again = decided(shop, body, headers_of(shop))
    assert (again["decision"], again["code"], again["state"]) == ("deny", "ALREADY_ALLOWED", "EXECUTING")
    decision_id = again["decision_id"]
    clock.forward(seconds=21)
    lapse()
    assert shop.state(decision_id) == "UNKNOWN"
    assert decided(shop, body, headers_of(shop))["code"] == "ALREADY_ALLOWED"

    # Nothing ran, and the worker finds that out.
    clock.forward(seconds=90)
    shop.read_back(decision_id, clock)
    assert shop.state(decision_id) == "FAILED"
    assert shop.report(decision_id)["completed"] is False
    assert [each["event"] for each in shop.history(decision_id)].count("execution_started") == 1
    call_command("verify_ledger", verbosity=0)
