"""Tickets, from the proposal to the decision: what a tool does in a real tracker, and what is made of it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from tests.peers.support.errand import Errand
from tests.peers.support.path import accounted, fired, not_asked, succeeded

pytestmark = pytest.mark.long

SYSTEM = {"credential": {"user": "viewer", "password": "word"}, "pattern": "crm_ticketing"}


def opening(desk, *, url=None):
    return Errand(
        **SYSTEM,
        settings={"url": url or desk.url},
        arguments={"order": "o-17", "title": "Broken lamp"},
        lookup={
            "effects": {
                "open": {
                    "match": {"actionkey": "scope.idempotency_key"},
                    "assignee": "'colleague'",
                    "comment": "sr.order",
                    "fields": ["title", "status", "priority"],
                    "tenant_field": "account",
                    "target_field": "title",
                }
            }
        },
        predicates=(
            "sa.object_id != ''",
            "sa.title == sr.title && sa.status == 'chatting' && sa.priority == 'bug'",
            "sa.assignee == 'colleague'",
            "sa.comment.contains(sr.order)",
            "sa.actor == 'bot' && sa.creator == 'bot'",
            "sa.changed_at != ''",
        ),
        target="ticket/{title}",
    )


def closing(desk, number):
    return Errand(
        **SYSTEM,
        settings={"url": desk.url},
        arguments={"issue": number},
        lookup={
            "effects": {
                "close": {
                    "id": "sr.issue",
                    "set": {"status": "'resolved'", "assignedto": "'bot'"},
                    "locked_field": "locked",
                    "tenant_field": "account",
                }
            }
        },
        predicates=("sa.status == 'resolved'", "sa.actor == 'bot'"),
        target="issue/{issue}",
        reading={"baseline": True},
    )


def create(desk, work, times=1, **fields):
    for _ in range(times):
        given = {"actionkey": work.key, "assignedto": "colleague", "priority": "bug"} | fields
        desk.comment(desk.create(**given), "About o-17.")


@pytest.mark.req("R-CP-06", "R-CP-14", "R-VD-03")
def test_an_opened_ticket_is_a_success(office, desk):
    ended = office.carry_out(opening(desk), lambda work: create(desk, work))
    succeeded(ended)
    assert not_asked(ended) == {"workflow_id"}  # this tracker has no workflows
    accounted(ended, actor="bot", place="acme")


@pytest.mark.req("R-CP-06", "R-VD-04")
def test_a_closed_ticket_is_a_success(office, desk):
    number = desk.create()
    change = {"status": "resolved", "assignedto": "bot"}
    succeeded(office.carry_out(closing(desk, number), lambda work: desk.change(number, **change)))


@pytest.mark.req("R-CP-06", "R-CP-16")
@pytest.mark.parametrize(
    ("indicator", "parts"), [("duplicate_ticket", {"times": 2}), ("wrong_assignee", {"assignedto": "bot"})]
)
def test_a_wrong_ticket_raises_its_indicator(office, desk, indicator, parts):
    fired(office.carry_out(opening(desk), lambda work: create(desk, work, **parts)), indicator)


@pytest.mark.req("R-CP-06", "R-CP-16")
def test_a_partial_change_raises_missing_field_update(office, desk):
    number = desk.create()
    ended = office.carry_out(closing(desk, number), lambda work: desk.change(number, status="resolved"))
    fired(ended, "missing_field_update")


@pytest.mark.req("R-CP-06", "R-DC-02")
def test_a_locked_ticket_raises_record_lock(office, desk):
    number = desk.create(locked="yes")
    fired(office.carry_out(closing(desk, number), lambda work: None), "record_lock")


@pytest.mark.req("R-CP-06", "R-DC-04")
def test_a_concurrent_change_by_another_user_raises_its_indicator(office, desk):
    """The tracker itself refuses the older ETag, and the tool says so."""
    number = desk.create()
    before = desk.etag(number)

    def lose(work):
        desk.change(number, status="chatting", user=("colleague", "word"))
        refused = desk.change(number, etag=before, status="resolved", assignedto="bot")
        assert refused.status_code == 412

    error = {"code": "VERSION_CONFLICT", "message": "412", "phase": "after_send"}
    fired(office.carry_out(closing(desk, number), lose, status="failed", error=error), "stale_state")


@pytest.mark.req("R-CP-06")
def test_a_state_without_a_history_entry_raises_its_indicator(office, desk, monkeypatch):
    monkeypatch.setattr("reviews.checks.tickets.SLACK", timedelta(seconds=1))
    number = desk.create(status="resolved", assignedto="bot")
    time.sleep(8)  # the execution is later than the ticket's last change
    fired(office.carry_out(closing(desk, number), lambda work: None), "missing_change_history_entry")


@pytest.mark.req("R-CP-13")
@pytest.mark.parametrize("fields", [{"account": "willow"}, {"title": "Another"}])
def test_a_ticket_of_another_tenant_is_the_wrong_target(office, desk, fields):
    ended = office.carry_out(opening(desk), lambda work: create(desk, work, **fields))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
