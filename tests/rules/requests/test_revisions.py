"""Revisions: what an edit changes, as a person sees it."""

from __future__ import annotations

import pytest

from approvals.requests.rules.revisions import field_changes, summarise_changes

BEFORE = {"amount": 1250, "currency": "EUR", "order_id": "EX-1001", "lines": [{"sku": "a"}, {"sku": "b"}]}


def told(after):
    return [(each.path, each.old, each.new) for each in field_changes(BEFORE, after)]


def test_an_unchanged_payload_has_no_changes():
    assert told(dict(BEFORE)) == []


@pytest.mark.parametrize(
    ("after", "change"),
    [
        ({"amount": 1000}, ("/amount", "1250", "1000")),
        ({"amount": "1250"}, ("/amount", "1250", "1250")),
        ({"note": "now"}, ("/note", None, "now")),
        ({"lines": [{"sku": "a"}, {"sku": "c"}]}, ("/lines/1/sku", "b", "c")),
        ({"order_id": "EX-100\u0031\u200b"}, ("/order_id", "EX-1001", "EX-1001⟦U+200B⟧")),
        ({"currency": None}, ("/currency", "EUR", "null (null)")),
    ],
)
def test_every_changed_field_is_shown_with_both_values(after, change):
    assert told(BEFORE | after) == [change]


def test_a_removed_value_is_listed():
    assert told({name: value for name, value in BEFORE.items() if name != "currency"}) == [("/currency", "EUR", None)]


def test_a_change_beyond_the_fold_is_shown():
    long = {"text": "x" * 5000}
    (change,) = field_changes(long, {"text": "x" * 4999 + "y"})
    assert change.old != change.new


@pytest.mark.parametrize(
    ("after", "line"),
    [
        ({"amount": 1000}, "amount 12.50 EUR → 10.00 EUR"),
        ({"lines": [{"sku": "a"}, {"sku": "c"}]}, "lines.1.sku b → c"),
        ({"note": "now"}, "note (none) → now"),
        ({"note": "x" * 100}, f"note (none) → {'x' * 60}…"),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, "a (none) → 1; b (none) → 2; c (none) → 3; 2 more fields"),
        ({}, ""),
    ],
)
def test_changes_are_summarised_in_one_line(after, line):
    assert summarise_changes(BEFORE, BEFORE | after) == line


def test_an_amount_in_a_list_is_read_with_the_currency_beside_it():
    before, after = ({"items": [{"amount": amount, "currency": "JPY"}]} for amount in (900, 800))
    assert summarise_changes(before, after) == "items.0.amount 900 JPY → 800 JPY"
