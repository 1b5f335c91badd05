"""Notes and directions: what a message says of money, dates, ids and abilities, beside what the record holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.records import Ground, Tool
from reviews.guarding.rules.verdict import judge
from tests.guard.records import REFUND, ground, record

TOOLS = (Tool("get_order", mutating=False), Tool("change_order", object=("order",)), REFUND)
ORDER: dict[str, Any] = {
    "order_id": "W77120",
    "delivery": "2026-03-05",
    "items": [{"item_id": "7710", "name": "Lamp", "price": 40.5}, {"item_id": "7711", "name": "Mug", "price": 9.25}],
    "cards": [{"id": "card_81", "brand": "visa", "last_four": "4242"}, {"id": "paypal_7", "source": "paypal"}],
    "payments": [{"type": "payment", "amount": 120.0, "card_id": "card_81"}],
}
LOOKED = record("get_order", action_id="r0", target="order/W77120", answer=ORDER)


def changed(row: dict[str, Any] | None = None, **more: Any) -> Ground:
    payments = [*ORDER["payments"], *([row] if row else [])]
    arguments = {"order_id": "W77120", "item_ids": ["7710", "7711"], "payment_method_id": "card_81"}
    told = record(
        "change_order",
        target="order/W77120",
        arguments=arguments,
        answer={**ORDER, "payments": payments},
        **more,
    )
    return Ground(TOOLS, (LOOKED, told), heard="My limit is $75, and I am away on May 9.")


def notes(said: str, known: Ground) -> list[str]:
    verdict = judge(said, known)
    assert (verdict.verdict, verdict.corrected) == ("ALLOW", None)
    return [each.text for each in verdict.notes]


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("The order now comes to $61.17.", "$61.17"),
        ("It was 61.17 EUR in all.", "61.17 EUR"),
        ("It arrives on March 12.", "March 12"),
        ("It arrives on 12 March 2026.", "12 March 2026"),
        ("It arrives on 2026-03-12.", "2026-03-12"),
        ("Order W99999 is updated.", "W99999"),
    ],
)
def test_a_value_that_is_nowhere_on_record_is_noted_after_a_change(said: str, value: str):
    assert notes(said, changed()) == [f"{value} stands nowhere on record."]


@pytest.mark.parametrize(
    "said",
    [
        "The order comes to $120.00, and the lamp is $40.50.",
        "The lamp and the mug are $49.75 together, $31.25 apart.",
        "Two lamps would be $81.00.",
        "It arrives on March 5, 2026, or 5 March.",
        "That is within your limit of $75 and before May 9.",
        "Order #W77120 has item 7710.",
        "It takes 5-7 business days, 24/7, at 3.30pm, for a 15-inch item with 16GB.",
        "Call `reset 88231` or see https://example.com/x/99812.",
    ],
)
def test_a_value_on_record_or_derived_from_it_is_not_noted(said: str):
    assert notes(said, changed()) == []


def test_before_any_change_no_value_is_noted():
    assert notes("It would cost $61.17.", Ground(TOOLS, (LOOKED,))) == []


def test_a_difference_between_values_that_the_message_states_is_not_noted():
    known = Ground(
        TOOLS, (*changed().records, replace(LOOKED, action_id="r9", answer={"price": 300.0, "other": 411.5}))
    )
    assert notes("That one is $411.50 against $300.00, so $111.50 more.", known) == []


@pytest.mark.req("R-CG-22")
def test_a_note_appears_only_in_the_receipt():
    known = changed()
    verdict = judge("The order now comes to $61.17.", known)
    receipt = receipt_of(known, notes=verdict.notes)
    assert receipt.text.endswith("\nBeside the message:\n- $61.17 stands nowhere on record.")
    assert "<li>$61.17 stands nowhere on record.</li>" in receipt.html
    assert receipt.lines == receipt_of(known).lines


@pytest.mark.parametrize(
    ("said", "method"),
    [
        ("The $120.00 was charged to your PayPal account.", "paypal"),
        ("It was paid with your gift card.", "gift card"),
        ("It was paid with the card ending in 9911.", "9911"),
    ],
)
def test_a_payment_method_other_than_that_of_the_change_is_noted(said: str, method: str):
    assert notes(said, changed()) == [f"\u201c{said}\u201d: The changes on record were not made with {method}."]


@pytest.mark.parametrize(
    "said",
    [
        "The $120.00 was charged to your Visa ending in 4242.",
        "It was charged to your credit card (4242).",
        "Would you like it refunded to PayPal?",
        "It could be paid by PayPal instead.",
        "PayPal is listed in your profile.",
    ],
)
def test_the_method_of_the_change_an_offer_and_a_listing_are_not_noted(said: str):
    assert notes(said, changed()) == []


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    "said", ["I'll email you the receipt.", "I will call you tomorrow.", "I'm going to delete your account."]
)
def test_a_promise_that_no_tool_can_keep_is_noted(said: str):
    assert notes(said, Ground(TOOLS, ())) == [f"\u201c{said}\u201d: No tool of this agent can do that."]


@pytest.mark.parametrize(
    "said",
    [
        "I'll refund the order now.",
        "I will look into it.",
        "Once you confirm, I'll email you.",
        "Shall I email you?",
        "I won't call you.",
        "You will receive an email.",
        "I'll send you the details here.",
    ],
)
def test_offers_talk_and_promises_that_a_tool_can_keep_are_not_noted(said: str):
    assert notes(said, Ground(TOOLS, ())) == []


def test_promises_are_not_noted_where_some_tools_are_unknown():
    assert notes("I'll email you the receipt.", Ground(TOOLS, (), is_whole=False)) == []
    assert notes("I'll email you the receipt.", Ground((), ())) == []


@pytest.mark.req("R-CG-21")
@pytest.mark.parametrize(
    "said", ["The refund failed.", "I was unable to refund the order.", "Unfortunately the refund did not go through."]
)
def test_a_success_reported_as_a_failure_is_noted_with_the_line_on_record(said: str):
    assert notes(said, ground(record())) == [
        f"\u201c{said}\u201d: The record has: Verified: issue refund, order EX-1001. Done, and confirmed in the"
        " system of record."
    ]


@pytest.mark.req("R-CG-07")
def test_an_unknown_outcome_reported_as_a_failure_is_noted():
    [told] = notes("The refund failed.", ground(record(state="UNKNOWN")))
    assert told.startswith("\u201cThe refund failed.\u201d: The record has: Unknown: issue refund, order EX-1001.")
    assert judge("I have refunded the order.", ground(record(state="UNKNOWN"))).verdict == "BLOCK"


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("The refund failed.", "FAILED"),
        ("Unfortunately I cannot offer a discount.", "RECONCILED_SUCCESS"),
        ("I was unable to find your other order.", "RECONCILED_SUCCESS"),
    ],
)
def test_real_failures_and_other_refusals_are_not_noted(said: str, state: str):
    assert notes(said, ground(record(state=state))) == []


BACK = {"type": "refund", "amount": 16.63, "card_id": "card_81"}
OUT = {"type": "payment", "amount": 16.63, "card_id": "card_81"}


@pytest.mark.req("R-CG-04", "R-CG-15")
@pytest.mark.parametrize(
    ("said", "row", "way"),
    [
        ("A refund of $16.63 has been processed.", OUT, "16.63 charged, not paid back"),
        ("The additional cost of $16.63 has been charged.", BACK, "16.63 paid back, not charged"),
        ("The difference has been charged to your card.", BACK, "16.63 paid back, not charged"),
    ],
)
def test_an_amount_in_the_wrong_direction_is_replaced(said: str, row: dict[str, Any], way: str):
    verdict = judge(f"Hello. {said}", changed(row))
    assert verdict.corrected == f"Hello. The record shows for change order W77120: {way}."
    assert [(each.rule, each.code) for each in verdict.violations] == [("direction", "MISREAD")]
    assert judge(verdict.corrected, changed(row)).verdict == "ALLOW"


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("A refund of $16.63 has been processed.", BACK),
        ("$16.63 has been charged to your card.", OUT),
        ("Would you like a refund of $16.63?", OUT),
        ("If you cancel, $16.63 would be refunded.", OUT),
        ("A refund of $40.50 has been processed.", OUT),
        ("$16.63 was charged and will be refunded.", OUT),
        ("The original payment of $120.00 was charged to your Visa.", BACK),
    ],
)
def test_the_right_direction_an_offer_and_another_amount_are_allowed(said: str, row: dict[str, Any]):
    assert judge(said, changed(row)).verdict == "ALLOW"
