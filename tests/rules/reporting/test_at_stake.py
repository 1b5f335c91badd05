"""Money at stake in cases: the difference, not the request."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reviews.reporting.rules.at_stake import MoneyDifference, describe_damage, describe_stake, money_difference

ASKED = {"amount": 4700, "currency": "EUR"}


def findings(*amounts: Any, count: int | None = None, currency: str = "EUR", **changes: Any) -> dict[str, Any]:
    """A reading that shows these amounts, each as an effect of its own; a row that is more than its amount as it is."""
    there = [each if isinstance(each, dict) else {"amount": each} for each in amounts]
    there = [{"currency": currency, **each} for each in there]
    effect = {"name": "refund", "present": bool(there), "count": len(there) if count is None else count}
    effect |= {"instances": there, "fields": there[0] if there else {}} | changes
    verdict = {"effects": [{"name": "refund", "found": "PRESENT", "count": effect["count"]}]}
    return {"layers": {"sr": ASKED}, "readings": [{"effects": [effect]}], "verdict": verdict}


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        (findings(47000), "423.00"),
        (findings(1200), "-35.00"),
        (findings(4700, 4700), "47.00"),
        (findings(4700), "0.00"),
        (findings(), "-47.00"),
        (findings(4700, instances=()), "0.00"),
    ],
)
def test_the_money_difference_is_the_found_minus_the_requested_amount(found: dict[str, Any], difference: str) -> None:
    assert money_difference(found) == MoneyDifference(Decimal(difference), "EUR")


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"layers": {"sr": ASKED}, "readings": [], "verdict": {"effects": []}},
        findings(4700, count=2),  # one of two is not shown
        findings("4700"),  # whole units or minor ones: written otherwise than the request
        findings(4700, currency="USD"),
        findings(4700, present=None),
        findings(None),
        findings(4700) | {"layers": {"sr": {"quantity": 1}}},
    ],
)
def test_a_field_missing_from_a_reading_gives_no_money_difference(found: dict[str, Any]) -> None:
    assert money_difference(found) is None


@pytest.mark.parametrize(
    ("predicates", "difference"),
    [
        (["sa.effects.refund.amount == sr.amount", "sa.effects.notice.body == sr.message"], "3.00"),
        (["sa.effects.refund.amount == sr.amount", "sa.effects.notice.amount == sr.amount"], None),
        (["sa.effects.refund.currency == sr.currency"], None),
    ],
)
def test_the_money_of_several_effects_went_to_the_one_that_is_compared(predicates, difference) -> None:
    found = findings(5000)
    found["verdict"]["effects"].append({"name": "notice", "found": "ABSENT", "count": 0})
    found["verdict"]["predicates"] = [{"text": text} for text in predicates]
    expected = MoneyDifference(Decimal(difference), "EUR") if difference else None
    assert money_difference(found) == expected
    assert describe_damage(found, permitted="requested").startswith("3.00 EUR too much" if difference else "") is True


def test_the_stake_is_summed_by_direction_with_unknown_amounts_apart() -> None:
    more, less = MoneyDifference(Decimal("423.00"), "EUR"), MoneyDifference(Decimal("-35.00"), "EUR")
    same = MoneyDifference(Decimal(0), "EUR")
    told = describe_stake([(ASKED, more), (ASKED, less), (ASKED, same), (ASKED, None), ({}, None)])
    assert told == "423.00 EUR too much; 35.00 EUR too little; 47.00 EUR requested, actual amount not known"
    assert describe_stake([(ASKED, same), ({}, None)]) == ""


def test_a_difference_of_less_than_one_unit_is_told_in_its_direction() -> None:
    assert describe_stake([(ASKED, MoneyDifference(Decimal("0.50"), "EUR"))]) == "0.50 EUR too much"


def test_a_case_whose_money_is_as_requested_puts_none_at_stake() -> None:
    assert describe_stake([(ASKED, MoneyDifference(Decimal(0), "EUR"))]) == ""


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (findings(47000), "423.00 EUR too much: the refund is 470.00, 47.00 was approved."),
        (findings({"id": 7, "amount": 47000}), "423.00 EUR too much: refund 7 is 470.00, 47.00 was approved."),
        (findings({"id": 7, "amount": 1200}), "35.00 EUR too little: refund 7 is 12.00, 47.00 was approved."),
        (findings(), "47.00 EUR too little: no refund exists, 47.00 was approved."),
        (findings(4700, 4700), "47.00 EUR too much: 2 refunds exist, one of 47.00 was approved."),
        (
            findings({"id": 3, "amount": 4700}, {"id": 4, "amount": 4700}),
            "47.00 EUR too much: refund 3 and refund 4 exist, one of 47.00 was approved.",
        ),
        (
            findings({"id": 3, "amount": 4700}, {"id": 4, "amount": 100}),
            "1.00 EUR too much: refund 3 is 47.00 and refund 4 is 1.00, 47.00 was approved.",
        ),
        (findings(4700), ""),
        (findings("4700"), ""),
        (findings(4700, count=2), ""),
        ({}, ""),
    ],
)
def test_the_damage_names_the_money_the_rows_and_the_request(found: dict[str, Any], told: str) -> None:
    assert describe_damage(found, permitted="approved") == told
