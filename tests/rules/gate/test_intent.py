"""What the agent says against what it sends (B35): flagged, and never a word's power over the facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.gate.rules.intent import AgentStatement, find_contradictions
from approvals.requests.rules.rendering import render_payload, rendering_digest

REFUND = {"charge_id": "ch_8812", "amount": 24000, "currency": "EUR", "to": "ada@example.org"}


def said(text: str, where: str = "goal", payload: object = REFUND) -> list[str]:
    return [each.sentence for each in find_contradictions(payload, [AgentStatement(where, text)])]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Refund 24.00 EUR to the customer", "The agent said 24.00 EUR, the payload says 240.00 EUR."),
        ("Refund €24 as agreed", "The agent said €24, the payload says 240.00 EUR."),
        ("a goodwill of 24 euros", "The agent said 24 euros, the payload says 240.00 EUR."),
        ("Pay 2.4k EUR", "The agent said 2.4k EUR, the payload says 240.00 EUR."),
        ("Refund 240.00 USD", "The agent said 240.00 USD, the payload says 240.00 EUR."),
        ("Refund charge ch_8813", "The agent said ch_8813, the payload says ch_8812."),
        ("Write to eve@example.org about it", "The agent said eve@example.org, the payload says ada@example.org."),
        ("Refund \uff12\uff14.00 EUR", "The agent said 24.00 EUR, the payload says 240.00 EUR."),
    ],
)
def test_statements_that_contradict_the_payload_are_named_with_both_values(text, wanted):
    """B35: "the agent said 24.00, the payload says 240.00"."""
    assert said(text) == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        "Refund 240.00 EUR to ada@example.org for ch_8812.",
        "Refund EUR 240",
        "Refund 240,00 €",
        "Take 240 EUR off the 500 EUR that they paid",
        "Compare ch_8812 with ch_8813",
        "Refund order 24, which is late",
        "Do what the customer asked for",
        "",
        "Answer Ada@Example.org",
    ],
)
def test_statements_that_match_or_concern_something_else_are_not_contradictions(text):
    assert said(text) == []


@pytest.mark.parametrize(
    ("text", "amount", "fits"),
    [
        ("1,234.50 EUR", 123450, True),
        ("1.234,50 EUR", 123450, True),
        ("1.234 EUR", 123400, True),
        ("1.234 EUR", 123, False),
        ("1 234 567 EUR", 123456700, True),
        ("1.234.567 EUR", 123456700, True),
        ("3 million EUR", 300000000, True),
        ("100 JPY", 100, True),
    ],
)
def test_a_number_is_recognised_in_any_common_notation(text, amount, fits):
    currency = text[-3:]
    assert (said(text, payload={"amount": amount, "currency": currency}) == []) is fits


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sa.amount == 2400", ["The agent said amount 2400, the payload says 24000."]),
        ("sa.amount == 24000", []),
        ("sa.amount == 24000.0", []),
        ("sr.currency == 'USD'", ["The agent said currency 'USD', the payload says \"EUR\"."]),
        ("sa.amount == sr.amount", []),
        ("sa.status == 'succeeded'", []),
        ("sa.amount > 3", []),
    ],
)
def test_an_expectation_of_another_value_is_a_contradiction(text, wanted):
    assert said(text, "expectation") == wanted


def test_every_statement_of_the_agent_is_read_and_each_contradiction_is_reported_once():
    words = [
        AgentStatement("goal", "Refund 24 EUR"),
        AgentStatement("restated goal", "Refund 24 EUR"),
        AgentStatement("goal", "Refund 24 EUR"),
    ]
    assert [each.where for each in find_contradictions(REFUND, words)] == ["goal", "restated goal"]


def test_amounts_in_lists_and_nested_objects_are_found():
    payload = {"lines": [{"amount": 100, "currency": "EUR"}, {"refund_amount": "9.90", "currency": "EUR"}]}
    assert said("Refund 9.90 EUR", payload=payload) == []
    assert said("Refund 8 EUR", payload=payload) == ["The agent said 8 EUR, the payload says 1.00 EUR, 9.90 EUR."]


def test_hidden_characters_are_removed_from_quotes_and_long_ones_are_shortened():
    """B34 and B35: the agent's words cannot reorder or flood the line that quotes them."""
    hidden = said("Refund charge ch_8813", payload={"charge_id": "ch_8812"})
    assert hidden == ["The agent said ch_8813, the payload says ch_8812."]
    many = said(" ".join(f"ch_{number}" for number in range(9000, 9100)))
    assert "characters)" in many[0]
    assert len(many[0]) < 300


@given(st.text(max_size=300), st.sampled_from(["goal", "expectation"]))
def test_no_statement_of_the_agent_changes_the_rendering_of_the_payload(text, where):
    """B35: the facts are unaffected, whatever the agent says."""
    before = rendering_digest(render_payload(REFUND))
    find_contradictions(REFUND, [AgentStatement(where, text)])
    assert rendering_digest(render_payload(REFUND)) == before


@pytest.mark.parametrize("text", ["1" * 50_000 + " EUR", "a-" * 50_000, "a@" * 50_000, "1.,' " * 20_000])
def test_long_hostile_statements_are_read_quickly(text):
    assert isinstance(said(text), list)
