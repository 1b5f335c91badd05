"""Health: a process is ready by itself alone, and the status of the installation names each part that fails."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connections
from django.test import Client
from psycopg.errors import DiskFull

from console.tasks import note_tick
from console.telemetry import health
from ledger import keystore, processes
from ledger.db import execute, tenancy
from tests.support.api_tenant import GOAL, Clock, Workshop, document
from tests.support.browser_users import visitor, words
from tests.support.erasing import decided
from tests.support.scenes import now
from tests.support.seals import as_sequencer

AWAY = "postgresql://app:none@127.0.0.1:1/none"


@pytest.fixture(autouse=True)
def looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_S", -1.0)
    monkeypatch.setattr(health, "_no_room", None)


@pytest.fixture
def at_work(db: None) -> None:
    """A worker and beat have just shown themselves."""
    note_tick()
    assert processes.take_lease(processes.READINGS, uuid4(), seconds=1)


def readiness(shop: Workshop) -> tuple[int, dict[str, str]]:
    answer = shop.operator_key.get("/readyz")
    return answer.status_code, {each["code"]: each["detail"] for each in answer.json()["reasons"]}


def status(shop: Workshop) -> dict[str, tuple[str, str]]:
    answer = shop.operator_key.get("/statusz")
    found = {each["code"]: (each["state"], each["detail"]) for each in answer.json()["checks"]}
    assert (answer.status_code == 503) is any(state == "failed" for state, _ in found.values())
    assert list(found) == list(health.TITLES)
    return found


def last_seen(name: str, seconds_ago: float) -> None:
    execute(
        "UPDATE ledger_processlease SET renewed_at = clock_timestamp() - make_interval(secs => $2) WHERE name = $1",
        *(name, seconds_ago),
    )


@pytest.mark.parametrize("address", ["redis://127.0.0.1:1/0", "amqp://127.0.0.1:1,127.0.0.1:2/"])
def test_an_unreachable_broker_is_named_in_the_status_and_affects_no_readiness(
    shop: Workshop, settings: Any, valkey_url: str, address: str
):
    settings.REDIS_URL, settings.BROKER_URL = valkey_url, address
    assert readiness(shop) == (200, {})
    found = status(shop)
    assert found["BROKER"] == ("failed", "The broker does not answer; the record goes on, and readings wait for it.")
    assert found["COUNTERS"] == ("in_order", "They answer.")
    assert found["BEAT"][0] == "unknown"


def test_unreachable_counters_are_told_apart_from_the_broker(shop: Workshop, settings: Any, valkey_url: str):
    settings.REDIS_URL, settings.BROKER_URL = "sentinel://127.0.0.1:1,127.0.0.1:2/0?master=counterfoil", valkey_url
    assert readiness(shop) == (200, {})
    found = status(shop)
    assert found["BROKER"] == ("in_order", "It answers.")
    assert found["COUNTERS"] == (
        "failed",
        "The counters do not answer: calls are not limited by key, who has a page open is not known, and persons"
        " cannot be searched for.",
    )


def test_an_unreachable_key_database_ends_readiness(shop: Workshop, settings: Any):
    settings.KEYS_DATABASE_URL = AWAY
    keystore.clear_cache()
    assert readiness(shop) == (
        503,
        {"KEYS": "The key database does not answer: no payload can be stored or read."},
    )
    assert status(shop)["KEYS"][0] == "failed"


def test_a_proposal_without_the_key_database_is_503_and_accepted_when_repeated(shop: Workshop, settings: Any):
    session = shop.session()
    arguments = document("notes/1.md", "Quiet.")
    calls = {"calls": [{"tool": "write_document", "call_id": "c1", "goal": GOAL, "arguments": arguments}]}
    address = f"/sessions/{session['session_id']}/calls"
    reached, settings.KEYS_DATABASE_URL = settings.KEYS_DATABASE_URL, AWAY
    keystore.clear_cache()
    refused = shop.agent.post(address, calls)
    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (503, "UNAVAILABLE", "2")
    assert refused.json()["detail"] == "A database is unavailable; nothing was done. Try again."
    settings.KEYS_DATABASE_URL = reached
    [result] = shop.agent.post(address, calls).json()["results"]
    assert result["accepted"], result


@pytest.fixture
def database_away(db: None, request: pytest.FixtureRequest) -> Callable[[], None]:
    """Lets every later statement of this test find nobody at the database's address."""

    def take_away() -> None:
        there = connections["default"]
        away = there.copy()
        away.settings_dict = there.settings_dict | {"HOST": "127.0.0.1", "PORT": "1"}
        connections["default"] = away
        request.addfinalizer(partial(connections.__setitem__, "default", there))

    return take_away


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("address", ["/sign-in", "/", "/people", "/t/orchid/cases"])
def test_a_page_without_the_database_asks_to_retry_later(
    shop: Workshop, database_away: Callable[[], None], method: str, address: str
):
    person = Client(raise_request_exception=False)
    person.cookies["sessionid"] = "a" * 32
    database_away()
    answer = getattr(person, method)(address, {"username": "ada", "password": "none"})
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "A database is unavailable; nothing was done. Try again." in answer.content.decode()
    assert "Counterfoil-Time" in answer


