"""Policies in words: each version says in plain sentences what it does, and what another version changed."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.policy.rules import autonomy, policy
from console.policies.policy_changes import document_changes, sentence_changes
from console.policies.policy_sentences import KIND_NAMES, exact_duration, policy_topics
from ledger.catalogue.rules.policies import POLICY_KINDS, check_policy, default_policy
from ledger.record.rules.canonical import canonical
from reviews.recovery.rules import recovery_table

RULES: list[dict[str, Any]] = [
    {"name": "small", "when": "amount.minor <= 5000", "outcome": "auto"},
    {
        "name": "large",
        "when": "amount.minor > 100000",
        "outcome": "hold",
        "thresholds": [{"group": "finance", "count": 2, "deny": 2}],
        "independence": ["editor"],
        "step_up": "A",
        "risk": "HIGH",
        "decide_within_s": 5400,
    },
    {"name": "strays", "when": "session.drifts > 2", "outcome": "refuse", "reason": "It drifts."},
    {"name": "rest", "outcome": "hold"},
]


def said(kind: str, document: dict[str, Any], heading: str = "") -> list[str]:
    """What a version says, all of it or under one heading."""
    plain = {"version": "2"} | document
    check_policy(kind, plain)
    faults = recovery_table.policy_faults(plain) if kind == "recovery" else []
    assert not faults
    topics = policy_topics(kind, canonical(plain))
    return [each for topic in topics if topic.heading.startswith(heading) for each in topic.sentences]


@pytest.mark.parametrize("kind", POLICY_KINDS)
def test_the_default_policies_of_a_tenant_are_described(kind: str):
    assert kind in KIND_NAMES
    for sentence in said(kind, default_policy(kind)):
        assert sentence[0] != sentence[0].lower() or sentence[0] == "“", sentence
        assert sentence.endswith((".", "”")), sentence
        assert not any(riddle in sentence for riddle in ("None", "{", "frozenset", "_s")), sentence


def test_each_rule_of_an_approval_policy_is_described():
    assert said("approval", {"rules": RULES}, "Rules") == [
        "“small”: if the amount in the smallest unit of its currency is at most 5,000, later rules that require"
        " approval do not apply."
        " If that cannot be evaluated, approval is required.",
        "“large”: if the amount in the smallest unit of its currency is more than 100,000, approval is required:"
        " 2 approvals from the group finance (2 votes against end the request), the person who edited the call may not"
        " vote, votes are signed by passkey (class A), the deadline is at most 1 hour 30 minutes and it counts as high"
        " risk. If that cannot be evaluated, approval is required.",
        "“strays”: if the number of drifted goals of the session is more than 2, the call is refused, whatever the"
        " order of the rules; the agent reads “It drifts.” If that cannot be evaluated, approval is required.",
        "“rest”: for every call, approval is required.",
    ]
    assert said("approval", {}, "Rules") == ["There are no rules: no other call requires approval."]


def test_fixed_rules_are_described_for_every_policy():
    asked = said(
        "approval", {"require": [{"tool": "deploy", "side_effect_class": "LOW_RISK_INTERNAL"}]}, "Always requires"
    )
    assert asked[0] == "Approval is required for every critical mutation, and for every change that cannot be undone."
    assert "calls of class High-risk external or Critical mutation that cannot be read back" in asked[1]
    assert asked[2] in (
        "Approval is required for every call whose tool is deploy and whose class is Low-risk internal.",
        "Approval is required for every call whose class is Low-risk internal and whose tool is deploy.",
    )
    assert said("approval", {"independence": []}, "Who decides")[1] == "Nobody may decide on their own request."


def test_omitted_values_are_stated_with_their_defaults():
    bare = policy.parse({"version": "2"})
    times = said("approval", {}, "Deadlines")
    assert times[0].startswith(
        f"A request expires if it is not decided within {exact_duration(bare.decide_within_s)}, "
    )
    assert times[1] == f"An approved action must start within {exact_duration(bare.release_within_s)}."
    assert times[2].startswith(f"The grant for a start is valid for {exact_duration(bare.grant_life_s)}")
    assert (
        said("approval", {}, "Who decides")[0]
        == "The group reviewers must give 1 approval; 1 vote against from it ends the request."
    )
    assert said("approval", {}, "Break-glass") == ["It is disabled: nobody can approve alone in an emergency."]


def test_hours_batches_limits_and_break_glass_are_described():
    document = {
        "hours": {"days": ["mon", "fri"], "from": "09:00", "to": "17:00", "zone": "Europe/Berlin"},
        "batch": {"most": 5, "side_effect_classes": ["LOW_RISK_INTERNAL"]},
        "limits": {"waiting_per_agent": 3},
        "break_glass": {"enabled": True, "groups": ["on-call"], "reviewers": 1},
        "step_up_by_risk": {"HIGH": "A"},
        "on_change": "void",
    }
    whole = said("approval", document)
    for sentence in (
        "Actions may start only on Monday and Friday from 09:00 to 17:00 (Europe/Berlin).",
        "Up to 5 requests of class Low-risk internal may be decided together if they are low risk, can be undone"
        " and need no passkey.",
        "An agent may have at most 3 pending requests; further calls are refused.",
        "In an emergency one operator of the group on-call may approve alone, signed by passkey (class A).",
        "Execution must start within 5 minutes, and 1 other person must review it within 1 day.",
        "For high risk: passkey (class A), if that is stronger.",
        "A new version ends every action that waits for approval or for its start; its agent may propose it again.",
    ):
        assert sentence in whole, sentence


def test_the_limits_and_budgets_of_an_autonomy_policy_are_described():
    document = {
        "outside": [
            {"name": "nightly", "tools": ["issue_refund"], "when": "now.hour < 6", "reason": "Not at night."},
            {
                "name": "trainee",
                "agents": ["trainee"],
                "side_effect_classes": ["CRITICAL_MUTATION", "HIGH_RISK_EXTERNAL"],
            },
        ],
        "budgets": [
            {
                **{"name": "refunds", "per": "agent", "within": "day", "tools": ["issue_refund"], "calls": 50},
                "money": {"amount": "/amount", "currency": "/currency", "most": {"EUR": 500000, "JPY": 800}},
            },
            {"name": "careful", "per": "session", "calls": 1, "readings": 200},
        ],
    }
    autonomy.parse(document)
    whole = said("autonomy", document)
    assert whole[:3] == [
        "An agent may call only the tools that were disclosed to its session.",
        "“nightly”: calls of issue_refund are refused if the hour (UTC) is less than 6 or if that cannot be evaluated;"
        " the agent reads “Not at night.”",
        "“trainee”: calls of class High-risk external or Critical mutation by trainee are refused; the agent reads"
        " “The call lies outside the boundary.”",
    ]
    assert said("autonomy", document, "Budgets") == [
        "“refunds”: per agent and day (UTC), at most 50 calls and 5,000.00 EUR and 800 JPY in /amount"
        " (no other currency); counts calls of issue_refund.",
        "“careful”: per session, at most 1 call and 200 verification reads; counts all calls.",
    ]


@pytest.mark.req("R-VD-13")
def test_the_numbers_of_a_verification_policy_are_described():
    document = default_policy("verification") | {
        **{"first_after_s": 5, "backoff": 3, "max_interval_s": 90, "repeat_limit": 4, "sla_s": {"READ_ONLY": 30}},
        "stop_release": {"open_circuit": False, "waiting": 20, "oldest_s": 900},
        "budget": {"readings_per_hour": 500},
        "messages": {"uncited": "mark", "agents": {"clerk": {"uncited": "hold", "guarded": True}}},
    }
    whole = said("verification", document)
    for sentence in (
        "First 5 seconds after the executor's report; each wait is about 3 times the previous one, and none is much"
        " longer than 1 minute 30 seconds. A contract may set other times.",
        "If 4 readings could not settle a doubt, a person decides.",
        "Read only: 30 seconds.",
        "Critical mutation: 1 hour.",
        "An executor that does not respond for 1 minute loses its attempt.",
        "An idempotency record that stays open expires after 30 days.",
        "While 20 or more actions wait for a verdict.",
        "500 readings an hour; beyond that, readings are spaced out, and none is refused.",
        "For clerk: a report without a citation that the record does not support is held back; a session with"
        " changes cannot be closed until the guard has checked what was said about them.",
    ):
        assert sentence in whole, sentence
    assert "While its circuit is open." not in whole


def test_a_recovery_policy_is_described_with_its_automatic_steps_and_every_row():
    whole = said("recovery", default_policy("recovery") | {"automatic": ["COMPENSATING"], "hold": ["RT-05"]})
    assert whole[:2] == [
        "Compensation may run automatically below class High-risk external.",
        "Recovery by RT-05 needs a person.",
    ]
    assert whole[2:4] == [
        "A change is attempted at most once; a critical mutation is never retried automatically.",
        "A read is attempted at most 3 times.",
    ]
    assert len(whole) == len(recovery_table.ROWS) + 4
    assert (
        "RT-12: duplicate side effect, either domain is financial, security or external communication or class is"
        " critical mutation: freeze and alert (freeze the target; operations incident)."
    ) in whole
    assert whole[-1] == "RT-99: anything else: hold and escalate (fail closed)."
    assert said("recovery", {"automatic": []}, "Automatic") == ["None: every recovery needs a person."]


def changed(kind: str, old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    return sentence_changes(*(policy_topics(kind, canonical({"version": "2"} | each)) for each in (old, new)))


def test_a_change_is_named_by_the_sentence_that_it_affects():
    assert changed("approval", {"release_within_s": 60}, {"release_within_s": 120}) == [
        {
            "heading": "Deadlines",
            "gone": ["An approved action must start within 1 minute."],
            "new": ["An approved action must start within 2 minutes."],
        }
    ]
    assert changed("approval", {}, {"decide_within_s": 4 * 3600}) == []


def test_documents_are_compared_row_by_row_regardless_of_order():
    first, second = RULES[0], RULES[2]
    longer = second | {"reason": "It drifts away."}
    assert document_changes({"version": "1", "rules": [first, second]}, {"version": "2", "rules": [longer, first]}) == [
        {"path": "/rules/strays/reason", "before": '"It drifts."', "after": '"It drifts away."'},
        {"path": "/rules", "before": "in the order small, strays", "after": "in the order strays, small"},
    ]
    assert document_changes({"rules": [first]}, {"rules": [first, RULES[3]]}) == [
        {"path": "/rules/rest", "before": "", "after": '{"name": "rest", "outcome": "hold"}'},
        {"path": "/rules", "before": "in the order small", "after": "in the order small, rest"},
    ]


def test_the_rows_of_a_tenant_are_compared_with_the_built_in_ones():
    rows = [dict(row) for row in recovery_table.TABLE["rows"]]
    place = next(place for place, row in enumerate(rows) if row["id"] == "RT-42")
    rows[place]["action"] = "HOLD_AND_ESCALATE"
    assert document_changes({"table": "built-in"}, {"table": rows}) == [
        {"path": "/table/RT-42/action", "before": '"FREEZE_AND_ALERT"', "after": '"HOLD_AND_ESCALATE"'}
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (90, "1 minute 30 seconds"),
        (86_400, "1 day"),
        (180_061, "2 days 2 hours 1 minute 1 second"),
    ],
)
def test_durations_are_written_exactly(seconds: int, words: str):
    assert exact_duration(seconds) == words


def test_a_policy_says_whether_one_person_may_let_calls_through_for_a_while():
    none = "Nobody may let calls through alone for a while: there are no time-boxed passes."
    assert said("approval", {"standing_approvals": {}}, "Standing approvals")[-1] == none
    rule = {"time_boxes": {"most_minutes": 30, "most_count": 1}}
    assert said("approval", {"standing_approvals": rule}, "Standing approvals")[-1] == (
        "One person whose vote would be enough may let calls of one shape pass without a vote each, for at most"
        " 30 minutes and 1 call."
    )
