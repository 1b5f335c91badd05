"""How settings by role are read, and when a session ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.accounts.sign_in.session_rules import (
    BadRoleSetting,
    SessionEnd,
    idle_minutes,
    read_idle_minutes,
    read_roles,
    session_end,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("setting", "roles", "minutes"),
    [
        ("60", [], 60),
        ("60", ["operator"], 60),
        ("60 administrator=15", ["operator", "administrator"], 15),
        ("60, administrator=15, reviewer=30", ["reviewer", "operator"], 30),
        ("0 reviewer=30", ["reviewer", "operator"], 30),
        ("0 reviewer=30", ["operator"], 0),
        ("15 operator=120", ["operator"], 120),
        ("60 administrator=0", ["administrator"], 0),
    ],
)
def test_the_strictest_of_a_persons_roles_counts(setting, roles, minutes):
    assert idle_minutes(read_idle_minutes(setting), roles) == minutes


@pytest.mark.parametrize("setting", ["soon", "60 30", "boss=15", "reviewer=", "-5", "reviewer=5 reviewer=6"])
def test_minutes_that_cannot_be_read_are_refused_by_their_word(setting):
    with pytest.raises(BadRoleSetting, match="is neither minutes nor one of reviewer=15"):
        read_idle_minutes(setting)


def test_roles_are_named_one_by_one_or_all_at_once():
    assert read_roles("") == frozenset()
    assert read_roles("reviewer, administrator") == {"reviewer", "administrator"}
    assert read_roles("all") == {"reviewer", "operator", "compliance", "administrator"}
    with pytest.raises(BadRoleSetting, match="'boss' is neither `all` nor one of reviewer, operator"):
        read_roles("boss")


def test_a_session_ends_without_activity_and_at_its_greatest_age():
    def end(*, began: float, active: float, idle: int = 30) -> SessionEnd | None:
        return session_end(
            began=NOW - timedelta(minutes=began),
            active=NOW - timedelta(minutes=active),
            at=NOW,
            idle=idle,
            longest=timedelta(hours=12),
        )

    assert end(began=600, active=29.9) is None
    assert end(began=600, active=30) is SessionEnd.IDLE
    assert end(began=600, active=500, idle=0) is None
    assert end(began=720, active=0) is SessionEnd.AGE
