"""What was asked beside what is shown: every wrong difference accuses somebody who did their work."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import BadContract, Contract
from ledger.catalogue.rules.fields import Field, FieldSource, compare_fields
from ledger.catalogue.rules.value_comparison import Notation, same_value
from tests.support.tables import every_row

SPELLED = [
    (100, "100.00", True),
    (12.5, "$12.50", True),
    (1250, "1,250.00 EUR", True),
    ("1.250,00", 1250, True),
    (3.76, 3.759999999999991, True),
    (100, 50, False),
    ("12.50 EUR", "12.50 USD", False),
    ("1151293680", "1151293681", False),
    ("ABC123", "XYZ123", False),
    ("1.2.34", "1.23.4", False),
    ("#W2378156", "w2378156", True),
    ("orders/77", "77", True),
    ("NO_LONGER_NEEDED", "no longer needed", True),
    ("business", "Business ", True),
    ("business", "economy", False),
    ("business", "business class", None),
    ("CA", "California", None),
    ("CA", "NY", False),
    ("4111111111111111x", "************1111", None),
    ("a" * 200, "b" * 200, None),
    ("2026-05-01", "2026-05-01T09:30:00Z", True),
    ("2026-05-01T09:30:00+02:00", "2026-05-01T07:30:00Z", True),
    ("2026-05-01T09:30:00Z", 1777627800, True),
    ("2026-05-01", "2026-05-03", False),
    ("2026-05-01", "2026-04-30T22:00:00Z", None),
    ("2026-05-01", "May 1, 2026", None),
    ("+1 (555) 010-4477", "5550104477", True),
    (True, "yes", True),
    (True, "off", False),
    (True, "perhaps", None),
    (20, "20 GB of disk", None),
    ("#general", "C024BE", None),
    ("cancelled", "canceled", True),
    ("http://example.org/a", "https://www.example.org/a/", True),
    ("premium", None, None),
]


@every_row(("asked", "shown", "same"), SPELLED)
def test_equal_values_in_any_notation_are_equal_and_undetermined_ones_do_not_differ(asked, shown, same):
    assert same_value(asked, shown) is same


@pytest.mark.parametrize(
    ("asked", "shown", "same"),
    [
        (["a"], ["b", "a", "c"], True),
        (["b", "a"], ["a", "b"], True),
        (["a", "z"], ["a", "b"], False),
        ([], ["a"], None),
        (["a"], [{"item_id": "a", "price": 5}, {"item_id": "b"}], True),
        (["z"], [{"item_id": "a"}], None),
        ([{"flight": "F1", "date": "2026-05-01"}], [{"flight": "F1", "date": "2026-05-01", "price": 80}], True),
        ([{"flight": "F1"}], [{"flight": "F2", "price": 80}], False),
        ("a, b", ["b", "a"], True),
        ("a", ["a", "b"], True),
        (["a", "b"], "a,b", True),
        (["a", "z"], "a, b", None),
        (["a"], "a", True),
    ],
)
def test_a_list_is_equal_where_each_requested_member_is_listed(asked, shown, same):
    assert same_value(asked, shown) is same


def test_huge_or_deep_values_cannot_be_compared():
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    assert same_value(deep, [deep]) is None
    assert same_value(10**5_000, 10**5_000) is None
    assert same_value("2026-05-01T00:00:00Z", 10**400) is None
    assert same_value(["x" + str(each) for each in range(5_000)], ["y"] * 5_000) in (None, False)


def test_order_matters_only_where_the_schema_requires_it():
    assert same_value(["a", "b"], ["b", "a"]) is True
    assert same_value(["a", "b"], ["b", "a"], Notation(in_order=True)) is False
    assert same_value(["a", "b"], ["a", "b", "c"], Notation(in_order=True)) is True


def test_two_choices_of_a_schema_differ_even_where_one_contains_the_other():
    assert same_value("economy", "basic_economy") is None
    assert same_value("economy", "basic_economy", Notation(choices=("economy", "basic_economy"))) is False


@pytest.mark.parametrize(
    ("asked", "shown", "notation", "same"),
    [
        (1250, "12.50", Notation(is_money=True, places=2), True),
        (1250, "12.50", Notation(is_money=True), None),
        (1250, "12.50", Notation(), False),
        (1250, "12.40", Notation(is_money=True, places=2), False),
        (1250, "$12.50", Notation(), None),
        (1250, 12.5, Notation(minor=False), True),
        (1250, 1250, Notation(minor=False), False),
        ("12.50", 1250, Notation(minor=True), True),
        (1250, 1250, Notation(minor=False, places=0), True),
        ("100", "-100.00", Notation(is_money=True), None),
        (10, "0.1", Notation(is_share=True), None),
        (10, "15", Notation(is_share=True), False),
    ],
)
def test_minor_units_are_converted_only_as_the_contract_declares(asked, shown, notation, same):
    assert same_value(asked, shown, notation) is same


def contract(name: str = "issue_refund", answers: object = None, **parts: object) -> Contract:
    document = {
        "name": name,
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Changes an order. Use when: asked. NOT for: others.",
        "arguments_schema": {
            "type": "object",
            "required": ["order_id"],
            "additionalProperties": False,
            "properties": {
                "order_id": {"type": "string"},
                "amount": {"type": "integer"},
                "currency": {"type": "string"},
                "method": {"type": "string"},
                "status": {"type": "string"},
                "name": {"type": "string"},
                "quantity": {"type": "integer"},
                "item_ids": {"type": "array"},
                "message": {"type": "string"},
                "address": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        },
        "side_effect_class": "MEDIUM_RISK_WRITE",
        "target_resource": "order/{order_id}",
        "answers": answers or {},
        **parts,
    }
    return contracts.validate(document, compile_predicate=lambda _: None)


KNOWN = contract()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates().map(str) | st.datetimes().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(JSON, JSON)
def test_any_two_values_can_be_compared_and_a_value_never_differs_from_itself(one, other):
    assert same_value(one, other) in (True, False, None)
    assert same_value(one, one) is not False
    arguments = one if isinstance(one, dict) else {"amount": one}
    compare_fields(arguments, contract=KNOWN, answer=other, reading={"amount": other})


def compared(asked: dict, answer: object, known: Contract | None = None, reading: object = None) -> Field:
    """The first field of a call."""
    return compare_fields(asked, contract=known or contract(), answer=answer, reading=reading)[0]


def test_a_field_is_found_by_name_at_the_top_in_a_wrapper_and_in_the_object_of_the_tool():
    for answer, path in (
        ({"amount": 50}, "amount"),
        ({"evidence": {"amount": 50}}, "evidence.amount"),
        ({"data": {"refund": {"Amount": 50}}}, "data.refund.Amount"),
    ):
        found = compared({"amount": 100}, answer)
        assert (found.same, found.shown, found.source, found.path) == (False, 50, FieldSource.ANSWER, path)
    assert compared({"address": {"city": "Bern"}}, {"order": {"address": {"city": "Basel"}}}).differs
    assert compared({"order_id": "W1"}, {"orderId": "#W1"}).same is True


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"method": "paypal"}, {"payments": [{"method": "card"}], "status": "ok"}),
        ({"item_ids": ["a"]}, {"deliveries": [{"item_ids": ["b", "c"]}]}),
        ({"name": "Chair"}, {"owner": {"name": "Ada"}}),
        ({"amount": 100}, {"refund": {"amount": 3}, "order": {"amount": 4}}),
        ({"status": "closed"}, {"status": "success"}),
        ({"message": "Hello Ada"}, {"message": "Refund created"}),
        ({"amount": 100}, "amount: 50"),
        ({"amount": 100}, ["re_1"]),
        ({"amount": 100}, None),
    ],
)
def test_a_field_of_the_same_name_with_another_meaning_is_not_a_difference(asked, answer):
    assert compared(asked, answer).same is None


def test_an_object_that_shows_several_arguments_one_of_them_equal_is_compared():
    shown = {"id": 7, "booked": {"method": "card", "quantity": 2}}

    method, quantity = compare_fields({"method": "card", "quantity": 3}, contract=contract("book_room"), answer=shown)

    assert (method.same, quantity.same, quantity.path) == (True, False, "booked.quantity")
    assert compared({"method": "paypal", "quantity": 3}, shown, contract("book_room")).same is None


def test_an_object_named_by_its_id_is_compared_where_the_tool_sets_one_of_its_fields():
    shown = {"order": {"id": "W1", "method": "card"}}

    assert compared({"method": "paypal", "order_id": "W1"}, shown, contract("set_method", target_resource="x")).differs
    assert compared({"method": "paypal", "order_id": "W1"}, shown, contract("pay", target_resource="x")).same is None


def test_the_old_name_of_a_renamed_object_is_not_compared():
    assert compared({"name": "a.txt"}, {"name": "b.txt"}, contract("rename_order")).same is None


def test_an_added_quantity_is_not_compared_with_the_sum():
    assert compared({"quantity": 5}, {"quantity": 105}, contract("increase_stock")).same is None
    assert compared({"quantity": 5}, {"quantity": 105}, contract("set_stock")).differs


def test_a_reading_outweighs_the_answer_and_the_answer_fills_its_gaps():
    answer, asked = {"amount": 100, "method": "card"}, {"amount": 100, "method": "card"}

    amount, method = compare_fields(asked, contract=contract(), answer=answer, reading={"amount": 50})

    assert (amount.differs, amount.shown, amount.source) == (True, 50, FieldSource.READ)
    assert (method.same, method.source) == (True, FieldSource.ANSWER)
    later = compare_fields(asked, contract=contract(), answer={"amount": 50}, reading={"amount": 100})
    assert later[0].same is True


def test_the_state_of_the_target_is_not_compared_with_the_request():
    """An order of 20.50 does not show that a refund of 21.50 became one of 20.50."""
    asked = {"order_id": "EX-1", "amount": 2150, "currency": "EUR"}
    target = {"amount": 2050, "currency": "EUR", "status": "paid"}
    nothing = {"effects": {"refund": {"exists": False, "count": 0}}, "target": target}
    assert [each.same for each in compare_fields(asked, contract=None, reading=nothing)] == [None] * 3
    paid = {"amount": 2150, "currency": "EUR", **nothing}
    assert [each.same for each in compare_fields(asked, contract=None, reading=paid)] == [None, True, True]


def test_a_declared_path_leads_into_lists_and_null_excludes_a_field():
    answer = {
        "method": "card",
        "amount": 9,
        "payments": [{"method": "card", "total": 1}, {"method": "paypal", "total": 12.5}],
        "lines": [{"id": "a"}, {"id": "b"}],
    }
    asked = {"method": "paypal", "amount": 1250, "item_ids": ["a"]}
    declared = {
        "method": "payments[-1].method",
        "amount": {"path": "payments[-1].total", "unit": "major"},
        "item_ids": "lines[].id",
    }

    told = compare_fields(asked, contract=contract(answers=declared), answer=answer)

    assert [(one.shown, one.same) for one in told] == [("paypal", True), (12.5, True), (["a", "b"], True)]
    assert compared({"method": "paypal"}, answer).differs
    assert compared({"method": "paypal"}, answer, contract(answers={"method": None})).same is None


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"amont": "total"}, "The arguments have no field `amont` (known: address, amount,"),
        ({"amount": "sum"}, "The answer has no field `sum` (known: refund)."),
        ({"amount": "refund.sum"}, "The answer has no field `sum` (known: total)."),
        ({"amount": "refund..sum"}, "does not fit"),
        ({"amount": {"path": "refund.total", "unit": "cents"}}, "does not fit"),
    ],
)
def test_an_unknown_path_is_refused_with_the_known_names(answers, said):
    schema = {"type": "object", "properties": {"refund": {"type": "object", "properties": {"total": {}}}}}
    with pytest.raises(BadContract) as refused:
        contract(answers=answers, result_schema=schema)
    assert said in str(refused.value.detail)
    assert contract(answers={"amount": "refund.total"}, result_schema=schema).answers["amount"] is not None
