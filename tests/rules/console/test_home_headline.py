"""The sentences at the top of Home say what waits for the reader, and that nothing is wrong only where nothing is."""

from __future__ import annotations

import pytest

from console.home.headline import QUIET, HomeFacts, describe_home, describe_standing


def headline_of(mine=None, *, is_cut_off=False, stake="", **standing):
    return describe_home(HomeFacts(**standing), mine=mine or {}, is_cut_off=is_cut_off, stake=stake)


def test_nothing_is_wrong_where_nothing_is_counted():
    assert QUIET == "Nothing is wrong on record: no open case or incident, no unknown outcome, no alert."
    assert describe_standing(HomeFacts(requests=3)) == QUIET
    assert headline_of() == f"Nothing waits for you. {QUIET}"


@pytest.mark.parametrize(
    ("counted", "sentence"),
    [
        ({"cases": 1}, "1 case needs a person."),
        ({"cases": 1200, "incidents": 1}, "1,200 cases and 1 incident need a person."),
        ({"unknown": 1}, "1 outcome is not known."),
        ({"unknown": 3, "alerts": 1}, "3 outcomes are not known. 1 alert is open."),
        ({"failing": ("shop", "mail")}, "Readings of shop, mail fail."),
        ({"stranded": 1, "flagged": 2}, "1 request has no eligible approver. 2 agents are flagged."),
        ({"undelivered": 1}, "1 message could not be delivered."),
    ],
)
def test_what_is_wrong_is_counted_in_sentences(counted, sentence):
    assert describe_standing(HomeFacts(**counted)) == sentence
    assert headline_of(**counted) == f"Nothing waits for you. {sentence}"


@pytest.mark.parametrize(
    ("mine", "counted", "sentence"),
    [
        ({"approval": 1}, {"requests": 1}, f"1 approval waits for you. {QUIET}"),
        (
            {"approval": 5},
            {"requests": 5, "cases": 7, "incidents": 2},
            "5 approvals wait for you. 7 cases and 2 incidents need a person.",
        ),
        (
            {"case": 7, "incident": 2, "confirmation": 1},
            {"requests": 5, "cases": 7, "incidents": 2},
            "1 confirmation, 7 cases and 2 incidents wait for you. 5 requests wait for approval.",
        ),
        (
            {"approval": 1, "case": 7},
            {"requests": 2, "cases": 9},
            "1 approval and 7 cases wait for you. In all, 2 requests wait for approval. In all, 9 cases need a person.",
        ),
        (
            {"case": 6},
            {"requests": 5, "cases": 7},
            "6 cases wait for you. 5 requests wait for approval. In all, 7 cases need a person.",
        ),
        ({}, {"requests": 1}, f"Nothing waits for you. 1 request waits for approval. {QUIET}"),
    ],
)
def test_what_waits_for_the_reader_comes_first_and_others_are_told_only_where_there_are_more(mine, counted, sentence):
    assert headline_of(mine, **counted) == sentence


def test_a_list_that_may_be_cut_off_is_told_as_at_least():
    assert headline_of({"case": 98, "incident": 2}, is_cut_off=True, cases=400, incidents=2) == (
        "At least 100 items wait for you. In all, 400 cases need a person."
    )


def test_the_money_at_stake_follows_the_reader_s_own_cases():
    assert headline_of({"case": 2}, stake="423.00 EUR too much", cases=2) == (
        "2 cases wait for you. In your cases and those without an owner: 423.00 EUR too much."
    )
