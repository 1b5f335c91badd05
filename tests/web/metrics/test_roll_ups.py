"""The roll-ups follow the record: late truth, crashes, rebuilding, tenants, and a history that nobody wrote by hand."""

from __future__ import annotations

import random
from collections import Counter
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from psycopg.types.json import Jsonb

from approvals.models import Call
from console import tasks as console_tasks
from console.metrics import operations, queries
from console.metrics.rules.facts import COUNTS
from console.metrics.rules.filters import EVERYTHING, MetricFilter
from console.models import MetricAction, MetricDelay, MetricRollUp
from ledger.actions.queries import actions
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from ledger.record.operations import NewEvent
from ledger.record.queries import events
from ledger.record.rules.lifecycle import TRANSITIONS, Ground, State, missing_grounds
from reviews import tasks
from tests.support.api_tenant import DELETE, Clock, Workshop, contract, result
from tests.support.builders import AT, propose
from tests.support.callers import found

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def counted(tenant: UUID, *, span: int = 24, about: MetricFilter = EVERYTHING, **around: datetime) -> dict[str, int]:
    """What is counted, without the zeros; `since` and `until` are all of this year where they are not given."""
    where: dict[str, Any] = {"since": START, "until": END} | around
    with tenancy(tenant):
        rows = queries.count_by(tenant, span=span, about=about, **where)
    return {name: value for name, value in rows.get((), {}).items() if value}


def stored(tenant: UUID) -> list[Any]:
    """Every row of the figures, in one order."""
    with tenancy(tenant):
        return [
            sorted(model.objects.filter(tenant_id=tenant).values_list(*names))
            for model in (MetricAction, MetricRollUp, MetricDelay)
            for names in [[each.name for each in model._meta.fields if each.name != "pk"]]
        ]


def count(tenant: UUID, at: datetime = END) -> None:
    """Everything that the record has gained."""
    with tenancy(tenant):
        while operations.update_metrics(tenant_id=tenant, at=at):
            pass


@pytest.fixture
def written(shop: Workshop, clock: Clock, tmp_path: Path) -> str:
    """A document that was written and verified, under a contract that asks to look again after an hour."""
    newer = contract("write_document") | {"version": "1.2.0"}
    newer["verification"]["recheck_after"] = ["PT1H", "P1D"]
    shop.operator_key.release_contract(newer)
    action_id = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    (tmp_path / "documents" / "notes").mkdir()
    (tmp_path / "documents" / "notes" / "today.md").write_text("Quiet.")
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    return action_id


def test_a_late_event_changes_only_the_hour_in_which_the_action_was_executed(
    shop: Workshop, written: str, clock: Clock, tmp_path: Path
):
    count(shop.tenant, clock.now())
    with tenancy(shop.tenant):
        [hour] = MetricAction.objects.values_list("hour", flat=True)
    about = {"span": 1, "since": hour, "until": hour + timedelta(hours=1)}
    assert counted(shop.tenant, **about)["verified_success"] == 1
    (tmp_path / "documents" / "notes" / "today.md").unlink()
    clock.forward(days=3)
    assert tasks.verify_due() == 1
    count(shop.tenant, clock.now())
    then = counted(shop.tenant, **about)
    assert (then["executed"], then["verification_failed"], then["mismatched"]) == (1, 1, 1)
    assert "verified_success" not in then
    assert counted(shop.tenant, span=1, since=hour + timedelta(hours=1)) == {}
    assert counted(shop.tenant, span=24) == counted(shop.tenant, span=1)


@pytest.mark.req("R-MT-06")
def test_a_rebuild_gives_the_same_figures(shop: Workshop, written: str, clock: Clock, tmp_path: Path):
    count(shop.tenant, clock.now())
    shop.call("delete_documents_now")
    shop.held(clock)
    shop.call("delete_document", {"path": 7})
    clock.forward(hours=2)
    tasks.verify_due()
    shop.report(written)
    count(shop.tenant, clock.now())
    kept = stored(shop.tenant)
    assert [len(rows) > 1 for rows in kept] == [True, True, True]
    with tenancy(shop.tenant):
        MetricRollUp.objects.update(executed=77)
    call_command("rebuild_metrics", tenant=shop.slug)
    assert stored(shop.tenant) == kept


