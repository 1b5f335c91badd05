"""Standing approvals, decided from values: what is offered and covered, what always takes a person, what stops it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from approvals.standing.rules import shapes, standing
from approvals.standing.rules.standing import DecidedAction, PauseReason, StandingBudget, StandingPolicy
from approvals.voting.rules.binding import NotEligible
from approvals.voting.rules.quorum import ApprovalTerms, Ballot, Threshold
from ledger.people.rules.confirmation import SecondPersonNeeded

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
TEMPLATE = "order/{order_id}"
POLICY = StandingPolicy(after=3, irreversible=True)
WELL = DecidedAction(
    action_id="1",
    state="RECONCILED_SUCCESS",
    approval_state="CONSUMED",
    voted=True,
    edited=False,
    broke_glass=False,
    passed=False,
    attempts=1,
    discrepancy="",
    contradicted=False,
    reversed=False,
    follows_up=False,
)


def refund(number: int, amount: int, reason: str = "late", **more: Any) -> dict[str, Any]:
    return {"order_id": f"EX-{number}", "amount": amount, "currency": "EUR", "reason": reason} | more


def scope(arguments: dict[str, Any], **changes: Any) -> shapes.CallScope:
    told = {"agent": "cashier", "agent_version": "1", "tool": "refund", "contract_digest": "ab", "target": "order/1"}
    return shapes.scope_of(arguments=arguments, **told | changes)


CALLS = [refund(1, 1200), refund(2, 2000), refund(3, 800, "damaged")]
SHAPE = shapes.learn_shape(scope(CALLS[0]), TEMPLATE, CALLS)


def test_a_learnt_shape_is_described_in_words():
    assert shapes.describe_bounds(SHAPE) == ("amount up to 20.00 EUR", "any order id", "reason damaged or late")
    assert shapes.read_shape(SHAPE.document()) == SHAPE


@pytest.mark.parametrize(
    ("arguments", "changes", "why"),
    [
        (refund(9, 2000), {}, ""),
        (refund(9, 1), {}, ""),
        (refund(9, 2001), {}, "`amount` is outside of what people approved."),
        (refund(9, 0), {}, "`amount` is outside of what people approved."),
        (refund(9, 900, "goodwill"), {}, "`reason` is outside of what people approved."),
        (refund(9, 900, note="x"), {}, "`note` was never sent before."),
        ({"order_id": "EX-9", "amount": 900, "currency": "EUR"}, {}, "`reason` is left out."),
        (refund(9, 900, currency="USD"), {}, "Another currency."),
        (refund(9, 900), {"agent": "other"}, "Another agent."),
        (refund(9, 900), {"agent_version": "2"}, "Another agent version."),
        (refund(9, 900), {"contract_digest": "cd"}, "Another contract digest."),
        (refund(9, 900), {"target": "invoice/1"}, "Another target kind."),
    ],
)
def test_only_a_call_of_exactly_that_shape_is_covered(arguments, changes, why):
    assert shapes.find_misfit(SHAPE, scope(arguments, **changes), arguments) == why


def test_an_argument_with_too_many_different_values_gives_no_shape():
    calls = [refund(number, 100, f"because {number}") for number in range(6)]
    assert shapes.learn_shape(scope(calls[0]), TEMPLATE, calls) is None
    assert shapes.learn_shape(scope(calls[0]), TEMPLATE, calls[:5]) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"discrepancy": "VALUE_MISMATCH"},
        {"contradicted": True},
        {"reversed": True},
        {"state": "UNKNOWN"},
        {"state": "FAILED"},
        {"attempts": 2},
        {"edited": True},
        {"broke_glass": True, "voted": False},
        {"approval_state": "REJECTED", "state": "FAILED", "attempts": 0},
    ],
)
def test_only_a_verified_unedited_first_success_extends_the_streak(changes):
    assert len(standing.earned_row([WELL, WELL, replace(WELL, **changes), WELL])) == 2


@pytest.mark.parametrize("changes", [{"state": "PENDING"}, {"passed": True, "voted": False}, {"follows_up": True}])
def test_open_and_undecided_actions_neither_extend_nor_break_the_streak(changes):
    assert len(standing.earned_row([WELL, replace(WELL, **changes), WELL])) == 2


@pytest.mark.parametrize(
    ("policy", "reasons", "terms", "why"),
    [
        (POLICY, ("IRREVERSIBLE",), {}, ""),
        (POLICY, ("RULE large", "POLICY_RULE_1"), {}, ""),
        (None, (), {}, "The approval policy has no standing approvals."),
        (POLICY, ("CRITICAL_MUTATION",), {}, "Critical mutations always take a person."),
        (POLICY, ("CONTRACT",), {}, "Its contract says that a person always approves it."),
        (POLICY, ("UNVERIFIABLE",), {}, "Nobody can read back what it does."),
        (POLICY, ("UNDECIDABLE odd",), {}, "The rule “odd” of the approval policy cannot be told for it."),
        (
            replace(POLICY, irreversible=False),
            ("IRREVERSIBLE",),
            {},
            "It cannot be taken back, and the approval policy lets a person approve that each time.",
        ),
        (
            replace(POLICY, always_ask=frozenset({"large"})),
            ("RULE large",),
            {},
            "The rule “large” of the approval policy always asks a person.",
        ),
        (
            replace(POLICY, always_ask=frozenset({"refund"})),
            (),
            {},
            "The approval policy always asks a person about this tool.",
        ),
        (POLICY, (), {"step_up": "A"}, "It takes the signature of a passkey each time."),
        (
            POLICY,
            (),
            {"thresholds": (Threshold(group="finance", count=3),)},
            "It takes more than two people each time.",
        ),
    ],
)
def test_an_action_that_always_requires_a_person_is_never_covered(policy, reasons, terms, why):
    found = standing.reason_for_a_person(policy, tool="refund", reasons=reasons, terms=ApprovalTerms(**terms))
    assert found == why


def ballot(name: str, *groups: str, person: str = "") -> Ballot:
    return Ballot(voter=name, person=person or name, groups=frozenset(groups), verdict="approve", evidence_class="C")


def test_two_different_people_must_agree_whose_votes_would_suffice():
    standing.check_two_persons(ApprovalTerms(), ballot("ada"), ballot("ben"))
    for second in (ballot("ada"), ballot("ada-2", person="ada")):
        with pytest.raises(SecondPersonNeeded):
            standing.check_two_persons(ApprovalTerms(), ballot("ada"), second)
    finance = ApprovalTerms(thresholds=(Threshold(group="finance", count=2),))
    with pytest.raises(NotEligible, match="would not be enough for one such action"):
        standing.check_two_persons(finance, ballot("ada", "finance"), ballot("ben"))


def faults(**changes: Any) -> list[str]:
    wanted = {"count": 3, "sum_minor": 6000, "ends_at": NOW + timedelta(days=7)} | changes
    try:
        standing.check_budget(StandingBudget(**wanted), SHAPE, POLICY, at=NOW)
    except standing.BudgetOutsidePolicy as refusal:
        return [each["detail"] for each in refusal.errors]
    return []


def test_a_budget_has_a_count_an_end_and_for_money_a_sum():
    assert faults() == []
    assert faults(count=21) == ["Between 1 and 20 actions may pass."]
    assert faults(ends_at=NOW) == ["It ends within 30 days, and not in the past."]
    assert faults(ends_at=NOW + timedelta(days=31)) == ["It ends within 30 days, and not in the past."]
    assert faults(sum_minor=None) == ["Say how much money may pass in all."]
    assert faults(sum_minor=6001) == ["The sum is at least 1 and at most the count times the largest amount."]


def test_a_standing_budget_ends_with_its_count_sum_and_date():
    budget = StandingBudget(count=3, sum_minor=5000, ends_at=NOW + timedelta(days=1))
    room = {"used_count": 2, "used_minor": 4000, "minor": 1000, "at": NOW}
    assert standing.has_room(budget, **room)
    for changes in ({"used_count": 3}, {"minor": 1001}, {"at": budget.ends_at}):
        assert not standing.has_room(budget, **room | changes)


AGREED = {"approval": "p1"}
CALM = standing.CurrentBasis(
    passed=[WELL, replace(WELL, state="PENDING")], contract_digest="ab", agent_version="1", policies=AGREED
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"passed": [replace(WELL, discrepancy="VALUE_MISMATCH", state="RECONCILIATION_FAILED")]}, "DISCREPANCY"),
        ({"passed": [replace(WELL, contradicted=True)]}, "LATE_TRUTH"),
        ({"passed": [replace(WELL, state="UNKNOWN")]}, "OUTCOME"),
        ({"drifted": "1"}, "DRIFT"),
        ({"incident": "1"}, "INCIDENT"),
        ({"frozen": True}, "FREEZE"),
        ({"contract_digest": "cd"}, "CONTRACT"),
        ({"contract_digest": None}, "CONTRACT"),
        ({"agent_version": None}, "AGENT"),
        ({"policies": {"approval": "p2"}}, "POLICY"),
    ],
)
def test_the_first_problem_or_change_pauses_a_standing_approval(changes, reason):
    found = standing.reason_to_pause(SHAPE, AGREED, replace(CALM, **changes))
    assert (found.reason if found else None) == reason


def test_every_reason_for_a_pause_has_a_sentence():
    assert set(standing.PAUSE_SENTENCES) == set(PauseReason)
