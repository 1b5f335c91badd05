"""A revocation that really meets a claim, a start, a vote and a call: one is before all of the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError

from approvals import tasks
from approvals.agents.operations import agents
from approvals.execution.operations import executions, ready_actions
from approvals.execution.queries import executor
from approvals.models import Deadline
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from tests.db.execution.test_redemptions import attempts, holding, told
from tests.db.races import PATIENCE_S, on_its_own_connection, until_someone_waits
from tests.support.api_tenant import TOOLS, Workshop, document, workshop


@pytest.fixture
def shop(committed_db: Any, settings: Any) -> Iterator[Workshop]:
    settings.COUNTERFOIL_RATE_PER_S = 0
    yield workshop("orchid").set_up()
    call_command("verify_ledger", verbosity=0)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def revoke(shop: Workshop) -> None:
    at = datetime.now(UTC)
    agents.revoke_agent(tenant_id=shop.tenant, agent_id="librarian", reason="Stop.", by=ledger.SYSTEM, at=at)


def revoked(shop: Workshop) -> None:
    with tenancy(shop.tenant):
        revoke(shop)


@pytest.mark.req("R-CR-14")
def test_a_start_waits_for_a_concurrent_revocation_and_obeys_it(
    shop: Workshop, threads: ThreadPoolExecutor, app_connection: psycopg.Connection
):
    order = shop.claimed()
    revoking, commit = holding(threads, shop, lambda: revoke(shop))
    starting = threads.submit(on_its_own_connection(lambda: told(shop.start(order))))
    until_someone_waits(app_connection, by="advisory")
    commit()
    revoking.result(PATIENCE_S)
    assert starting.result(PATIENCE_S) == (403, "AGENT_NOT_REGISTERED")
    assert attempts(shop, order) == 0
    assert shop.state(order["action_id"]) == "FAILED"


def test_a_revocation_waits_for_a_concurrent_start_and_leaves_it_running(
    shop: Workshop,
    threads: ThreadPoolExecutor,
    app_connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
):
    order = shop.claimed()
    inside, go = Barrier(2), Barrier(2)
    real = executions._check_release

    def slow(*values: Any, **named: Any) -> None:
        inside.wait(PATIENCE_S)
        go.wait(PATIENCE_S)
        real(*values, **named)

    monkeypatch.setattr(executions, "_check_release", slow)
    starting = threads.submit(on_its_own_connection(lambda: told(shop.start(order))))
    inside.wait(PATIENCE_S)
    revoking = threads.submit(on_its_own_connection(lambda: revoked(shop)))
    until_someone_waits(app_connection, by="advisory")
    assert not revoking.done()
    go.wait(PATIENCE_S)
    assert starting.result(PATIENCE_S) == (201, "")
    revoking.result(PATIENCE_S)
    assert shop.state(order["action_id"]) == "EXECUTING"
    [running] = shop.operator_key.get("/agents/librarian/revocation").json()["running"]
    assert running["action_id"] == order["action_id"]


def test_a_claim_waits_for_a_concurrent_revocation_and_gets_nothing(
    shop: Workshop, threads: ThreadPoolExecutor, app_connection: psycopg.Connection
):
    action_id = shop.propose("write_document")
    revoking, commit = holding(threads, shop, lambda: revoke(shop))
    claiming = threads.submit(on_its_own_connection(shop.claim))
    until_someone_waits(app_connection)
    commit()
    revoking.result(PATIENCE_S)
    assert claiming.result(PATIENCE_S) == []
    assert shop.state(action_id) == "FAILED"


def test_a_revocation_after_a_claim_voids_the_grant(
    shop: Workshop, threads: ThreadPoolExecutor, app_connection: psycopg.Connection
):
    shop.propose("write_document")
    with tenancy(shop.tenant):
        runner = executor(shop.tenant, "runner")
    assert runner is not None

    def claim() -> list[Any]:
        return ready_actions.claim_actions(
            tenant_id=shop.tenant,
            executor_id="runner",
            tools=None,
            limit=1,
            by=ledger.Actor("executor", runner.key_actor),
            at=datetime.now(UTC),
        )

    claiming, commit = holding(threads, shop, claim)
    revoking = threads.submit(on_its_own_connection(lambda: revoked(shop)))
    until_someone_waits(app_connection)
    commit()
    [claimed] = claiming.result(PATIENCE_S)
    revoking.result(PATIENCE_S)
    order = {"action_id": str(claimed.action_id), "grant": claimed.grant}
    assert told(shop.start(order)) == (403, "AGENT_NOT_REGISTERED")
    with tenancy(shop.tenant):
        assert execute("SELECT count(*) FROM approvals_grant WHERE voided_at IS NULL") == [(0,)]


def test_a_vote_waits_for_a_concurrent_revocation_and_is_refused(
    shop: Workshop, threads: ThreadPoolExecutor, app_connection: psycopg.Connection
):
    approval = shop.approval_of(shop.propose())
    revoking, commit = holding(threads, shop, lambda: revoke(shop))
    voting = threads.submit(on_its_own_connection(lambda: told(shop.vote(approval))))
    until_someone_waits(app_connection)
    commit()
    revoking.result(PATIENCE_S)
    assert voting.result(PATIENCE_S) == (409, "REQUEST_WITHDRAWN")


def test_a_call_overtaken_by_a_revocation_is_accepted_never_starts_and_is_ended_by_a_later_tick(
    shop: Workshop, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
):
    """The call was judged before the revocation and is committed after it, when the first portion has been ended."""
    session = shop.session()
    body = {"call_id": "late", "tool": "write_document", "arguments": document("notes/late.md", "Late.")}
    body["pin_hash"] = session["pin"]["hash"]
    sent = shop.agent.again()
    calling, commit = holding(
        threads, shop, lambda: sent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]}).json()
    )
    # Nothing of the call is locked that the revocation needs but its session, which is ended last.
    monkeypatch.setattr("approvals.agents.queries.stopped_sessions", lambda *_, **__: [])
    revoked(shop)
    commit()
    [answer] = calling.result(PATIENCE_S)["results"]
    assert answer["accepted"]
    assert shop.claim() == []
    assert shop.state(answer["action_id"]) == "VALIDATED"
    assert tasks.end_stopped_work() == 0
    Deadline.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=1))
    assert tasks.end_stopped_work() == 1
    assert shop.state(answer["action_id"]) == "FAILED"


@pytest.mark.req("R-CR-14")
def test_the_database_itself_refuses_grants_and_starts_for_a_stopped_agent(shop: Workshop):
    order = shop.claimed()
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    action_id = UUID(order["action_id"])
    grant = (
        "INSERT INTO approvals_grant (tenant_id, jti, action_id, executor_id, token_hash, attempt, minted_at,"
        " expires_at) VALUES ($1, gen_random_uuid(), $2, 'runner', 'x', 2, now(), now())"
    )
    attempt = (
        "INSERT INTO approvals_attempt (tenant_id, action_id, number, jti, executor_id, wrapper_version, started_at,"
        " timeout_s, lease_expires_at, ends_at) VALUES ($1, $2, 1, gen_random_uuid(), 'runner', '1', now(), 1, now(),"
        " now())"
    )
    for change in (None, revoke, lambda shop: register_again(shop)):
        for statement in (grant, attempt):
            refused = pytest.raises((DatabaseError, IntegrityError), match="may no longer have it done")
            with refused, tenancy(shop.tenant):
                execute(statement, shop.tenant, action_id)
        if change is not None:
            with tenancy(shop.tenant):
                change(shop)
    with tenancy(shop.tenant):
        assert execute("SELECT count(*) FROM approvals_attempt") == [(0,)]


def register_again(shop: Workshop) -> None:
    body = {"agent_id": "librarian", "version": "3", "tools": list(TOOLS)}
    assert shop.operator_key.post("/agents", body).status_code == 201
