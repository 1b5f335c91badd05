"""The autonomy policy: what lies outside, and what a call takes from its budgets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from approvals.gate.rules.malformed import Malformed
from approvals.policy.rules import autonomy
from approvals.policy.rules.policy_facts import Facts
from ledger.catalogue.rules import contract
from ledger.catalogue.rules.policies import BadPolicy

AT = datetime(2030, 5, 6, 17, 42, 3, tzinfo=UTC)
DAY = datetime(2030, 5, 6, tzinfo=UTC)
REFUND = {"charge": "c1", "amount": 1250, "currency": "EUR", "lines": [{"amount": "5.00"}, {"amount": 750}]}


def tool(**changes):
    document = {
        "name": "issue_refund",
        "version": "1.0.0",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Use when: needed. NOT for: fun.",
        "arguments_schema": {"type": "object", "required": ["charge"], "properties": {"charge": {"type": "string"}}},
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "target_resource": "charge/{charge}",
        "required_effects": ["refund"],
        "verification": {"pattern": "databases", "system": "shop", "predicates": ["sa.exists"]},
    }
    return contract.validate(document | changes, compile_predicate=lambda text: None)


TOOL = tool()


def facts(args=None, **changes):
    known = {"id": "support", "version": "1", "model_tier": "small"}
    session = {"calls": 3, "accepted": 2, "refused": 1, "undisclosed_attempts": 0, "drifts": 0}
    said = {"at": AT, "args": REFUND if args is None else args, "target": "charge/c1"}
    return Facts(**(said | {"agent": known, "session": session} | changes))


def budget(**said):
    entry = {"name": "refunds", "per": "agent", "within": "day"} | said
    return autonomy.parse({"budgets": [{name: value for name, value in entry.items() if value is not None}]})


def charges(policy, args=None, contract=TOOL):
    return autonomy.charges(policy, contract, facts(args), session="s-1")


# What lies outside


@pytest.mark.req("R-TC-16")
@pytest.mark.parametrize(
    ("entry", "outside"),
    [
        ({"tools": ["issue_refund"]}, True),
        ({"tools": ["drop_database"]}, False),
        ({"agents": ["support"]}, True),
        ({"agents": ["sales"], "tools": ["issue_refund"]}, False),
        ({"side_effect_classes": ["HIGH_RISK_EXTERNAL"]}, True),
        ({"when": "amount.minor > 1000 && amount.currency == 'EUR'"}, True),
        ({"when": "amount.minor > 2000"}, False),
        ({"when": "agent.model_tier == 'small' && session.refused > 0"}, True),
        ({"when": "args.nothing == 1"}, True),
        ({"tools": ["drop_database"], "when": "args.nothing == 1"}, False),
    ],
)
def test_a_call_is_outside_when_an_entry_matches_and_its_condition_is_not_false(entry, outside):
    policy = autonomy.parse({"outside": [{"name": "one", "reason": "People refund."} | entry]})
    refusal = autonomy.check_boundary(policy, TOOL, facts())

    assert (refusal is not None) is outside
    if refusal is not None:
        assert (refusal.code, refusal.message) == ("OUTSIDE_AUTONOMY", "People refund.")


def test_an_undecidable_condition_refuses_the_call_and_is_named():
    policy = autonomy.parse({"outside": [{"name": "odd", "when": "args.nothing == 1"}]})
    refusal = autonomy.check_boundary(policy, TOOL, facts())

    assert refusal is not None
    assert "could not be told" in refusal.errors[0]["detail"]


def test_the_default_policy_refuses_no_call_and_has_no_budget():
    policy = autonomy.parse({"boundary": "disclosed_tools"})

    assert autonomy.check_boundary(policy, TOOL, facts()) is None
    assert charges(policy) == ()
    assert policy.watch.probing_names == 10


# Budgets


def test_a_call_is_charged_to_the_day_of_its_agent_and_to_its_session():
    [one] = charges(budget(calls=3))
    assert (one.holder, one.unit, one.amount, one.most, one.window_from) == ("agent:support", "calls", 1, 3, DAY)

    [one] = charges(budget(per="session", within=None, calls=3))
    assert one.holder == "session:s-1"
    assert one.window_from.year == 1970

    [one] = charges(budget(within="hour", calls=3))
    assert one.window_from == AT.replace(minute=0, second=0)


def test_a_budget_covers_only_what_it_names():
    assert charges(budget(calls=3, tools=["other"])) == ()
    assert charges(budget(calls=3, agents=["sales"])) == ()
    assert charges(budget(calls=3, side_effect_classes=["READ_ONLY"])) == ()


@pytest.mark.parametrize(
    ("money", "taken"),
    [
        ({"amount": "/amount", "currency": "/currency", "most": {"EUR": 5000}}, 1250),
        ({"amount": "/amount", "in": "EUR", "most": {"EUR": 5000}}, 1250),
        ({"amount": "/lines/*/amount", "currency": "/currency", "most": {"EUR": 5000}}, 1250),
        ({"amount": "/amount", "currency": "/currency", "most": {"USD": 5000}}, None),
        ({"amount": "/charge", "currency": "/currency", "most": {"EUR": 5000}}, None),
        ({"amount": "/nothing", "currency": "/currency", "most": {"EUR": 5000}}, None),
        ({"amount": "/amount", "currency": "/nothing", "most": {"EUR": 5000}}, None),
        ({"amount": "/lines/*/nothing", "in": "EUR", "most": {"EUR": 5000}}, None),
        ({"amount": "/amount/*", "in": "EUR", "most": {"EUR": 5000}}, None),
    ],
)
def test_money_is_summed_by_path_and_an_unreadable_amount_is_refused(money, taken):
    found = charges(budget(money=money))

    if taken is None:
        assert isinstance(found, Malformed)
        assert found.code == "BUDGET_EXCEEDED"
    else:
        assert [(one.unit, one.amount, one.most) for one in found] == [("EUR", taken, 5000)]


@pytest.mark.parametrize("amount", [-1, "-0.01", "1.234", "NaN", "1e3", True, None, [5], ""])
def test_no_amount_refills_a_budget_and_none_is_rounded(amount):
    money = {"amount": "/amount", "currency": "/currency", "most": {"EUR": 5000}}

    assert isinstance(charges(budget(money=money), REFUND | {"amount": amount}), Malformed)


def test_one_unreadable_amount_among_many_refuses_the_call():
    money = {"amount": "/lines/*/amount", "in": "EUR", "most": {"EUR": 5000}}

    for line in ({}, {"amount": -5}, "5.00"):
        assert isinstance(charges(budget(money=money), REFUND | {"lines": [{"amount": 5}, line]}), Malformed)
    assert isinstance(charges(budget(money=money), REFUND | {"lines": []}), Malformed)


def test_each_source_costs_one_reading_and_each_later_reading_again():
    verified = {"pattern": "databases", "system": "shop", "predicates": ["sa.exists"]}
    books = {"name": "books", "pattern": "databases", "system": "books", "predicates": ["sa.exists"], "lookup": {}}

    assert autonomy.reading_cost(TOOL) == 1
    assert autonomy.reading_cost(tool(verification=verified | {"recheck_after": ["PT1H", "P1D"]})) == 3
    twice = verified | {"sources": [books], "recheck_after": ["PT1H"]}
    assert autonomy.reading_cost(tool(verification=twice, approval={"baseline": True})) == 5
    assert [one.amount for one in charges(budget(readings=9), contract=tool(verification=twice))] == [4]


def test_the_order_of_charges_does_not_depend_on_the_policy():
    entries = [{"name": name, "per": "agent", "within": "day", "calls": 1} for name in ("b", "a")]
    one, other = (charges(autonomy.parse({"budgets": list(each)})) for each in (entries, reversed(entries)))

    assert one == other
    assert [each.budget for each in one] == ["a", "b"]


# The document


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"boundary": "everything"}, "/boundary"),
        ({"budget": []}, "/budget"),
        ({"budgets": [{"name": "a", "per": "agent", "calls": 1}]}, "/budgets/0/within"),
        ({"budgets": [{"name": "a", "per": "session", "within": "day", "calls": 1}]}, "/budgets/0/within"),
        ({"budgets": [{"name": "a", "per": "session"}]}, "/budgets/0"),
        ({"budgets": [{"name": "a", "per": "session", "calls": -1}]}, "/budgets/0/calls"),
        ({"budgets": [{"name": "a", "per": "tenant", "calls": 1}]}, "/budgets/0/per"),
        ({"budgets": [{"name": "a", "per": "session", "calls": 1}] * 2}, "/budgets/0/name"),
        (
            {"budgets": [{"name": "a", "per": "session", "money": {"amount": "/a", "most": {}}}]},
            "/budgets/0/money/most",
        ),
        (
            {"budgets": [{"name": "a", "per": "session", "money": {"amount": "/a", "most": {"EUR": 1}}}]},
            "/budgets/0/money",
        ),
        (
            {"budgets": [{"name": "a", "per": "session", "money": {"amount": "a", "in": "EUR", "most": {"EUR": 1}}}]},
            "/budgets/0/money/amount",
        ),
        ({"outside": [{"name": "a"}]}, "/outside/0"),
        ({"outside": [{"name": "a", "when": "nothing.at == all"}]}, "/outside/0/when"),
        ({"outside": [{"name": "a", "side_effect_classes": ["HARMLESS"]}]}, "/outside/0/side_effect_classes/0"),
        ({"watch": {"probing_names": 1}}, "/watch/probing_names"),
    ],
)
def test_an_invalid_document_is_refused_with_the_path_of_the_fault(document, path):
    with pytest.raises(BadPolicy, match="The autonomy policy is not valid") as refusal:
        autonomy.parse(document)

    assert refusal.value.errors[0]["path"] == path
