"""Figures on a port of their own: what a web process counts, and the installation as its status shows it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from console import tasks
from console.local.servers import free_port
from console.telemetry import health, monitoring
from ledger import processes
from ledger.db import execute, tenancy
from ledger.log.operations import logs, sequencer
from ledger.log.queries import log
from ledger.log.rules import alarms
from tests.db.execution.test_statements import Line
from tests.support import seals
from tests.support.api_tenant import Clock, Workshop
from tests.support.erasing import decided
from tests.support.scenes import now

AGO = timedelta(minutes=5)
Samples = dict[tuple[str, str], float]


@pytest.fixture(autouse=True)
def looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_S", -1.0)
    monkeypatch.setattr(health, "_noted", {})


def exposed(path: str) -> str:
    answers: list[str] = []
    body = monitoring.application(
        {"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda status, _: answers.append(status)
    )
    assert answers == ["200 OK"]
    return b"".join(body).decode()


def samples(text: str) -> Samples:
    """Each sample without `counterfoil_`, by name and the value of its first label."""
    return {
        (sample.name.removeprefix("counterfoil_"), next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def installation() -> Samples:
    return samples(exposed(monitoring.INSTALLATION_PATH))


def add_tenants(ids: list[UUID]) -> None:
    execute(
        "INSERT INTO ledger_tenant (id, slug, name, origin, created_at)"
        " SELECT id, id::text, id::text, id::text, clock_timestamp() FROM unnest($1::uuid[]) id",
        ids,
    )


# The installation


def test_figures_and_status_come_from_one_look(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "FRESH_S", 60.0)
    monkeypatch.setattr(health, "_looked", None)
    found = {each["code"]: each["state"] for each in shop.operator_key.get("/statusz").json()["checks"]}
    monkeypatch.setattr(health, "look_at_installation", None)
    shown = installation()
    states = {1.0: "in_order", 0.0: "failed"}
    told = {code: states[shown["check_in_order", code]] for code in found if ("check_in_order", code) in shown}
    assert told == {code: state for code, state in found.items() if state != "unknown"}
    assert {"failed", "unknown"} <= set(found.values())


def test_every_family_is_there_with_its_meaning_and_nothing_of_a_tenant(shop: Workshop):
    shop.started()
    text = exposed(monitoring.INSTALLATION_PATH)
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert names == ["counterfoil_check_in_order", *(f"counterfoil_{name}" for name in health.FIGURES)]
    assert all(family.type == "gauge" and len(family.documentation) > 10 for family in families)
    known = {
        *health.TITLES,
        *alarms.TITLES,
        "exports",
        "secrets",
        *health._task_periods(),
        "celery",
        "due",
        "tick",
        "bulk",
    }
    labels = {value for family in families for sample in family.samples for value in sample.labels.values()}
    assert labels <= known


def test_overdue_readings_and_the_oldest_of_them_are_figures(shop: Workshop, clock: Clock):
    assert installation()["readings_overdue", ""] == installation()["readings_overdue_oldest_seconds", ""] == 0
    shop.observe(shop.started())
    execute("UPDATE reviews_schedule SET due_at = $1", clock.now() - AGO)
    shown = installation()
    assert shown["readings_overdue", ""] == 1
    assert shown["readings_overdue_oldest_seconds", ""] == pytest.approx(AGO.total_seconds(), abs=30)
    assert shown["check_in_order", "SWEEPER"] == 0


def test_an_overdue_lease_is_a_figure(shop: Workshop):
    shop.started()
    execute("UPDATE approvals_due SET due_at = clock_timestamp() - interval '5 min'")
    shown = installation()
    assert shown["deadlines_overdue", ""] >= 1
    assert shown["deadlines_overdue_oldest_seconds", ""] == pytest.approx(AGO.total_seconds(), abs=30)


def test_open_alarms_of_all_tenants_are_counted_by_kind(stage: Any):
    other = uuid4()
    add_tenants([other])
    for tenant in (stage.tenant, other):
        logs.raise_alarm(tenant_id=tenant, kind="LOG_DAMAGED", detail="Event 3.", at=datetime.now(UTC) - AGO)
    shown = installation()
    assert {kind: shown["alarms_open", kind] for kind in alarms.TITLES} == dict.fromkeys(alarms.TITLES, 0) | {
        "LOG_DAMAGED": 2
    }
    with tenancy(other):
        execute("UPDATE ledger_alarm SET closed_at = clock_timestamp()")
    assert installation()["alarms_open", "LOG_DAMAGED"] == 1


def test_events_without_a_signature_and_the_last_anchor_are_figures(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    shop.propose()
    seals.seal_up()
    assert installation()["unsigned_leaves", ""] == installation()["unsigned_oldest_seconds", ""] == 0
    with monkeypatch.context() as patched:
        patched.setattr(sequencer, "sign_head", lambda **_: None)
        shop.propose(path="policies/other.md")
        count = len(log.pending_events()[shop.tenant])
        seals.seal_up()
    shown = installation()
    assert shown["unsigned_leaves", ""] == count > 0
    with tenancy(shop.tenant):
        [(since,)] = execute(
            "SELECT extract(epoch FROM clock_timestamp() - e.at)::float8 FROM ledger_tip p JOIN ledger_leaf l"
            " ON l.tenant_id = p.tenant_id AND l.log = p.log AND l.index = p.signed_size JOIN ledger_event e"
            " ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
        )
    assert 0 < shown["unsigned_oldest_seconds", ""] <= since + 1
    shop.propose(path="policies/third.md")
    seals.seal_up()
    assert installation()["unsigned_leaves", ""] == 0
    monkeypatch.setattr(health.anchors, "asked_outsiders", lambda: {("witness", "w.example.org/one")})
    assert ("last_anchor_ago_seconds", "witness") not in installation()
    with tenancy(shop.tenant):
        execute(
            "INSERT INTO ledger_anchor (tenant_id, id, log, size, kind, name, evidence, at)"
            " SELECT tenant_id, gen_random_uuid(), log, signed_size, 'witness', 'w.example.org/one', '',"
            " clock_timestamp() - interval '5 min' FROM ledger_tip"
        )
    assert installation()["last_anchor_ago_seconds", "witness"] == pytest.approx(AGO.total_seconds(), abs=60)


def test_a_confirmed_erasure_counts_from_its_first_minute_on(stage: Any):
    decided(stage.tenant, stage.done(), at=now())
    with tenancy(stage.tenant):
        execute("UPDATE ledger_erasure SET confirmed_at = clock_timestamp()")
    assert installation()["erasures_not_begun", ""] == 0
    with tenancy(stage.tenant):
        execute("UPDATE ledger_erasure SET confirmed_at = confirmed_at - interval '61 s'")
    assert installation()["erasures_not_begun", ""] == 1


def test_each_task_shows_when_it_ended_how_long_it_took_and_how_often_it_should(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    shown = installation()
    assert shown["task_period_seconds", "console.tasks.note_tick"] == 2
    assert shown["task_period_seconds", "console.tasks.tidy"] == 3600
    assert ("task_ended_ago_seconds", "console.tasks.note_tick") not in shown

    def fail() -> None:
        raise ValueError

    monkeypatch.setattr(tasks.lapse, "run", fail)
    tasks.tick(0)
    execute("UPDATE ledger_taskrun SET ended_at = ended_at - interval '30 s', host = 'gone', took_s = 2.5")
    shown = installation()
    assert shown["task_ended_ago_seconds", "console.tasks.note_tick"] == pytest.approx(30, abs=20)
    assert shown["task_duration_seconds", "console.tasks.note_tick"] == 2.5
    assert ("task_ended_ago_seconds", "console.tasks.lapse") not in shown
    assert shown["worker_hosts", ""] == 1
    monkeypatch.setattr(health, "_noted", {})
    tasks.tick(0)
    shown = installation()
    assert shown["task_ended_ago_seconds", "console.tasks.note_tick"] < 20
    assert shown["worker_hosts", ""] == 2
    processes.prune_task_runs(older_than_s=20)
    assert execute("SELECT DISTINCT host <> 'gone' FROM ledger_taskrun") == [(True,)]


def test_what_nobody_knows_has_no_sample(shop: Workshop, settings: Any, valkey_url: str):
    settings.BROKER_URL = valkey_url
    there = installation()
    assert [value for (name, _), value in there.items() if name == "queue_messages"] != []
    assert ("backup_age_seconds", "") not in there
    assert ("check_in_order", "BACKUPS") not in there
    settings.BROKER_URL = "redis://127.0.0.1:1/0"
    away = installation()
    assert away["check_in_order", "BROKER"] == 0
    assert not [name for name, _ in away if name == "queue_messages"]


def test_messages_that_no_worker_takes_are_counted_by_queue(shop: Workshop, settings: Any, valkey_url: str):
    settings.BROKER_URL = valkey_url
    with tasks.tidy.app.connection_for_write(valkey_url) as broker:
        for _ in range(3):
            tasks.tidy.apply_async(connection=broker)
    waiting = {name: value for (family, name), value in installation().items() if family == "queue_messages"}
    assert sum(waiting.values()) == 3
    assert set(waiting) == set(tasks.tidy.app.amqp.queues)


@pytest.fixture
def line(db: None, tmp_path: Path) -> Iterator[Line]:
    """The statements of this test's connection."""
    connection.ensure_connection()
    server: Any = connection.connection
    with (tmp_path / "sent").open("w") as file:
        server.pgconn.trace(file.fileno())
        sent = Line(tmp_path / "sent")
        # Those that were prepared before have no text here.
        sent.prepared = defaultdict(str)
        try:
            yield sent
        finally:
            server.pgconn.untrace()


