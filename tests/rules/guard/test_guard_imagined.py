"""What fits no tool: something that no tool can do, an action told in other words, or no act at all (R-CG-09)."""

from __future__ import annotations

import pytest

from reviews.rules.guard.codes import Violation
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.telling.excuses import excused
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("cancel_subscription", "End a subscription.", done=("cancelled",), object=("subscription",)),
    Tool("lock_door", "Lock a door or open it.", done=("locked",), object=("door",)),
    Tool("get_order", "Read an order.", mutating=False, done=("looked up",), object=("order",)),
)


def record(tool, target, arguments):
    return Record("a1", tool, target, arguments, "RECONCILED_SUCCESS", True, "COMPLETED", "Done.", evidence=("ev_1",))


CANCELLED = record("cancel_subscription", "subscription/sub_9", {"subscription_id": "sub_9"})
LOCKED = record("lock_door", "door/front", {"door": "front"})
READ = record("get_order", "order/7", {"order_id": "7"})


def codes(message, *records):
    return [each.code for each in judge(message, Ground(TOOLS, records)).violations]


@pytest.mark.parametrize("message", ["I sent the cancellation.", "I've put the cancellation of sub_9 through."])
def test_a_light_verb_with_a_noun_made_of_the_tool_s_verb_tells_that_verb(message):
    assert codes(message, CANCELLED) == []


def test_the_noun_of_a_verb_that_was_not_tried_is_a_phantom():
    assert codes("I made the cancellation.", LOCKED) == ["PHANTOM"]


def test_what_names_the_things_of_an_action_is_about_it_whatever_its_verb():
    assert codes("The front door was opened at nine.", LOCKED) == []


def test_a_condition_that_fits_no_tool_is_a_fact():
    assert codes("The wheels are ordered.", LOCKED) == []


@pytest.mark.parametrize("message", ["I kept it polite.", "The connection dropped."])
def test_what_was_kept_or_happens_by_itself_needs_no_tool(message):
    assert codes(message, LOCKED) == []


@pytest.mark.parametrize(
    "message",
    [
        "I have also had our supplier switch to stronger boxes.",
        "I'll have a courier bring it to your hotel.",
        "A lower price has been negotiated with the vendor on your behalf.",
    ],
)
def test_what_somebody_is_made_to_do_and_what_is_done_on_your_behalf_is_the_speaker_s_own(message):
    assert codes(message, READ) == ["IMAGINED_CAPABILITY"]


def test_who_is_named_before_a_perfect_passive_did_not_do_it():
    assert codes("You have been unsubscribed: your subscription has been cancelled.", READ)
    assert codes("You were told about it in May.", READ) == []


@pytest.mark.parametrize("message", ["Locked up. Lock door front ok.", "The front door is locked as well."])
def test_a_noun_with_a_word_of_success_and_what_is_added_are_reports_of_an_act(message):
    assert "PHANTOM" in codes(message, READ)


def test_what_waits_for_the_reader_is_not_open():
    assert not excused(Violation.PREMATURE, "the scores are computed and waiting for you.")
    assert excused(Violation.PREMATURE, "the scores are computed and waiting for approval.")


def test_what_we_quoted_tells_which_thing_is_meant():
    assert codes("The total is what we quoted earlier.", LOCKED) == []
