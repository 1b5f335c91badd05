"""What is said of a rule that never counts is true: with it and without it, calls are decided alike."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from approvals.policy.rules.policy import ApprovalPolicy, decide_call, parse
from approvals.policy.rules.policy_analysis import analyse_rules
from approvals.policy.rules.policy_facts import Facts
from tests.rules.policy.test_policy import tool

AT = datetime(2030, 1, 1, tzinfo=UTC)
CALL = tool()
# Of a call without the argument it cannot be told whether the condition holds.
KNOWN: tuple[dict[str, Any], ...] = ({"a": True}, {"a": False})
UNCLEAR: tuple[dict[str, Any], ...] = ({},)


def rule(name: str, outcome: str, when: str = "") -> dict[str, Any]:
    return {"name": name, "outcome": outcome} | ({"when": when} if when else {})


def policy(*rules: dict[str, Any]) -> ApprovalPolicy:
    return parse({"version": "1", "rules": list(rules)})


def said(*rules: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each.rule: (each.code, each.text) for each in analyse_rules(policy(*rules))}


def decided(known: ApprovalPolicy, args: dict[str, Any]) -> tuple[object, ...]:
    answer = decide_call(CALL, known, Facts(at=AT, args=args))
    terms = answer.terms if answer.outcome == "hold" else None
    return answer.outcome, answer.reasons, answer.refusal, terms


@pytest.mark.whole
def test_leaving_out_a_redundant_rule_never_changes_a_decision():
    found: Counter[str] = Counter()
    kinds = list(product(("auto", "hold", "refuse"), ("", "args.a", "false")))
    for chosen in product(kinds, repeat=3):
        rules = [
            rule(f"r{place}", outcome, when) | ({"reason": f"Because r{place}."} if outcome == "refuse" else {})
            for place, (outcome, when) in enumerate(chosen)
        ]
        whole = policy(*rules)
        for finding in analyse_rules(whole):
            found[finding.code] += 1
            rest = policy(*(each for each in rules if each["name"] != finding.rule))
            for args in {"NEVER": KNOWN + UNCLEAR, "UNCLEAR_ONLY": KNOWN, "ALWAYS": ()}[finding.code]:
                assert decided(whole, args) == decided(rest, args), (rules, finding, args)
    assert found.keys() == {"NEVER", "UNCLEAR_ONLY", "ALWAYS"}


def test_a_rule_after_one_that_exempts_every_call_never_counts():
    assert said(rule("all", "auto"), rule("large", "hold", "amount.minor > 5")) == {
        "all": ("ALWAYS", "No later rule requires approval."),
        "large": ("NEVER", "“all” is earlier and matches every call, so no rule after it requires approval."),
    }


def test_a_hold_rule_after_the_same_exemption_counts_only_where_it_is_undecidable():
    found = said(rule("small", "auto", "args.a"), rule("again", "hold", "args.a"))
    assert found == {
        "again": (
            "UNCLEAR_ONLY",
            "“small” is earlier and matches the same calls, so no later rule requires approval for them.",
        )
    }
    whole = policy(rule("small", "auto", "args.a"), rule("again", "hold", "args.a"))
    assert decided(whole, {})[1] == ("UNDECIDABLE small", "UNDECIDABLE again")


def test_an_exemption_without_later_rules_is_named():
    assert said(rule("large", "hold", "args.a"), rule("small", "auto", "amount.minor < 5")) == {
        "small": ("UNCLEAR_ONLY", "No later rule requires approval, so it exempts no call.")
    }


def test_after_a_rule_that_refuses_every_call_no_later_rule_counts():
    found = said(rule("first", "refuse", "args.a"), rule("none", "refuse"), rule("last", "refuse", "args.b"))
    assert found == {
        "none": ("ALWAYS", "No call is allowed."),
        "last": ("NEVER", "“none” refuses every call."),
    }


def test_effective_rules_get_no_findings():
    assert said(rule("small", "auto", "args.a"), rule("large", "hold", "args.b"), rule("no", "refuse", "args.c")) == {}