def test_a_look_sends_as_many_statements_for_a_thousand_tenants_as_for_one(stage: Any, line: Line):
    health.look_at_installation()
    line.sent()
    health.look_at_installation()
    for_one, _ = line.sent()
    add_tenants([uuid4() for _ in range(1000)])
    line.sent()
    health.look_at_installation()
    for_all, _ = line.sent()
    assert len(for_all) == len(for_one) > 10


# One web process


@pytest.fixture
def counted(settings: Any) -> None:
    settings.COUNTERFOIL_METRICS_PORT = 1


def new_requests(before: Samples) -> dict[str, float]:
    """The requests answered since then, by route."""
    after = samples(exposed(monitoring.PROCESS_PATH))
    return {
        route: value - before.get((name, route), 0)
        for (name, route), value in after.items()
        if name == "request_seconds_count" and value != before.get((name, route), 0)
    }


@pytest.mark.usefixtures("counted")
def test_a_request_is_counted_by_its_route_and_never_by_its_address(shop: Workshop):
    before = samples(exposed(monitoring.PROCESS_PATH))
    action = shop.started()["action_id"]
    key = {"Authorization": shop.operator_key.headers["Authorization"]}
    assert Client().get(f"/api/v1/actions/{action}", headers=key).status_code == 200
    assert Client().get("/sign-in").status_code == 200
    assert Client().get("/no/such-0815").status_code == 404
    text = exposed(monitoring.PROCESS_PATH)
    routes = new_requests(before)
    assert {"account_login", monitoring.UNKNOWN_ROUTE} <= set(routes)
    assert len(routes) == 3
    assert 'counterfoil_requests_total{method="GET",route="unknown",status="4xx"}' in text
    for secret in (str(action), "0815", "orchid", "/api"):
        assert secret not in text, secret


def test_no_request_is_counted_where_no_port_is_set(shop: Workshop):
    before = samples(exposed(monitoring.PROCESS_PATH))
    Client().get("/sign-in")
    assert new_requests(before) == {}


# The port


def fetched(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_each_process_of_a_host_takes_the_next_free_port_of_this_machine(settings: Any):
    settings.COUNTERFOIL_METRICS_PORT = first = free_port()
    one, two = monitoring.serve_figures(), monitoring.serve_figures()
    assert one == first
    assert two is not None
    assert first < two < first + monitoring.PORTS
    for port in (one, two):
        status, text = fetched(port, "/metrics")
        assert status == 200
        assert {"counterfoil_request_seconds", "process_cpu_seconds"} <= {
            family.name for family in text_string_to_metric_families(text)
        }
        assert fetched(port, "/statusz") == (404, "Figures are at /metrics and /metrics/installation.\n")


def test_without_a_port_nothing_is_served(settings: Any):
    settings.COUNTERFOIL_METRICS_PORT = 0
    assert monitoring.serve_figures() is None
