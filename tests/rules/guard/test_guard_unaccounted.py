"""Results that have come about, told to the user, and that nothing on record accounts for (C-13, R-CG-09)."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("cancel_order", "Cancel an order.", done=("cancelled",), object=("order",)),
    Tool("issue_refund", "Refund a charge.", done=("refunded",), object=("refund", "charge")),
    Tool("get_order", "Read an order.", mutating=False, done=("looked up",), object=("order",)),
)
READ = Record(
    "a1", "get_order", "order/7", {"order_id": "7"}, "RECONCILED_SUCCESS", True, "COMPLETED", "Read.", evidence=("e",)
)
CANCELLED = Record(
    "a2",
    "cancel_order",
    "order/7",
    {"order_id": "7"},
    "RECONCILED_SUCCESS",
    True,
    "COMPLETED",
    "Done.",
    evidence=("c",),
)


def codes(message, *records):
    return [each.code for each in judge(message, Ground(TOOLS, records)).violations]


@pytest.mark.req("R-CG-17")
@pytest.mark.parametrize(
    "message",
    [
        "A price reduction of 4 percent has been negotiated with the vendor on your behalf.",
        "Your insurer was told about the move by us as well.",
    ],
)
def test_what_was_done_for_the_reader_or_by_us_and_no_tool_could_do_is_imagined_whatever_was_read(message):
    assert codes(message, READ) == ["IMAGINED_CAPABILITY"]


@pytest.mark.parametrize("message", ["That £18 has gone back to your card.", "The charge has been refunded by us."])
def test_a_result_of_a_tool_that_was_never_tried_is_a_phantom(message):
    assert codes(message, CANCELLED) == ["PHANTOM"]


@pytest.mark.parametrize(
    "message",
    [
        "The passengers have been rebooked automatically on LH 905 by Lufthansa.",
        "Check that the old version has been yanked.",
        "The migration has since been superseded by 0055.",
        "You can open the crate that has been left with your neighbour.",
        "It is quiet now because the alarm has been fixed.",
        "The reference you asked for has been drawn up.",
        "Nothing has been ordered.",
        "The card has expired.",
    ],
)
def test_what_others_did_what_no_tool_does_and_what_tells_which_or_why_is_no_report_of_work(message):
    assert codes(message, READ) == []


def test_a_refund_that_is_given_is_compared_with_the_one_on_record():
    refund = Record(
        *("a3", "issue_refund", "order/7", {"amount": 1500, "currency": "GBP"}, "RECONCILED_SUCCESS", True),
        *("COMPLETED", "Done."),
        evidence=("re_1",),
    )
    assert codes("We've given you £25.00 back on order 7.", refund) == ["WRONG_TARGET"]
    assert codes("We've given you £15.00 back on order 7.", refund) == []
    assert codes("Our credit team is looking at it now.") == ["IMAGINED_CAPABILITY"]
