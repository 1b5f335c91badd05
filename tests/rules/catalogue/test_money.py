"""What the arguments of calls come to, as people read it."""

from __future__ import annotations

from ledger.catalogue.rules.money import amount_of, money_at_stake


def test_amounts_are_summed_by_currency_and_those_without_one_are_omitted():
    calls = [
        {"amount": 12500, "currency": "EUR"},
        {"amount": "80.10", "currency": "USD"},
        {"amount": 150000, "currency": "eur"},
        {"amount": 500, "currency": "JPY"},
        {"amount": 5},
        {"path": "old/a.md"},
        {"amount": True, "currency": "EUR"},
    ]
    assert money_at_stake(calls) == "1,625.00 EUR and 500 JPY and 80.10 USD"
    assert money_at_stake([{"path": "a"}]) == ""


def test_an_amount_is_read_from_the_arguments_of_a_call():
    assert amount_of({"amount": 12500, "currency": "EUR"}) == "125.00 EUR"
    assert amount_of({"path": "a"}) == amount_of(None) == ""
