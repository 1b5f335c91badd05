"""A web process is killed in the middle of a call that its executor starts at once: nothing of it is there."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.utils import timezone

from approvals.models import Attempt, Call, Grant
from console.models import SpentProof
from ledger.db import tenancy
from ledger.models import Action, Event
from tests.support.api_tenant import Workshop, document
from tests.support.outside.forking import forks
from tests.support.probes import opened

PATIENCE_S = 60
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
SENDER = """
import json, sys, django
django.setup()
from django.test import Client
path, body, headers = json.loads(sys.argv[1])
print(Client().post(path, body, "application/json", headers=headers).status_code)
"""


@pytest.fixture
def shop(committed_db: Any, run: Any, tmp_path: Path) -> Iterator[Workshop]:
    with opened(tmp_path, run.secrets) as (made, _):
        yield made


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def request_of(shop: Workshop) -> tuple[str, dict[str, Any], dict[str, str]]:
    """One call with its executor at hand: address, body and headers."""
    session = shop.session()
    path = f"/api/v1/sessions/{session['session_id']}/calls"
    call = {"call_id": uuid4().hex, "tool": "write_document", "pin_hash": session["pin"]["hash"]}
    call["arguments"] = document("notes/today.md", "Quiet.")
    start = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}
    bearer = shop.executor.headers["Authorization"]
    proof = shop.key.proof(
        method="POST",
        url=f"http://testserver{path}",
        token=bearer.removeprefix("Bearer "),
        at=timezone.now().timestamp(),
    )
    headers = {"Executor-Authorization": bearer, "Executor-DPoP": proof, "Idempotency-Key": "one"}
    return path, {"calls": [call], "start": start}, dict(shop.agent.headers) | headers


def kept(shop: Workshop) -> dict[str, int]:
    """Everything that such a request writes."""
    with tenancy(shop.tenant):
        found = {model.__name__: model.objects.count() for model in (Action, Call, Grant, Attempt, SpentProof)}
        return found | {"events": Event.objects.filter(subject_kind="action").count()}


# From the record of the call to the attempt, which is the last thing that is written of the start.
@pytest.mark.parametrize("table", ["approvals_call", "approvals_grant", "approvals_attempt"])
@pytest.mark.req("R-SM-21")
def test_a_call_that_starts_at_once_is_stored_completely_or_not_at_all(
    shop: Workshop,
    committed_db: Any,
    run: Any,
    superuser_connection: psycopg.Connection,
    table: str,
    settings: Any,
    tmp_path: Path,
):
    said = tmp_path / "said"
    path, body, headers = request_of(shop)
    before = kept(shop)
    environment = os.environ | committed_db.environment
    environment |= {
        "COUNTERFOIL_SECRETS_DIR": str(settings.COUNTERFOIL_SECRETS_DIR),
        "COUNTERFOIL_PUBLIC_URL": "http://testserver",
    }
    with psycopg.connect(run.postgres.url("counterfoil_bootstrap", committed_db.name)) as holder:
        # Whoever wants to write to this table waits, in the middle of its transaction.
        holder.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE".encode())
        process = forks().start(["-c", SENDER, json.dumps([path, body, headers])], environment, out=said, err=said)
        until(lambda: superuser_connection.execute(WAITS).fetchone()[0] or process.poll() is not None)
        assert process.poll() is None, said.read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    until(lambda: not superuser_connection.execute(WAITS).fetchone()[0])
    assert kept(shop) == before

    # The same request again, with the same proof, which nobody has spent, is whole.
    answer = shop.agent.client.post(path, body, "application/json", headers=headers)
    assert answer.status_code == 200, answer.content
    (result,) = answer.json()["results"]
    assert (result["state"], result["started"]["attempt"]) == ("EXECUTING", 1)
    after = kept(shop)
    assert {name: after[name] - before[name] for name in before if name != "events"} == dict.fromkeys(
        ("Action", "Call", "Grant", "Attempt", "SpentProof"), 1
    )
    call_command("verify_ledger", verbosity=0)
