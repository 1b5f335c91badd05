from __future__ import annotations

import pytest

from approvals.agents.rules import registry, relevance
from approvals.agents.rules.relevance import ToolText

SHOP = {
    "issue_refund": ToolText(
        "Refund a captured charge. Use when: money goes back. NOT for: chargebacks.", ("charge_id",)
    ),
    "dispute_chargeback": ToolText("Answer a chargeback of a bank.", ("dispute_id",)),
    "send_email": ToolText("Send a mail to a customer.", ("recipient", "subject")),
    "list_orders": ToolText("List the orders of a customer.", ("customer_id",)),
    "cancel_order": ToolText("Cancel an order before it ships.", ("order_id",)),
    "get_weather": ToolText("The weather at a place.", ("city",)),
    "track_parcel": ToolText("Where a parcel is.", ("tracking_number",)),
    "reserve_stock": ToolText("Keep pieces of an article back.", ("sku", "quantity")),
}


def nearest(intent, most=2):
    return relevance.nearest_tools(intent, SHOP, among=list(SHOP), most=most)


@pytest.mark.req("R-MC-20")
@pytest.mark.parametrize(
    ("intent", "wanted"),
    [
        ("The customer wants a refund for a charge", "issue_refund"),
        ("refunding two charges", "issue_refund"),
        ("please cancel my orders", "cancel_order"),
        ("Answer the chargeback", "dispute_chargeback"),
        ("Has it shipped? Look the tracking number up", "track_parcel"),
        ("mailing the customers", "send_email"),
        ("WEATHER in Oslo", "get_weather"),
    ],
)
def test_the_tool_that_an_intent_describes_is_nearest(intent, wanted):
    assert wanted in nearest(intent)


def test_words_of_another_purpose_do_not_make_a_tool_relevant():
    assert nearest("chargebacks", most=1) == ["dispute_chargeback"]


def test_a_word_that_every_tool_contains_does_not_count():
    everywhere = {name: ToolText(f"{tool.description} For the customer.") for name, tool in SHOP.items()}

    assert relevance.nearest_tools("customer weather", everywhere, among=list(SHOP), most=1) == ["get_weather"]


def test_without_common_words_the_order_of_the_registry_decides():
    assert nearest("") == list(SHOP)[:2] == nearest("xyzzy")


def test_the_disclosed_tools_keep_the_order_of_the_registry():
    assert nearest("weather refund") == ["issue_refund", "get_weather"]


def test_a_registration_is_linted_for_the_cap_missing_contracts_and_similar_names():
    tools = [*SHOP, "send_emails", "unwritten_tool"]
    found = registry.findings(tools, contracts=[*SHOP, "send_emails"], cap=5)

    assert [(each.code, each.path) for each in found] == [
        ("NO_CONTRACT", "/tools/9"),
        ("TOO_MANY_TOOLS", "/tools"),
        ("LIKE_NAMES", "/tools/8"),
    ]
    assert registry.findings(list(SHOP), contracts=list(SHOP)) == []
