"""The facts of a receipt: what a change asked for and what its answer shows anew, in words that a user reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reviews.guarding.rules.effects import MOST_FACTS, Effects
from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.records import Tool
from tests.guard.records import TOOLS, ground, record

LOOK = Tool("get_order", mutating=False)
CHANGE = Tool("change_order")
CARD = {"id": "card_81", "brand": "visa", "last_four": "4242", "billing_email": "ann@example.com"}
LAMP = {"item_id": "7710", "name": "Desk Lamp", "price": 137.5, "margin": 61.0, "options": {"color": "white"}}
ORDER: dict[str, Any] = {"order_id": "EX-1001", "status": "pending", "items": [LAMP], "payments": []}


def looked(answer: Any, target: str = "order/EX-1001", **more: Any) -> Any:
    return record("get_order", action_id="r0", target=target, answer=answer, **more)


def changed(arguments: dict[str, Any], answer: Any, **more: Any) -> Any:
    return record("change_order", arguments={"order_id": "EX-1001", **arguments}, answer=answer, **more)


def line(*records: Any) -> str:
    return receipt_of(ground(*records, tools=(*TOOLS, LOOK, CHANGE))).lines[-1].text


@pytest.mark.req("R-CG-22")
def test_an_id_is_followed_only_by_what_a_read_showed_of_it():
    told = line(looked({"order": ORDER, "cards": [CARD]}), changed({"item_id": "7710", "card_id": "card_81"}, {}))
    assert "Asked: item id 7710 (Desk Lamp, 137.50, white); card id card_81 (visa, 4242)." in told
    assert "61" not in told
    assert "ann@example.com" not in told


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"type": "refund", "amount": 331.0, "currency": "EUR"}, "paid back 331.00 EUR"),
        ({"amount": -331.0, "currency": "EUR", "card_id": "card_81"}, "paid back 331.00 EUR by card_81 (visa, 4242)"),
        ({"type": "refund", "amount": 33100, "currency": "EUR"}, "paid back 331.00 EUR"),
        ({"type": "payment", "amount": 0.0499999}, "charged 0.05"),
        ({"type": "payment", "amount": 331}, "charged 331"),
    ],
)
def test_a_new_payment_is_shown_with_its_direction_in_words(row: dict[str, Any], words: str):
    before = {**ORDER, "cards": [CARD], "items": []}
    after = {**before, "status": "cancelled", "payments": [row]}
    assert f"Shown: status cancelled (before pending); {words}." in line(looked(before), changed({}, after))


def test_earlier_payments_are_not_shown_as_an_effect_of_the_change():
    old = {"type": "payment", "amount": 90.0}
    told = line(looked({**ORDER, "payments": [old]}), changed({}, {**ORDER, "status": "packed", "payments": [old]}))
    assert "Shown: status packed (before pending)." in told


def test_without_an_earlier_reading_a_payment_is_not_attributed_to_the_change():
    told = line(changed({}, {**ORDER, "payments": [{"type": "payment", "amount": 90.0}]}))
    assert "charged" not in told
    assert "payment 90.00" in told


def test_payments_are_not_compared_with_those_of_another_order():
    other = {**ORDER, "order_id": "EX-1002", "payments": [], "user_id": "u_7"}
    after = {**ORDER, "payments": [{"type": "payment", "amount": 90.0}], "user_id": "u_7"}
    assert "charged" not in line(looked(other, target="order/EX-1002"), changed({"user_id": "u_7"}, after))


@pytest.mark.parametrize(("amount", "way"), [(-16.63, "16.63 to be paid back"), (16.63, "16.63 to be paid")])
def test_a_price_difference_shows_its_direction(amount: float, way: str):
    answer = {**ORDER, "exchange_price_difference": amount}
    assert f"exchange price difference {way}." in line(looked(ORDER), changed({}, answer))


def test_a_changed_value_is_shown_with_the_one_before():
    told = line(looked({**ORDER, "seat": "14C"}), changed({"seat_id": "s-3"}, {**ORDER, "seat": "21A"}))
    assert "Shown: seat 21A (before 14C)." in told


def test_secrets_and_bookkeeping_fields_are_not_facts():
    told = line(
        looked({**ORDER, "updated_at": "1", "token": "a"}),
        changed({"password": "hunter2", "note": "ring twice"}, {**ORDER, "updated_at": "2", "token": "tok_99"}),
    )
    assert "ring twice" in told
    assert "hunter2" not in told
    assert "tok_99" not in told
    assert "updated" not in told


def test_a_status_that_only_says_success_is_not_a_fact():
    assert "Shown" not in line(changed({}, {"status": "success"}))


def test_a_failed_change_is_shown_with_its_request_and_without_its_answer():
    told = line(looked(ORDER), changed({"item_id": "7710"}, {"status": "cancelled"}, state="FAILED", outcome="FAILED"))
    assert "Asked: item id 7710 (Desk Lamp, 137.50, white)." in told
    assert "Shown" not in told


def test_a_line_has_at_most_twelve_facts_and_keeps_what_the_answer_shows():
    asked = {f"field_{number:02}": f"value {number}" for number in range(30)}
    done = changed(asked, {**ORDER, "status": "packed"})
    facts, more = Effects(ground(looked(ORDER), done, tools=(*TOOLS, LOOK, CHANGE))).facts_of(done)
    assert len(facts) == MOST_FACTS
    assert (facts[-1].name, facts[-1].value) == ("status", "packed")
    assert more == 31 - MOST_FACTS
    assert "And 19 more values." in line(looked(ORDER), done)


def test_a_template_of_the_contract_precedes_the_facts():
    paid = record(reading={"amount": 4000, "currency": "EUR"}, arguments={"order_id": "EX-1001", "amount": 4000})
    assert receipt_of(ground(paid)).lines[0].text == "Verified: Refunded 40.00 EUR."


def test_a_message_that_names_an_earlier_changed_target_gets_the_receipt_of_the_session():
    old = changed({"note": "ring twice"}, {}, is_new=False)
    known = ground(looked(ORDER), old, tools=(*TOOLS, LOOK, CHANGE))
    assert "ring twice" in receipt_of(known, message="Order EX-1001 is on its way.").text
    assert receipt_of(known, message="Anything else?").text == ""


def test_a_long_report_gets_counts_and_the_tools_that_were_never_called():
    acts = [
        record(
            "run_sql",
            "FAILED" if number == 3 else "RECONCILED_SUCCESS",
            action_id=f"a{number:02}",
            target=f"table/{number % 4}",
            arguments={"action": "create_table" if number % 2 else "drop_table"},
            is_new=False,
        )
        for number in range(12)
    ]
    known = ground(*acts, tools=(Tool("run_sql"), Tool("run_checks"), Tool("hidden", disclosed=False)))
    told = receipt_of(known, message="All twelve steps ran. " * 60).text
    assert "- run_sql: create_table: 6 calls on 2 targets, 1 failed" in told
    assert "- run_sql: drop_table: 6 calls on 2 targets, 0 failed" in told
    assert "- Never called: run_checks." in told
    assert receipt_of(known, message="All twelve steps ran.").text == ""


def test_an_answer_inside_a_wrapper_is_compared_like_one_without():
    told = line(looked({"order": ORDER}), changed({}, {"order": {**ORDER, "status": "packed"}}))
    assert "Shown: status packed (before pending)." in told


@pytest.mark.parametrize("answer", [{"answer": "done"}, {"answer": [1, 2]}, {}, {"a": {"b": {"c": [[[{"d": 1}]]]}}}])
def test_an_answer_of_any_shape_gives_a_line(answer: Any):
    assert line(looked(answer), changed({"x": [{"y": None}, []]}, answer)).startswith("Verified: ")


def test_facts_are_structured_data_beside_the_text():
    [told] = receipt_of(
        ground(looked(ORDER), changed({}, {**ORDER, "status": "packed"}), tools=(*TOOLS, LOOK, CHANGE))
    ).lines
    assert [(each.name, each.value, each.detail, each.shown) for each in told.facts] == [
        ("status", "packed", "before pending", True)
    ]
    assert replace(told, facts=()).text in told.text.replace(" Shown: status packed (before pending).", "")
