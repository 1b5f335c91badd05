"""Expectations after an edit: those of an edited field are dropped, a contradicted one is named, the rest stay."""

from __future__ import annotations

import pytest

from approvals.requests.rules.expectations import RequestContent, review_expectations

BEFORE = {
    "amount": 2050,
    "currency": "EUR",
    "order_id": "7",
    "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}],
    "address": {"city": "Bern", "zip": {"code": "3000"}},
    "note": "late",
}
CONTRACT = (
    "sa.amount == sr.amount && sa.currency == sr.currency",
    "sa.total_minor == sr.amount * 100",
    "sr.order_id == sa.order",
    "sa.status == 'succeeded'",
)


def reviewed(text, target="order/7", **edited):
    after = {name: value for name, value in (BEFORE | edited).items() if value != "(gone)"}
    return review_expectations(
        [text], before=RequestContent(BEFORE, "order/7"), after=RequestContent(after, target), predicates=CONTRACT
    )


@pytest.mark.parametrize(
    ("text", "edited", "fields"),
    [
        ("sa.amount == 2050", {"amount": 1800}, ("amount",)),
        ("sr.amount == 2050", {"amount": 1800}, ("amount",)),
        ("so.amount == 2050", {"amount": 1800}, ("amount",)),
        ("sa.effects.refund.amount == 2050", {"amount": 1800}, ("amount",)),
        ("sa.target.amount == 2050", {"amount": 1800}, ("amount",)),
        ("sa.status == 'succeeded' && sa.amount == 2050", {"amount": 1800}, ("amount",)),
        ("sa.amount == 2050 && sa.currency == 'EUR'", {"amount": 1, "currency": "USD"}, ("amount", "currency")),
        # What the field stands in, and what it holds.
        ("sr.address == {'city': 'Bern'}", {"address": {"city": "Basel", "zip": {"code": "3000"}}}, ("address.city",)),
        (
            "sr.address.zip.code == '3000'",
            {"address": {"city": "Bern", "zip": None}},
            ("address.zip", "address.zip.code"),
        ),
        ("size(sr) == 6", {"note": "early"}, ("note",)),
        ("sr['amount'] == 2050", {"amount": 1800}, ("amount",)),
        # Elements of a list.
        ("sr.lines[1].sku == 'b'", {"lines": [{"sku": "a", "n": 1}, {"sku": "c", "n": 2}]}, ("lines.1.sku",)),
        ("sr.lines.exists(l, l.sku == 'b')", {"lines": [{"sku": "a", "n": 1}, {"sku": "c", "n": 2}]}, ("lines.1.sku",)),
        ("size(sa.lines) == 2", {"lines": [{"sku": "a", "n": 1}]}, ("lines.1.n", "lines.1.sku")),
        # What came and what went.
        ("!has(sr.reason)", {"reason": "damaged"}, ("reason",)),
        ("sr.note == 'late'", {"note": "(gone)"}, ("note",)),
        # What the contract compares with it.
        ("sa.total_minor == 205000", {"amount": 1800}, ("amount",)),
        ("sa.order == '7'", {"order_id": "8"}, ("order_id",)),
        # The same number in another type is another value.
        ("sr.amount == 2050", {"amount": "2050"}, ("amount",)),
    ],
)
def test_an_expectation_about_an_edited_field_is_dropped(text, edited, fields):
    found = reviewed(text, **edited)
    assert (found.contradicted, found.kept) == ((), ())
    assert [(each.text, each.fields) for each in found.dropped] == [(text, fields)]


@pytest.mark.parametrize("text", ["pre.status == 'paid'", "sa.target.version == 3", "scope.target == 'order/7'"])
def test_an_expectation_about_the_target_is_dropped_when_the_target_was_edited(text):
    found = reviewed(text, target="order/8", order_id="8")
    assert found.dropped[0].why == "It names `target_resource`, which was edited."
    assert reviewed(text, amount=1800).kept == (text,)


def test_the_reason_for_dropping_an_expectation_is_a_sentence():
    (one,) = reviewed("sa.amount == 2050", amount=1800).dropped
    assert one.why == "It names `amount`, which was edited."
    (three,) = reviewed("sr == {}", amount=1, currency="USD", note="").dropped
    assert three.why == "It names `amount`, `currency` and `note`, which were edited."


@pytest.mark.parametrize(
    "text",
    [
        "sr.currency == 'USD'",
        "sa.currency == 'USD'",
        "sa.order != '7'",
        "sr.currency == 'EUR' && sa.order == '9'",
        "sr.lines.all(l, l.n > 1)",
        "has(sr.reason)",
        "si.target_resource == 'order/8'",
    ],
)
def test_an_expectation_contradicted_by_the_edit_is_named(text):
    found = reviewed(text, amount=1800)
    assert (found.dropped, found.contradicted, found.kept) == ((), (text,), ())


@pytest.mark.parametrize(
    "text",
    [
        "sa.currency == 'EUR'",
        "sr.lines.all(l, l.n > 0)",
        # Only the system can tell; a field that the request does not have is not taken for one that is absent there.
        "sa.status == 'failed'",
        "has(sa.note)",
        "!has(sa.reason)",
        "sa.count == 1",
        "sa.balance == pre.balance - 2050",
        "so.currency == 'USD'",
        "scope.tenant == 'elsewhere'",
        "sa.currency == 'USD' && sa.status == 'succeeded'",
        # No value, so neither true nor false.
        "sr.reason == 'damaged'",
    ],
)
def test_an_expectation_that_holds_or_is_undecidable_is_kept(text):
    found = reviewed(text, amount=1800)
    assert (found.dropped, found.contradicted, found.kept) == ((), (), (text,))


def test_the_count_of_effects_is_not_a_field_named_count():
    found = review_expectations(
        ["sa.count == 1", "sr.count == 4"],
        before=RequestContent({"count": 4}, "t"),
        after=RequestContent({"count": 5}, "t"),
        predicates=(),
    )
    assert ([each.text for each in found.dropped], found.kept) == (["sr.count == 4"], ("sa.count == 1",))
