"""The Systems page: what it says of each system, and who may stop releasing to one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from reviews.observations.operations import webhooks
from reviews.readback.operations import systems
from reviews.readback.operations.systems import ReadAttempt
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


def test_a_system_that_was_never_asked_says_so(stage):
    said = words(visitor(stage, "operator").page(PATH))
    for part in ("shop", "Not read yet", "Unverified actions 0", "Oldest none", "Irreversible actions allowed"):
        assert part in said
    assert "polled only" in said


@pytest.mark.req("R-UI-01")
def test_a_system_that_answers_shows_how(stage):
    asked(stage, 3)
    said = words(visitor(stage, "operator").page(PATH))
    for part in ("Answers", "12 ms", "3, 0 unanswered", "Consecutive failures 0", "Concurrent reads 4"):
        assert part in said


def test_a_system_that_is_away_shows_why_and_until_when(stage):
    asked(stage, 5, unanswered="Connection refused")
    said = words(visitor(stage, "operator").page(PATH))
    for part in ("Consecutive failures 5: Connection refused", "Down since", "next attempt", "paused."):
        assert part in said
    assert "shop down" in words(visitor(stage, "operator").page())


def test_an_outage_leads_to_its_incident(stage):
    asked(stage, 5, unanswered="Connection refused")
    systems.open_outage_incidents(at=AT + timedelta(hours=1))
    assert "/t/orchid/incidents/" in visitor(stage, "operator").page(PATH)


def test_an_operator_stops_and_resumes_with_a_reason(stage):
    person, path = visitor(stage, "operator"), f"/t/orchid/systems/{system_id(stage)}"
    assert person.client.post(f"{path}/stop", {"reason": "They migrate."}).status_code == 302
    said = words(person.page(PATH))
    assert "Paused by a person: They migrate." in said
    assert "Resume actions on shop" in said
    assert person.client.post(f"{path}/resume", {"reason": "Done."}).status_code == 302
    assert "Irreversible actions allowed" in words(person.page(PATH))


def test_nothing_is_stopped_without_a_reason(stage):
    person = visitor(stage, "operator")
    person.client.post(f"/t/orchid/systems/{system_id(stage)}/stop", {"reason": " "})
    assert "Not paused: enter a reason." in words(person.page(PATH))


def test_who_does_not_operate_sees_and_may_not_stop(stage):
    person = visitor(stage, "reviewer")
    assert "Pause irreversible actions" not in person.page(PATH)
    assert person.client.post(f"/t/orchid/systems/{system_id(stage)}/stop", {"reason": "x"}).status_code == 403


def test_webhook_addresses_are_shown(stage, secrets_dir):
    with tenancy(stage.tenant):
        row = webhooks.create_hook(tenant_id=stage.tenant, name="shop", secret=SECRET, by=stage.executor, at=AT)
    said = words(visitor(stage, "operator").page(PATH))
    assert f"/api/v1/hooks/{row.id}" in said
    assert "no webhook received yet" in said


def test_no_system_is_said_in_a_sentence(stage, monkeypatch):
    monkeypatch.setattr("console.pages.systems.context.all_systems", lambda *_, **__: [])
    assert "No system of record is registered." in words(visitor(stage, "operator").page(PATH))
