"""The Systems page: what it says of each system, and who may stop releasing to one."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from console.systems.credentials import EXAMPLES, example_credential
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute, tenancy
from ledger.record.queries import events
from reviews.checks.catalogue import PATTERNS
from reviews.checks.databases import DatabaseCheck
from reviews.observations.operations import webhooks
from reviews.readback.operations import systems
from reviews.readback.operations.systems import ReadAttempt
from reviews.readback.rules.addresses import resolve_address
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading
from reviews.systems.descriptions import shipped_descriptions
from tests.support.browser_users import visitor, words
from tests.support.builders import AT
from tests.web.readback.test_hooks import SECRET

PATH = "systems"


def asked(stage, count: int = 1, *, unanswered: str = "") -> None:
    with tenancy(stage.tenant):
        system = catalogue_queries.system(stage.tenant, "shop")
        made = [ReadAttempt(began_at=AT, took_ms=12, unanswered=unanswered) for _ in range(count)]
        systems.record_attempts(tenant_id=stage.tenant, system_id=system.id, asked=made, at=AT)


def system_id(stage):
    with tenancy(stage.tenant):
        return catalogue_queries.system(stage.tenant, "shop").id


def test_a_system_that_was_never_read_is_shown_as_such(stage):
    said = words(visitor(stage, "operator").page(PATH))
    for part in ("shop", "Not read yet", "Unverified actions 0", "Oldest none", "Irreversible actions allowed"):
        assert part in said
    assert "polled only" in said


@pytest.mark.req("R-UI-01")
def test_a_system_that_answers_shows_its_latency(stage):
    asked(stage, 3)
    said = words(visitor(stage, "operator").page(PATH))
    for part in ("Answers", "12 ms", "3, 0 unanswered", "Consecutive failures 0", "Concurrent reads 4"):
        assert part in said


def test_a_system_that_is_down_shows_the_reason_and_the_next_attempt(stage):
    asked(stage, 5, unanswered="Connection refused")
    said = words(visitor(stage, "operator").page(PATH))
    for part in ("Consecutive failures 5: Connection refused", "Down for", "next attempt", "paused."):
        assert part in said
    assert "shop down" in words(visitor(stage, "operator").page())


def test_an_outage_links_to_its_incident(stage):
    asked(stage, 5, unanswered="Connection refused")
    systems.open_outage_incidents(at=AT + timedelta(hours=1))
    assert "/t/orchid/incidents/" in visitor(stage, "operator").page(PATH)


def test_an_operator_stops_and_resumes_releases_with_a_reason(stage):
    person, path = visitor(stage, "operator"), f"/t/orchid/systems/{system_id(stage)}"
    assert person.client.post(f"{path}/stop", {"reason": "They migrate."}).status_code == 302
    said = words(person.page(PATH))
    assert "Paused by a person: They migrate." in said
    assert "Resume actions on shop" in said
    assert person.client.post(f"{path}/resume", {"reason": "Done."}).status_code == 302
    assert "Irreversible actions allowed" in words(person.page(PATH))


def test_a_pause_requires_a_reason(stage):
    person = visitor(stage, "operator")
    person.client.post(f"/t/orchid/systems/{system_id(stage)}/stop", {"reason": " "})
    assert "Not paused: enter a reason." in words(person.page(PATH))


def test_a_reviewer_sees_the_system_but_cannot_pause_it(stage):
    person = visitor(stage, "reviewer")
    assert "Pause irreversible actions" not in person.page(PATH)
    assert person.client.post(f"/t/orchid/systems/{system_id(stage)}/stop", {"reason": "x"}).status_code == 403


def test_webhook_addresses_are_shown(stage, secrets_dir):
    with tenancy(stage.tenant):
        row = webhooks.create_hook(tenant_id=stage.tenant, name="shop", secret=SECRET, by=stage.executor, at=AT)
    said = words(visitor(stage, "operator").page(PATH))
    assert f"/api/v1/hooks/{stage.tenant}/{row.id}" in said
    assert "no webhook received yet" in said


def test_an_empty_list_of_systems_is_described_in_one_sentence(stage, monkeypatch):
    monkeypatch.setattr("ledger.catalogue.queries.systems", lambda *_: [])
    assert "No system of record is registered." in words(visitor(stage, "operator").page(PATH))


# Test connection: one reading for a person; on record is who asked, and that it answered


def put_credential(settings, tmp_path, **content):
    settings.COUNTERFOIL_SECRETS_DIR = tmp_path
    folder = tmp_path / "systems" / "orchid"
    folder.mkdir(parents=True)
    (folder / "shop.json").write_text(json.dumps(content))


def try_it(stage, role="operator"):
    answer = visitor(stage, role).post(f"systems/{system_id(stage)}/connection")
    return answer.status_code, words(answer.content.decode())


def counted(stage):
    statement = (
        "SELECT (SELECT count(*) FROM ledger_event WHERE tenant_id = $1),"
        " (SELECT count(*) FROM reviews_readingcount WHERE tenant_id = $1),"
        " (SELECT count(*) FROM reviews_health WHERE tenant_id = $1),"
        " (SELECT count(*) FROM console_sighting WHERE tenant_id = $1 AND kind = 'system')"
    )
    with tenancy(stage.tenant):
        return execute(statement, stage.tenant)[0]


def test_a_missing_credential_is_reported_by_the_test_with_its_location_on_the_page(stage, settings, tmp_path):
    settings.COUNTERFOIL_SECRETS_DIR = tmp_path
    status, said = try_it(stage)
    assert status == 200
    assert "No answer from shop. There is no credential for the system shop." in said
    page = visitor(stage, "administrator").page(PATH)
    assert str(tmp_path / "systems" / "orchid" / "shop.json") in page
    assert "&quot;dbname&quot;: &quot;shop&quot;" in page
    assert "Contracts issue_refund 1.0.0" in words(page)
    assert "Credential" not in words(visitor(stage, "reviewer").page(PATH))
    assert try_it(stage, "reviewer")[0] == 403


def test_a_failed_connection_test_shows_the_reason_and_records_only_the_access(stage, settings, tmp_path):
    put_credential(settings, tmp_path, host="127.0.0.1", port=1, dbname="shop", user="reader", password="x")
    visitor(stage, "operator")
    before = counted(stage)
    _, said = try_it(stage)
    assert "No answer from shop." in said
    assert "with placeholder arguments, because no action has been read here yet." in said
    assert "Only the test itself was logged" in said
    assert [now - then for now, then in zip(counted(stage), before, strict=True)] == [0, 0, 0, 1]


def test_the_connection_test_reads_with_the_check_of_the_contract_and_shows_the_result(
    stage, settings, tmp_path, monkeypatch
):
    put_credential(settings, tmp_path, host="127.0.0.1", port=1, dbname="shop", user="reader", password="x")
    asked_for = []

    def read(self, *, system, verification, bindings, at, timeout_s):
        asked_for.append((system.name, verification["lookup"], bindings["sr"]))
        effects = (ReadEffect(name="refund", present=False),)
        return Reading(
            source=system.name,
            consistency=Consistency.PRIMARY,
            freshness="log position 0/16B3740",
            observed_at=at,
            pointer="shop.refunds",
            effects=effects,
        )

    monkeypatch.setattr(DatabaseCheck, "read", read)
    visitor(stage, "operator")
    before = counted(stage)
    _, said = try_it(stage)
    assert [now - then for now, then in zip(counted(stage), before, strict=True)] == [1, 0, 0, 1]
    with tenancy(stage.tenant):
        event, _, detail = events.history(stage.tenant, system_id(stage))[-1]
    assert (event.kind, detail) == ("connection_tested", {"contract": "issue_refund", "version": "1.0.0"})
    assert asked_for[0][0] == "shop"
    assert "connection-test" in asked_for[0][2].values()
    assert "shop answered in" in said
    assert "as primary, log position 0/16B3740." in said
    assert "with placeholder arguments, because no action has been read here yet: that it answers is all" in said
    assert "refund:" not in said
    assert "Read with the check of issue_refund 1.0.0" in said


def test_every_pattern_shows_the_form_of_its_credential():
    assert set(EXAMPLES) == set(PATTERNS) - shipped_descriptions().keys()
    for pattern in PATTERNS:
        assert resolve_address({}, example_credential(pattern))[1] == "", pattern
