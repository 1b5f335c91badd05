"""Redemptions that really meet: many at once, a freeze or a policy that arrives meanwhile, and a process that dies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, connections

from approvals.execution import queries as execution_queries
from approvals.execution.operations import executions, ready_actions, release_check
from approvals.requests.queries import approvals
from console.execution import routes as edge
from ledger.catalogue.operations import installation, registration
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from tests.db.races import PATIENCE_S, on_its_own_connection, until_someone_waits
from tests.support.api_tenant import Workshop, document, new_key, workshop
from tests.support.callers import put_in_force


@pytest.fixture
def shop(committed_db: Any, settings: Any) -> Workshop:
    settings.COUNTERFOIL_RATE_PER_S = 0
    return workshop("orchid").set_up()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(100) as pool:
        yield pool


def told(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


def attempts(shop: Workshop, order: dict[str, Any]) -> int:
    with tenancy(shop.tenant):
        return len(execution_queries.attempts_of(shop.tenant, UUID(order["action_id"])))


def refusals(shop: Workshop, order: dict[str, Any]) -> list[str]:
    history = shop.history(order["action_id"])
    return [each["detail"]["code"] for each in history if each["event"] == "start_refused"]


# Once


@pytest.mark.parametrize("many", [12, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.req("R-AP-07", "R-EX-12")
def test_exactly_one_of_many_concurrent_redemptions_succeeds(shop: Workshop, threads: ThreadPoolExecutor, many: int):
    """B9, and the last use of B15: every grant has one use; each presenter has a connection and a proof of its own."""
    order = shop.claimed()
    ready = Barrier(many)

    def redeem() -> tuple[int, str]:
        connection.ensure_connection()
        ready.wait(PATIENCE_S)
        return told(shop.start(order))

    running = [threads.submit(on_its_own_connection(redeem)) for _ in range(many)]
    answers = sorted(each.result(PATIENCE_S) for each in running)
    assert answers == [(201, ""), *[(409, "GRANT_CONSUMED")] * (many - 1)]
    assert attempts(shop, order) == 1
    assert refusals(shop, order) == ["GRANT_CONSUMED"] * (many - 1)


# A claim reserves


def grants_of(shop: Workshop) -> Counter[UUID]:
    """How many grants each action was ever given."""
    with tenancy(shop.tenant):
        return Counter(action_id for (action_id,) in execute("SELECT action_id FROM approvals_grant"))


@pytest.mark.unsealed
def test_a_claim_that_was_overtaken_by_another_grant_gets_nothing(
    shop: Workshop, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
):
    wanted = {shop.propose("write_document", **document(f"notes/{number}.md", "Quiet.")) for number in range(2)}
    seen_free, go_on, as_it_is = Barrier(2), Barrier(2), ready_actions.lock_if_alone
    slow = iter([True])

    def looked(*asked: Any, **more: Any) -> Any:
        found = as_it_is(*asked, **more)
        if next(slow, False):
            seen_free.wait(PATIENCE_S)
            go_on.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(ready_actions, "lock_if_alone", looked)
    late = threads.submit(on_its_own_connection(shop.claim))
    seen_free.wait(PATIENCE_S)
    orders = shop.claim()
    go_on.wait(PATIENCE_S)

    assert {order["action_id"] for order in orders} == wanted
    assert late.result(PATIENCE_S) == []
    assert [told(shop.start(order)) for order in orders] == [(201, "")] * 2


@pytest.mark.unsealed
def test_a_claim_of_one_action_that_waited_for_another_claim_gets_nothing(
    shop: Workshop,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    app_connection: psycopg.Connection,
):
    action_id = shop.propose("write_document")
    is_locked, go_on, as_it_is = Barrier(2), Barrier(2), ready_actions.lock_if_alone
    first = iter([True])

    def locked(*asked: Any, **more: Any) -> Any:
        found = as_it_is(*asked, **more)
        if next(first, False):
            is_locked.wait(PATIENCE_S)
            go_on.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(ready_actions, "lock_if_alone", locked)
    early = threads.submit(on_its_own_connection(shop.claim))
    is_locked.wait(PATIENCE_S)
    late = threads.submit(on_its_own_connection(shop.claim))
    # It has found the action free, in the statement that waits for its lock.
    until_someone_waits(app_connection)
    go_on.wait(PATIENCE_S)

    [order] = early.result(PATIENCE_S)
    assert (order["action_id"], late.result(PATIENCE_S)) == (action_id, [])
    assert grants_of(shop) == {UUID(action_id): 1}
    assert told(shop.start(order)) == (201, "")


@pytest.mark.unsealed
def test_three_executors_that_claim_in_a_loop_start_every_action_once_and_are_never_refused(
    shop: Workshop, threads: ThreadPoolExecutor
):
    wanted = {shop.propose("write_document", **document(f"notes/{number}.md", "Quiet.")) for number in range(24)}
    ready = Barrier(3)

    def work(name: str) -> list[tuple[str, tuple[int, str]]]:
        key = new_key()
        assert shop.register(executor_id=name, key=key).status_code == 201
        ready.wait(PATIENCE_S)
        started = []
        while orders := shop.claim(executor_id=name, limit=2):
            for order in orders:
                proof = shop.proof(order["action_id"], order["grant"], key=key)
                started.append((order["action_id"], told(shop.start(order, executor_id=name, proof=proof))))
        return started

    running = [threads.submit(on_its_own_connection(lambda name=name: work(name))) for name in ("one", "two", "three")]
    started = [each for one in running for each in one.result(PATIENCE_S)]

    assert {answer for _, answer in started} == {(201, "")}
    assert sorted(action_id for action_id, _ in started) == sorted(wanted)
    assert set(grants_of(shop).values()) == {1}


# The gate


def holding(
    threads: ThreadPoolExecutor, shop: Workshop, work: Callable[[], Any]
) -> tuple[Future[Any], Callable[[], None]]:
    """Work that is done and not committed before the returned function is called."""
    done, go = Barrier(2), Barrier(2)

    def held() -> Any:
        with tenancy(shop.tenant):
            result = work()
            done.wait(PATIENCE_S)
            go.wait(PATIENCE_S)
        return result

    running = threads.submit(on_its_own_connection(held))
    done.wait(PATIENCE_S)
    return running, lambda: go.wait(PATIENCE_S) and None


def freeze(shop: Workshop) -> Any:
    return registration.place_freeze(
        tenant_id=shop.tenant,
        scope="target",
        value="document/policies/returns.md",
        reason="Stop.",
        actor=ledger.SYSTEM,
        at=datetime.now(UTC),
    )


def tighten(shop: Workshop) -> Any:
    return put_in_force(shop.tenant, "approval", "2", {"version": "2", "decide_within_s": 60})


@pytest.mark.req("R-EX-15", "R-AP-24")
@pytest.mark.parametrize(
    ("change", "code"), [(freeze, "TARGET_FROZEN"), (tighten, "POLICY_CHANGED")], ids=["freeze", "policy"]
)
def test_a_start_waits_for_a_concurrent_change_and_obeys_it(
    shop: Workshop, threads: ThreadPoolExecutor, app_connection: psycopg.Connection, change: Any, code: str
):
    """B17, B22: the change came first, and is not committed yet when the start arrives."""
    order = shop.claimed()
    changing, commit = holding(threads, shop, lambda: change(shop))
    starting = threads.submit(on_its_own_connection(lambda: told(shop.start(order))))
    until_someone_waits(app_connection, by="advisory")
    assert not starting.done()
    commit()
    changing.result(PATIENCE_S)
    assert starting.result(PATIENCE_S) == (409, code)
    assert attempts(shop, order) == 0


@pytest.mark.parametrize("change", [freeze, tighten], ids=["freeze", "policy"])
def test_a_change_waits_for_a_concurrent_start(
    shop: Workshop,
    threads: ThreadPoolExecutor,
    app_connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    change: Any,
):
    """B17, B22: the start came first: it is committed before the change can be."""
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

    def changed() -> Any:
        with tenancy(shop.tenant):
            return change(shop)

    changing = threads.submit(on_its_own_connection(changed))
    until_someone_waits(app_connection, by="advisory")
    assert not changing.done()
    go.wait(PATIENCE_S)
    assert starting.result(PATIENCE_S) == (201, "")
    changing.result(PATIENCE_S)
    assert attempts(shop, order) == 1


def test_maintenance_waits_for_a_concurrent_start_and_sees_its_lease(
    shop: Workshop, threads: ThreadPoolExecutor, app_connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    order, later = shop.claimed(), shop.approved(path="policies/later.md")
    inside, go = Barrier(2), Barrier(2)
    real = executions._check_release

    def slow(*values: Any, **named: Any) -> None:
        inside.wait(PATIENCE_S)
        go.wait(PATIENCE_S)
        real(*values, **named)

    def begin() -> tuple[int, datetime | None]:
        installation.begin_maintenance(reason="Moving.", at=datetime.now(UTC))
        return execution_queries.count_running_attempts()

    with monkeypatch.context() as patched:
        patched.setattr(executions, "_check_release", slow)
        starting = threads.submit(on_its_own_connection(lambda: told(shop.start(order))))
        inside.wait(PATIENCE_S)
        beginning = threads.submit(on_its_own_connection(begin))
        until_someone_waits(app_connection, by="advisory")
        assert not beginning.done()
        go.wait(PATIENCE_S)
        assert starting.result(PATIENCE_S) == (201, "")
    assert beginning.result(PATIENCE_S)[0] == 1
    assert later not in {each["action_id"] for each in shop.claim()}


def test_a_claim_during_a_freeze_gives_a_grant_that_cannot_start(shop: Workshop, threads: ThreadPoolExecutor):
    """B22: at the mint, in both orders. A grant that was made while the freeze was under way is refused at its use."""
    shop.approved()
    freezing, commit = holding(threads, shop, lambda: freeze(shop))
    [order] = shop.claim()
    commit()
    freezing.result(PATIENCE_S)
    assert told(shop.start(order)) == (409, "TARGET_FROZEN")
    shop.run_out()
    assert shop.claim() == []


# Time


def test_a_grant_that_expires_during_a_long_transaction_is_not_spent(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """B14: the grant was good when the transaction began, and when it was looked at; its own write comes too late."""
    order = shop.claimed()
    with tenancy(shop.tenant):
        execute("UPDATE approvals_grant SET expires_at = clock_timestamp() + interval '1.5 s'")
    real = executions._check_release

    def slow(*values: Any, **named: Any) -> None:
        real(*values, **named)
        time.sleep(1.6)

    monkeypatch.setattr(executions, "_check_release", slow)
    assert told(shop.start(order)) == (409, "GRANT_EXPIRED")
    assert attempts(shop, order) == 0
    assert shop.state(order["action_id"]) == "VALIDATED"


# Crashes


class Died(Exception):
    """The process ended here."""


@pytest.mark.parametrize("point", ["_check_release", "pipeline", "_begin_execution"])
def test_a_connection_that_dies_before_the_commit_leaves_the_grant_unspent(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, superuser_connection: psycopg.Connection, point: str
):
    """B11: the server loses us right after this step of the redemption; nothing happened, and the grant is good."""
    order = shop.claimed()
    real = getattr(executions, point)

    def fatal(*values: Any, **named: Any) -> Any:
        real(*values, **named)
        [(process,)] = execute("SELECT pg_backend_pid()")
        superuser_connection.execute("SELECT pg_terminate_backend(%s)", [process])
        raise Died

    monkeypatch.setattr(executions, point, fatal)
    assert shop.start(order).status_code >= 500
    connections.close_all()
    monkeypatch.setattr(executions, point, real)
    assert attempts(shop, order) == 0
    assert shop.state(order["action_id"]) == "VALIDATED"
    assert shop.start(order).status_code == 201
    assert attempts(shop, order) == 1


def test_a_process_that_dies_after_the_commit_has_spent_the_grant(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """B11: the answer was lost; the action is EXECUTING, nobody can start it again, and there is no other grant."""
    order = shop.claimed()

    real = edge.run_once

    def once(*values: Any, **named: Any) -> Any:
        real(*values, **named)
        raise Died

    monkeypatch.setattr(edge, "run_once", once)
    assert shop.start(order).status_code == 500
    monkeypatch.setattr(edge, "run_once", real)
    assert shop.state(order["action_id"]) == "EXECUTING"
    assert told(shop.start(order)) == (409, "GRANT_CONSUMED")
    assert shop.claim() == []
    assert attempts(shop, order) == 1


@pytest.mark.parametrize("kind", ["execution_started", "approval_consumed"])
def test_a_start_whose_event_cannot_be_written_changes_nothing(
    shop: Workshop, owner_connection: psycopg.Connection, kind: str
):
    """B41: the database refuses the event; grant, attempt and approval are as they were."""
    order = shop.claimed()
    owner_connection.execute(f"ALTER TABLE ledger_event ADD CONSTRAINT broken CHECK (kind <> '{kind}') NOT VALID")
    assert shop.start(order).status_code == 500
    connections.close_all()
    owner_connection.execute("ALTER TABLE ledger_event DROP CONSTRAINT broken")
    with tenancy(shop.tenant):
        assert approvals.approval_of(shop.tenant, UUID(order["action_id"])).state == "APPROVED"
    assert attempts(shop, order) == 0
    assert shop.start(order).status_code == 201


# What is stored


def test_a_contract_that_was_changed_at_rest_cannot_start(shop: Workshop, owner_connection: psycopg.Connection):
    """B5: somebody with the owner's rights changed the description after the vote."""
    order = shop.claimed()
    owner_connection.execute("ALTER TABLE ledger_contractversion DISABLE TRIGGER USER")
    owner_connection.execute("ALTER TABLE ledger_contractversion NO FORCE ROW LEVEL SECURITY")
    owner_connection.execute(
        "UPDATE ledger_contractversion SET document = convert_to(replace(convert_from(document, 'UTF8'),"
        " 'description', 'descripted'), 'UTF8') WHERE name = 'delete_document'"
    )
    assert told(shop.start(order)) == (409, "CONTRACT_CHANGED")
    assert refusals(shop, order) == ["CONTRACT_CHANGED"]


