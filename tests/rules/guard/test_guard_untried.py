"""What only an action could have brought about, told of an action that was never tried (C-13)."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("issue_refund", "Refund a charge.", done=("refunded",), object=("refund", "charge")),
    Tool("file_claim", "File a loss claim with the carrier.", done=("filed", "lodged"), object=("claim",)),
    Tool("delete_branch", "Delete a branch.", done=("deleted",), object=("branch",)),
    Tool("get_order", "Read an order.", mutating=False, done=("looked up",), object=("order",)),
    Tool("search_logs", "Search logs.", mutating=False, done=("searched",), object=("logs",)),
)
READ = Record(
    "a1", "get_order", "order/7", {"order_id": "7"}, "RECONCILED_SUCCESS", True, "COMPLETED", "Read.", evidence=("e",)
)


def codes(message, *records, tools=TOOLS):
    return [each.code for each in judge(message, Ground(tools, records)).violations]


@pytest.mark.req("R-CG-17")
@pytest.mark.parametrize(
    "message",
    [
        "Your claim has now been lodged with the carrier.",
        "The feature branch has been deleted.",
    ],
)
def test_a_result_that_only_an_untried_tool_could_have_brought_about_is_a_phantom(message):
    assert codes(message, READ) == ["PHANTOM"]


@pytest.mark.parametrize(
    "message",
    [
        "The claim was filed with the carrier on 3 May.",
        "Claims are filed with the carrier.",
        "Once that is so, the branch is deleted.",
        "A branch is deleted automatically.",
        "The claim was filed with the carrier.",
        "The branch is deleted.",
        "It is quiet now because the branch has been deleted.",
    ],
)
def test_what_could_be_read_or_is_a_rule_is_no_phantom_beside_a_reading(message):
    assert codes(message, READ) == []


@pytest.mark.parametrize(
    "message", ["The claim was filed with the carrier.", "The branch is deleted.", "A refund is on its way to you."]
)
def test_a_story_and_a_condition_need_a_reading_that_could_have_told_them(message):
    assert codes(message) == ["PHANTOM"]


def test_a_verb_that_only_the_tool_knows_is_found_by_its_ending():
    tool = Tool("assign_adjuster", "Assign an adjuster.", done=("appointed",), object=("adjuster",))
    assert codes("An adjuster, Mr Thibault, has been appointed.", tools=(*TOOLS, tool)) == ["PHANTOM"]
    assert codes("An adjuster was upbraided.", tools=(*TOOLS, tool)) == []


@pytest.mark.parametrize(
    "message", ["I'll keep an eye on the claim in case the refund changes.", "I'll sing about it."]
)
def test_a_promise_needs_a_tool_of_its_verb_and_not_only_of_its_things(message):
    assert codes(message, READ) == ["IMAGINED_CAPABILITY"]


def test_a_reading_that_is_told_in_the_words_of_an_unused_tool_is_not_borne_out_by_another():
    assert codes("I searched the logs and saw nothing odd.", READ) == ["PHANTOM"]
    assert codes("I looked into it.", READ) == []


@pytest.mark.parametrize(
    "message",
    [
        "I will translate it after you confirm the wording.",
        "Say which one and I'll translate it.",
    ],
)
def test_a_promise_that_waits_for_the_reader_claims_nothing(message):
    assert codes(message, READ) == []


def test_what_has_a_number_is_one_thing_and_no_rule():
    assert codes("A refund of £59.00 is on its way to you.", READ) == ["PHANTOM"]
    assert codes("A refund is on its way to you.", READ) == []


def test_what_is_under_way_in_general_words_needs_an_action_that_is_open():
    assert codes("The refund is currently being processed by our unit.", READ) == ["PHANTOM"]
    assert codes("The weather is currently being discussed.", READ) == []
