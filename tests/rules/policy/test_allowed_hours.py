from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.rules import allowed_hours

OFFICE = {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "17:00", "zone": "Europe/Berlin"}
NIGHT = {"days": ["fri"], "from": "22:00", "to": "06:00", "zone": "UTC"}


def at(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2030-01-07T08:00:00+00:00", True),
        ("2030-01-07T07:59:59+00:00", False),
        ("2030-01-07T15:59:59+00:00", True),
        ("2030-01-07T16:00:00+00:00", False),
        ("2030-01-05T10:00:00+00:00", False),
        # In summer the clock on that wall is two hours ahead.
        ("2030-07-08T07:00:00+00:00", True),
        ("2030-07-08T15:00:00+00:00", False),
    ],
)
def test_hours_are_read_in_local_time(moment, is_open):
    assert allowed_hours.are_open([allowed_hours.read(OFFICE)], at=at(moment)) is is_open


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2030-01-04T21:59:00+00:00", False),
        ("2030-01-04T22:00:00+00:00", True),
        ("2030-01-05T05:59:00+00:00", True),
        ("2030-01-05T06:00:00+00:00", False),
        ("2030-01-05T22:00:00+00:00", False),
        ("2030-01-04T05:00:00+00:00", False),
    ],
)
def test_a_night_shift_belongs_to_the_day_on_which_it_begins(moment, is_open):
    assert allowed_hours.are_open([allowed_hours.read(NIGHT)], at=at(moment)) is is_open


def test_the_next_opening_is_the_next_allowed_moment():
    friday_evening = at("2030-01-04T19:00:00+00:00")

    assert allowed_hours.next_opening([allowed_hours.read(OFFICE)], at=friday_evening) == at(
        "2030-01-07T08:00:00+00:00"
    )
    assert allowed_hours.next_opening([], at=friday_evening) == friday_evening


def test_several_hours_must_all_be_open():
    both = [allowed_hours.read(OFFICE), allowed_hours.read({"from": "12:00", "to": "13:00"})]

    assert allowed_hours.next_opening(both, at=at("2030-01-04T19:00:00+00:00")) == at("2030-01-07T12:00:00+00:00")
    assert not allowed_hours.are_open(both, at=at("2030-01-07T10:00:00+00:00"))


def test_contradictory_hours_never_open():
    both = [allowed_hours.read(OFFICE), allowed_hours.read({"from": "20:00", "to": "21:00"})]

    assert allowed_hours.next_opening(both, at=at("2030-01-04T19:00:00+00:00")) is None


def test_a_time_that_the_clock_skips_opens_after_the_gap():
    spring = allowed_hours.read({"from": "02:30", "to": "04:00", "zone": "Europe/Berlin"})

    assert allowed_hours.next_opening([spring], at=at("2030-03-31T00:00:00+00:00")) == at("2030-03-31T01:30:00+00:00")


@pytest.mark.parametrize(
    "said",
    [
        {"from": "09:00", "to": "09:00"},
        {"from": "09:00", "to": "17:00", "zone": "Europe/Atlantis"},
        {"from": "09:00", "to": "17:00", "zone": "../../etc/passwd"},
        {"from": "09:00", "to": "17:00", "days": []},
    ],
)
def test_impossible_hours_are_refused(said):
    with pytest.raises(ValueError, match=r"\."):
        allowed_hours.read(said)


@given(
    st.integers(0, 2 * 365 * 24 * 60).map(
        lambda minutes: datetime(2029, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    ),
    st.sampled_from([OFFICE, NIGHT, {"from": "02:30", "to": "02:45", "zone": "America/New_York"}]),
)
def test_hours_open_exactly_at_their_next_opening(moment, said):
    wanted = [allowed_hours.read(said)]
    opening = allowed_hours.next_opening(wanted, at=moment)

    assert opening is not None
    assert allowed_hours.are_open(wanted, at=opening)
    assert opening == moment or not allowed_hours.are_open(wanted, at=opening - timedelta(seconds=1))


def test_hours_survive_a_round_trip():
    assert allowed_hours.read(allowed_hours.read(OFFICE).document()) == allowed_hours.read(OFFICE)