def test_a_payload_that_was_exchanged_at_rest_is_not_delivered(shop: Workshop, owner_connection: psycopg.Connection):
    """B4: what stands behind the same reference is another thing now: another action's payload."""
    order = shop.claimed()
    other = shop.propose(path="policies/everything.md")
    owner_connection.execute("ALTER TABLE ledger_evidence DISABLE TRIGGER USER")
    owner_connection.execute("ALTER TABLE ledger_evidence NO FORCE ROW LEVEL SECURITY")
    owner_connection.execute(
        "UPDATE ledger_evidence SET sealed = (SELECT o.sealed FROM ledger_evidence o WHERE o.subject_id = %s"
        " AND o.purpose = 'payload'), length = 1 WHERE subject_id = %s AND purpose = 'payload'",
        [other, order["action_id"]],
    )
    answer = shop.start(order)
    assert answer.status_code >= 400
    assert b"policies" not in answer.content
    with tenancy(shop.tenant):
        assert events.subject_state(shop.tenant, UUID(order["action_id"])) == "VALIDATED"
    assert attempts(shop, order) == 0


# Plans


@pytest.mark.parametrize("statement", [release_check._RELEASE_QUERY, release_check._LOCKED_QUERY])
def test_a_release_is_planned_for_one_row(db: Any, statement: str):
    """Where the planner expects many, a plan for any values looks dearer than one for these, and each release is
    planned anew, which takes longer than reading it."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}")
        [[[found]]] = cursor.fetchall()
    assert found["Plan"]["Plan Rows"] == 1
