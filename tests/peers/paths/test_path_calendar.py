"""Events, from the proposal to the decision: what a tool books in a real Radicale, and what is made of it."""

from __future__ import annotations

import pytest

from tests.peers.support.errand import Errand
from tests.peers.support.path import accounted, fired, not_asked, succeeded

pytestmark = pytest.mark.long


def booking(planner, *, url=None):
    return Errand(
        pattern="calendar",
        settings={"url": url or planner.url},
        credential={"user": "reader", "password": "word"},
        arguments={"order": "o-17", "calendar": "ann/work", "zone": "Europe/Berlin", "guest": "bob@example.test"},
        lookup={
            "effects": {
                "book": {
                    "calendar": "sr.calendar",
                    "uid": "scope.idempotency_key",
                    "match": {"X-KEY": "scope.idempotency_key"},
                    "timezone": "sr.zone",
                    "owner": "'/ann/'",
                    "access_class": "'PUBLIC'",
                    "attendees": "sr.guest",
                    "exclusive": True,
                    "tenant_property": "X-TENANT",
                    "target_property": "X-ORDER",
                }
            }
        },
        predicates=(
            "sa.organizer == 'ann@example.test'",
            "sa.calendar == sr.calendar",
            "sa.timezone == sr.zone",
            "sa.starts_at == '2026-03-02T08:00:00Z' && sa.ends_at == '2026-03-02T08:30:00Z'",
            "sa.attendees == [sr.guest]",
            "sa.recurrence == 'FREQ=WEEKLY;COUNT=3'",
            "sa.conference == 'https://meet.example.test/1'",
            "sa.reminders == ['-PT15M']",
            "sa.status == 'TENTATIVE'",
        ),
        target="order/{order}",
    )


def book(planner, work, *lines, **parts):
    planner.put(work.key, f"X-KEY:{work.key}", *lines, **parts)


def book_twice(planner, work):
    book(planner, work)
    planner.put("another", f"X-KEY:{work.key}", "TRANSP:TRANSPARENT")


def book_over(planner, work):
    planner.put("busy", "DTSTART:20260302T081500Z", "DTEND:20260302T090000Z", replaced={"DTSTART", "DTEND", "RRULE"})
    book(planner, work)


@pytest.mark.req("R-CP-04", "R-CP-14", "R-VD-04")
def test_a_booked_event_is_a_success(office, planner):
    ended = office.carry_out(booking(planner), lambda work: book(planner, work))
    succeeded(ended)
    assert not_asked(ended) == set()
    accounted(ended, actor="ann@example.test", place="acme")


@pytest.mark.req("R-CP-04", "R-CP-13", "R-CP-16")
@pytest.mark.parametrize(
    ("indicator", "effect"),
    [
        ("missing_event", lambda planner, work: planner.put("another")),
        (
            "wrong_timezone",
            lambda planner, work: book(
                planner, work, "DTSTART;TZID=Europe/London:20260302T090000", replaced={"DTSTART"}
            ),
        ),
        ("duplicate_event", book_twice),
        (
            "attendee_invite_failure",
            lambda planner, work: book(planner, work, "ATTENDEE;SCHEDULE-STATUS=5.1:mailto:cy@example.test"),
        ),
        ("permission_mismatch", lambda planner, work: book(planner, work, "CLASS:PRIVATE")),
        ("conflicting_booking_policy", book_over),
    ],
)
def test_a_wrong_event_raises_its_indicator(office, planner, indicator, effect):
    fired(office.carry_out(booking(planner), lambda work: effect(planner, work)), indicator)


@pytest.mark.req("R-CP-13")
@pytest.mark.parametrize("parts", [{"tenant": "willow"}, {"order": "o-18"}])
def test_an_event_of_another_owner_is_the_wrong_target(office, planner, parts):
    ended = office.carry_out(booking(planner), lambda work: book(planner, work, **parts))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
