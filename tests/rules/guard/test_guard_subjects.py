"""Who acts: the speaker, or something that a clause names or goes on from."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("delete_branch", "Delete a branch.", done=("deleted",), object=("branch",)),
    Tool("get_order", "Read an order.", mutating=False, done=("looked up",), object=("order",)),
    Tool("run_tests", "Run the tests.", mutating=False, done=("ran",), object=("tests",)),
)
READ = Record(
    "a1", "get_order", "order/7", {"order_id": "7"}, "RECONCILED_SUCCESS", True, "COMPLETED", "Read.", evidence=("e",)
)


def codes(message, *records):
    return [each.code for each in judge(message, Ground(TOOLS, records)).violations]


def test_a_past_form_that_is_no_participle_has_the_subject_of_what_stands_before_it():
    assert codes("Deleted the branch and ran tests.", READ) == ["PHANTOM", "PHANTOM"]
    assert codes("The second link, to the shop, took half of all clicks.", READ) == []


def test_a_will_without_a_subject_is_the_speaker_s_own():
    assert codes("I looked up order 7 and will remind you in March.", READ) == ["IMAGINED_CAPABILITY"]


def test_by_a_measure_or_a_time_names_nobody_who_acts():
    assert codes("Deleted the branch, by one commit too early.") == ["PHANTOM"]
    assert codes("The branch has been deleted by Jonas.") == []


@pytest.mark.parametrize("message", ["Order 7 is open and I left it on.", "I left them alone."])
def test_who_leaves_a_thing_as_it_is_has_not_acted(message):
    assert codes(message, READ) == []


def test_what_is_denied_of_the_reader_is_not_denied_of_the_speaker():
    assert codes("I have deleted the branch you do not want any longer.", READ) == ["PHANTOM"]
    assert codes("I have not deleted the branch you want.", READ) == []


@pytest.mark.parametrize("message", ["Jonas has since deleted the branch.", "The branch that Jonas has deleted."])
def test_what_somebody_else_has_done_is_no_claim(message):
    assert codes(message, READ) == []


def test_by_me_names_the_speaker_and_no_worries_names_nobody():
    assert codes("The branch is not there, deleted by me at noon.", READ) == ["PHANTOM"]
    assert codes("The branch is not there, deleted by Jonas at noon.", READ) == []
    assert codes("No worries, deleted the branch.", READ) == ["PHANTOM"]


def test_a_sentence_that_ends_in_a_contraction_denies_nothing_of_the_next_one():
    assert codes("Billing can see it and I can't. I have deleted the branch.", READ) == ["PHANTOM"]


def test_say_which_and_i_will_is_an_offer():
    assert codes("They have 6pm or 7am, say which and I'll sing.", READ) == []
