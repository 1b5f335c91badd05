"""A success that is told with another value than its own: in words, beside the claim, of every sort (C-15)."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.rules.guard.records import Ground, Tool
from reviews.rules.guard.text.moments import Clock, held_moments, moments
from reviews.rules.guard.verdict import judge
from tests.guard.evaluate import record_of

TOOLS = (
    Tool("book_visit", "Book a visit", True, ("booked",), ("visit", "appointment"), "visit/{id}"),
    Tool("read_visit", "Read a visit", False),
)


def _codes(message: str, target: str = "visit/v_1", *, read: bool = False, **arguments: Any) -> list[str]:
    action = {"action_id": "a1", "tool": "book_visit", "target": target, "arguments": arguments}
    records = [record_of({**action, "state": "RECONCILED_SUCCESS", "evidence": ["bk_7"]})]
    if read:
        seen = {**action, "action_id": "a0", "tool": "read_visit", "state": "RECONCILED_SUCCESS", "evidence": ["rd_1"]}
        records.insert(0, record_of(seen))
    return [each.code for each in judge(message, Ground(TOOLS, tuple(records))).violations]


@pytest.mark.parametrize(
    ("told", "other", "arguments"),
    [
        ("Visit booked: 3 July 14:00.", "Visit booked: 30 July 14:00.", {"start": "2026-07-30T14:00"}),
        ("Visit booked. 20 to 31 July.", "Visit booked. 20 to 24 July.", {"from": "2026-07-20", "to": "2026-07-24"}),
        ("Visit booked for twenty past ten.", "Visit booked for ten past ten.", {"start": "2026-07-30T10:10"}),
        ("I booked the visit, Wednesday.", "I booked the visit, Thursday.", {"start": "2026-07-30"}),
        ("I booked the visit, 7 to 8pm.", "I booked the visit, 7 to 8am.", {"slot": "2026-07-30T07:00-08:00"}),
        ("The visit's booked, £67.12.", "The visit's booked, £76.12.", {"price": "76.12", "currency": "GBP"}),
        ("I booked the visit: 30 days.", "I booked the visit: 7 days.", {"length": "7d"}),
        ("Visit booked at 19 degrees.", "Visit booked at 21 degrees.", {"target_c": 21}),
        ("I booked the visit at Mill Lane 14.", "I booked the visit at Mill Lane 4.", {"address": "Mill Lane 4, Bath"}),
        ("I gave the visit to Noor.", "I gave the visit to Felix.", {"owner": "felix"}),
        ("I booked a visit to Port of Lagos.", "I booked a visit to Port of Gdynia.", {"place": "Port of Gdynia"}),
        ("I booked visits in Rome, Milan and Bari.", "I booked visits in Milan and Rome.", {"title": "Rome and Milan"}),
        ("I booked the visit as editor.", "I booked the visit as reader.", {"role": "reader"}),
        ("I booked the visit: seat is now 14C.", "I booked the visit: seat is now 14A.", {"seat": "14A"}),
        ("The visit was set to High, booked.", "The visit was set to Low, booked.", {"priority": "Low"}),
        ("I booked four visits.", "I booked two visits.", {"qty": 2}),
        ("I booked the visit of svc-etl-prod.", "I booked the visit of svc-etl-dev.", {"by": "svc-etl-dev"}),
    ],
)
def test_a_success_told_with_another_value_of_a_sort_is_another_target(
    told: str, other: str, arguments: dict[str, Any]
) -> None:
    """Slot substitution: the value may stand beside the claim, in figures or in words."""
    assert "WRONG_TARGET" in _codes(told, **arguments)
    assert _codes(other, **arguments) == []


def test_what_is_said_elsewhere_or_held_elsewhere_is_not_strange() -> None:
    """Where the message names the action's own value too, or a record holds the other, nothing is concluded."""
    assert _codes("Visit booked, moved from 3 July to 30 July.", start="2026-07-30") == []
    assert _codes("Visit booked: 3 July.", target="visit/2026-07-03", start="2026-07-30") == []
    assert _codes("Visit booked. You paid £20 for the last one.", price="76.12", currency="GBP") == []


def test_a_deadline_is_no_moment_of_the_action() -> None:
    """A day behind "by" or "until" bounds something else."""
    assert _codes("I booked the visit; cancel by 3 July.", start="2026-07-30") == []
    assert _codes("I booked the visit, free until 3 July.", start="2026-07-30") == []


def test_what_was_so_before_is_a_fact() -> None:
    """A past condition with values of its own may stem from a reading."""
    message = "The visit v_1 was full with 212 on hand. I booked the visit, 140 seats."
    assert _codes(message, read=True, qty=140) == []


def test_moments_are_read_in_words_and_in_ranges() -> None:
    """Parts of the day settle which half a time is in."""
    assert moments("between 7 and 8 in the evening").clocks == {Clock(19 * 60, True), Clock(20 * 60, True)}
    assert moments("half past seven").clocks == {Clock(7 * 60 + 30, False)}
    assert moments("from 7 to 18 december").ranges == {((12, 7), (12, 18))}
    assert held_moments("2026-11-26t07:00-08:00").clocks == {Clock(7 * 60, True), Clock(8 * 60, True)}
    assert moments("two visits and five chairs").clocks == frozenset()


def test_a_sentence_that_names_the_action_tells_of_it_without_a_verb_of_doing() -> None:
    """It counts only where it names another value."""
    arguments: dict[str, Any] = {"dataset": "payroll_agg", "user": "h.novak", "role": "reader"}
    told = "Mr Novak holds editor rights on payroll_agg."
    assert _codes(told, target="visit/payroll_agg", **arguments) == ["WRONG_TARGET"]
    assert _codes(told.replace("editor", "reader"), target="visit/payroll_agg", **arguments) == []
    assert _codes("Could Mr Novak hold editor rights on payroll_agg?", target="visit/payroll_agg", **arguments) == []


def test_a_greeting_is_no_name_beside_the_actions_own() -> None:
    """The first word of a sentence is written large, a name or not."""
    assert _codes("Hello Leo, the visit is booked.", passenger="Leo Brandt") == []