def test_counting_twice_or_after_a_crash_gives_the_same_figures(shop: Workshop, clock: Clock, monkeypatch):
    shop.held(clock)

    def die(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(operations, "_move_cursor", die)
        with pytest.raises(RuntimeError):
            count(shop.tenant, clock.now())
    assert stored(shop.tenant) == [[], [], []]
    count(shop.tenant, clock.now())
    once = stored(shop.tenant)
    with tenancy(shop.tenant):
        operations.update_metrics(tenant_id=shop.tenant, at=clock.now())
    assert stored(shop.tenant) == once


def test_a_new_action_costs_the_same_however_much_its_hour_has(
    shop: Workshop, clock: Clock, superuser_connection: psycopg.Connection[Any]
):
    clock.stop()
    # Calls of the last minute are read again, so the others are older and of the same hour.
    clock.forward(minutes=(90 - clock.now().minute) % 60)
    shop.propose()
    count(shop.tenant, clock.now())
    few = rows_read(shop, clock)
    at = clock.now() - timedelta(minutes=10)
    with tenancy(shop.tenant):
        action, call = MetricAction.objects.first(), Call.objects.first()
        MetricAction.objects.bulk_create(changed(action, action_id=ledger.new_id(at)) for _ in range(3_000))
        Call.objects.bulk_create(
            changed(call, id=ledger.new_id(at), at=at, call_id=f"copied {number}") for number in range(3_000)
        )
    # Before its statistics are taken the tables count as empty, and any index looks as good as another.
    superuser_connection.execute("ANALYZE")
    assert rows_read(shop, clock) < few + 100


def test_the_newest_call_alone_is_read_to_find_calls_to_count(
    shop: Workshop, superuser_connection: psycopg.Connection[Any]
):
    shop.propose()
    with tenancy(shop.tenant):
        call = Call.objects.get()
    names = [field.column for field in Call._meta.concrete_fields if field.column]
    cells = {"id": "('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid", "call_id": "n::text"}
    values = [getattr(call, name) for name in names if name not in cells]
    columns = ", ".join([*cells, *(name for name in names if name not in cells)])
    with superuser_connection.transaction(force_rollback=True), superuser_connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            f"INSERT INTO approvals_call ({columns}) SELECT {', '.join(cells.values())},"
            f" {', '.join(['%s'] * len(values))} FROM generate_series(1, 5000) n",
            [Jsonb(each) if isinstance(each, dict | list) else each for each in values],
        )
        cursor.execute(
            "INSERT INTO console_metriccursor (tenant_id, read_to, looked_at, recent_calls)"
            " VALUES (%s, now(), now(), '[]')",
            [shop.tenant],
        )
        # As it is analyzed once it is large.
        cursor.execute("ANALYZE approvals_call")
        read = (
            "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
            " WHERE relname = 'approvals_call'"
        )
        [(before,)] = cursor.execute(read).fetchall()
        cursor.execute("SELECT console_survey('uncounted_events', now())")
        [(after,)] = cursor.execute(read).fetchall()
    assert after - before < 10


def changed(row: Any, **values: Any) -> Any:
    other = copy(row)
    for name, value in values.items():
        setattr(other, name, value)
    return other


def rows_read(shop: Workshop, clock: Clock) -> int:
    """The number of rows that one more action makes the worker read."""
    shop.propose()
    read = (
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int FROM pg_stat_xact_user_tables"
        " WHERE relname ~ '^(console_metric|approvals_call|ledger_action)'"
    )
    with tenancy(shop.tenant):
        [(before,)] = execute(read)
        assert operations.update_metrics(tenant_id=shop.tenant, at=clock.now()) == 1
        [(after,)] = execute(read)
    return int(after - before)


def test_the_worker_counts_every_tenant_separately(shop: Workshop, clock: Clock):
    shop.propose()
    other = found("willow")
    with tenancy(other):
        propose(other)
    assert console_tasks.count_metrics() > 0
    assert console_tasks.count_metrics() == 0
    assert counted(shop.tenant, since=START)["actions"] == counted(other)["actions"] == 1
    with tenancy(other):
        assert set(MetricAction.objects.values_list("tenant_id", flat=True)) == {other}


