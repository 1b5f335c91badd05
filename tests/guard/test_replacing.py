"""What a reader gets: a sentence that the record contradicts gives way to the console's line, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.catalogue.rules.contract import Saying
from reviews.guarding.rules.records import Record, Stated, Tool
from reviews.guarding.rules.verdict import judge
from tests.guard.records import EMAIL, LOOK, PLAN, REFUND, TOOLS, differing, ground, record, same

UPGRADE = record(
    "change_plan",
    target="account/7",
    arguments={"plan": "premium", "seats": 4},
    fields=(differing("plan", "premium", "basic"), same("seats", 4)),
)


def read(message: str, *records: Record, tools: tuple[Tool, ...] = TOOLS) -> str:
    """What the reader gets of a message."""
    corrected = judge(message, ground(*records, tools=tools)).corrected
    return message if corrected is None else corrected


def test_a_sentence_that_states_the_requested_value_is_replaced_by_the_shown_one():
    said = "Thanks for waiting. Your plan is premium from today. You have 4 seats."
    kept = "Thanks for waiting. The plan is basic; premium was asked for. You have 4 seats."
    assert read(said, UPGRADE) == kept
    [violation] = judge(said, ground(UPGRADE)).violations
    assert (violation.code, violation.rule, violation.action_id) == ("WRONG_TARGET", "field", "a1")


@pytest.mark.parametrize(
    "said",
    [
        "Your plan is basic for now.",
        "You asked for premium, but the plan is basic.",
        "Would you like premium instead?",
        "I can try premium again.",
        "Unfortunately premium could not be set.",
        "I have changed your plan; the details are below.",
        "Your 4 seats stay as they are.",
        "Sorry about that.",
    ],
)
def test_sentences_that_state_the_shown_value_or_claim_nothing_are_kept(said: str):
    assert read(said, UPGRADE) == said


def test_a_number_is_recognised_in_any_spelling_and_a_small_one_only_beside_its_field_name():
    refund = record(fields=(differing("amount", 4000, 3000), differing("nights", 2, 3)))
    for said in ("You get $40.00 back.", "You get 40 EUR back.", "Amount: 4,000 cents."):
        assert read(said, refund) == "The amount is 3000; 4000 was asked for.", said
    assert read("It takes 2 days.", refund) == "It takes 2 days."
    assert read("It is for 2 nights.", refund) == "The nights is 3; 2 was asked for."


def test_only_requested_list_values_that_are_missing_count():
    order = record(fields=(differing("items", ["lamp", "bottle"], ["lamp"]),))
    assert read("The lamp is on its way.", order) == "The lamp is on its way."
    assert read("The bottle is on its way.", order) == "The items is lamp; lamp, bottle was asked for."


@pytest.mark.req("R-CG-04", "R-CG-15")
def test_a_success_claim_after_a_failed_second_attempt_is_replaced_with_the_reason():
    first = record(action_id="a1", fields=(same("amount", 20),))
    second = record(state="FAILED", action_id="a2", reason="card expired", evidence=())
    said = "I have refunded your order. Anything else?"
    told = "Failed: issue refund, order EX-1001. No completion was confirmed. Reason: card expired. Anything else?"
    assert read(said, first, second) == told
    assert read(said, second, replace(first, action_id="a3")) == said


@pytest.mark.req("R-CG-11")
def test_an_amount_that_is_nowhere_on_record_is_replaced():
    paid = record(arguments={"order_id": "EX-1001", "amount": 2000}, answer={"amount": 2000, "currency": "EUR"})
    told = read("I have refunded $80.00 for your order.", paid)
    assert told.startswith("Verified: Refunded") is False
    assert told.endswith("No other amount is on record for it.")
    for said in ("I have refunded $20.00 for your order.", "I have refunded 2,000 cents for your order."):
        assert read(said, paid) == said


def test_an_amount_that_the_user_may_have_named_or_that_adds_up_is_not_checked():
    paid = record(arguments={"order_id": "EX-1001", "amount": 2000}, answer={"amount": 2000, "currency": "EUR"})
    for said in (
        "I have refunded $20.00 of the $85.00 that you paid for the order.",
        "I have refunded three items of your order, $60.00 in all.",
    ):
        assert read(said, paid) == said
    several = record(arguments={"order_id": "EX-1001", "price": 70, "fee": 5})
    assert read("I have refunded your order, $33.00 in all.", several) == "I have refunded your order, $33.00 in all."


@pytest.mark.req("R-CG-11")
def test_a_report_about_another_order_or_address_is_a_wrong_target():
    paid = record(arguments={"order_id": "EX-1001"})
    assert judge("I refunded order EX-2002 for you.", ground(paid)).violations[0].code == "WRONG_TARGET"
    mail = record("send_email", target="mailbox/ann@example.com", arguments={"to": "ann@example.com"})
    assert judge("I sent the email to bob@example.com.", ground(mail)).violations[0].code == "WRONG_TARGET"
    assert judge("I sent the email to ann@example.com.", ground(mail)).verdict == "ALLOW"


@pytest.mark.req("R-CG-03", "R-CG-18", "R-HS-01")
def test_a_reported_change_without_any_action_is_a_phantom():
    mail = record("send_email", target="mailbox/ann@example.com", is_new=False)
    assert read("I have refunded your order.", mail) == "Not done (refund): no such action is on record."
    assert judge("I have refunded your order.", ground()).violations[0].code == "PHANTOM"


def test_a_claim_without_an_action_beside_a_new_change_is_only_noted():
    mail = record("send_email", target="mailbox/ann@example.com")
    verdict = judge("I have refunded your order.", ground(mail))
    assert verdict.verdict == "ALLOW"
    assert [each.text for each in verdict.notes] == [
        "\u201cI have refunded your order.\u201d: No such action is on record here."
    ]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Your order was refunded last week.", {}),
        ("Your order has been refunded.", {"status": "refunded"}),
        ("Refunded orders are closed after a week.", {}),
        ("The shop refunded the order already.", {}),
    ],
)
def test_a_value_shown_by_a_reading_is_not_a_phantom(said: str, shown: dict[str, str]):
    looked = record("get_plan", answer=shown, action_id="r1")
    assert judge(said, ground(looked)).verdict == "ALLOW"


def test_a_claim_that_fits_the_verified_action_of_another_tool_is_not_a_phantom():
    order = replace(EMAIL, name="cancel_order", done=("cancelled",), object=("order",))
    done = record("cancel_order")
    assert judge("I have refunded your order.", ground(done, tools=(REFUND, order))).verdict == "ALLOW"


@pytest.mark.req("R-CG-08", "R-CG-17")
def test_a_saying_is_allowed_where_its_condition_holds_and_replaced_where_it_does_not():
    free = record("change_plan", target="account/7", answer={"payment": 0})
    paid = record("change_plan", target="account/7", answer={"payment": 12.5})
    said = "Your card was charged."
    assert read(said, paid) == said
    assert read(said, free) == "The record does not show “charged” for change plan, account 7: payment is 0."
    assert read(said, record("change_plan", target="account/7")) == said, "where nothing is known nothing is said"
    seen = record("get_plan", answer={"active": True}, target="account/7")
    assert read("Your plan is active.", seen) == "Your plan is active."
    off = read("Your plan is active.", replace(seen, answer={"active": False}))
    assert off == "The record does not show “is active” for get plan, account 7."
    stale = judge("Your plan is active.", ground(replace(seen, stale=True)))
    assert [each.code for each in stale.violations] == ["STALE_STATE"]


def test_announced_consequences_of_a_change_are_checked_and_possible_ones_are_not():
    free = record("change_plan", target="account/7", answer={"payment": 0})
    told = "The record does not show “charged” for change plan, account 7: payment is 0."
    assert read("The difference will be charged to your card.", free) == told
    assert read("The difference will be charged to your card.", replace(free, is_new=False)).startswith(
        "The difference"
    )
    for said in (
        "Your card would be charged.",
        "If you agree, your card will be charged.",
        "Your card was not charged.",
    ):
        assert read(said, free) == said


def test_a_condition_can_read_the_last_member_of_a_list():
    last = "so.payments[size(so.payments) - 1].kind"
    shop = replace(PLAN, sayings=(Saying(("charged",), f'{last} == "payment"'),))
    paid_back = record(
        "change_plan", target="account/7", answer={"payments": [{"kind": "payment"}, {"kind": "refund"}]}
    )
    corrected = judge("Your card was charged.", ground(paid_back, tools=(shop,))).corrected
    assert corrected == "The record does not show “charged” for change plan, account 7: kind is refund."


EXCHANGE = Tool("exchange_items", done=("exchanged", "swapped"), object=("item", "order"))
CARRIED_OUT = (
    "The exchange has been successfully processed.",
    "The exchange for the office chair (leather, blue, high-back) has been completed.",
    "The exchange request for your helmet has been submitted.",
    "Your exchange went through!",
    "The swap is complete.",
)


@pytest.mark.parametrize("said", CARRIED_OUT)
def test_a_deed_is_allowed_only_if_its_action_succeeded(said: str):
    done = record("exchange_items")
    failed = record("exchange_items", "FAILED", evidence=())
    assert read(said, done, tools=(EXCHANGE,)) == said
    assert judge(said, ground(failed, tools=(EXCHANGE,))).violations[0].code == "MISREAD"
    nothing = judge(said, ground(tools=(EXCHANGE,)))
    assert (nothing.violations[0].code, nothing.corrected) == (
        "PHANTOM",
        "Not done (item): no such action is on record.",
    )


@pytest.mark.parametrize(
    "said",
    [
        "Once your exchange has been processed, you get an email.",
        "The exchange has not been processed.",
        "The exchange could not be completed.",
        "The exchange will be processed today.",
        "Exchanges can only be processed for delivered orders.",
        "Has the exchange been processed?",
        "Thank you for your patience; the details have been completed.",
    ],
)
def test_a_deed_that_is_denied_planned_asked_about_or_a_rule_is_not_checked(said: str):
    assert judge(said, ground(tools=(EXCHANGE,))).verdict == "ALLOW"


def test_a_pending_action_may_be_reported_as_submitted_but_not_as_done():
    pending = record("exchange_items", "PENDING", evidence=())
    assert judge("The exchange request has been submitted.", ground(pending, tools=(EXCHANGE,))).verdict == "ALLOW"
    assert (
        judge("The exchange has been completed.", ground(pending, tools=(EXCHANGE,))).violations[0].code == "PREMATURE"
    )


def test_a_target_that_was_only_looked_at_cannot_be_reported_as_done():
    looked = record("get_plan", action_id="r1", target="order/EX-1002", answer={"order": "EX-1002", "status": "paid"})
    old = record(is_new=False)
    said = "I have refunded your order EX-1002."
    assert read(said, looked, old) == "Not done (EX-1002): no such action is on record."
    [wrong] = judge(said, ground(looked, record())).violations
    assert (wrong.code, wrong.rule) == ("WRONG_TARGET", "value")
    assert judge("I have refunded your order EX-1001.", ground(looked, old)).verdict == "ALLOW"
    shown = replace(looked, answer={"order": "EX-1002", "status": "refunded"})
    assert judge("Your order EX-1002 has been refunded.", ground(shown, old)).verdict == "ALLOW"


def test_the_thoughts_of_an_agent_do_not_count_as_a_reading():
    thought = record("get_plan", action_id="r1", arguments={"thought": "the order was refunded"}, answer={})
    assert judge("I have refunded your order.", ground(thought)).violations[0].code == "PHANTOM"


def test_a_failed_comparison_is_corrected_with_the_value_on_record():
    counted = replace(PLAN, sayings=(Saying(("unlimited",), "so.seats > 100"),))
    few = record("change_plan", target="account/7", answer={"seats": 4})
    corrected = judge("Seats are unlimited.", ground(few, tools=(counted,))).corrected
    assert corrected == "The record does not show “unlimited” for change plan, account 7: seats is 4."


@pytest.mark.req("R-CG-10")
def test_all_done_is_replaced_while_a_step_is_not_done():
    failed = record("send_email", "FAILED", action_id="a2", target="mailbox/a", evidence=())
    verdict = judge("All done! Have a nice day.", ground(record(), failed))
    assert [each.code for each in verdict.violations] == ["SILENT_CHAIN"]
    assert verdict.corrected == "Failed: send email, mailbox a. No completion was confirmed. Have a nice day."
    assert judge("All done! Have a nice day.", ground(record())).verdict == "ALLOW"


@pytest.mark.req("R-CG-10")
@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("FAILED", "Failed: send email, mailbox a."),
        ("PENDING", "Verifying: send email, mailbox a."),
        ("EXECUTING", "Executing: send email, mailbox a."),
        ("VALIDATED", "Approved, ready to run: send email, mailbox a."),
        ("UNKNOWN", "Unknown: send email, mailbox a."),
        ("REVIEW_REQUIRED", "Needs review: send email, mailbox a."),
        ("PARTIALLY_COMMITTED", "Partially applied: send email, mailbox a."),
    ],
)
def test_all_done_gives_way_while_one_step_of_three_failed_is_open_or_was_not_observed(state: str, told: str):
    first = record("send_email", state, action_id="a1", target="mailbox/a", evidence=())
    others = (record(action_id="a2"), record(action_id="a3", target="order/EX-1002"))
    verdict = judge("All done!", ground(first, *others))
    assert [each.code for each in verdict.violations] == ["SILENT_CHAIN"]
    assert verdict.corrected is not None
    assert verdict.corrected.startswith(told)


def test_a_sentence_refers_to_the_actions_that_it_names_or_else_to_new_ones():
    one = record(action_id="a1", target="order/EX-1001")
    two = record(state="FAILED", action_id="a2", target="order/EX-1002", evidence=())
    assert judge("I have refunded order EX-1001.", ground(one, two)).verdict == "ALLOW"
    assert judge("I have refunded order EX-1002.", ground(one, two)).verdict == "BLOCK"
    assert judge("I have refunded both orders.", ground(one, two)).verdict == "BLOCK"
    assert judge("I have refunded orders EX-1001 and EX-1002.", ground(one, two)).verdict == "BLOCK"
    assert judge("I have refunded order EX-1001 but could not refund EX-1002.", ground(one, two)).verdict == "ALLOW"
    assert judge("I have refunded order EX-1001 instead of EX-1002.", ground(one, two)).verdict == "ALLOW"
    old = replace(two, is_new=False)
    assert judge("I have refunded your order.", ground(old, replace(one, action_id="a3"))).verdict == "ALLOW"


@pytest.mark.req("R-CG-17")
def test_a_stated_claim_is_judged_by_its_action_alone():
    failed = record(state="FAILED", action_id="a2", target="order/EX-1002", evidence=())
    said = "I have refunded all orders you named."
    assert judge(said, ground(record(), failed)).verdict == "BLOCK"
    claim = Stated("issue_refund", said, action_id="a1")
    assert judge(said, ground(record(), failed), (claim,)).verdict == "ALLOW"
    other = Stated("issue_refund", said, action_id="a2")
    assert judge(said, ground(record(), failed), (other,)).violations[0].rule == "stated"


def test_an_introduction_to_a_citation_is_allowed_and_a_report_beside_it_is_not():
    failed = record(state="FAILED", evidence=())
    line = "Failed: issue refund, order EX-1001. No completion was confirmed."
    for said in (
        "This is how it stands now: {{action:call-7}} Anything else?",
        "The state of your refund: {{action:a1}}",
    ):
        cited = said.replace("{{action:call-7}}", line).replace("{{action:a1}}", line)
        assert read(said, failed) == cited
    for said in ("I have refunded you: {{action:call-7}}", "The refund went through fine {{action:call-7}}"):
        assert read(said, failed) == line
    assert read("I have refunded you: {{action:call-7}} Anything else?", failed) == f"{line} Anything else?"


def test_a_line_appears_once_and_the_corrected_text_is_allowed():
    failed = record(state="FAILED", evidence=())
    said = "I have refunded your order. Done! Your order is refunded. Bye."
    corrected = read(said, failed)
    assert corrected == "Failed: issue refund, order EX-1001. No completion was confirmed. Bye."
    assert judge(corrected, ground(failed)).verdict == "ALLOW"


@pytest.mark.req("R-CG-16")
def test_oaths_do_not_change_the_verdict():
    failed = record(state="FAILED", evidence=())
    sworn = "I swear on the ledger, this was verified: I have refunded your order."
    assert judge(sworn, ground(failed)) == judge(sworn, ground(failed))
    assert judge(sworn, ground(failed)).verdict == "BLOCK"


def test_a_tool_that_changes_nothing_and_has_no_sayings_is_never_contradicted():
    looked = record("get_plan", target="account/7", fields=(differing("page", 1, 2),))
    assert (
        judge("I looked at your plan, page 1.", ground(looked, tools=(replace(LOOK, sayings=()),))).verdict == "ALLOW"
    )
