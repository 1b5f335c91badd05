"""Two at once: one of them wins, the other one is told, and the record has one history."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, OperationalError, transaction

from console.local.installation import ROOT
from ledger.db import tenancy
from ledger.models import Action, Event
from ledger.record import operations
from ledger.record.operations import NewEvent
from ledger.record.queries import events as queries
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import Ground, IllegalTransition
from tests.db.races import PATIENCE_S, on_its_own_connection, until_someone_waits
from tests.db.record.records import Record, fill
from tests.support.builders import AT, propose

FAILED = NewEvent(kind="failed", to="FAILED", grounds=frozenset({Ground.NOTHING_SENT}))
PENDING = NewEvent(kind="answered", to="PENDING")


@pytest.fixture
def record(committed_db) -> Iterator[Record]:
    yield fill("orchid")
    # Whoever won: the stored bytes hold together.
    call_command("verify_ledger", verbosity=0)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def outcomes(running: list[Future[Any]]) -> list[str]:
    """The name of what each ended with."""
    return sorted(type(each.exception(PATIENCE_S) or each.result()).__name__ for each in running)


def append(record: Record, happening: NewEvent) -> operations.SubjectHead:
    with tenancy(record.tenant):
        return operations.append(record.action, happening, actor=operations.SYSTEM, at=AT)


def append_locked(record: Record, happening: NewEvent) -> operations.SubjectHead:
    with tenancy(record.tenant):
        head = operations.lock_subject(tenant_id=record.tenant, subject_id=record.action.id, kind="action")
        return operations.append(head, happening, actor=operations.SYSTEM, at=AT)


def history(record: Record) -> list[str]:
    with tenancy(record.tenant):
        return [event.kind for event, _, _ in queries.history(record.tenant, record.action.id)]


@pytest.mark.req("R-SM-23")
def test_one_of_two_concurrent_appends_to_a_head_wins(record, threads):
    ready = threading.Barrier(2)

    def race(happening: NewEvent) -> operations.SubjectHead:
        ready.wait(PATIENCE_S)
        return append(record, happening)

    running = [threads.submit(on_its_own_connection(lambda each=each: race(each))) for each in (FAILED, PENDING)]
    assert outcomes(running) in (["IntegrityError", "SubjectHead"], ["OperationalError", "SubjectHead"])
    assert len(history(record)) == 4


@pytest.mark.req("R-SM-23")
def test_an_append_waits_for_one_that_has_not_committed_and_then_loses(record, threads, app_connection):
    with tenancy(record.tenant):
        operations.append(record.action, FAILED, actor=operations.SYSTEM, at=AT)
        late = threads.submit(on_its_own_connection(lambda: append(record, PENDING)))
        until_someone_waits(app_connection)
    with pytest.raises((IntegrityError, OperationalError)):
        late.result(PATIENCE_S)
    assert history(record)[3:] == ["failed"]


@pytest.mark.req("R-SM-23")
def test_an_append_whose_rival_rolled_back_wins(record, threads, app_connection):
    with tenancy(record.tenant):
        operations.append(record.action, FAILED, actor=operations.SYSTEM, at=AT)
        late = threads.submit(on_its_own_connection(lambda: append(record, PENDING)))
        until_someone_waits(app_connection)
        transaction.set_rollback(True)
    assert late.result(PATIENCE_S).state == "PENDING"
    assert history(record)[3:] == ["answered"]


@pytest.mark.req("R-SM-23")
def test_the_second_lock_holder_sees_the_changes_of_the_first(record, threads, app_connection):
    with tenancy(record.tenant):
        head = operations.lock_subject(tenant_id=record.tenant, subject_id=record.action.id, kind="action")
        late = threads.submit(on_its_own_connection(lambda: append_locked(record, FAILED)))
        until_someone_waits(app_connection)
        changes = {"execution": {"status": "PENDING"}}
        operations.append(
            head, NewEvent(kind="answered", to="PENDING", changes=changes), actor=operations.SYSTEM, at=AT
        )
    # It is judged by the state that it finds, and PENDING asks for other grounds than EXECUTING did.
    assert type(late.exception(PATIENCE_S)).__name__ == "GroundsMissing"
    assert history(record)[3:] == ["answered"]


@pytest.mark.req("R-SM-23")
def test_a_lock_never_pairs_a_newer_head_with_an_older_entry(record, threads):
    def note(number: int) -> None:
        changes = {"execution": {"attempt_count": number}}
        with tenancy(record.tenant):
            head = operations.lock_subject(tenant_id=record.tenant, subject_id=record.action.id, kind="action")
            assert head.entry is not None
            counted = NewEvent(
                kind="evidence_added", changes=changes, detail={"before": head.entry["execution"]["attempt_count"]}
            )
            operations.append(head, counted, actor=operations.SYSTEM, at=AT)

    for each in [threads.submit(on_its_own_connection(lambda number=number: note(number))) for number in range(2, 18)]:
        each.result(PATIENCE_S)
    with tenancy(record.tenant):
        rows = queries.history(record.tenant, record.action.id)
    counts = [entry["execution"]["attempt_count"] for _, entry, _ in rows]
    assert [detail["before"] for _, _, detail in rows[3:]] == counts[2:-1]
    assert sorted(counts[3:]) == list(range(2, 18))


def test_concurrent_appends_form_one_sequence_without_a_gap(record, threads):
    running = [
        threads.submit(on_its_own_connection(lambda: append_locked(record, NewEvent(kind="evidence_added"))))
        for _ in range(24)
    ]
    assert outcomes(running) == ["SubjectHead"] * 24
    with tenancy(record.tenant):
        rows = Event.objects.filter(tenant_id=record.tenant, subject_id=record.action.id).order_by("seq")
        assert list(rows.values_list("seq", flat=True)) == list(range(1, 28))


def test_one_of_two_concurrent_creations_of_a_subject_wins(record, threads):
    new = operations.SubjectHead(tenant_id=record.tenant, id=operations.new_id(AT), kind="recording")
    ready = threading.Barrier(2)

    def create() -> operations.SubjectHead:
        ready.wait(PATIENCE_S)
        with tenancy(record.tenant):
            return operations.append(
                new, NewEvent(kind="recording_imported", to="IMPORTED"), actor=operations.SYSTEM, at=AT
            )

    assert outcomes([threads.submit(on_its_own_connection(create)) for _ in range(2)]) == [
        "IntegrityError",
        "SubjectHead",
    ]


def test_different_subjects_are_locked_independently(record, threads):
    with tenancy(record.tenant):
        other = propose(record.tenant)
    with tenancy(record.tenant):
        operations.lock_subject(tenant_id=record.tenant, subject_id=record.action.id, kind="action")

        def move() -> operations.SubjectHead:
            with tenancy(record.tenant):
                head = operations.lock_subject(tenant_id=record.tenant, subject_id=other.id, kind="action")
                return operations.append(head, NewEvent(kind="evidence_added"), actor=operations.SYSTEM, at=AT)

        assert threads.submit(on_its_own_connection(move)).result(PATIENCE_S).seq == 2


# The same mutation twice


def ready_to_start(record: Record, operation: str) -> operations.SubjectHead:
    validated = NewEvent(kind="validated", to="VALIDATED", changes={"timestamps": {"validated_at": instant(AT)}})
    with tenancy(record.tenant):
        head = propose(record.tenant, view={"operation_key": operation})
        return operations.append(head, validated, actor=operations.SYSTEM, at=AT)


def start(record: Record, head: operations.SubjectHead) -> operations.SubjectHead:
    started = NewEvent(kind="execution_started", to="EXECUTING", grounds=frozenset({Ground.RELEASED}))
    with tenancy(record.tenant):
        return operations.append(head, started, actor=operations.SYSTEM, at=AT)


@pytest.mark.req("R-EX-08")
def test_one_of_two_concurrent_starts_of_a_mutation_wins(record, threads):
    twins = [ready_to_start(record, "refund order 1") for _ in range(2)]
    ready = threading.Barrier(2)

    def race(head: operations.SubjectHead) -> operations.SubjectHead:
        ready.wait(PATIENCE_S)
        return start(record, head)

    running = [threads.submit(on_its_own_connection(lambda head=head: race(head))) for head in twins]
    assert outcomes(running) == ["IntegrityError", "SubjectHead"]
    (loser,) = [each.exception() for each in running if each.exception()]
    assert loser.__cause__.diag.constraint_name == "action_one_open_mutation"
    with tenancy(record.tenant):
        states = Action.objects.filter(operation_key="refund order 1").values_list("state", flat=True)
        assert sorted(states) == ["EXECUTING", "VALIDATED"]


@pytest.mark.req("R-EX-08")
def test_a_mutation_can_start_again_when_the_first_one_failed(record):
    first, second = (ready_to_start(record, "refund order 1") for _ in range(2))
    head = start(record, first)
    with pytest.raises(IntegrityError):
        start(record, second)
    with tenancy(record.tenant):
        operations.append(head, FAILED, actor=operations.SYSTEM, at=AT)
    assert start(record, second).state == "EXECUTING"


@pytest.mark.req("R-EX-08")
def test_two_reads_may_run_at_once(record):
    def reading() -> operations.SubjectHead:
        validated = NewEvent(kind="validated", to="VALIDATED")
        with tenancy(record.tenant):
            head = propose(record.tenant, view={"operation_key": "look", "mutating": False})
            return operations.append(head, validated, actor=operations.SYSTEM, at=AT)

    assert [start(record, reading()).state for _ in range(2)] == ["EXECUTING", "EXECUTING"]


def test_other_operations_and_other_tenants_do_not_block_a_start(record):
    elsewhere = fill("willow")
    for where, operation in ((record, "refund order 1"), (record, "refund order 2"), (elsewhere, "refund order 1")):
        assert start(where, ready_to_start(where, operation)).state == "EXECUTING"


# Half a write


def test_a_write_that_fails_half_way_leaves_nothing(record):
    def half() -> None:
        with tenancy(record.tenant):
            assert operations.append(record.action, PENDING, actor=operations.SYSTEM, at=AT).seq == 4
            operations.append(record.action, FAILED, actor=operations.SYSTEM, at=AT)

    with pytest.raises(DatabaseError):
        half()
    assert len(history(record)) == 3


def test_a_refusal_in_the_same_transaction_keeps_what_was_written(record):
    with tenancy(record.tenant):
        head = operations.append(record.action, PENDING, actor=operations.SYSTEM, at=AT)
        with pytest.raises(IllegalTransition):
            operations.append(head, NewEvent(kind="validated", to="VALIDATED"), actor=operations.SYSTEM, at=AT)
    assert history(record)[3:] == ["answered"]


STOPPED = """
import os, sys, threading, time
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
import django
django.setup()
from uuid import UUID
from ledger.record import operations as record
from ledger.db import tenancy

tenant, action = UUID(sys.argv[1]), UUID(sys.argv[2])
held, wanted = threading.Event(), threading.Event()

def wait_for_it():
    held.wait()
    wanted.set()
    # The first statement of its transaction, and the row is locked by the other thread.
    with tenancy(tenant):
        record.lock_subject(tenant_id=tenant, subject_id=action, kind="action")

waiting = threading.Thread(target=wait_for_it)
waiting.start()
with tenancy(tenant):
    record.lock_subject(tenant_id=tenant, subject_id=action, kind="action")
    held.set()
    wanted.wait()
    time.sleep(1)
waiting.join()
print("both went on")
"""


def test_a_thread_that_waits_for_a_row_does_not_block_the_thread_that_holds_it(record, committed_db):
    """Nobody waits for the server in a way that stops the process: another thread may have what is waited for."""
    told = subprocess.run(
        [sys.executable, "-c", STOPPED, str(record.tenant), str(record.action.id)],
        env=dict(os.environ) | committed_db.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert told.stdout == "both went on\n", told.stderr
