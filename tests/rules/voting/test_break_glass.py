"""Break-glass: off unless switched on, one operator with a reason, and others who look at it afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from approvals.voting.rules import break_glass
from approvals.voting.rules.binding import NotEligible
from approvals.voting.rules.break_glass import BreakGlassRule
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.record.rules.refusals import AlreadyDecided

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


@pytest.mark.req("R-AP-15")
def test_break_glass_is_off_unless_the_policy_enables_it():
    assert not break_glass.read_rule({"version": "1"}).enabled
    assert not break_glass.read_rule({"version": "1", "break_glass": {}}).enabled
    assert not break_glass.read_rule({"version": "1", "break_glass": {"enabled": "yes"}}).enabled


def test_the_defaults_of_a_break_glass_rule_are_strict():
    rule = break_glass.read_rule({"version": "1", "break_glass": {"enabled": True}})
    assert rule == BreakGlassRule(enabled=True, groups=frozenset(), review_within_s=86_400, reviewers=2, step_up="A")


@pytest.mark.req("R-AP-15")
def test_break_glass_that_is_switched_off_is_refused():
    with pytest.raises(break_glass.BreakGlassOff):
        break_glass.check_use(BreakGlassRule(), roles={"operator", "reviewer", "administrator"}, groups={"on-call"})


@pytest.mark.parametrize("roles", [set(), {"reviewer"}, {"administrator", "compliance"}])
def test_only_an_operator_can_use_break_glass(roles):
    with pytest.raises(NotEligible, match="Only an operator named in the policy"):
        break_glass.check_use(BreakGlassRule(enabled=True), roles=roles, groups=set())
    break_glass.check_use(BreakGlassRule(enabled=True), roles=roles | {"operator"}, groups=set())


def test_named_groups_limit_who_may_use_break_glass():
    rule = BreakGlassRule(enabled=True, groups=frozenset({"on-call", "duty"}))
    with pytest.raises(NotEligible, match="Only an operator named in the policy"):
        break_glass.check_use(rule, roles={"operator"}, groups={"finance"})
    break_glass.check_use(rule, roles={"operator"}, groups={"finance", "duty"})


def test_the_release_deadline_of_break_glass_is_minutes_away_and_within_the_policy():
    assert break_glass.release_deadline(policy_says=NOW + timedelta(hours=1), used_at=NOW) == NOW + timedelta(minutes=5)
    assert break_glass.release_deadline(policy_says=NOW + timedelta(minutes=1), used_at=NOW) == NOW + timedelta(
        minutes=1
    )


@pytest.mark.req("R-AP-14")
def test_each_reviewer_other_than_the_user_reviews_break_glass_once():
    """B24: the one who used it is no reviewer of it, under whatever account."""
    with pytest.raises(SecondPersonNeeded):
        break_glass.check_review(reviewer="mara", used_by="mara", reviewed_by=[], wanted=2)
    break_glass.check_review(reviewer="omar", used_by="mara", reviewed_by=[], wanted=2)
    with pytest.raises(AlreadyDecided, match="You have already reviewed this"):
        break_glass.check_review(reviewer="omar", used_by="mara", reviewed_by=["omar"], wanted=2)
    assert not break_glass.is_reviewed(["omar"], wanted=2)
    assert not break_glass.is_reviewed(["omar", "omar"], wanted=2)
    assert break_glass.is_reviewed(["omar", "ines"], wanted=2)
    with pytest.raises(AlreadyDecided, match="You have already reviewed this"):
        break_glass.check_review(reviewer="li", used_by="mara", reviewed_by=["omar", "ines"], wanted=2)
