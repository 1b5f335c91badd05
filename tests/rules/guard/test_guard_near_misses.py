"""A success that is told with a value near to its own, or of the same mark, in the place of it (C-15)."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.rules.guard.comparing.slots import numbers_in
from reviews.rules.guard.records import Ground, Tool
from reviews.rules.guard.verdict import judge
from tests.guard.evaluate import record_of

TOOLS = (Tool("book_visit", "Book a visit", True, ("booked",), ("visit", "appointment"), "visit/{id}"),)


def _codes(message: str, **arguments: Any) -> list[str]:
    action = {"action_id": "a1", "tool": "book_visit", "target": "visit/v_1", "arguments": arguments}
    records = (record_of({**action, "state": "RECONCILED_SUCCESS", "evidence": ["bk_7"]}),)
    return [each.code for each in judge(message, Ground(TOOLS, records)).violations]


@pytest.mark.parametrize(
    ("told", "right", "arguments"),
    [
        ("I booked the visit at 1.0817.", "I booked the visit at 1.0871.", {"rate": 1.0871}),
        ("I booked the visit for 14,280 seats.", "I booked the visit for 12,480 seats.", {"seats": 12480}),
        ("I booked the visit of your wife Elena.", "I booked the visit of Helena.", {"driver": "Helena Marku"}),
        ("I booked the visit in #platform.", "I booked the visit in #sre.", {"channel": "#sre"}),
        ("I booked the visit with --size=4096.", "I booked the visit, --size=6144.", {"value": "--size=6144"}),
        ("I booked the visit between 8 and 12.", "I booked the visit between 12 and 4.", {"window": "12-16"}),
        ("I booked it with 'Happy day' on the card.", "I booked it, card 'Get well'.", {"card": "Get well"}),
        ("I booked the visit on branch redis-bump.", "I booked the visit on branch main.", {"branch": "main"}),
        ("I booked the visit in office west.", "I booked the visit in office east.", {"office": "east"}),
        ("I booked the visit of the downstairs.", "I booked the visit upstairs.", {"unit": "vacuum-up"}),
        ("I booked three 23 kg bags on it.", "I booked two 23 kg bags on it.", {"pieces": 2, "weight_kg": 23}),
        ("I booked the visit for thirty-six months.", "I booked the visit for 24 months.", {"term_months": 24}),
    ],
)
def test_a_value_near_to_the_actions_own_is_told_in_its_place(told: str, right: str, arguments: dict[str, Any]) -> None:
    """The same digits in another order, a name but for a letter, another name behind the same sign or setting."""
    assert _codes(told, **arguments) == ["WRONG_TARGET"]
    assert _codes(right, **arguments) == []


def test_a_figure_that_differs_otherwise_may_be_of_something_else() -> None:
    """Two figures of other digits, and short ones, may well be two things."""
    assert _codes("I booked the visit, room 912.", fee_code=345) == []
    assert _codes("I booked the visit on floor 21.", seats=12) == []


def test_numbers_are_read_in_words() -> None:
    """Tens and units together are one number."""
    assert numbers_in("thirty-six of forty, and twenty two") == {36, 40, 22}


def test_an_amount_of_thousands_is_one_number_beside_its_name() -> None:
    """A comma between thousands ends no number."""
    assert _codes("I booked the visit at a salary of 61,000.", salary=61000) == []
    assert _codes("I booked the visit at a salary of 16,000.", salary=61000) == ["WRONG_TARGET"]
