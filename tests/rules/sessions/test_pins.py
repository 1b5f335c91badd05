from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.sessions.rules import pins
from ledger.record.rules.canonical import NotCanonical

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GOAL = "Refund order 17 to the café"


def pinned(session_id="s-1", goal=GOAL, ttl_seconds=600):
    return pins.new_pin(session_id=session_id, goal=goal, ttl_seconds=ttl_seconds, at=NOW)


@pytest.mark.req("R-PA-01")
def test_a_pin_keeps_the_text_the_hash_and_the_time():
    made = pinned()

    assert made.goal == GOAL
    assert made.expires_at == NOW + timedelta(seconds=600)
    assert len(made.hash) == 64


@pytest.mark.req("R-PA-02")
@pytest.mark.parametrize(
    "restated",
    [
        GOAL,
        GOAL.upper(),
        "  Refund   order\t17\nto the café ",
        "Refund order 17 to the cafe\u0301",
    ],
)
def test_case_spaces_and_unicode_composition_do_not_matter(restated):
    assert pins.compare_goal(pinned(), goal=restated, at=NOW).match


@pytest.mark.req("R-PA-04")
@pytest.mark.parametrize(
    "restated",
    [
        GOAL + " and order 18",
        "Refund order 17 to the cafe",
        "Refund order 17",
        "Refund\u200border 17 to the café",
        "Refund order 1\uff17 to the café",
        "",
    ],
)
def test_any_other_difference_is_drift(restated):
    compared = pins.compare_goal(pinned(), goal=restated, at=NOW)

    assert (compared.match, compared.reason) == (False, "ASK_DRIFT")
    assert compared.restated_hash != pinned().hash


@pytest.mark.req("R-PA-03")
def test_the_same_goal_in_two_sessions_has_two_pins():
    other = pinned(session_id="s-2")

    assert other.hash != pinned().hash
    assert pins.compare_goal(pinned(), sent_hash=other.hash, at=NOW).reason == "ASK_DRIFT"


@pytest.mark.req("R-PA-05")
def test_an_expired_pin_is_drift_with_its_own_reason():
    last = NOW + timedelta(seconds=599)
    over = NOW + timedelta(seconds=600)

    assert pins.compare_goal(pinned(), goal=GOAL, at=last).match
    assert pins.compare_goal(pinned(), goal=GOAL, at=over).reason == "PIN_EXPIRED"


def test_goal_and_hash_must_both_match_when_both_are_sent():
    good = pinned()

    assert pins.compare_goal(good, goal=GOAL, sent_hash=good.hash, at=NOW).match
    assert not pins.compare_goal(good, goal=GOAL, sent_hash="0" * 64, at=NOW).match
    assert not pins.compare_goal(good, goal="another", sent_hash=good.hash, at=NOW).match


def test_an_absent_goal_does_not_match():
    assert not pins.compare_goal(pinned(), at=NOW).match
    assert not pins.compare_goal(pinned(), sent_hash="", at=NOW).match
    assert not pins.compare_goal(pinned(), sent_hash="\ud800", at=NOW).match


@pytest.mark.req("R-PA-07")
def test_a_match_can_be_compared_or_required():
    pins.require_match(pinned(), goal=GOAL, at=NOW)

    with pytest.raises(pins.AskDrift):
        pins.require_match(pinned(), goal="another", at=NOW)
    with pytest.raises(pins.PinExpired):
        pins.require_match(pinned(), goal=GOAL, at=NOW + timedelta(days=1))


@pytest.mark.parametrize(("goal", "ttl"), [("", 5), (" \n", 5), ("x" * 8001, 5), ("x", 0), ("x", -1), ("x", 10**9)])
def test_a_pin_without_a_goal_or_a_lifetime_is_refused(goal, ttl):
    with pytest.raises(pins.BadGoal):
        pinned(goal=goal, ttl_seconds=ttl)


def test_a_goal_without_utf8_is_refused():
    with pytest.raises(NotCanonical):
        pinned(goal="\ud800")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_normalising_is_idempotent(goal):
    once = pins.normalise(goal)

    assert pins.normalise(once) == once
