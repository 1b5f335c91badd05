"""What an action is called, and money as people read it."""

from __future__ import annotations

import pytest

from console.web.labels import action_title
from ledger.catalogue.rules.money import format_money
from ledger.catalogue.rules.targets import render_target, target_text


@pytest.mark.parametrize(
    ("kind", "target", "payload", "wanted"),
    [
        ("refund", "order/EX-1", {"amount": 24000, "currency": "EUR"}, "Refund 240.00 EUR to order EX-1"),
        ("delete", "document/a/b.md", {"path": "a/b.md"}, "Delete document a/b.md"),
        ("set_status", "order/EX-1", None, "Set status order EX-1"),
        ("refund", "order/{order_id}", {}, "Refund order"),
        ("copy", "{bucket}/{path}", {}, "Copy"),
        ("copy", "{bucket}/of/{path}", {}, "Copy of"),
        ("write", "file/notes/{word}.md", {}, "Write file notes/{word}.md"),
        ("write", "file/notes//today.md", {}, "Write file notes//today.md"),
        ("open", "https://shop.example//orders/{id}.json", {}, "Open https://shop.example//orders/{id}.json"),
        ("charge", "account/7", {"amount": "9.90", "currency": "USD"}, "Charge 9.90 USD from account 7"),
    ],
)
def test_the_title_says_verb_amount_and_thing(kind, target, payload, wanted):
    assert action_title(kind, target, payload) == wanted


@pytest.mark.parametrize("text", ["{order_id}", "a {word} b", "https://git.example/shop//web.git", "100%", "%2F", "/"])
def test_text_of_the_arguments_is_shown_as_it_was_written_and_never_as_a_template(text):
    target = render_target("git/{repository}/{ref}", {"repository": text, "ref": "main"})
    assert action_title("push", target) == f"Push git {text}/main"
    assert target_text(target) == f"git/{text}/main"


def test_a_misleading_character_in_the_target_is_marked():
    assert action_title("delete", "document/\u0430.md") == "Delete document \u0430⟦U+0430⟧.md"


@pytest.mark.parametrize(
    ("amount", "currency", "wanted"),
    [
        (1250, "EUR", "12.50 EUR"),
        (5, "JPY", "5 JPY"),
        (1234567, "KWD", "1,234.567 KWD"),
        (-5, "EUR", "-0.05 EUR"),
        ("12.50", "EUR", "12.50 EUR"),
        (True, "EUR", ""),
        (1250, "euro", ""),
        (1250, None, ""),
    ],
)
def test_an_amount_is_read_only_where_it_is_money(amount, currency, wanted):
    assert format_money(amount, currency) == wanted
