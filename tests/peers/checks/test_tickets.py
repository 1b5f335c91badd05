"""Tickets worked on in a real Roundup tracker over REST, and read back with an account that may only view."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency
from reviews.checks.tickets import TicketCheck
from tests.peers.support import environment

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-06", "R-VD-03")
def test_a_ticket_is_found_by_the_key_of_its_action(desk):
    desk.create(actionkey="key-11")
    number = desk.create(assignedto="colleague", priority="bug")
    desk.comment(number, "Bulb ordered, o-17.")
    found = desk.look(fields=["title", "status", "priority"], tenant_field="account", comment="'o-17'")
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert effect.scope == {"tenant": ("acme",)}
    assert effect.fields == {
        "title": "Broken lamp",
        "status": "chatting",  # the tracker's own doing, when somebody comments
        "priority": "bug",
        "object_id": number,
        "etag": desk.etag(number),
        "actor": "bot",
        "creator": "bot",
        "created_at": effect.fields["created_at"],
        "changed_at": effect.fields["changed_at"],
        "assignee": "colleague",
        "comments": 1,
        "comment": "Bulb ordered, o-17.",
    }
    assert found.indicators == ()
    assert found.consistency is Consistency.STRONG
    assert desk.etag(number) in found.freshness


@pytest.mark.req("R-CP-06", "R-CP-16")
def test_a_ticket_made_twice_is_a_duplicate(desk):
    desk.create()
    desk.create()
    found = desk.look()
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_ticket",)


@pytest.mark.req("R-CP-06")
def test_the_wrong_assignee_is_detected(desk):
    desk.create(assignedto="colleague")
    assert desk.look(assignee="'bot'").indicators == ("wrong_assignee",)
    assert desk.look(assignee="'colleague'").indicators == ()


class TestUpdates:
    SET = {"status": "'resolved'", "assignedto": "'bot'"}

    @pytest.mark.req("R-CP-06")
    def test_a_change_is_present_with_its_author_from_the_history(self, desk):
        number = desk.create()
        started = datetime.now(UTC)
        assert desk.look(number, set=self.SET).effects[0].present is False
        assert desk.change(number, status="resolved", assignedto="bot").status_code == 200
        found = desk.look(number, set=self.SET, executed_at=started)
        assert found.effects[0].present
        assert found.effects[0].fields["actor"] == "bot"
        assert found.indicators == ()

    @pytest.mark.req("R-CP-06")
    def test_a_partial_change_is_detected(self, desk):
        number = desk.create()
        desk.change(number, status="resolved")
        found = desk.look(number, set=self.SET)
        assert found.effects[0].present
        assert found.indicators == ("missing_field_update",)

    @pytest.mark.req("R-CP-06")
    def test_a_missing_comment_is_detected(self, desk):
        number = desk.create(status="resolved")
        found = desk.look(number, set={"status": "'resolved'"}, comment="'ordered'")
        assert found.indicators == ("missing_field_update",)

    @pytest.mark.req("R-CP-06", "R-DC-06")
    def test_a_concurrent_change_by_another_user_is_detected(self, desk):
        number = desk.create()
        before = desk.etag(number)
        desk.change(number, status="chatting", user=("colleague", "word"))
        refused = desk.change(number, etag=before, status="resolved", assignedto="bot")
        assert refused.status_code == 412
        found = desk.look(number, set=self.SET, pre={"effects": {"work": {"etag": before}}})
        assert found.effects[0].present is False
        assert found.effects[0].fields["actor"] == "colleague"
        assert found.indicators == ("stale_state",)

    @pytest.mark.req("R-CP-06")
    def test_a_locked_record_is_detected(self, desk):
        number = desk.create(locked="yes")
        found = desk.look(number, set=self.SET, locked_field="locked")
        assert found.indicators == ("record_lock",)
        desk.change(number, status="resolved", assignedto="bot")
        assert desk.look(number, set=self.SET, locked_field="locked").indicators == ()

    @pytest.mark.req("R-CP-06")
    def test_a_state_without_a_history_entry_is_detected(self, desk):
        number = desk.create(status="resolved", assignedto="bot")
        later = datetime.now(UTC) + timedelta(minutes=10)
        found = desk.look(number, set=self.SET, executed_at=later)
        assert found.indicators == ("missing_change_history_entry",)


class TestAbsence:
    def test_a_record_without_a_match_is_absent(self, desk):
        desk.create(actionkey="key-11")
        assert desk.look().effects[0].present is False
        assert desk.look("99").effects[0].present is False

    def test_a_retired_ticket_is_gone(self, desk):
        number = desk.create()
        assert desk.look(number, expect="absent").effects[0].present is False
        desk.retire(number)
        assert desk.look(number).effects[0].present is False
        found = desk.look(number, expect="absent")
        assert (found.effects[0].present, found.effects[0].count) == (True, 1)

    def test_a_list_longer_than_the_scan_does_not_prove_absence(self, desk, monkeypatch):
        monkeypatch.setattr("reviews.checks.tickets.PAGE", 1)
        monkeypatch.setattr("reviews.checks.tickets.MAX_PAGES", 2)
        for _ in range(3):
            desk.create()
        assert desk.look(set={"status": "'resolved'"}).effects[0].present is None

    def test_a_ticket_is_found_over_many_pages(self, desk, monkeypatch):
        monkeypatch.setattr("reviews.checks.tickets.PAGE", 2)
        for _ in range(5):
            desk.create()
        assert desk.look().effects[0].count == 5


@pytest.mark.req("R-VD-16")
def test_a_tracker_that_does_not_answer_is_an_outage(desk):
    with pytest.raises(CheckFailed) as failed:
        desk.look(settings={"url": f"http://127.0.0.1:{environment.free_port()}"})
    assert failed.value.retryable


def test_a_refused_password_is_retried(desk):
    with pytest.raises(CheckFailed) as failed:
        desk.look(password="wrong")
    assert failed.value.retryable


def test_an_unknown_kind_gives_no_answer(desk):
    with pytest.raises(CheckFailed) as failed:
        desk.look(kind="nothing")
    assert not failed.value.retryable


def test_only_listed_kinds_are_read(desk):
    with pytest.raises(CheckFailed, match="not among"):
        desk.look(kind="user", settings={"kinds": ["issue"]})


def test_an_id_cannot_change_the_requested_path(desk):
    with pytest.raises(CheckFailed, match="no record"):
        desk.look("1/../../user/1")


def test_the_reader_cannot_write(desk):
    number = desk.create()
    assert desk.change(number, user=("viewer", "word"), status="resolved").status_code == 403


def test_the_catalogue_contains_the_ticket_check():
    assert isinstance(check_for("crm_ticketing"), TicketCheck)
