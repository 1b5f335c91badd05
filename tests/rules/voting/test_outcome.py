"""What an agent is told of a decision: exactly what it was, and never more than that."""

from __future__ import annotations

import pytest

from approvals.voting.rules.outcome import NEXT, Decision, decision_outcome
from ledger.record.rules.lifecycle import states


def test_every_state_of_an_approval_has_a_decision_and_every_decision_a_next_step():
    assert {decision_outcome(state).decision for state in states("approval")} <= set(NEXT) == set(Decision)


@pytest.mark.parametrize("state", ["PREPARING", "REQUESTED"])
def test_waiting_is_not_reported_as_a_denial(state):
    told = decision_outcome(state)
    assert told.waiting
    assert (told.decision, told.next) == (Decision.WAITING, "WAIT")
    assert "nobody has denied it" in told.advice


@pytest.mark.parametrize("state", ["APPROVED", "CONSUMED"])
def test_an_approval_is_never_reported_as_execution(state):
    """Trap: "approved" covering failure."""
    told = decision_outcome(state)
    assert (told.decision, told.next) == (Decision.APPROVED, "READ_REPORT")
    assert "does not mean that it has" in told.advice


@pytest.mark.parametrize(
    ("state", "code", "wanted"),
    [
        ("REJECTED", "REJECTED", Decision.REJECTED),
        ("REJECTED", "CHANGES_REQUESTED", Decision.CHANGES_REQUESTED),
        ("EXPIRED", "APPROVAL_EXPIRED", Decision.EXPIRED),
        ("EXPIRED", "PROVIDER_OUTAGE", Decision.EXPIRED),
        ("VOIDED", "PREFLIGHT_REFUSED", Decision.REFUSED_BY_PREFLIGHT),
        ("VOIDED", "SUPERSEDED", Decision.SUPERSEDED),
        ("VOIDED", "CANCELLED", Decision.CANCELLED),
        ("APPROVED", "CANCELLED", Decision.CANCELLED),
        ("VOIDED", "SOMETHING_NEW", Decision.VOIDED),
    ],
)
def test_each_end_of_an_approval_has_its_own_decision(state, code, wanted):
    assert decision_outcome(state, ended={"code": code, "reason": "Why."}).decision is wanted


def test_the_reason_of_a_reviewer_is_shown_where_the_policy_allows_it():
    """Trap: a reject reason that nobody can read."""
    end = {"code": "REJECTED", "reason": "The customer has been refunded already.", "approval_id": "1"}
    assert decision_outcome("REJECTED", ended=end).reason == "The customer has been refunded already."
    assert decision_outcome("REJECTED", ended=end, reasons=False).reason == ""
    found = {"code": "PREFLIGHT_REFUSED", "reason": "The charge is disputed.", "conditions": [{"name": "open"}]}
    told = decision_outcome("VOIDED", ended=found, reasons=False)
    assert told.reason == "The charge is disputed."
    assert told.more == {"conditions": [{"name": "open"}]}


def test_a_replaced_request_points_to_its_successor():
    assert decision_outcome("VOIDED", superseded=True).next == "FOLLOW"
    assert decision_outcome("REJECTED", ended={"code": "REJECTED"}, superseded=True).decision is Decision.REJECTED
