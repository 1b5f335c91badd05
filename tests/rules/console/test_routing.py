"""Who is told what, when and how: by risk, by wish, and by the hour."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.notifications.routing import (
    BURST,
    BadSettings,
    MailPreferences,
    NotificationSettings,
    QuietHours,
    choose_route,
    parse_mail_preferences,
    parse_settings,
    period_end,
)
from console.notifications.rules import AUDIENCES, Occasion, occasion_of, urgency_of

NOON = datetime(2026, 11, 20, 12, 3, tzinfo=UTC)
NIGHT = QuietHours(time(22), time(7), "Europe/Berlin")


def told(channel: str, risk: str, **given: object) -> tuple[str, datetime] | None:
    found = choose_route(channel, risk, **({"settings": NotificationSettings(), "at": NOON} | given))
    return (found.manner, found.due_at) if found else None


def test_low_risk_notices_are_collected_and_high_risk_ones_sent_at_once():
    assert told("email", "LOW") == ("digest", NOON.replace(minute=30))
    assert told("email", "HIGH") == ("now", NOON)
    assert told("slack", "NORMAL") == ("now", NOON)


def test_a_personal_preference_cannot_turn_on_what_the_tenant_turned_off():
    settings = parse_settings({"email": {"LOW": "off"}})
    assert (
        told(
            "email",
            "LOW",
            settings=settings,
            wish=MailPreferences(email=dict.fromkeys(("LOW", "NORMAL", "HIGH"), "now")),
        )
        is None
    )


@pytest.mark.parametrize(("wanted", "manner"), [("now", "now"), ("digest", "digest"), ("off", None), ("", "digest")])
def test_a_person_chooses_for_their_own_mail(wanted, manner):
    found = told("email", "LOW", wish=MailPreferences(email={"LOW": wanted, "NORMAL": "", "HIGH": ""}))
    assert (found[0] if found else None) == manner


def test_mail_waits_during_quiet_hours_unless_the_risk_is_high():
    night = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    morning = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
    wish = MailPreferences(quiet=NIGHT)
    assert told("email", "NORMAL", wish=wish, at=night) == ("now", morning)
    assert told("email", "HIGH", wish=wish, at=night) == ("now", night)
    assert told("email", "HIGH", wish=MailPreferences(quiet=NIGHT, urgent_passes=False), at=night) == ("now", morning)
    assert told("email", "NORMAL", wish=wish) == ("now", NOON)


def test_quiet_hours_follow_the_time_zone_of_the_person_through_clock_changes():
    """The night in which summer time ends is an hour longer."""
    late = datetime(2026, 10, 24, 21, 0, tzinfo=UTC)
    assert NIGHT.over_at(late) == datetime(2026, 10, 25, 6, 0, tzinfo=UTC)
    assert QuietHours(time(12), time(14)).over_at(NOON) == NOON.replace(hour=14, minute=0)
    assert QuietHours(time(9), time(12)).over_at(NOON) == NOON


def test_messages_beyond_the_burst_are_collected_in_a_digest():
    """B38: after so many single messages the rest of the period is a digest, whatever the risk."""
    assert told("email", "HIGH", lately=BURST - 1)[0] == "now"
    assert told("email", "HIGH", lately=BURST)[0] == "digest"


def test_a_webhook_gets_every_event_at_once_or_none():
    assert told("webhook", "LOW", lately=1000) == ("now", NOON)
    assert told("webhook", "LOW", settings=parse_settings({"webhook": {"LOW": "off"}})) is None
    with pytest.raises(BadSettings):
        parse_settings({"webhook": {"LOW": "digest"}})


@pytest.mark.parametrize(
    "document",
    [
        {"sms": {}},
        {"email": {"LOW": "sometimes"}},
        {"email": {"SEVERE": "now"}},
        {"email": "now"},
        {"digest_min": 1},
        {"digest_min": True},
        {"digest_min": "30"},
    ],
)
def test_invalid_settings_are_refused(document):
    with pytest.raises(BadSettings):
        parse_settings(document)


def test_settings_survive_being_stored():
    settings = parse_settings({"slack": {"LOW": "off"}, "digest_min": 60})
    assert parse_settings(settings.document()) == settings


@pytest.mark.parametrize(
    "changes",
    [
        {"email": {"LOW": "loudly"}},
        {"email": {"SEVERE": "now"}},
        {"quiet_from": time(1)},
        {"quiet_from": time(1), "quiet_until": time(1)},
        {"zone": "Mars/Olympus"},
        {"zone": "../etc/passwd"},
        {"zone": ""},
        {"digest_min": 0},
    ],
)
def test_invalid_preferences_are_refused(changes):
    whole = {"email": {}, "digest_min": None, "quiet_from": None, "quiet_until": None, "zone": "UTC"}
    with pytest.raises(BadSettings):
        parse_mail_preferences(**(whole | {"urgent_passes": True} | changes))


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda at: at.year < 9999), st.integers(5, 1440))
def test_a_digest_period_ends_after_its_events_and_within_its_length(at, minutes):
    assert at < period_end(at, minutes) <= at + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("subject", "kind", "wanted"),
    [
        ("approval", "approval_requested", Occasion.REQUESTED),
        ("approval", "approval_preparing", None),
        ("approval", "approved", Occasion.APPROVED),
        ("approval", "break_glass_used", Occasion.APPROVED),
        ("approval", "vote_cast", None),
        ("approval", "rejected", Occasion.REJECTED),
        ("approval", "changes_requested", Occasion.CHANGES),
        ("approval", "approval_expired", Occasion.EXPIRED),
        ("approval", "approval_voided", Occasion.VOIDED),
        ("approval", "approval_consumed", None),
        ("approval", "approval_reminded", Occasion.REMINDED),
        ("approver_key", "key_enrolled", Occasion.KEY_WAITS),
        ("approver_key", "key_confirmed", None),
        ("emergency", "break_glass_used", Occasion.BREAK_GLASS),
        ("emergency", "break_glass_reviewed", None),
        ("agent", "agent_flagged", Occasion.AGENT_FLAGGED),
        ("agent", "agent_flag_cleared", None),
        ("alert", "alert_raised", Occasion.ALERT_RAISED),
        ("alert", "regression_found", Occasion.REGRESSION_FOUND),
        ("standing_approval", "standing_approval_paused", Occasion.STANDING_APPROVAL_PAUSED),
        ("standing_approval", "standing_approval_used", None),
        ("case", "case_opened", Occasion.CASE_OPENED),
        ("action", "case_opened", None),
        ("action", "rejected", None),
        ("action", "of an older version", None),
    ],
)
def test_the_occasion_of_a_notice_follows_from_its_event(subject, kind, wanted):
    assert occasion_of(subject, kind) == wanted


def test_every_occasion_has_an_audience():
    assert set(AUDIENCES) == set(Occasion)


@pytest.mark.parametrize(
    ("what", "risk", "wanted"),
    [
        (Occasion.REQUESTED, "LOW", "LOW"),
        (Occasion.REQUESTED, "", "NORMAL"),
        (Occasion.BREAK_GLASS, "LOW", "HIGH"),
        (Occasion.NO_APPROVER, "NORMAL", "HIGH"),
        (Occasion.MENTIONED, "LOW", "NORMAL"),
        (Occasion.ANSWERED, "HIGH", "HIGH"),
        (Occasion.INCIDENT_OPENED, "", "HIGH"),
        (Occasion.SYSTEM_DOWN, "", "HIGH"),
        (Occasion.SYSTEM_UP, "", "LOW"),
        (Occasion.CONTRACT_WAITS, "", "NORMAL"),
    ],
)
def test_the_urgency_of_a_notice_follows_from_occasion_and_risk(what, risk, wanted):
    assert urgency_of(what, risk) == wanted
