"""Claims about a whole chain of steps, and about what was read and has changed since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("reserve_stock", "Reserve stock for an order.", done=("reserved",), object=("stock",)),
    Tool("issue_invoice", "Issue an invoice.", done=("invoiced", "issued an invoice"), object=("invoice",)),
    Tool("book_courier", "Book a courier.", done=("booked",), object=("courier",)),
    Tool("get_order", "Look up an order.", mutating=False),
)
STEPS = tuple(
    Record(
        f"a{number}",
        tool.name,
        f"order/{number}",
        {},
        "RECONCILED_SUCCESS",
        True,
        "COMPLETED",
        "Done.",
        evidence=("r1",),
    )
    for number, tool in enumerate(TOOLS[:3], 1)
)
READ = Record(
    "a4",
    "get_order",
    "order/EX-17",
    {"order_id": "EX-17"},
    "RECONCILED_SUCCESS",
    True,
    "COMPLETED",
    "Read.",
    evidence=("e",),
)
WHOLE = ("All three steps are complete.", "Everything is done.", "The whole workflow has been completed.")


def codes(message, *records):
    return {each.code for each in judge(message, Ground(TOOLS, records)).violations}


@pytest.mark.req("R-CG-10")
@pytest.mark.parametrize("message", WHOLE)
def test_a_whole_that_is_whole_may_be_told(message):
    assert codes(message, *STEPS) == set()


@pytest.mark.req("R-CG-10")
@pytest.mark.parametrize("message", WHOLE)
@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("state", ["FAILED", "PENDING", "UNKNOWN", "EXECUTING", None])
def test_a_whole_with_a_step_that_failed_or_is_open_is_not_told(message, step, state):
    broken = replace(STEPS[step], state=state, completed=False, code="FAILED", text="It is not done.", evidence=())
    assert codes(message, *STEPS[:step], broken, *STEPS[step + 1 :]) == {"SILENT_CHAIN"}


@pytest.mark.req("R-CG-08", "R-OB-10")
def test_what_was_read_and_has_changed_since_is_not_told_as_it_was():
    message = "Order EX-17 is currently packed."
    assert codes(message, READ) == set()
    assert codes(message, replace(READ, stale=True)) == {"STALE_STATE"}