def test_an_api_call_of_a_person_without_the_database_is_a_problem_with_retry_after(
    shop: Workshop, database_away: Callable[[], None]
):
    person = Client(raise_request_exception=False)
    person.cookies["sessionid"] = "a" * 32
    database_away()
    answer = person.get("/api/v1/actions")
    assert (answer.status_code, answer["Retry-After"], answer.json()["code"]) == (503, "2", "UNAVAILABLE")


def test_a_clock_two_seconds_off_is_reported(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    real = health.time.time
    monkeypatch.setattr(health.time, "time", lambda: real() + 600)
    assert readiness(shop) == (503, {"CLOCK": "The clock of this process is 600 s ahead of the database's."})
    monkeypatch.setattr(health.time, "time", lambda: real() - 3)
    assert readiness(shop)[1] == {"CLOCK": "The clock of this process is 3 s behind the database's."}


def test_a_worker_with_a_wrong_clock_is_named_in_its_log_and_in_the_status(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    real, host = health.time.time, socket.gethostname()
    with monkeypatch.context() as wrong:
        wrong.setattr(health.time, "time", lambda: real() - 600)
        for _ in range(3):
            note_tick()
    assert status(shop)["CLOCK"] == ("failed", f"The clock of the workers on {host} is 600 s behind the database's.")
    assert readiness(shop) == (200, {})
    note_tick()
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("CLOCK")]
    assert said == [
        "CLOCK: The clock of this worker is 600 s behind the database's. Have this host synchronised.",
        "CLOCK: The clock of this worker and the database's agree again.",
    ]
    execute("UPDATE ledger_wrongclock SET seen_at = clock_timestamp() - interval '61 s'")
    assert status(shop)["CLOCK"][0] == "in_order"


def test_a_missing_migration_is_named(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "_newest_migrations", lambda: ["ledger.9999_not_there"])
    assert readiness(shop) == (503, {"MIGRATIONS": "The database lacks migrations up to ledger.9999_not_there."})
    assert status(shop)["FENCE"] == ("unknown", "Not known while the database is not in order.")


def test_a_process_without_the_public_key_of_the_log_is_not_ready(shop: Workshop, settings: Any, tmp_path: Path):
    settings.COUNTERFOIL_LOG_PUBLIC_KEY = tmp_path / "none"
    assert list(readiness(shop)[1]) == ["EPOCH"]


def test_an_epoch_that_is_not_signed_for_the_database_is_a_fault_of_the_installation(shop: Workshop):
    """Every process is in the same position, so none is taken out of rotation for it."""
    with as_sequencer():
        execute("UPDATE ledger_epoch SET number = number")
    assert readiness(shop)[0] == 200
    state, detail = status(shop)["EPOCH"]
    assert (state, "no sequencer has compared" in detail) == ("failed", True)


@pytest.mark.usefixtures("at_work")
def test_readiness_is_one_short_statement_in_each_database(
    shop: Workshop, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
):
    sent: list[Any] = []
    real = health.execute
    monkeypatch.setattr(health, "execute", lambda *call: sent.append(call) or real(*call))
    assert health.readiness_faults() == []
    assert len(sent) == 1


@pytest.mark.usefixtures("at_work")
def test_a_dead_beat_is_reported_while_workers_continue(shop: Workshop, settings: Any, valkey_url: str):
    settings.REDIS_URL = settings.BROKER_URL = valkey_url
    assert (status(shop)["BEAT"][0], status(shop)["WORKER"][0]) == ("in_order", "in_order")
    last_seen(processes.TICKS, 40)
    found = status(shop)
    state, told = found["BEAT"]
    assert state == "failed"
    assert re.fullmatch(r"No tick has come for (4|5)\d s; nothing that is due by time is begun\.", told), told
    assert found["WORKER"][0] == "in_order"


@pytest.mark.usefixtures("at_work")
def test_without_a_worker_the_state_of_beat_is_unknown(shop: Workshop, settings: Any, valkey_url: str):
    settings.REDIS_URL = settings.BROKER_URL = valkey_url
    for name in (processes.TICKS, processes.READINGS):
        last_seen(name, 70)
    found = status(shop)
    state, told = found["WORKER"]
    assert state == "failed"
    assert re.fullmatch(r"No worker has been at work for (7|8)\d s\.", told), told
    assert found["BEAT"] == ("unknown", "Not known while no worker takes its ticks.")


def test_a_web_process_reports_every_check_that_its_role_can_make(shop: Workshop):
    """As the application's role, which may not ask for everything."""
    found = status(shop)
    for code in (
        "DATABASE",
        "KEYS",
        "MIGRATIONS",
        "CLOCK",
        "EPOCH",
        "FENCE",
        "SWEEPER",
        "DISK",
        "PARTITIONS",
    ):
        assert found[code][0] == "in_order", (code, found[code])
    assert re.fullmatch(r"There are partitions for \d+ more days.", found["PARTITIONS"][1])


def test_a_worker_that_never_ran_is_reported_as_failed(shop: Workshop):
    assert status(shop)["WORKER"] == ("failed", "No worker has been at work so far.")


def test_a_write_refused_for_lack_of_disk_space_is_reported(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    def full(**_: Any) -> Any:
        raise OperationalError("could not extend file: No space left on device\nHINT: Check.") from DiskFull()

    assert status(shop)["DISK"][0] == "in_order"
    monkeypatch.setattr("console.freezes.routes.registration.place_freeze", full)
    assert shop.operator_key.post("/freezes", {"scope": "all", "reason": "Wait."}).status_code == 503
    state, told = status(shop)["DISK"]
    assert state == "failed"
    assert re.fullmatch(
        r"The database refused a write \d+ s ago: could not extend file: No space left on device", told
    ), told


def test_backups_without_evidence_are_reported_as_unknown(shop: Workshop, settings: Any, tmp_path: Path):
    told = "Not known: the database archives no WAL, and COUNTERFOIL_BACKUP_STAMP names no file."
    assert status(shop)["BACKUPS"] == ("unknown", told)
    settings.COUNTERFOIL_BACKUP_STAMP = stamp = tmp_path / "backed-up"
    assert status(shop)["BACKUPS"][0] == "failed"
    stamp.touch()
    assert status(shop)["BACKUPS"][0] == "in_order"
    old = (stamp.stat().st_mtime - timedelta(hours=30).total_seconds(),) * 2
    os.utime(stamp, old)
    assert status(shop)["BACKUPS"][0] == "failed"


def test_late_readings_are_reported_and_do_not_affect_readiness(shop: Workshop, clock: Clock):
    started = shop.started()
    shop.observe(started)
    execute("UPDATE reviews_schedule SET due_at = $1", clock.now() - timedelta(minutes=5))
    assert status(shop)["SWEEPER"] == ("failed", "1 reading is over a minute late.")
    assert readiness(shop) == (200, {})


def test_a_confirmed_erasure_that_nobody_begins_is_reported(stage: Any):
    def eraser() -> Any:
        return next(
            (each.in_order, each.detail) for each in health.look_at_installation().checks if each.code == "ERASER"
        )

    decided(stage.tenant, stage.done(), at=now())
    with tenancy(stage.tenant):
        execute("UPDATE ledger_erasure SET confirmed_at = clock_timestamp()")
    assert eraser() == (True, "No confirmed erasure has waited for over a minute.")
    with tenancy(stage.tenant):
        execute("UPDATE ledger_erasure SET confirmed_at = confirmed_at - interval '61 s'")
    assert eraser() == (False, "1 confirmed erasure has not begun after a minute.")


def test_the_page_shows_every_part_with_its_state_and_its_runbook(stage: Any, settings: Any):
    settings.BROKER_URL = "redis://127.0.0.1:1/0"
    shown = visitor(stage, "operator").page("installation")
    page = words(shown)
    for code, title in health.TITLES.items():
        assert f'/docs/runbooks#{code.lower()}"' in shown
        assert title in page
        assert f"Runbook for {title.lower()}" in page
    assert "The broker does not answer; the record goes on, and readings wait for it." in page
    assert re.search(r"\d+ of \d+ checks failed; \d+ (is|are) not known\.", page)
    states = re.findall(r'data-family="(\w+)"', shown.split('aria-label="Checks"')[1])
    assert states == sorted(states, key=["false", "unknown", "true"].index)


def test_every_answer_states_its_time_refusals_too(shop: Workshop):
    for answer in (shop.operator_key.get("/actions"), shop.operator_key.get("/actions/none"), Client().get("/none")):
        assert abs(float(answer["Counterfoil-Time"]) - time.time()) < 2, answer.status_code
