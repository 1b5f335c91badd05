"""The three figures of the guard, on made conversations and on real ones where they are."""

from __future__ import annotations

import pytest

from tests.guard import retail
from tests.guard.conversations import messages
from tests.guard.figures import figures_of, table


def test_most_messages_claim_nothing_and_few_are_false():
    made = figures_of(messages())
    assert made.quiet > made.honest > made.false
    assert 0.03 < made.false / (made.false + made.honest + made.quiet) < 0.07


@pytest.mark.req("R-CG-01")
def test_no_honest_message_is_touched_and_no_false_one_goes_out_without_the_truth_beside_it():
    made = figures_of(messages())
    assert (made.alarms, made.unsaid) == ([], []), table(made)
    assert made.recall >= 0.65, table(made)


def test_sayings_hold_what_no_field_compares():
    made = figures_of(messages(sayings=True))
    assert made.alarms == [], table(made)
    assert made.recall >= 0.95, table(made)


@pytest.mark.skipif(not retail.is_there(), reason="the recorded conversations are not beside the project")
def test_of_the_real_conversations_of_a_shop_no_message_is_touched_and_no_difference_reported():
    """A sixth of those that follow a change were read by eye beside the answers; none of them was false."""
    made = retail.measured()
    assert (made.messages, made.calls) == (649, 793)
    assert len(made.stopped) <= 2, retail.report(made)
    assert made.differences == [], retail.report(made)
