"""Maintenance: nothing starts, everything else goes on, and everybody is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from approvals.tasks import lapse
from console.telemetry import health
from ledger.catalogue.operations import installation
from ledger.db import execute, tenancy
from ledger.record.queries import events
from tests.support.api_tenant import Workshop
from tests.support.browser_users import visitor, words

REASON = "The database moves to another host."


def begin() -> None:
    call_command("maintenance", "on", "--reason", REASON)


def waiting_for(shop: Workshop, action_id: str) -> list[str]:
    items = shop.executor.get("/executions/ready?tools=delete_document,write_document").json()["items"]
    return next(item["waiting_for"] for item in items if item["action_id"] == action_id)


def recorded(shop: Workshop) -> list[str]:
    with tenancy(shop.tenant):
        told = events.history(shop.tenant, shop.tenant)
    return [event.kind for event, *_ in told if event.kind.startswith("maintenance")]


def test_under_maintenance_a_start_is_refused_for_now_and_afterwards_the_same_start_succeeds(shop: Workshop):
    order = shop.claimed()
    begin()
    answer = shop.start(order)
    assert (answer.status_code, answer.json()["code"], answer["Retry-After"]) == (503, "MAINTENANCE", "30")
    assert answer.json()["detail"] == (
        "The installation is under maintenance, and no execution starts until it has ended; nothing was changed."
    )
    call_command("maintenance", "off")
    assert shop.start(order).status_code == 201
    assert recorded(shop) == ["maintenance_begun", "maintenance_ended"]


def test_under_maintenance_proposals_and_votes_go_on_and_what_is_approved_waits_for_its_end(shop: Workshop):
    begin()
    action_id = shop.approved()
    assert shop.claim() == []
    assert waiting_for(shop, action_id) == ["maintenance"]
    call_command("maintenance", "off")
    assert [order["action_id"] for order in shop.claim()] == [action_id]


def test_the_command_waits_for_what_runs_and_tells_it(shop: Workshop, capsys: pytest.CaptureFixture[str], clock: Any):
    shop.started()
    with pytest.raises(CommandError, match=r"1 still run after 0 s\. The maintenance stays on"):
        call_command("maintenance", "on", "--reason", REASON, "--wait", "0")
    assert "1 execution runs; the last lease ends at" in capsys.readouterr().out
    clock.ahead = timedelta(minutes=2)
    lapse()
    call_command("maintenance", "on")
    told = capsys.readouterr().out
    assert REASON in told
    assert "Nothing runs. End the maintenance with `manage.py maintenance off`." in told
    assert recorded(shop) == ["maintenance_begun"]


def test_an_interrupted_command_is_carried_on_by_the_next_run(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for switch, kind in (("on", "maintenance_begun"), ("off", "maintenance_ended")):
        with monkeypatch.context() as patched:
            patched.setattr(installation, "_record_once", die)
            with pytest.raises(KeyboardInterrupt):
                call_command("maintenance", switch, "--reason", REASON)
        assert kind not in recorded(shop)
        for _ in range(2):
            call_command("maintenance", switch)
        assert recorded(shop)[-1] == kind
    assert len(recorded(shop)) == 2


def test_only_one_maintenance_is_in_force_and_it_needs_a_reason(shop: Workshop):
    with pytest.raises(CommandError, match="everybody sees it, and it is kept on record"):
        call_command("maintenance", "on")
    first = installation.begin_maintenance(reason=REASON, at=timezone.now())
    assert installation.begin_maintenance(reason="Another.", at=timezone.now()) == first
    assert execute("SELECT reason FROM ledger_maintenance WHERE ended_at IS NULL") == [(REASON,)]


def test_two_who_begin_it_at_the_same_instant_get_the_same_one(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    first = installation.begin_maintenance(reason=REASON, at=timezone.now())
    looks = iter([None])
    monkeypatch.setattr(installation, "maintenance_in_force", lambda: next(looks, first))
    call_command("maintenance", "on", "--reason", "Another.")
    told = capsys.readouterr().out
    assert "Maintenance was begun before this; its reason stays." in told
    assert REASON in told
    assert execute("SELECT reason FROM ledger_maintenance WHERE ended_at IS NULL") == [(REASON,)]


def test_every_page_and_the_status_tell_of_it_until_it_has_ended(stage: Any):
    operator = visitor(stage, "operator")
    assert "Under maintenance" not in words(operator.page("approvals"))
    begin()
    told = "No new actions start until it has ended. What is approved waits, and may expire meanwhile."
    assert f"Under maintenance. {told} Reason: {REASON}" in words(visitor(stage, "compliance").page("audit"))
    [check] = [each for each in health.look_at_installation().checks if each.code == "MAINTENANCE"]
    assert check.state == "failed"
    assert check.detail.endswith(f"no execution starts. {REASON}")
    call_command("maintenance", "off")
    assert "Under maintenance" not in words(visitor(stage, "reviewer").page("approvals"))