def test_an_unknown_tool_is_counted_without_its_name(shop: Workshop, clock: Clock):
    for name in ("delete_all", "delete_everything"):
        shop.call(name, DELETE)
    count(shop.tenant, clock.now())
    with tenancy(shop.tenant):
        [(tool, phantoms)] = MetricRollUp.objects.filter(span=24).values_list("tool", "calls_phantom")
    assert (tool, phantoms) == ("", 2)


# A history that nobody wrote by hand


def walk(tenant: UUID, at: datetime, dice: random.Random) -> None:
    """One action along any legal path, each step some seconds or days after the one before."""
    tool = dice.choice(["issue_refund", "send_email"])
    with tenancy(tenant):
        head = propose(tenant, at=at, view={"tool": tool, "agent": dice.choice(["a", "b"])})
        for _ in range(dice.randint(1, 9)):
            targets = sorted({str(to) for start, to in TRANSITIONS if start == head.state})
            kept = dice.random() < 0.2 or not targets
            state = head.state if kept else dice.choice(targets)
            grounds = frozenset(Ground) if kept else _grounds(head.state, state)
            at += timedelta(seconds=dice.choice([1, 40, 4_000, 300_000]))
            kind = "execution_started" if state == "EXECUTING" and not kept else "evidence_added" if kept else "held"
            happening = NewEvent(kind=kind, to=None if kept else state, grounds=frozenset() if kept else grounds)
            head = ledger.append(head, happening, actor=ledger.Actor("person", UUID(int=1)), at=at)


def _grounds(start: str, target: str) -> frozenset[Ground]:
    """Enough to be let through, where anything is asked for."""
    asked = missing_grounds(State(start), State(target), frozenset())
    return frozenset(Ground) - {Ground.CHANGES_NOTHING} if asked else frozenset()


def recount(tenant: UUID) -> Counter[tuple[datetime, str, str]]:
    """An independent count of what the events themselves say: (day, tool, count)."""
    counts: Counter[tuple[datetime, str, str]] = Counter()
    with tenancy(tenant):
        for action_id in actions.action_ids(tenant, after=UUID(int=0), limit=10_000):
            path = [event for event, _, _ in events.history(tenant, action_id)]
            starts = [event.at for event in path if event.kind == "execution_started"]
            day = (starts or [path[0].at])[0].replace(hour=0, minute=0, second=0, microsecond=0)
            tool = actions.action(tenant, action_id).tool
            states = {event.state for event in path}
            names = {"actions", "complete_records"}
            if starts:
                names |= {"executed"} | {
                    name
                    for name, state in (
                        ("unknown", "UNKNOWN"),
                        ("partial", "PARTIALLY_COMMITTED"),
                        ("reviewed", "REVIEW_REQUIRED"),
                        ("compensations", "COMPENSATING"),
                        ("compensations_failed", "COMPENSATION_FAILED"),
                    )
                    if state in states
                }
                counts[day, tool, "repeats"] += len(starts) - 1
            for name in names:
                counts[day, tool, name] += 1
    return +counts


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_figures_of_random_legal_histories_equal_an_independent_count(db: None, seed: int):
    dice, tenant = random.Random(seed), found(f"orchid-{seed}")
    for number in range(120):
        walk(tenant, AT - timedelta(days=20) + timedelta(hours=4 * number), dice)
        if number % 20 == 0:
            count(tenant)
    count(tenant)
    expected = recount(tenant)
    with tenancy(tenant):
        rows = queries.count_by(tenant, "start", "tool", since=START, until=END, span=24, about=EVERYTHING)
    compared = {name for _, _, name in expected}
    ours = Counter({(day, tool, name): value for (day, tool), found_ in rows.items() for name, value in found_.items()})
    assert {key: value for key, value in ours.items() if key[2] in compared and value} == dict(expected)
    standing = Counter({name: sum(row[name] for row in rows.values()) for name in COUNTS})
    places = ("verified_success", "unchanged", "ended_failed", "ended_reversed", "ended_by_word", "unsettled")
    assert sum(standing[name] for name in places) == standing["executed"] > 20
    kept = stored(tenant)
    call_command("rebuild_metrics", tenant=f"orchid-{seed}")
    assert stored(tenant) == kept
