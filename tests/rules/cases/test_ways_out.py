"""Ways out: every state that an action can rest in has an owner and a control."""

from __future__ import annotations

from itertools import product

import pytest

from ledger.record.rules.lifecycle import OPEN, State
from reviews.cases.rules.resolutions import SETTLED
from reviews.cases.rules.ways_out import PASSED, Control, OpenAction, Owner, WayOut, way_out
from reviews.recovery.rules.recovery_table import ROWS

RESTS = sorted(OPEN - PASSED)
CASES = ("", "OPEN", "AWAITING_SECOND", "RESOLVED")


@pytest.mark.req("R-SM-26")
@pytest.mark.parametrize("state", RESTS)
def test_every_state_that_an_action_rests_in_has_an_owner_and_a_control(state):
    flags = product((False, True), (False, True), (False, True), CASES)
    for settled, asked, is_read, case in flags:
        if state in (State.ACCEPTED, State.PENDING) and not is_read:
            continue  # these are always read
        if state is State.UNKNOWN and not settled and not is_read:
            continue  # and this one until it is settled
        way = way_out(OpenAction(state=state, settled=settled, asked=asked, is_read=is_read, case=case))
        assert way is not None, (settled, asked, is_read, case)
        assert way.controls
        assert way.owner in Owner


def test_a_settled_action_has_no_next_step_unless_disputed():
    for state in SETTLED:
        assert way_out(OpenAction(state=state)) is None
        assert way_out(OpenAction(state=state, case="RESOLVED")) is None
        opened = way_out(OpenAction(state=state, contradicted=True, case="OPEN"))
        stands = way_out(OpenAction(state=state, contradicted=True, case="RESOLVED"))
        assert (opened.controls, stands.controls) == ((Control.SETTLE_CASE,), (Control.REOPEN_CASE,))


@pytest.mark.parametrize("state", sorted(PASSED))
def test_no_row_of_the_recovery_policy_ends_in_a_transient_state(state):
    assert not [row.id for row in ROWS for path in row.paths if path and path[-1] is state]
    assert way_out(OpenAction(state=state)) == WayOut(owner=Owner.CONSOLE, controls=())
