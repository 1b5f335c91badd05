"""Readings wanted before execution: what `pre` says was read from the real system, before the start."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from ledger.actions.queries import readings as readings_read
from ledger.db import tenancy
from reviews.readback.operations import readings, schedules
from tests.support.api_tenant import Clock, Workshop, contract, document, result


@pytest.fixture
def comparing(shop: Workshop) -> Workshop:
    """The tool that writes a document now promises that it was not there before."""
    newer = contract("write_document") | {"version": "1.1.0"}
    newer["verification"]["predicates"].append("!pre.exists")
    shop.operator_key.release_contract(newer)
    return shop


def take_readings(clock: Clock) -> None:
    for tenant_id, action_id in schedules.requested_readings():
        readings.read_baseline(tenant_id=tenant_id, action_id=action_id, clock=clock.now)


def kinds(shop: Workshop, action_id: str) -> list[str]:
    return [event["event"] for event in shop.history(action_id)]


@pytest.mark.req("R-RC-09")
def test_an_order_waits_for_the_reading_that_its_predicates_need(comparing: Workshop, clock: Clock):
    action_id = comparing.propose("write_document")
    assert comparing.claim() == []
    ready = comparing.executor.get("/executions/ready?tools=write_document").json()["items"]
    assert ready[0]["waiting_for"] == ["reading"]
    take_readings(clock)
    assert [order["action_id"] for order in comparing.claim()] == [action_id]
    assert kinds(comparing, action_id)[-3:] == ["reading_wanted", "reading_taken", "grant_minted"]


@pytest.mark.req("R-RC-09", "R-LE-17")
def test_the_state_before_is_compared_with_the_state_after(comparing: Workshop, clock: Clock, tmp_path: Path):
    action_id = comparing.propose("write_document")
    comparing.claim()
    take_readings(clock)
    order = comparing.claim()[0]
    started = comparing.start(order).json()
    (tmp_path / "documents" / "notes").mkdir()
    (tmp_path / "documents" / "notes" / "today.md").write_text("Quiet.")
    comparing.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=10)
    assert comparing.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    with tenancy(comparing.tenant):
        wanted, taken = readings_read.readings(comparing.tenant, UUID(action_id))
    assert (wanted[0], taken[0], taken[2]["source"]) == ("reading_wanted", "reading_taken", "documents")


def test_a_reading_is_requested_once_however_often_executors_claim(comparing: Workshop, clock: Clock):
    action_id = comparing.propose("write_document")
    for _ in range(3):
        assert comparing.claim() == []
    assert kinds(comparing, action_id).count("reading_wanted") == 1


def test_an_outdated_reading_is_taken_again(comparing: Workshop, clock: Clock):
    comparing.propose("write_document")
    comparing.claim()
    take_readings(clock)
    clock.forward(minutes=6)
    assert comparing.claim() == []
    take_readings(clock)
    assert len(comparing.claim()) == 1


def test_a_tool_without_predicates_on_the_state_before_waits_for_no_reading(shop: Workshop):
    action_id = shop.propose("write_document", **document("notes/now.md", "Now."))
    assert [order["action_id"] for order in shop.claim()] == [action_id]
