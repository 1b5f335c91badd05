"""Doubt: what words of it say of an action, and where they can say nothing (R-CG-09, R-CG-17)."""

from __future__ import annotations

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("submit_leave", "Submit a leave request.", done=("submitted",), object=("leave", "holiday")),
    Tool("skip_box", "Skip a delivery.", done=("skipped",), object=("box", "delivery")),
)


def made(tool, state, evidence=(), completed=False, **arguments):
    return Record(tool, tool, f"{tool}/1", arguments, state, completed, "", "Told.", evidence=evidence)


def codes(message, *records):
    return [each.code for each in judge(message, Ground(TOOLS, records)).violations]


def test_what_is_approved_has_come_to_its_end_and_is_no_word_of_an_open_one():
    pending = made("submit_leave", "PENDING", start="2026-08-10")
    assert codes("Your holiday from 10 August is approved.", pending) == ["PREMATURE"]
    assert codes("Your holiday from 10 August has to be approved by your manager.", pending) == []


def test_where_all_came_to_a_good_end_words_of_doubt_excuse_nothing():
    skipped = made("skip_box", "RECONCILED_SUCCESS", ("bx_1",), completed=True, delivery="2025-12-02")
    message = "Your box on {} December is skipped. The following one is still open."
    assert codes(message.format(9), skipped) == ["WRONG_TARGET"]
    assert codes(message.format(2), skipped) == []
