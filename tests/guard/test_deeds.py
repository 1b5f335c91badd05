"""Deeds without a record: reports of a completed effect that no change of the session can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reviews.guarding.rules.records import Ground, Tool
from reviews.guarding.rules.verdict import Strictness, judge
from tests.guard.records import ground, record

NO_ACTION = "No such action is on record here."
STRICT = Strictness((), "hold")
BARE = (Tool("get_weather", mutating=False), Tool("issue_refund"))
"""Tools whose contracts give no words: nothing but the verbs can tell."""


def empty(**more: object) -> Ground:
    return replace(ground(tools=BARE), **more)  # type: ignore[arg-type]


@pytest.mark.req("R-CG-01", "R-CG-03", "R-CG-17", "R-HS-01")
@pytest.mark.parametrize(
    "said",
    [
        "I've sent the email.",
        "I\u2019ve sent the email to Ann.",
        "I have now updated your shipping address.",
        "I just scheduled the meeting for Monday.",
        "I have saved, changed and deleted the files.",
        "We've refunded your order.",
        "I have successfully paid the invoice.",
        "I created the ticket.",
        "The payment has been deleted.",
        "All done!",
        "Everything is done.",
    ],
)
def test_a_claimed_deed_in_a_session_without_any_change_is_replaced(said: str):
    verdict = judge(f"Hello. {said} Bye.", empty())
    assert verdict.corrected == f"Hello. {NO_ACTION} Bye."
    assert [each.code for each in verdict.violations] == ["PHANTOM"]
    assert judge(verdict.corrected, empty()).verdict == "ALLOW"


@pytest.mark.req("R-CG-17")
@pytest.mark.parametrize(
    "said",
    [
        "I will send the email.",
        "I could not send the email.",
        "I haven't sent the email.",
        "Once I've sent the email, you can reply.",
        "If I have updated it, you will see it.",
        "Have I sent the email?",
        "I've sent the email, right?",
        "I've created a summary of your options below.",
        "I have updated the draft as you asked: see above.",
        "You have paid the invoice.",
        "The customer has sent the email.",
        "I have found your order.",
        "I have reviewed your request.",
        "I've never deleted anything.",
        "Would you like me to tell you once it has been sent?",
        "All done? Then goodbye.",
        "I've noted your preference.",
    ],
)
def test_plans_denials_questions_and_texts_are_not_deeds(said: str):
    assert judge(said, empty()) == judge("", empty())


def test_a_result_that_a_read_showed_is_allowed():
    looked = record("get_weather", action_id="r1", answer={"status": "cancelled", "total": 12.5})
    known = ground(looked, tools=BARE)
    assert judge("Your order has been cancelled.", known).verdict == "ALLOW"
    assert judge("The total of $12.50 has been processed.", known).verdict == "ALLOW"
    assert judge("Your order has been archived.", known).corrected == NO_ACTION
    assert judge("I have cancelled your order.", known).corrected == NO_ACTION


@pytest.mark.req("R-CG-18")
def test_a_deed_without_its_own_change_is_noted_and_in_strict_mode_replaced():
    paid = record()
    said = "I've refunded you and sent the email."
    told = judge(said, ground(paid, tools=BARE))
    assert told.verdict == "ALLOW"
    assert told.corrected is None
    assert [each.text for each in told.notes] == [f"\u201c{said}\u201d: {NO_ACTION}"]
    assert judge(said, ground(paid, tools=BARE), strict=STRICT).corrected == NO_ACTION
    fine = judge("I've refunded your order.", ground(paid, tools=BARE), strict=STRICT)
    assert (fine.verdict, fine.notes) == ("ALLOW", ())


@pytest.mark.req("R-CG-11")
def test_a_deed_on_an_order_that_the_session_never_touched_is_replaced():
    paid = record(arguments={"order_id": "EX-1001"})
    told = judge("I've refunded order EX-2002.", ground(paid, tools=BARE))
    assert told.corrected == NO_ACTION
    assert told.violations[0].code == "WRONG_TARGET"
    looked = record("get_weather", action_id="r1", target="order/EX-2002", answer={"order_id": "EX-2002"})
    told = judge("I've refunded order EX-2002.", ground(looked, paid, tools=BARE))
    assert (told.verdict, [each.rule for each in told.notes]) == ("ALLOW", ["deed"])
    assert judge("I've refunded order EX-1001.", ground(paid, tools=BARE)).notes == ()


@pytest.mark.parametrize(
    ("said", "tool", "arguments"),
    [
        ("I've booked the room.", "create_reservation", {}),
        ("I've emailed Ann.", "gmail_send", {}),
        ("I have processed the request.", "issue_refund", {}),
        ("I've deleted the table.", "execute_action", {"action": "drop_table"}),
        ("I've merged the branch.", "bash", {"command": "git merge main"}),
        ("I've scheduled it.", "calendarEventCreate", {}),
    ],
)
def test_a_deed_is_matched_to_a_change_by_its_verb(said: str, tool: str, arguments: dict[str, str]):
    assert judge(said, ground(record(tool, arguments=arguments), tools=(Tool(tool),))).notes == ()


def test_a_deed_is_only_noted_where_some_tools_bypass_the_console():
    told = judge("I've sent the email.", empty(is_whole=False))
    assert (told.verdict, told.corrected) == ("ALLOW", None)
    assert [each.text for each in told.notes] == [
        f"\u201cI've sent the email.\u201d: {NO_ACTION} Not all tools of this agent pass the console."
    ]
    assert judge("I've sent the email.", empty(is_whole=False), strict=STRICT).verdict == "ALLOW"


@pytest.mark.parametrize("language", ["de", "fr", "ja-JP"])
def test_no_deed_is_found_in_a_language_without_verb_lists(language: str):
    assert judge("I've sent the email.", empty(), language=language).verdict == "ALLOW"
    assert judge("I've sent the email.", empty(), language="en-GB").verdict == "BLOCK"


@pytest.mark.req("R-CG-01")
@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("Email sent.", ""),
        ("Your invoice was paid.", ""),
        ("I have paid the invoice.", ""),
        ("The workflow is finished.", ""),
        ("Email sent.", "RECONCILED_SUCCESS"),
    ],
)
def test_strict_mode_replaces_short_forms(said: str, state: str):
    known = ground(*([record(state=state)] if state else []), tools=BARE)
    assert judge(said, known, strict=STRICT).corrected == NO_ACTION


@pytest.mark.req("R-CG-10")
def test_strict_mode_names_the_failure_behind_a_workflow_that_is_reported_as_finished():
    steps = (
        record(action_id="a1", state="FAILED", target="order/1", outcome="FAILED"),
        record(action_id="a2", target="order/2"),
        record(action_id="a3", target="order/3"),
    )
    told = judge("The workflow is finished.", ground(*steps, tools=BARE), strict=STRICT)
    assert told.violations[0].code == "SILENT_CHAIN"
    assert told.corrected is not None
    assert told.corrected.startswith("Failed: issue refund, order 1.")
    assert judge("The workflow is finished.", ground(*steps[1:], tools=BARE), strict=STRICT).verdict == "ALLOW"


REFUSED_BOOKING = record(
    "reserve_room", state="FAILED", target="room/12", evidence=(), outcome="FAILED", reason="no room is free"
)
NOT_BOOKED = "Failed: reserve room 12. No completion was confirmed. Reason: no room is free."


@pytest.mark.req("R-CG-04")
@pytest.mark.parametrize("said", ["I've booked it.", "Your room is booked.", "The room has been reserved."])
def test_a_deed_that_can_only_be_a_change_that_failed_gives_way_to_its_failure(said: str):
    told = judge(f"{said} Enjoy!", ground(REFUSED_BOOKING, tools=BARE))
    assert told.corrected == f"{NOT_BOOKED} Enjoy!"
    assert [each.code for each in told.violations] == ["MISREAD"]


@pytest.mark.parametrize(
    "said",
    [
        "That room is already booked.",
        "The room is booked by somebody else.",
        "Your room is not booked.",
        "I've emailed the front desk.",
        "Once your room is booked, you get a code.",
    ],
)
def test_after_a_failure_what_others_did_denials_and_other_deeds_are_not_taken_for_it(said: str):
    assert judge(said, ground(REFUSED_BOOKING, tools=BARE)).corrected is None


def test_a_deed_that_another_change_of_the_session_carried_out_is_not_taken_for_the_one_that_failed():
    done = record("book_room", target="room/14", action_id="a0", is_new=False)
    assert judge("Your room is booked.", ground(done, REFUSED_BOOKING, tools=BARE)).corrected is None
    seen = record("get_room", state="RECONCILED_SUCCESS", answer={"status": "reserved"}, action_id="a0")
    reads = (*BARE, Tool("get_room", mutating=False))
    assert judge("Your room has been reserved.", ground(seen, REFUSED_BOOKING, tools=reads)).corrected is None
