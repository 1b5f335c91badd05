"""Degraded: what cannot be verified is told as that, and a broker that is down keeps nobody from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.brokers import counters
from tests.support.api_tenant import Clock, Workshop, contract, result


@pytest.mark.req("R-FB-11")
def test_a_low_risk_effect_without_a_check_is_shown_as_unverified_and_never_as_done(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    newer = contract("write_document") | {"version": "1.1.0", "side_effect_class": "LOW_RISK_INTERNAL"}
    del newer["verification"], newer["required_effects"]
    shop.operator_key.release_contract(newer)
    action_id = shop.propose("write_document")
    shop.observe(shop.start(shop.claim()[0]).json(), result=result(tool="write_document"))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "UNKNOWN"
    envelope = shop.auditor.get(f"/actions/{action_id}").json()
    assert envelope["entry"]["verification"]["status"] == "UNVERIFIABLE"
    assert (envelope["user_status"]["code"], envelope["state"]) == ("FINAL_STATE_UNKNOWN", "UNKNOWN")
    report = shop.report(action_id)
    assert report["completed"] is False
    assert "no reliable way to check it" in report["text"]
    # Nobody looks again, and nobody is called.
    clock.forward(hours=2)
    assert shop.read_back(action_id, clock) is None
    assert shop.case_of(action_id) is None
    page = shop.reviewer.client.get(f"/t/{shop.slug}/actions/{action_id}").content.decode()
    assert "no reliable way to check it" in page


@pytest.fixture
def without_broker(shop: Workshop, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Nobody listens where the broker should be."""
    settings.REDIS_URL = settings.BROKER_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(counters, "_away_until", 0.0)
    return shop


@pytest.mark.req("R-FB-12")
def test_without_a_broker_work_continues_and_nothing_is_shown_as_done_early(without_broker: Workshop, clock: Clock):
    shop = without_broker
    started = shop.started()
    assert shop.observe(started).json()["state"] == "PENDING"
    action_id = started["action_id"]
    for page in ("", "actions", f"actions/{action_id}", "approvals", "cases"):
        shown = shop.reviewer.client.get(f"/t/{shop.slug}/{page}", follow=True)
        assert shown.status_code == 200, page
        assert "confirmed in the system of record" not in shown.content.decode()
    assert shop.report(action_id)["completed"] is False
    assert shop.operator_key.get("/readyz").status_code == 200
    # PostgreSQL holds what is due, so whoever sweeps it finds the reading that nobody was told of.
    clock.forward(seconds=90)
    assert shop.read_back(action_id, clock) is not None
