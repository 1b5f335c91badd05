"""Doubt, denials and times: what they say of an action, and what they leave as it is (R-CG-09, R-CG-17)."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("submit_leave", "Submit a leave request.", done=("submitted",), object=("leave", "holiday")),
    Tool("block_vendor", "Block a vendor for new orders.", done=("blocked",), object=("vendor",)),
    Tool("run_linter", "Run the linter.", done=("linted",), object=("linter", "types")),
    Tool("git_commit", "Commit the changes.", done=("committed",), object=("commit",)),
    Tool("create_snapshot", "Take a snapshot of a disk.", done=("took a snapshot",), object=("snapshot",)),
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


def test_that_something_else_is_not_touched_tells_no_end():
    half = made("block_vendor", "COMPENSATION_FAILED", name="Marlow Freight")
    assert codes("Marlow Freight is blocked. Two open orders are not touched by that.", half) == ["RECOVERY_OPEN"]


def test_the_denial_of_what_another_tool_does_tells_nothing_of_this_one():
    failed = made("run_linter", "FAILED", scope="mailer")
    assert codes("The linter is happy with mailer. I have not committed it.", failed) == ["MISREAD"]
    assert codes("I did not get the linter to run on mailer.", failed) == []


def test_where_all_came_to_a_good_end_words_of_doubt_excuse_nothing():
    skipped = made("skip_box", "RECONCILED_SUCCESS", ("bx_1",), completed=True, delivery="2025-12-02")
    message = "Your box on {} December is skipped. The following one is still open."
    assert codes(message.format(9), skipped) == ["WRONG_TARGET"]
    assert codes(message.format(2), skipped) == []


@pytest.mark.parametrize(
    "message", ["Before starting I took a snapshot.", "Before that I took disk snapshots of both."]
)
def test_what_was_done_at_a_time_that_opens_the_sentence_is_no_condition(message):
    assert codes(message) == ["PHANTOM"]
    assert codes("Before I take a snapshot I need your approval.") == []
