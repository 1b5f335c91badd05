"""Steps: what entering a state writes, wherever the lifecycle allows it to be entered from."""

from __future__ import annotations

import pytest

from ledger.record.rules.entry import amend
from ledger.record.rules.lifecycle import TRANSITIONS, State
from reviews.verification.rules.steps import KINDS, apply_changes, entry_changes
from tests.support.verification_runs import LATER, LEDGER, entry, fits

WAYS = [
    "EXECUTING PENDING COMMITTED RECONCILED_SUCCESS",
    "EXECUTING PENDING COMMITTED RECONCILIATION_FAILED REVIEW_REQUIRED ABANDONED",
    "EXECUTING ACCEPTED PENDING FAILED VALIDATED EXECUTING",
    "EXECUTING UNKNOWN PENDING COMMITTED PARTIALLY_COMMITTED COMPENSATING COMPENSATED",
    "EXECUTING PENDING COMMITTED PARTIALLY_COMMITTED FORWARD_RECOVERY RECONCILED_SUCCESS",
    "EXECUTING PENDING VERIFICATION_TIMEOUT UNKNOWN REVIEW_REQUIRED PENDING",
    "EXECUTING PENDING VERIFICATION_TIMEOUT COMPENSATING COMPENSATION_FAILED REVIEW_REQUIRED",
    "EXECUTING PENDING VERIFICATION_TIMEOUT FORWARD_RECOVERY FAILED",
    "EXECUTING UNKNOWN RECONCILIATION_FAILED ROLLED_BACK",
    "EXECUTING UNKNOWN RECONCILIATION_FAILED COMPENSATING REVIEW_REQUIRED",
    "EXECUTING UNKNOWN RECONCILED_SUCCESS",
]


@pytest.mark.req("R-LE-04", "R-LE-12")
@pytest.mark.parametrize("way", WAYS)
def test_the_three_statuses_match_the_state_along_every_path(way):
    here, *rest = map(State, way.split())
    snapshot = entry(here)
    for state in rest:
        assert (here, state) in TRANSITIONS
        snapshot = amend(snapshot, entry_changes(state, snapshot, at=LATER))
        fits(state, snapshot)
        here = state


def test_every_state_after_the_start_can_be_entered():
    walked = {State(one) for way in WAYS for one in way.split()}
    assert walked == set(State) - {State.PROPOSED}
    assert set(LEDGER) == set(State)


def test_every_state_that_a_run_can_enter_has_an_event_kind():
    assert len(set(KINDS.values())) == len(KINDS)


def test_changes_replace_only_the_named_fields_of_a_block():
    before = entry()
    after = apply_changes(before, {"execution": {"status": "FAILED"}, "recovery": {"review_id": "c-1"}})
    assert after["execution"] == before["execution"] | {"status": "FAILED"}
    assert after["recovery"] == {"review_id": "c-1"}
    assert before["execution"]["status"] == "PENDING"
