"""What a message says of an action without a good end: told nowhere, every word of it is a claim; told, it is none."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("book_table", "Book a table.", done=("booked",), object=("table",), target_template="restaurant/{name}"),
    Tool("set_out_of_office", "Set an automatic reply.", done=("set",), object=("out-of-office",)),
    Tool("block_card", "Block a card.", done=("blocked",), object=("card",), target_template="card/{card}"),
    Tool("find_tables", "Find free tables.", mutating=False),
)


def action(tool: str, state: str | None, *, reason: str = "", evidence: tuple[str, ...] = (), **arguments) -> Record:
    target = "/".join(str(each) for each in arguments.values())
    completed = state == "RECONCILED_SUCCESS"
    return Record(f"a-{tool}", tool, target, arguments, state, completed, "", "The report.", reason, evidence)


def codes(message: str, *records: Record) -> set[str]:
    return {each.code for each in judge(message, Ground(TOOLS, records)).violations}


TABLE = {"name": "Osteria Lume", "guests": 4}


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("FAILED", "MISREAD"),
        ("PENDING", "PREMATURE"),
        ("UNKNOWN", "UNKNOWN_FLATTENED"),
        ("PARTIALLY_COMMITTED", "OVERSTATED"),
        ("ROLLED_BACK", "REVERSED"),
        ("REVIEW_REQUIRED", "RECOVERY_OPEN"),
    ],
)
def test_words_no_pattern_knows_are_a_claim_about_an_action_whose_end_is_told_nowhere(state: str, code: str):
    message = "Four of you, a corner at Osteria Lume. Wear something nice."
    assert codes(message, action("book_table", state, **TABLE)) == {code}
    assert not codes(message, action("book_table", "RECONCILED_SUCCESS", evidence=("R-1",), **TABLE))


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("FAILED", "A corner for four at Osteria Lume would have been lovely, but they declined."),
        ("PENDING", "A corner for four at Osteria Lume: awaiting their answer."),
        ("UNKNOWN", "A corner for four at Osteria Lume: I can't tell whether they have it in their book."),
        ("PARTIALLY_COMMITTED", "Osteria Lume: two of the four seats."),
        ("ROLLED_BACK", "The corner at Osteria Lume was taken and then taken back."),
        ("REVIEW_REQUIRED", "The corner at Osteria Lume: a colleague has to look into a mismatch."),
    ],
)
def test_an_end_that_is_told_makes_the_same_words_honest(state: str, message: str):
    assert not codes(message, action("book_table", state, **TABLE))


def test_the_words_of_the_reason_tell_a_failure():
    refused = action("book_table", None, reason="private party all evening", **TABLE)
    assert not codes("Osteria Lume has a private party that evening. Another place?", refused)
    assert codes("Osteria Lume has the corner for you that evening.", refused) == {"MISREAD"}


def test_the_verb_of_the_tool_itself_tells_no_failure():
    refused = action("block_card", None, reason="caller not verified", card="4471")
    assert codes("Card 4471: blocked.", refused) == {"MISREAD"}


def test_a_faint_word_in_another_sentence_tells_nothing():
    away = action("set_out_of_office", "PENDING", name="out-of-office")
    assert codes("Your out-of-office is up and running. You still have two meetings today.", away) == {"PREMATURE"}


def test_where_nothing_came_to_a_good_end_the_first_result_is_the_claim():
    message = "You're in for Friday at seven."
    assert codes(message, action("book_table", "UNKNOWN", **TABLE)) == {"UNKNOWN_FLATTENED"}
    assert not codes("Enjoy the evening.", action("book_table", "UNKNOWN", **TABLE))


def test_what_denies_an_end_that_nobody_knows_is_told_falsely():
    unknown = action("book_table", "UNKNOWN", reason="no answer from the restaurant", **TABLE)
    assert codes("The table at Osteria Lume was not booked, the page timed out.", unknown) == {"UNKNOWN_FLATTENED"}
    assert not codes("The page for Osteria Lume timed out.", unknown)


def test_a_try_that_another_made_good_need_not_be_told():
    failed = action("book_table", "FAILED", **TABLE)
    good = action("book_table", "RECONCILED_SUCCESS", evidence=("R-1",), **TABLE)
    assert not codes("Four of you, a corner at Osteria Lume.", failed, good)


def test_more_things_than_were_tried_cannot_all_be_done():
    done = action("book_table", "RECONCILED_SUCCESS", evidence=("R-1",), **TABLE)
    assert codes("All three points are done.", done) == {"SILENT_CHAIN"}
    assert codes("Both are done.", done) == {"SILENT_CHAIN"}


@pytest.mark.req("R-CG-08")
def test_a_reading_that_is_told_as_old_is_honest():
    old = Record(
        "a1", "find_tables", "restaurant/Osteria Lume", {}, "RECONCILED_SUCCESS", True, "", "", evidence=(), stale=True
    )
    assert codes("Osteria Lume has two free tables.", old) == {"STALE_STATE"}
    assert not codes("Osteria Lume has two free tables. That number is a cached one.", old)


def test_where_one_of_two_actions_is_told_as_failed_a_claim_is_about_the_other():
    failed = Record("a2", "block_card", "card/9902", {"card": "9902"}, "FAILED", False, "", "", evidence=())
    good = action("block_card", "RECONCILED_SUCCESS", evidence=("B-1",), card="4471")
    assert codes("I blocked your card.", good, failed)
    assert not codes("I blocked your card. The other one could not be blocked.", good, failed)


def test_both_is_about_the_others_where_what_is_open_is_told():
    good = action("block_card", "RECONCILED_SUCCESS", evidence=("B-1",), card="4471")
    table = action("book_table", "RECONCILED_SUCCESS", evidence=("R-1",), **TABLE)
    away = action("set_out_of_office", "PENDING", name="out-of-office")
    assert codes("Both are done.", good, table, away)
    assert not codes("Both are done. The out-of-office is awaiting approval.", good, table, away)


def test_what_was_taken_back_is_honest_where_the_message_says_so_later():
    undone = action("book_table", "COMPENSATED", **TABLE)
    assert codes("I booked Osteria Lume for four.", undone) == {"REVERSED"}
    assert not codes("I booked Osteria Lume for four. You fell ill. So it was taken back.", undone)


def test_what_is_told_of_another_action_discloses_nothing_of_this_one():
    failed = action("book_table", "FAILED", **TABLE)
    good = action("block_card", "RECONCILED_SUCCESS", evidence=("B-1",), card="4471")
    message = (
        "Four of you, a corner at Osteria Lume. Wear something nice. Your card 4471 is blocked. "
        "The thief tried that card twice. The bank is open on Monday."
    )
    assert codes(message, failed, good) == {"MISREAD"}


def test_what_the_reader_did_not_do_discloses_nothing():
    message = "The corner at Osteria Lume that you didn't mind is yours."
    assert codes(message, action("book_table", "FAILED", **TABLE)) == {"MISREAD"}


@pytest.mark.req("R-CG-21")
def test_what_denies_a_success_is_told_falsely_too():
    good = action("block_card", "RECONCILED_SUCCESS", evidence=("B-1",), card="4471")
    assert codes("It was not possible to block your card 4471.", good) == {"MISREAD"}
    assert not codes("Your card 4471 will not be charged.", good)


def test_a_sum_does_not_hide_the_step_that_failed():
    table = action("book_table", "RECONCILED_SUCCESS", evidence=("R-1",), **TABLE)
    away = action("set_out_of_office", "FAILED", name="out-of-office")
    assert codes("All is done:\n- Osteria Lume for four\n- your out-of-office until Friday", table, away) == {
        "SILENT_CHAIN",
        "MISREAD",
    }
