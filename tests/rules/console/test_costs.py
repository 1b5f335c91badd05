"""Costs follow from facts and the price list: exactly, by currency, and nothing unknown counts as nought."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.costs.rules import (
    BudgetLevel,
    BudgetTerms,
    CostFact,
    CostKind,
    PriceTerms,
    WorkEvent,
    budget_level,
    cost_lines,
    describe_level,
    describe_month,
    format_amount,
    human_minutes,
    totals,
)

NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
AT = datetime(2026, 11, 10, 12, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
ANNA, BEN = UUID(int=1), UUID(int=2)
APPROVAL, CASE = UUID(int=3), UUID(int=4)


def price(amount: str = "0.0025", kind: CostKind = CostKind.READING, **changes: object) -> PriceTerms:
    known = {"about": "", "agent": "", "currency": "EUR", "payer": "Support", "valid_from": NOVEMBER}
    return PriceTerms(kind=kind, amount=Decimal(amount), **known | changes)  # type: ignore[arg-type]


def fact(quantity: int = 1, kind: CostKind = CostKind.READING, **changes: object) -> CostFact:
    known = {"about": "shop", "agent": "agent-1", "at": AT, "quantity": quantity}
    return CostFact(kind=kind, **known | changes)  # type: ignore[arg-type]


def month(facts: list[CostFact], prices: list[PriceTerms], *budgets: BudgetTerms, is_over: bool = False) -> str:
    return " ".join(describe_month(cost_lines(facts, prices), budgets, month=NOVEMBER, is_over=is_over))


def work(*events: tuple[str, UUID, float], subject: UUID = APPROVAL) -> list[CostFact]:
    kind = "case" if subject == CASE else "approval"
    happened = [WorkEvent(subject, kind, what, who, AT + timedelta(minutes=m), "agent-1") for what, who, m in events]
    return human_minutes(happened, since=NOVEMBER, until=DECEMBER)


def test_a_price_applies_from_its_time_on_and_a_later_one_leaves_earlier_costs_as_they_were():
    facts = [fact(10), fact(10, at=AT + timedelta(days=1))]
    before = totals(cost_lines(facts[:1], [price("0.01")]))
    prices = [price("0.01"), price("0.05", valid_from=AT + timedelta(hours=1))]
    first, second = cost_lines(facts, prices)
    assert {first.amount, second.amount} == {Decimal("0.10"), Decimal("0.50")}
    assert totals(cost_lines(facts[:1], prices)) == before


def test_what_was_before_the_first_price_stays_not_priced():
    (line,) = cost_lines([fact(3)], [price(valid_from=AT + timedelta(seconds=1))])
    assert (line.price, line.amount, line.payer) == (None, None, "")
    assert month([fact(3)], [price(valid_from=AT + timedelta(seconds=1))]) == (
        "No cost of November 2026 so far is priced. Not priced: 3 readings."
    )


def test_an_ended_price_prices_nothing_afterwards_and_revives_none_that_it_replaced():
    ended = price("2", valid_from=AT - timedelta(days=1), ended_at=AT)
    lines = cost_lines([fact(), fact(at=AT - timedelta(seconds=1))], [price("1"), ended])
    assert [line.amount for line in lines] == [Decimal(2), None]


def test_a_price_for_one_agent_or_one_system_goes_before_a_general_one():
    prices = [price("1"), price("2", about="shop"), price("3", agent="agent-1"), price("4", agent="agent-2")]
    facts = [fact(), fact(agent="agent-2"), fact(agent="agent-3"), fact(agent="agent-3", about="books")]
    assert sorted(line.amount or 0 for line in cost_lines(facts, prices)) == [1, 2, 3, 4]


def test_two_currencies_are_never_added():
    prices = [price("1"), price("3", kind=CostKind.MODEL_CALL, currency="USD", payer="Research")]
    lines = cost_lines([fact(2), fact(kind=CostKind.MODEL_CALL, about="m-1")], prices)
    assert totals(lines) == {"": {"EUR": Decimal(2), "USD": Decimal(3)}}
    budget = BudgetTerms(amount=Decimal(10), currency="EUR", share=80)
    said = " ".join(describe_month(lines, [budget], month=NOVEMBER, is_over=False))
    assert said == (
        "Priced costs of November 2026 so far: 2.00 EUR and 3.00 USD. Research pays 3.00 USD; Support pays 2.00 EUR."
        " 8.00 EUR of the monthly budget of 10.00 EUR is left. There is no budget in USD."
    )


def test_tokens_that_were_not_stated_are_not_nought():
    unstated = fact(0, kind=CostKind.INPUT_TOKENS, about="m-1", unstated=2)
    (line,) = cost_lines([unstated], [price("3", kind=CostKind.INPUT_TOKENS)])
    assert (line.is_unstated, line.amount) == (True, None)
    assert month([unstated], [price("3", kind=CostKind.INPUT_TOKENS)]) == (
        "No cost of November 2026 so far is priced. Not stated: 2 reports of a model without their input tokens."
    )
    (mixed,) = cost_lines(
        [unstated, fact(5, kind=CostKind.INPUT_TOKENS, about="m-1")], [price(kind=CostKind.INPUT_TOKENS)]
    )
    assert (mixed.quantity, mixed.unstated) == (5, 2)


def test_a_price_of_zero_is_a_price():
    assert month([fact(7)], [price("0")]).startswith(
        "Priced costs of November 2026 so far: 0.00 EUR. Support pays 0.00"
    )


def test_an_empty_month_says_so_and_keeps_its_budget():
    budget = BudgetTerms(amount=Decimal("12.5"), currency="EUR", share=80)
    assert month([], [], budget, is_over=True) == (
        "Nothing that could have a price is on record for November 2026."
        " 12.50 EUR of the monthly budget of 12.50 EUR was left."
    )


@pytest.mark.parametrize(
    ("spent", "level"),
    [
        ("79.99", BudgetLevel.BELOW),
        ("80", BudgetLevel.SHARE),
        ("100", BudgetLevel.SHARE),
        ("100.00000001", BudgetLevel.PASSED),
    ],
)
def test_a_budget_is_passed_above_its_amount_and_its_share_is_reached_at_it(spent: str, level: BudgetLevel):
    assert budget_level(BudgetTerms(amount=Decimal(100), currency="EUR", share=80), Decimal(spent)) is level


def test_a_notice_says_how_much_of_which_month():
    terms = BudgetTerms(amount=Decimal(100), currency="EUR", share=80)
    assert describe_level(terms, Decimal("81.2"), NOVEMBER) == (
        "81.20 EUR of priced costs are 80 % or more of the budget of 100.00 EUR for November 2026."
    )
    assert describe_level(terms, Decimal("101.234"), NOVEMBER) == (
        "101.234 EUR of priced costs exceed the budget of 100.00 EUR for November 2026 by 1.234 EUR."
    )
    over = month([fact(11)], [price("10")], terms)
    assert "That is 10.00 EUR more than the monthly budget of 100.00 EUR." in over


def test_the_minutes_of_a_vote_run_from_the_voters_own_claim():
    (vote,) = work(("approval_claimed", ANNA, 0), ("approved", ANNA, 4.5))
    assert (vote.kind, vote.quantity, vote.unstated) == (CostKind.VOTE_MINUTE, 5, 0)


@pytest.mark.parametrize(
    "before",
    [[], [("approval_claimed", BEN, 0)], [("approval_claimed", ANNA, 0), ("approval_released", ANNA, 1)]],
    ids=["unclaimed", "claimed by another", "released"],
)
def test_a_vote_without_the_voters_claim_has_no_stated_time(before: list[tuple[str, UUID, float]]):
    (vote,) = work(*before, ("approved", ANNA, 4))
    assert (vote.quantity, vote.unstated) == (0, 1)


def test_a_claim_counts_once_and_no_longer_than_a_claim_lasts():
    first, second = work(
        ("case_claimed", ANNA, 0), ("resolution_proposed", ANNA, 600), ("case_resolved", BEN, 601), subject=CASE
    )
    assert (first.kind, first.quantity, first.unstated) == (CostKind.CASE_MINUTE, 30, 0)
    assert (second.quantity, second.unstated) == (0, 1)


def test_a_decision_counts_in_the_month_in_which_it_was_made():
    happened = [WorkEvent(CASE, "case", "case_resolved", ANNA, NOVEMBER - timedelta(microseconds=1), "")]
    assert human_minutes(happened, since=NOVEMBER, until=DECEMBER) == []


AMOUNTS = st.decimals(min_value=0, max_value=999_999_999_999, places=8)


@given(st.lists(st.tuples(AMOUNTS, st.sampled_from(["EUR", "JPY", "KWD"]), st.integers(0, 2**53)), max_size=20))
def test_totals_are_exact_in_each_currency(rows: list[tuple[Decimal, str, int]]):
    facts = [fact(count, kind=CostKind.OUTPUT_TOKENS, about=str(n)) for n, (_, _, count) in enumerate(rows)]
    prices = [
        price(str(amount), kind=CostKind.OUTPUT_TOKENS, about=str(n), currency=currency)
        for n, (amount, currency, _) in enumerate(rows)
    ]
    found = totals(cost_lines(facts, prices)).get("", {})
    for currency in {row[1] for row in rows}:
        exact = sum(Fraction(amount) * count / 1_000_000 for amount, mine, count in rows if mine == currency)
        assert Fraction(found[currency]) == exact
        assert Decimal(format_amount(found[currency], currency).split()[0].replace(",", "")) == found[currency]
