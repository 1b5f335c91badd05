"""Near-duplicates: what counts as nearly the same, and what it says."""

from __future__ import annotations

import pytest

from reviews.cases.rules.nearness import describe_difference

ORDER = {"order_id": "EX-1001", "amount": 12500, "currency": "EUR", "reason": "The lamp arrived broken."}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "the same payload"),
        ({"amount": 12000}, "amount 12000 instead of 12500"),
        ({"reason": "It came in pieces."}, "reason It came in pieces. instead of The lamp arrived broken."),
        ({"order_id": "EX-1007"}, "order_id EX-1007 instead of EX-1001"),
        ({"order_id": "EX-101"}, "order_id EX-101 instead of EX-1001"),
    ],
)
def test_a_single_difference_is_near_and_named(changes, said):
    assert describe_difference(ORDER, ORDER | changes, target="order/EX-1001") == said


@pytest.mark.parametrize(
    "changes",
    [
        {"order_id": "EX-9382"},
        {"amount": 1, "currency": "USD", "reason": "other"},
        {"amount": 1, "currency": "USD", "reason": "Something else altogether."},
    ],
)
def test_an_unrelated_payload_is_not_near(changes):
    assert describe_difference(ORDER, ORDER | changes, target="order/EX-1001") is None


def test_nested_and_missing_fields_are_named_by_their_path():
    mine = {"to": {"name": "Ann", "city": "Ghent"}, "when": "today"}
    other = {"to": {"name": "Ann"}, "when": "today"}
    assert describe_difference(mine, other) == "to.city nothing instead of Ghent"


def test_empty_payloads_have_no_difference():
    assert describe_difference({}, {}) is None
