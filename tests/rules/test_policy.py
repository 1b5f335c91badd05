from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from approvals.rules import policy
from approvals.rules.policy import BadPolicy
from ledger.rules import contract
from ledger.rules.effects import Reversibility, SideEffectClass

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BOOKS = {"name": "books", "pattern": "databases", "system": "books", "lookup": {}, "predicates": ["sa.exists"]}
PLAIN = policy.parse({"version": "1"})


def tool(**changes):
    document = {
        "name": "issue_refund",
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Use when: x. NOT for: y.",
        "arguments_schema": {"type": "object"},
        "side_effect_class": "LOW_RISK_INTERNAL",
        "target_resource": "thing",
        "required_effects": ["refund"],
        "verification": {"pattern": "databases", "system": "shop", "sources": [BOOKS], "predicates": ["sa.exists"]},
    }
    return contract.validate(document | changes, compile_predicate=lambda text: None)


@pytest.mark.req("R-AP-01", "R-AP-02", "R-AP-03")
@pytest.mark.parametrize(
    ("kind", "reversibility", "flag"),
    list(itertools.product(SideEffectClass, Reversibility, [False, True])),
)
def test_the_whole_decision_table(kind, reversibility, flag):
    asked = policy.requirement(
        tool(side_effect_class=kind.value, reversibility=reversibility.value, approval_required=flag), PLAIN
    )
    irreversible = reversibility is Reversibility.IRREVERSIBLE and kind is not SideEffectClass.READ_ONLY

    assert asked.required is (kind is SideEffectClass.CRITICAL_MUTATION or irreversible or flag)
    assert bool(asked.reasons) is asked.required


@pytest.mark.req("R-TC-03")
def test_a_silent_high_risk_contract_asks_for_approval():
    assert policy.requirement(tool(side_effect_class="HIGH_RISK_EXTERNAL"), PLAIN).reasons == ("IRREVERSIBLE",)


@pytest.mark.req("R-TC-07")
def test_an_acknowledged_tool_that_nobody_can_read_back_always_asks():
    blind = tool(
        side_effect_class="HIGH_RISK_EXTERNAL",
        reversibility="REVERSIBLE",
        verification=None,
        unverifiable_acknowledged=True,
    )

    assert policy.requirement(blind, PLAIN).reasons == ("UNVERIFIABLE",)


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"tool": "issue_refund"}, True),
        ({"tool": "other"}, False),
        ({"effect_domain": "FINANCIAL"}, True),
        ({"side_effect_class": "LOW_RISK_INTERNAL", "effect_domain": "SECURITY"}, False),
        ({"side_effect_class": "LOW_RISK_INTERNAL", "tool": "issue_refund"}, True),
    ],
)
def test_a_rule_of_the_policy_asks_when_all_that_it_names_matches(rule, matches):
    strict = policy.parse({"version": "2", "require": [rule]})
    asked = policy.requirement(tool(effect_domain="FINANCIAL"), strict)

    assert asked.required is matches
    assert asked.reasons == (("POLICY_RULE_1",) if matches else ())


def test_silence_gets_the_defaults():
    assert (PLAIN.decide_within_s, PLAIN.release_within_s, PLAIN.grant_life_s, PLAIN.step_up) == (14400, 900, 120, "C")


@pytest.mark.parametrize(
    "change",
    [
        {"version": ""},
        {"version": 1},
        {"decide_within_s": 0},
        {"decide_within_s": "60"},
        {"release_within_s": 86401},
        {"grant_life_s": 59},
        {"grant_life_s": 301},
        {"step_up": "D"},
        {"step_up": None},
        {"decide_within": 60},
        {"require": [{}]},
        {"require": [{"class": "READ_ONLY"}]},
        {"require": [{"side_effect_class": "DANGEROUS"}]},
        {"require": {}},
    ],
)
def test_a_policy_that_says_something_else_is_refused(change):
    with pytest.raises(BadPolicy) as caught:
        policy.parse({"version": "1"} | change)

    assert caught.value.errors


def test_a_policy_without_version_is_refused():
    with pytest.raises(BadPolicy):
        policy.parse({})


@pytest.mark.req("R-AP-09")
def test_any_change_of_a_policy_changes_its_digest():
    assert policy.parse({"version": "1", "step_up": "A"}).digest != PLAIN.digest
    assert policy.parse({"version": "2"}).digest != PLAIN.digest
    assert (
        policy.parse({"step_up": "C", "version": "1"}).digest == policy.parse({"version": "1", "step_up": "C"}).digest
    )


def test_the_deadlines_follow_one_another():
    decided = NOW + timedelta(seconds=100)

    assert PLAIN.decide_by(requested_at=NOW) == NOW + timedelta(hours=4)
    assert PLAIN.release_by(decided_at=decided) == decided + timedelta(minutes=15)


@pytest.mark.req("R-AP-08")
def test_a_grant_never_outlives_its_approval():
    soon = NOW + timedelta(seconds=30)

    assert PLAIN.grant_expiry(minted_at=NOW, release_by=soon) == soon
    assert PLAIN.grant_expiry(minted_at=NOW, release_by=None) == NOW + timedelta(seconds=120)
