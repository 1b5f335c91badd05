"""Nothing runs on a vote that could still be unmade: orders wait for the seal, and for a log that keeps up."""

from __future__ import annotations

import pytest

from console.local.processes import wait_until
from ledger import tasks
from ledger.db import tenancy
from ledger.log.queries import log as queries
from tests.support import seals
from tests.support.callers import found


def waits(shop, action_id):
    rows = shop.executor.get("/executions/ready?tools=delete_document,write_document").json()["items"]
    return next(row["waiting_for"] for row in rows if row["action_id"] == action_id)


@pytest.mark.unsealed
@pytest.mark.usefixtures("punctual_log")
def test_an_approved_order_waits_until_its_votes_are_under_a_signed_checkpoint(shop):
    """B40: no grant before that, and a grant at once after it."""
    action_id = shop.propose()
    seals.seal_up()
    assert waits(shop, action_id) == ["approval"]
    shop.vote(shop.approval_of(action_id))
    assert waits(shop, action_id) == ["seal"]
    assert shop.claim() == []
    seals.seal_up()
    assert waits(shop, action_id) == []
    assert [order["action_id"] for order in shop.claim()] == [action_id]


@pytest.mark.unsealed
@pytest.mark.usefixtures("punctual_log")
def test_votes_without_a_signed_head_are_not_sealed(shop, monkeypatch):
    """The leaves are there, the signed head is not: still nothing runs."""
    seals.seal_up()
    action_id = shop.propose()
    shop.vote(shop.approval_of(action_id))
    monkeypatch.setattr("ledger.log.operations.sequencer.sign_head", lambda **named: None)
    seals.seal_up()
    with tenancy(shop.tenant):
        assert queries.pending_events() == {}
    assert waits(shop, action_id) == ["seal"]


@pytest.mark.unsealed
def test_while_the_log_is_behind_no_irreversible_action_is_released_and_the_order_shows_why(shop, monkeypatch):
    """L15: what can be taken back goes on."""
    irreversible = shop.approved()
    seals.seal_up()
    reversible = shop.propose("write_document")
    monkeypatch.setattr(queries, "MANY", 0)
    assert "log" in waits(shop, irreversible)
    assert waits(shop, reversible) in ([], ["reading"])
    assert irreversible not in [order["action_id"] for order in shop.claim()]
    seals.seal_up()
    assert "log" not in waits(shop, irreversible)


@pytest.mark.unsealed
def test_the_age_of_a_queue_row_is_measured_by_the_clock_of_the_database(shop):
    """L15: age counts, not number."""
    seals.seal_up()
    with tenancy(shop.tenant):
        assert not queries.lag(shop.tenant).is_late
    shop.propose()
    with tenancy(shop.tenant):
        lag = queries.lag(shop.tenant)
        assert lag.waiting > 0
        assert not lag.is_late
        assert queries.Lag(waiting=1, oldest_s=5.1, unsigned_s=None).is_late
        assert queries.Lag(waiting=0, oldest_s=None, unsigned_s=6.0).is_late


@pytest.mark.unsealed
@pytest.mark.req("R-LE-07")
def test_each_event_shows_its_log_index_once_it_is_sealed(shop):
    action_id = shop.propose()
    assert {each["log"]["index"] for each in shop.history(action_id)} == {None}
    seals.seal_up()
    places = [each["log"] for each in shop.history(action_id)]
    assert all(place["sealed"] and place["number"] == 1 for place in places)
    assert [place["index"] for place in places] == sorted({place["index"] for place in places})
    told = shop.auditor.get(f"/actions/{action_id}").json()
    assert told["log"] == places[-1]


@pytest.mark.unsealed
def test_a_missing_sequencer_is_reported_in_the_status(shop, monkeypatch):
    """L15, for whoever watches the installation."""
    seals.seal_up()
    monkeypatch.setattr("console.telemetry.health.FRESH_S", -1.0)

    def state():
        checks = shop.operator.get("/statusz").json()["checks"]
        return next(each["state"] for each in checks if each["code"] == "SEQUENCER")

    assert state() == "in_order"
    shop.propose()
    monkeypatch.setattr(queries, "LATE_S", 0.0)
    assert state() == "failed"


@pytest.mark.unsealed
def test_a_log_that_falls_behind_raises_one_alarm(shop, monkeypatch):
    """An alarm, not silence; and one, however long it lasts."""
    seals.seal_up()
    assert tasks.watch() == 0
    shop.propose()
    monkeypatch.setattr(queries, "LATE_S", 0.0)
    assert wait_until(lambda: tasks.watch() == 1, within_s=30, every_s=0.2)
    assert tasks.watch() == 0
    with tenancy(shop.tenant):
        [alarm] = queries.alarms(shop.tenant)
    assert alarm.kind == tasks.NOT_SEALING
    assert "wait for a sealed place" in alarm.detail


@pytest.mark.unsealed
def test_one_tenants_log_does_not_delay_another(shop, monkeypatch):
    # The second turn takes what the first has written itself: that the log was opened.
    seals.seal_up()
    seals.seal_up()
    found("willow")
    monkeypatch.setattr(queries, "LATE_S", 0.0)
    with tenancy(shop.tenant):
        assert not queries.lag(shop.tenant).is_late
    assert queries.backlog().is_late


def test_a_clock_jump_changes_no_order_and_is_marked_on_the_event(shop, clock):
    """L14: forth by an hour and back; places follow what was committed, times only tell."""
    actions = [shop.propose(path="one.md")]
    clock.forward(hours=1)
    actions.append(shop.propose(path="two.md"))
    clock.forward(hours=-1)
    actions.append(shop.propose(path="three.md"))
    seals.seal_up()
    told = [shop.history(action_id) for action_id in actions]
    indexes = [event["log"]["index"] for history in told for event in history]
    assert indexes == sorted(indexes)
    assert [{event["clocks_differ"] for event in history} for history in told] == [{False}, {True}, {False}]
