"""The conditions of a release: one order for ready actions, claims and starts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from approvals.execution.rules.conditions import (
    ASKED_AGAIN,
    AT_START,
    WAITED_FOR,
    ApprovalState,
    Condition,
    DecisionState,
    NotRead,
    ReleaseState,
    refusal_at_start,
    unmet_conditions,
)
from approvals.policy.rules import allowed_hours
from approvals.voting.rules import binding, quorum
from ledger.record.rules.refusals import Refused

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
AT_NIGHT = quorum.ApprovalTerms(hours=(allowed_hours.read({"from": "22:00", "to": "06:00"}),))
APPROVED = ApprovalState(refusal=None, is_sealed=True, terms={})
READY = ReleaseState(
    at=NOW,
    maintenance=False,
    record=None,
    agent=None,
    contract_in_force=True,
    approval=APPROVED,
    frozen=False,
    unwinding=False,
    repeated=False,
    blocks_until=None,
    unverifiable=False,
    reserved=False,
    log_late=False,
    decision=DecisionState(policy_changed=False, refusal=None),
    needs_reading=False,
)


class Fault(Refused):
    """Something is wrong."""

    code = "FAULT"


BROKEN = {
    Condition.MAINTENANCE: ({"maintenance": True}, "MAINTENANCE"),
    Condition.RECORD: ({"record": Fault()}, "FAULT"),
    Condition.AGENT: ({"agent": Fault()}, "FAULT"),
    Condition.CONTRACT: ({"contract_in_force": False}, "CONTRACT_CHANGED"),
    Condition.APPROVAL: ({"approval": replace(APPROVED, refusal=binding.ApprovalExpired())}, "APPROVAL_EXPIRED"),
    Condition.SEAL: ({"approval": replace(APPROVED, is_sealed=False)}, None),
    Condition.FREEZE: ({"frozen": True}, "TARGET_FROZEN"),
    Condition.UNWINDING: ({"unwinding": True}, "RUN_TAKEN_BACK"),
    Condition.OPEN_REPEAT: ({"repeated": True}, "DUPLICATE_BLOCKED"),
    Condition.BACK_OFF: ({"blocks_until": NOW + timedelta(seconds=1)}, None),
    Condition.VERIFICATION: ({"unverifiable": True}, "SYSTEM_UNVERIFIABLE"),
    Condition.LOG: ({"log_late": True}, None),
    Condition.CLAIM: ({"reserved": True}, None),
    Condition.POLICY: ({"decision": DecisionState(policy_changed=True, refusal=None)}, "POLICY_CHANGED"),
    Condition.VOTES: ({"decision": DecisionState(policy_changed=False, refusal=Fault())}, "FAULT"),
    Condition.HOURS: ({"approval": replace(APPROVED, terms=AT_NIGHT.document())}, "OUTSIDE_HOURS"),
    Condition.READING: ({"needs_reading": True}, None),
}


def test_an_action_for_which_every_condition_holds_is_released():
    assert list(unmet_conditions(READY)) == []
    assert refusal_at_start(READY) is None


def test_an_action_that_nobody_had_to_be_asked_about_needs_no_approval():
    assert list(unmet_conditions(replace(READY, approval=None))) == []


@pytest.mark.parametrize("condition", Condition)
def test_each_condition_alone_keeps_an_action_from_being_released(condition: Condition):
    changes, _ = BROKEN[condition]
    assert list(unmet_conditions(replace(READY, **changes))) == [condition]


@pytest.mark.req("R-AP-24")
@pytest.mark.parametrize("condition", AT_START)
def test_a_start_is_refused_by_each_of_its_conditions_under_its_own_code(condition: Condition):
    changes, code = BROKEN[condition]
    refusal = refusal_at_start(replace(READY, **changes))
    assert refusal is not None
    assert refusal.code == code


def test_the_refusal_is_that_of_the_first_condition_that_does_not_hold():
    for number, first in enumerate(AT_START):
        changes, code = BROKEN[first]
        for later in AT_START[number + 1 :]:
            if BROKEN[later][0].keys() & changes.keys():
                continue
            refusal = refusal_at_start(replace(READY, **BROKEN[later][0] | changes))
            assert refusal is not None
            assert refusal.code == code


def test_what_is_not_approved_waits_for_people_and_not_for_the_seal():
    waiting = ApprovalState(refusal=binding.ApprovalRequired(), is_sealed=False, terms={})
    assert list(unmet_conditions(replace(READY, approval=waiting))) == [Condition.APPROVAL]


def test_a_condition_whose_values_were_not_read_never_counts_as_met():
    unread = replace(READY, log_late=None, decision=None, needs_reading=None)
    for condition in (Condition.LOG, Condition.POLICY, Condition.VOTES, Condition.READING):
        with pytest.raises(NotRead):
            list(unmet_conditions(unread, [condition]))


def test_every_condition_is_waited_for_or_settled_by_a_claim():
    settled = {*ASKED_AGAIN, Condition.READING}
    assert set(Condition) == set(WAITED_FOR) | settled
    assert not set(WAITED_FOR) & settled


def test_a_start_leaves_out_only_what_a_grant_bears_out():
    left_out = set(Condition) - set(AT_START)
    assert left_out == {Condition.SEAL, Condition.BACK_OFF, Condition.LOG, Condition.CLAIM, Condition.READING}
