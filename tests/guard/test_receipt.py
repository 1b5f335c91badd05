"""The receipt: the console's own lines, in words that a user reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.record.rules.lifecycle import State
from reviews.guarding.rules.citations import citations_in
from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.verdict import judge
from tests.guard.records import differing, ground, record

PAID = record(
    arguments={"order_id": "EX-1001"}, reading={"amount": 4000, "currency": "EUR"}, answer={"refund_id": "re_81"}
)
DIFFERS = record(
    "change_plan",
    "REVIEW_REQUIRED",
    action_id="a2",
    target="account/7",
    fields=(differing("plan", "premium", "basic"),),
)


def test_the_contracts_template_reports_a_verified_action_with_its_confirmation():
    assert receipt_of(ground(PAID)).text == "On record:\n- Verified: Refunded 40.00 EUR. Confirmation: re_81."


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"user_id": "u_77", "refund_status": "pending", "refund_id": "re_81"}, "re_81"),
        ({"code": 200, "message_id": "m-5"}, "m-5"),
        ({"confirmationCode": "ZX9Q1"}, "ZX9Q1"),
        ({"order_id": "EX-1001", "id": "4471"}, "4471"),
    ],
)
def test_the_confirmation_is_the_code_that_the_answer_gives_as_proof(answer, code):
    assert receipt_of(ground(replace(PAID, answer=answer))).text.endswith(f" Confirmation: {code}.")


@pytest.mark.parametrize(
    "answer",
    [{"user_id": "u_77"}, {"refund_status": "pending"}, {"code": 200}, {"booking_date": "2026-05-01"}, {"id": "x"}],
)
def test_a_description_is_not_used_as_a_confirmation(answer):
    assert "Confirmation" not in receipt_of(ground(replace(PAID, answer=answer))).text


def test_a_receipt_uses_the_requested_language_where_the_contract_has_it():
    german = receipt_of(ground(PAID), language="de").text
    assert "Verified: 40.00 EUR für Bestellung EX-1001 erstattet." in german
    assert "Refunded 40.00 EUR." in receipt_of(ground(PAID), language="fr").text


def test_a_template_with_a_missing_value_is_not_used():
    assert "Verified: issue refund, order EX-1001. Done, and" in receipt_of(ground(replace(PAID, reading={}))).text


def test_a_difference_shows_both_values_and_is_not_called_done():
    [line] = receipt_of(ground(DIFFERS)).lines
    assert line.word == "Needs review"
    assert line.text == (
        "Needs review: change plan, account 7. Not settled. It waits for a person to review it."
        " The plan is basic; premium was asked for."
    )


def test_a_receipt_shows_new_actions_first_and_earlier_open_ones_below():
    old = replace(DIFFERS, is_new=False)
    done = replace(PAID, action_id="a3", target="order/EX-1003")
    receipt = receipt_of(ground(old, done))
    assert [each.action_id for each in receipt.lines] == ["a3"]
    assert [each.action_id for each in receipt.open] == ["a2"]
    assert "\nStill open from before:\n- Needs review: change plan" in receipt.text
    assert receipt_of(ground(old, replace(done, is_new=False))).text == ""


def test_a_later_success_replaces_earlier_attempts_in_the_receipt():
    failed = record(state="FAILED", evidence=())
    refused = replace(failed, state=None, target="", outcome="BLOCKED")
    assert [each.action_id for each in receipt_of(ground(failed, refused, replace(PAID, action_id="a9"))).lines] == [
        "a9"
    ]


def test_a_long_run_is_counted_by_tool_with_failures_and_repairs():
    tries = [replace(PAID, action_id=f"a{number:02}", target=f"order/{number}") for number in range(9)]
    failed = [replace(tries[0], action_id="b1", target="order/20", completed=False, outcome="FAILED", state="FAILED")]
    repaired = [replace(tries[0], action_id="b2", target="order/20")]
    receipt = receipt_of(ground(*tries, *failed, *repaired))
    assert receipt.text.endswith(
        "In all:\n- issue_refund: 11 calls on 10 targets, 1 failed (1 of them done on a later try), 10 verified."
    )
    assert receipt_of(ground(*tries)).counts == ()
    ends = ["UNCHANGED"] * 2 + ["ANSWERED"] * 3 + ["ATTESTED"] * 6
    settled = [replace(PAID, action_id=f"c{number:02}", outcome=end) for number, end in enumerate(ends)]
    assert (
        "- issue_refund: 11 calls on 1 target, 0 failed, 2 verified, 3 answered." in receipt_of(ground(*settled)).text
    )
    assert "0 failed, 0 verified." in receipt_of(ground(*[replace(each, outcome="ATTESTED") for each in settled])).text


def test_markdown_and_html_escape_names():
    nasty = replace(PAID, tool="unknown_tool", target="order/<b>*x*</b>", answer={})
    receipt = receipt_of(ground(nasty))
    assert "<b>" in receipt.text
    assert "&lt;b&gt;*x*&lt;/b&gt;" in receipt.html
    assert "\\<b\\>\\*x\\*" in receipt.markdown
    assert receipt.html.startswith('<div class="receipt"><p>On record:</p><ul><li>')
    assert receipt.markdown.startswith("On record:\n\n- Verified: ")


def test_only_a_reconciled_success_is_called_verified_or_done():
    for state in State:
        told = receipt_of(ground(record(state=str(state)))).text
        claims = ("Verified:" in told, "Done, and confirmed" in told)
        assert claims == ((state is State.RECONCILED_SUCCESS,) * 2), told


def test_a_citation_is_filled_from_the_record_and_never_from_the_request():
    asked = record(state="FAILED", arguments={"amount": 4000}, evidence=())
    assert [each.text for each in citations_in("{{call-7.amount}}", ground(asked))] == [None]
    assert [each.text for each in citations_in("{{ call-7.amount }} {{a1.currency}}", ground(PAID))] == ["4000", "EUR"]
    shown = replace(asked, fields=(differing("amount", 4000, 3000),))
    assert [each.text for each in citations_in("{{call-7.amount}}", ground(shown))] == ["3000"]


def test_a_cited_sentence_is_allowed_or_replaced_by_its_own_action_alone():
    failed = record(state="FAILED", action_id="a2", call_id="call-8", target="order/EX-1002", evidence=())
    both = ground(PAID, failed)
    cleared = judge("I have refunded both orders: {{call-7.amount}}.", both)
    assert (cleared.verdict, cleared.corrected) == ("ALLOW", "I have refunded both orders: 4000.")
    replaced = judge("I have refunded it for you: {{action:call-8}}. Bye.", both)
    assert replaced.corrected == "Failed: issue refund, order EX-1002. No completion was confirmed. Bye."
    kept = judge("It did not work: {{action:call-8}}", both)
    assert kept.verdict == "ALLOW"
    assert kept.corrected == "It did not work: Failed: issue refund, order EX-1002. No completion was confirmed."


def test_braces_that_are_not_a_citation_are_left_unchanged():
    for said in ("{{", "{{}}", "Use {{ name }} in the template.", "{{action:}}", "a {{b c.d}} e"):
        assert judge(said, ground(PAID)).corrected is None, said
