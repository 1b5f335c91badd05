"""Tenants with work: asked once for all of them, so that those without cost nothing and nobody with any is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import shared_task
from django.db import connection
from django.utils import timezone

from console.celery import app
from console.metrics import operations as metrics
from console.models import NoticeCursor
from console.notifications import collect
from console.search import operations as searching
from ledger import db as database
from ledger import tasks as of_log
from ledger.db import tenancy
from ledger.log.operations.sequencer import HEARTBEAT
from ledger.log.queries import log as logs
from ledger.management.commands.eraser import carry_out_erasures
from ledger.management.commands.sequencer import Sequencer
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from tests.support.callers import found
from tests.support.seals import as_sequencer, seal_up, signer

READERS: dict[Work, Callable[[UUID], Any]] = {
    Work.UNCOUNTED_EVENTS: lambda tenant: metrics.update_metrics(tenant_id=tenant, at=timezone.now()),
    Work.UNINDEXED_EVENTS: lambda tenant: searching.update_search(tenant_id=tenant),
    Work.NOTICES: lambda tenant: collect.collect_notices(events.tenant_by_id(tenant), at=timezone.now()),
}
"""What reads new events, each up to a number that it keeps."""


def comment(tenant: UUID) -> None:
    """An event of which people may be notified."""
    head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
    with tenancy(tenant):
        ledger.append(head, ledger.NewEvent(kind="commented", to="OPEN"), actor=ledger.SYSTEM, at=datetime.now(UTC))


def seal_all() -> None:
    """Seal what waits, and what the opening of a log adds."""
    while seal_up():
        pass


@contextmanager
def before_each_statement(step: Callable[[int], None]) -> Iterator[None]:
    """Call a function with the number of each statement that this thread is about to send."""
    sent = 0

    def note(execute: Callable[..., Any], *values: Any, **more: Any) -> Any:
        nonlocal sent
        step(sent)
        sent += 1
        return execute(*values, **more)

    with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(note):
        for name in ("_execute", "_execute_pipeline"):
            plain = getattr(database, name)
            patch.setattr(database, name, lambda *values, plain=plain, **more: note(plain, *values, **more))
        yield


def count_statements(run: Callable[[], Any]) -> int:
    sent: list[int] = []
    with before_each_statement(sent.append):
        run()
    return len(sent)


def lead() -> None:
    """One sweep of the leading sequencer."""
    with as_sequencer(), signer() as signing:
        Sequencer(signing).work(tenants_with(Work.UNSIGNED_LOGS, at=timezone.now() - HEARTBEAT))


def run_each_periodic_task() -> dict[str, int]:
    """Run whatever beat sends, the sequencer's sweep and the eraser's poll; return the statements of each."""
    app.loader.import_default_modules()
    periodic = {each["task"] for each in app.conf.beat_schedule.values()} - {"console.tasks.tick"}
    runs: dict[str, Callable[[], Any]] = {name: app.tasks[name] for name in sorted(periodic)}
    runs |= {"export traces": app.tasks["console.tasks.export_traces"], "sweep": lead, "erase": carry_out_erasures}
    runs |= {"export events": app.tasks["console.tasks.export_events"]}
    runs |= {f"tick {number}": partial(app.tasks["console.tasks.tick"], number) for number in range(30)}
    return {name: count_statements(run) for name, run in runs.items()}


def test_no_periodic_task_sends_more_statements_for_thirty_idle_tenants_than_for_one(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("console.telemetry.exporting.send_spans", lambda spans: True)
    # Noted every few seconds, whichever task is the next.
    monkeypatch.setattr("console.telemetry.health.note_task_runs", lambda took_s: None)
    # The test's transaction is that of all.
    monkeypatch.setattr("ledger.management.commands.eraser.close_old_connections", lambda: None)
    counts = []
    for slugs in (["orchid"], [f"willow-{number}" for number in range(29)]):
        for slug in slugs:
            found(slug)
        seal_all()
        run_each_periodic_task()
        counts.append(run_each_periodic_task())
    assert counts[1] == counts[0]
    # A tick in which nothing is due asks once. Every other second it notes the worker, too.
    assert {counts[1][f"tick {number}"] for number in range(1, 30, 2)} == {1}


@pytest.mark.parametrize("kind", READERS)
def test_what_happens_at_any_moment_of_a_visit_is_read_by_it_or_by_the_next(committed_db: Any, kind: Work):
    """Another process records an event and the sequencer takes it, before each statement of the visit in turn."""
    tenant = found("orchid")
    number, happened = 0, True
    while happened:
        seal_all()
        while tenant in tenants_with(kind, at=timezone.now()):
            visit(kind, tenant)
        happened = False

        def meanwhile(place: int, wanted: int = number) -> None:
            nonlocal happened
            if place == wanted and not happened:
                happened = True
                other = Thread(target=in_another_process, args=(tenant,))
                other.start()
                other.join()

        comment(tenant)
        with before_each_statement(meanwhile):
            visit(kind, tenant)
        with tenancy(tenant):
            logged = logs.logged_events(tenant)
        seen = noted(kind, tenant)
        waits = bool(logs.pending_events())
        assert (tenant in tenants_with(kind, at=timezone.now())) == (waits or seen != logged)
        if kind is Work.NOTICES and seen == logged:
            assert unread(tenant) == set()
        number += 1
    assert number > 4


def in_another_process(tenant: UUID) -> None:
    try:
        comment(tenant)
        seal_all()
    finally:
        connection.close()


def visit(kind: Work, tenant: UUID, *, is_killed: bool = False) -> None:
    with tenancy(tenant):
        READERS[kind](tenant)
        if is_killed:
            raise KeyboardInterrupt


def noted(kind: Work, tenant: UUID) -> Any:
    table = {Work.UNCOUNTED_EVENTS: "metric", Work.UNINDEXED_EVENTS: "search", Work.NOTICES: "notice"}[kind]
    with tenancy(tenant):
        [(seen,)] = database.execute(f"SELECT seen FROM console_{table}cursor WHERE tenant_id = $1", tenant)
    return seen


def unread(tenant: UUID) -> set[UUID]:
    """The events of cases that the notices have not read."""
    with tenancy(tenant):
        rows = database.execute("SELECT id FROM ledger_event WHERE tenant_id = $1 AND subject_kind = 'case'", tenant)
        read = {UUID(each) for each in NoticeCursor.objects.get(tenant_id=tenant).recent}
    return {event_id for (event_id,) in rows} - read


@pytest.mark.parametrize("kind", READERS)
def test_a_visit_that_a_crash_cut_short_is_made_again(db: None, kind: Work):
    tenant = found("orchid")
    seal_all()
    with pytest.raises(KeyboardInterrupt):
        visit(kind, tenant, is_killed=True)
    assert tenants_with(kind, at=timezone.now()) == [tenant]


@pytest.mark.parametrize("kind", READERS)
def test_new_events_are_read_while_the_sequencer_is_away(db: None, kind: Work):
    tenant = found("orchid")
    seal_all()
    while tenants_with(kind, at=timezone.now()):
        visit(kind, tenant)
    comment(tenant)
    assert tenants_with(kind, at=timezone.now()) == [tenant]


@shared_task
def _visit_all(shard: int | None = None) -> list[UUID]:
    return of_log.share_of(Work.UNINDEXED_EVENTS, _visit_all, shard, at=timezone.now())


def test_many_tenants_are_shared_so_that_each_is_visited_once(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any):
    monkeypatch.setattr(of_log, "AT_ONCE", 3)
    settings.COUNTERFOIL_SHARDS = 3
    sent: list[dict[str, int]] = []
    monkeypatch.setattr(_visit_all, "apply_async", lambda **options: sent.append(options["kwargs"]))
    tenants = {found(f"willow-{number}") for number in range(3)}
    assert set(_visit_all()) == tenants
    tenants |= {found(f"orchid-{number}") for number in range(6)}
    assert _visit_all() == []
    shares = [_visit_all(**each) for each in sent]
    assert len(shares) == 3
    assert sorted(each for share in shares for each in share) == sorted(tenants)


def test_tenants_are_visited_here_while_the_broker_is_away(db: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(of_log, "AT_ONCE", 1)
    away = SimpleNamespace(name="visit", apply_async=refuse)
    tenants = {found("orchid"), found("willow")}
    assert set(of_log.share_of(Work.UNINDEXED_EVENTS, away, None, at=timezone.now())) == tenants


def refuse(**options: Any) -> None:
    raise OSError
