"""Events written with PUT into Radicale, a CalDAV server from a package, and read back.

Radicale sends no invitations: how their delivery went (RFC 6638) is written into the event, as a server that
does send them writes it.
"""

from __future__ import annotations

import pytest

from reviews.checks.calendar import CalendarCheck, parse_event
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency
from tests.peers.support import environment

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-04", "R-VD-03")
def test_an_event_is_read_back(planner):
    etag = planner.put()
    planner.put("key-11", name="other")
    found = planner.look()
    (effect,) = found.effects
    assert (effect.present, effect.count, effect.pending) == (True, 1, False)
    assert effect.scope == {"tenant": ("acme",), "target": ("o-17",)}
    assert effect.fields == {
        "x_order": "o-17",
        "uid": "key-1",
        "etag": etag,
        "calendar": "ann/work",
        "owner": "/ann/",
        "organizer": "ann@example.test",
        "timezone": "Europe/Berlin",
        "start": "2026-03-02T09:00:00",
        "end": "2026-03-02T09:30:00",
        "starts_at": "2026-03-02T08:00:00Z",
        "ends_at": "2026-03-02T08:30:00Z",
        "attendees": ["bob@example.test"],
        "answers": {"bob@example.test": "ACCEPTED"},
        "recurrence": "FREQ=WEEKLY;COUNT=3",
        "conference": "https://meet.example.test/1",
        "reminders": ["-PT15M"],
        "status": "TENTATIVE",
        "access_class": "PUBLIC",
        "summary": "Visit, first",
        "location": "",
        "sequence": 2,
        "last_modified": effect.fields["last_modified"],
    }
    assert found.indicators == ()
    assert found.consistency is Consistency.STRONG
    assert etag in found.freshness
    planner.put("key-12")
    assert planner.look().freshness != found.freshness


@pytest.mark.req("R-CP-04")
def test_a_missing_event_is_absent(planner):
    planner.put("key-2")
    found = planner.look()
    assert found.effects[0].present is False
    assert found.indicators == ("missing_event",)


@pytest.mark.req("R-CP-04")
def test_another_time_zone_is_detected(planner):
    planner.put("key-1", "DTSTART;TZID=Europe/London:20260302T090000", replaced={"DTSTART"})
    assert planner.look(timezone="sr.zone").indicators == ("wrong_timezone",)
    assert planner.look(timezone="'Europe/London'").indicators == ()


@pytest.mark.req("R-CP-04", "R-CP-16")
def test_a_second_event_for_the_same_action_is_a_duplicate(planner):
    planner.put("key-1", "X-KEY:key-1")
    planner.put("another", "X-KEY:key-1")
    planner.put("a-third", "X-KEY:key-11")
    assert planner.look().indicators == ()
    found = planner.look(match={"X-KEY": "scope.idempotency_key"})
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_event",)
    assert planner.look(uid=None, match={"X-KEY": "scope.idempotency_key"}).effects[0].count == 2


@pytest.mark.req("R-CP-04")
@pytest.mark.parametrize("status", ["5.1", "3.7", '"2.0,3.8"'])
def test_a_failed_invitation_is_detected(planner, status):
    planner.put("key-1", f"ATTENDEE;SCHEDULE-STATUS={status}:mailto:cy@example.test")
    assert planner.look().indicators == ("attendee_invite_failure",)


@pytest.mark.req("R-CP-04")
def test_a_missing_invitation_is_detected(planner):
    planner.put()
    assert planner.look(attendees="'bob@example.test'").indicators == ()
    assert planner.look(attendees="'bob@example.test, cy@example.test'").indicators == ("attendee_invite_failure",)


def test_pending_invitations_are_waited_for(planner):
    planner.put("key-1", "ATTENDEE;SCHEDULE-STATUS=1.1:mailto:cy@example.test")
    found = planner.look()
    assert found.effects[0].pending
    assert found.indicators == ()


@pytest.mark.req("R-CP-04", "R-CP-13")
def test_the_wrong_owner_or_access_class_is_detected(planner):
    planner.put("key-1", "CLASS:PUBLIC")
    assert planner.look(access_class="'PRIVATE'").indicators == ("permission_mismatch",)
    assert planner.look(owner="'/bob/'").indicators == ("permission_mismatch",)
    assert planner.look(owner="'/ann/'", access_class="'PUBLIC'").indicators == ()


@pytest.mark.req("R-CP-04")
@pytest.mark.parametrize(
    ("other", "fired"),
    [
        (("DTSTART:20260302T081500Z", "DTEND:20260302T090000Z"), ("conflicting_booking_policy",)),
        (("DTSTART:20260302T083000Z", "DURATION:PT1H"), ()),
        (("DTSTART:20260302T081500Z", "DTEND:20260302T090000Z", "TRANSP:TRANSPARENT"), ()),
    ],
)
def test_a_conflicting_event_is_detected_where_the_time_must_be_exclusive(planner, other, fired):
    planner.put()
    planner.put("busy", *other, replaced={"DTSTART", "DTEND", "RRULE"})
    assert planner.look().indicators == ()
    assert planner.look(exclusive=True).indicators == fired


def test_an_event_may_be_required_absent(planner):
    planner.put()
    assert planner.look(expect="absent").effects[0].present is False
    planner.client.delete("/ann/work/key-1.ics").raise_for_status()
    found = planner.look(expect="absent")
    assert (found.effects[0].present, found.effects[0].count) == (True, 1)
    assert found.indicators == ()


def test_a_missing_calendar_is_retried(planner):
    with pytest.raises(CheckFailed, match="no such calendar") as failed:
        planner.look(calendar="'ann/other'")
    assert failed.value.retryable


def test_a_folder_is_not_read_as_a_calendar(planner):
    with pytest.raises(CheckFailed, match="no calendar"):
        planner.look(calendar="'ann'")


def test_a_calendar_of_another_user_gives_no_answer(planner):
    with pytest.raises(CheckFailed) as failed:
        planner.look(calendar="'bob/work'")
    assert not failed.value.retryable


@pytest.mark.parametrize("path", ["'../ann/work'", "'ann/../../work'", "'//evil.example/work'"])
def test_a_path_outside_the_calendars_is_refused(planner, path):
    with pytest.raises(CheckFailed):
        planner.look(calendar=path)


def test_only_listed_calendars_are_read(planner):
    with pytest.raises(CheckFailed, match="not among"):
        planner.look(settings={"calendars": ["ann/home"]})


def test_a_value_is_never_read_as_xml(planner):
    planner.put()
    evil = "x</C:text-match></C:prop-filter>"
    assert planner.look(uid=f"'{evil}'").effects[0].present is False


@pytest.mark.req("R-VD-16")
def test_a_server_that_does_not_answer_is_an_outage(planner):
    with pytest.raises(CheckFailed) as failed:
        planner.look(settings={"url": f"http://127.0.0.1:{environment.free_port()}"})
    assert failed.value.retryable


def test_a_refused_password_is_retried(planner):
    with pytest.raises(CheckFailed) as failed:
        planner.look(password="wrong")
    assert failed.value.retryable


def test_the_reader_cannot_write(planner):
    planner.put()
    for method in ("PUT", "DELETE"):
        answer = planner.client.request(
            method, "/ann/work/key-1.ics", auth=("reader", "word"), content="BEGIN:VCALENDAR"
        )
        assert answer.status_code == 403


def test_an_event_is_read_from_its_series_and_not_from_an_exception():
    data = "BEGIN:VEVENT\r\nUID:1\r\nRECURRENCE-ID:20260309T090000\r\nSUMMARY:b\r\nEND:VEVENT\r\n"
    event = parse_event(data + "BEGIN:VEVENT\r\nUID:1\r\nSUMMARY:a\r\n  long\r\nEND:VEVENT\r\n")
    assert event.text("SUMMARY") == "a long"


def test_the_catalogue_contains_the_calendar_check():
    assert isinstance(check_for("calendar"), CalendarCheck)
