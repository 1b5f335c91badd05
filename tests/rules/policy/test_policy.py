from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from approvals.policy.rules import policy
from approvals.policy.rules import policy_facts as facts
from approvals.policy.rules.policy_facts import Facts
from approvals.voting.rules.quorum import INDEPENDENCE, ApprovalTerms, Risk, Threshold
from ledger.catalogue.rules import contract
from ledger.catalogue.rules.effects import Reversibility, SideEffectClass
from ledger.catalogue.rules.policies import BadPolicy
from tests.support.tables import every_row

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BOOKS = {"name": "books", "pattern": "databases", "system": "books", "lookup": {}, "predicates": ["sa.exists"]}
PLAIN = policy.parse({"version": "1"})


def asked_for(contract, chosen):
    """Why people are asked, whatever the call holds."""
    return policy.decide_call(contract, chosen, Facts(at=NOW)).reasons


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
@every_row(("kind", "reversibility", "flag"), list(itertools.product(SideEffectClass, Reversibility, [False, True])))
def test_approval_is_required_for_critical_irreversible_and_flagged_tools(kind, reversibility, flag):
    asked = asked_for(
        tool(side_effect_class=kind.value, reversibility=reversibility.value, approval_required=flag), PLAIN
    )
    irreversible = reversibility is Reversibility.IRREVERSIBLE and kind is not SideEffectClass.READ_ONLY

    assert bool(asked) is (kind is SideEffectClass.CRITICAL_MUTATION or irreversible or flag)


@pytest.mark.req("R-TC-03")
def test_a_high_risk_contract_without_a_flag_requires_approval():
    assert asked_for(tool(side_effect_class="HIGH_RISK_EXTERNAL"), PLAIN) == ("IRREVERSIBLE",)


@pytest.mark.req("R-TC-07")
def test_an_acknowledged_unverifiable_tool_requires_approval():
    blind = tool(
        side_effect_class="HIGH_RISK_EXTERNAL",
        reversibility="REVERSIBLE",
        verification=None,
        unverifiable_acknowledged=True,
    )

    assert asked_for(blind, PLAIN) == ("UNVERIFIABLE",)


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
def test_a_rule_requires_approval_when_all_its_conditions_match(rule, matches):
    strict = policy.parse({"version": "2", "require": [rule]})
    asked = asked_for(tool(effect_domain="FINANCIAL"), strict)

    assert asked == (("POLICY_RULE_1",) if matches else ())


def test_an_empty_policy_gets_the_defaults():
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
def test_a_policy_that_differs_is_refused(change):
    with pytest.raises(BadPolicy) as caught:
        policy.parse({"version": "1"} | change)

    assert caught.value.errors


# Rules


AT_NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
REFUND = {"amount": "240.00", "currency": "EUR", "order": "EX-1"}


def held(*rules, args=REFUND, session=None, contract=None, at=AT_NOON, **document):
    facts = Facts(at=at, args=args, target="order/EX-1", agent={"id": "refunds"}, session=session or {})
    chosen = policy.parse({"version": "2", "rules": list(rules)} | document)
    return policy.decide_call(contract or tool(), chosen, facts)


def rule(outcome="hold", name="large", **said):
    return {"name": name, "outcome": outcome} | said


@pytest.mark.parametrize(
    "condition",
    [
        "amount.minor > 20000 && amount.currency == 'EUR'",
        "args.order == 'EX-1'",
        "contract.side_effect_class == 'LOW_RISK_INTERNAL'",
        "contract.rank < 3 && !contract.pivot",
        "target.kind == 'order' && target.name == 'EX-1' && target.resource.startsWith('order/')",
        "agent.id in ['refunds', 'payouts']",
        "now.hour == 12 && now.weekday == 'mon' && now.date == '2030-01-07'",
    ],
)
def test_conditions_can_use_everything_known_about_a_call(condition):
    asked = held(rule(when=condition))

    assert (asked.outcome, asked.reasons) == ("hold", ("RULE large",))
    assert asked.terms.rules == ("large",)


def test_a_rule_whose_condition_is_false_requires_no_approval():
    assert held(rule(when="amount.minor > 24000")).outcome == "auto"


def test_sessions_that_misbehaved_can_be_made_to_require_approval():
    strict = rule(when="session.undisclosed_attempts > 0 || session.drifts > 0")

    assert held(strict, session={"undisclosed_attempts": 0, "drifts": 0}).outcome == "auto"
    assert held(strict, session={"undisclosed_attempts": 0, "drifts": 2}).outcome == "hold"


@pytest.mark.parametrize("outcome", ["auto", "hold", "refuse"])
@pytest.mark.parametrize("condition", ["args.missing > 3", "amount.minor > 5", "amount.minor / 0 == 1"])
def test_an_undecidable_condition_requires_approval_whatever_the_outcome_of_its_rule(outcome, condition):
    """An error is never true, and never a pass."""
    asked = held(rule(outcome, when=condition), args={"amount": "x", "currency": "EUR"})

    assert (asked.outcome, asked.reasons) == ("hold", ("UNDECIDABLE large",))


def test_an_undecidable_exemption_exempts_nothing():
    asked = held(rule("auto", "small", when="args.missing < 3"), rule("hold", "all"))

    assert asked.reasons == ("UNDECIDABLE small", "RULE all")


def test_an_auto_rule_ends_the_evaluation_of_later_hold_rules():
    small = rule("auto", "small", when="amount.minor <= 24000")

    assert held(small, rule("hold", "all")).outcome == "auto"
    assert held(rule("hold", "all"), small).outcome == "hold"
    assert held(small, rule("hold", "all"), args=REFUND | {"amount": "240.01"}).outcome == "hold"


@pytest.mark.req("R-AP-03")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"side_effect_class": "HIGH_RISK_EXTERNAL"}, "IRREVERSIBLE"),
        ({"approval_required": True}, "CONTRACT"),
    ],
)
def test_no_policy_can_exempt_what_always_requires_approval(change, reason):
    assert held(rule("auto", "all"), contract=tool(**change)).reasons == (reason,)


def test_an_auto_rule_does_not_override_the_list_of_requirements():
    assert held(rule("auto", "all"), require=[{"tool": "issue_refund"}]).outcome == "hold"


def test_a_refuse_rule_applies_wherever_it_is():
    asked = held(rule("auto", "all"), rule("refuse", "never", when="args.order == 'EX-1'", reason="Not this order."))

    assert (asked.outcome, asked.reasons, asked.refusal) == ("refuse", ("RULE never",), "Not this order.")


def test_after_an_exemption_an_undecidable_refuse_rule_requires_approval_but_a_hold_rule_does_not():
    exempt = rule("auto", "all")

    assert held(exempt, rule("hold", "unclear", when="args.missing == 1")).outcome == "auto"
    assert held(exempt, rule("refuse", "unclear", when="args.missing == 1")).outcome == "hold"


def test_the_requirements_of_several_rules_add_up():
    asked = held(
        rule(
            name="large",
            thresholds=[{"group": "finance", "count": 1, "deny": 2}],
            step_up="B",
            decide_within_s=600,
            independence=["editor"],
            hours={"from": "09:00", "to": "17:00"},
        ),
        rule(
            name="larger",
            thresholds=[{"group": "finance", "count": 2, "deny": 1}, {"group": "legal", "count": 1}],
            step_up="A",
            release_within_s=60,
            risk="HIGH",
            hours={"from": "12:00", "to": "18:00"},
        ),
        independence=["agent_owner"],
        decide_within_s=3600,
        release_within_s=900,
    )
    terms = asked.terms

    assert terms.thresholds == (Threshold(group="finance", count=2), Threshold(group="legal"))
    assert (terms.step_up, terms.decide_within_s, terms.release_within_s) == ("A", 600, 60)
    assert terms.independence == {"agent_owner", "editor"}
    assert (len(terms.hours), asked.risk) == (2, Risk.HIGH)


def test_step_up_can_be_raised_and_never_lowered():
    by_risk = {"LOW": "C", "NORMAL": "C", "HIGH": "A"}

    assert held(rule(step_up="C"), step_up="B").terms.step_up == "B"
    assert held(rule(), step_up="B", step_up_by_risk=by_risk).terms.step_up == "B"
    assert held(rule(risk="HIGH"), step_up="B", step_up_by_risk=by_risk).terms.step_up == "A"


def test_a_risk_found_later_raises_the_step_up_too():
    chosen = policy.parse({"version": "1", "step_up_by_risk": {"HIGH": "A", "LOW": "C"}})

    assert policy.raise_terms(chosen, ApprovalTerms(step_up="C", batchable=True), Risk.HIGH) == ApprovalTerms(
        step_up="A"
    )
    assert policy.raise_terms(chosen, ApprovalTerms(step_up="A"), Risk.LOW).step_up == "A"


@pytest.mark.parametrize(
    ("change", "risk"),
    [
        ({}, Risk.LOW),
        ({"side_effect_class": "MEDIUM_RISK_WRITE"}, Risk.NORMAL),
        ({"reversibility": "IRREVERSIBLE"}, Risk.NORMAL),
        ({"side_effect_class": "HIGH_RISK_EXTERNAL"}, Risk.HIGH),
        ({"side_effect_class": "HIGH_RISK_EXTERNAL", "reversibility": "REVERSIBLE"}, Risk.NORMAL),
        ({"side_effect_class": "CRITICAL_MUTATION", "reversibility": "REVERSIBLE"}, Risk.HIGH),
    ],
)
def test_risk_follows_class_and_reversibility(change, risk):
    assert held(contract=tool(**change)).risk is risk


def test_a_session_that_misbehaved_has_high_risk():
    assert held(session={"drifts": 1}).risk is Risk.HIGH


@pytest.mark.parametrize(
    ("kind", "reversibility", "waits"),
    [
        ("LOW_RISK_INTERNAL", "REVERSIBLE", False),
        ("LOW_RISK_INTERNAL", "IRREVERSIBLE", True),
        ("CRITICAL_MUTATION", "REVERSIBLE", True),
    ],
)
def test_an_irreversible_action_always_waits_for_the_seal(kind, reversibility, waits):
    """B40: `wait_for_seal: false` counts for reversible actions only."""
    asked = held(contract=tool(side_effect_class=kind, reversibility=reversibility), wait_for_seal=False)

    assert asked.terms.wait_for_seal is waits


def test_the_default_terms_wait_for_the_seal_and_require_one_independent_reviewer():
    terms = held().terms

    assert terms.wait_for_seal
    assert terms.thresholds == (Threshold(group="reviewers"),)
    assert terms.independence == set(INDEPENDENCE)


def test_only_low_risk_reversible_actions_can_be_voted_on_in_batches():
    batch = {"batch": {"most": 20, "side_effect_classes": ["LOW_RISK_INTERNAL", "HIGH_RISK_EXTERNAL"]}}

    assert held(**batch).terms.batchable
    assert not held(rule(step_up="A"), **batch).terms.batchable
    assert not held(contract=tool(reversibility="IRREVERSIBLE"), **batch).terms.batchable
    assert not held(contract=tool(side_effect_class="HIGH_RISK_EXTERNAL"), **batch).terms.batchable
    assert not held().terms.batchable


@pytest.mark.parametrize(
    ("args", "minor"),
    [
        ({"amount": 24000, "currency": "EUR"}, 24000),
        ({"amount": "240", "currency": "eur"}, 24000),
        ({"amount": "240.5", "currency": "EUR"}, 24050),
        ({"amount": "-1.05", "currency": "EUR"}, -105),
        ({"amount": "240", "currency": "JPY"}, 240),
        ({"amount": "1.234", "currency": "KWD"}, 1234),
        ({"amount": "1.230", "currency": "EUR"}, 123),
    ],
)
def test_an_amount_is_read_exactly(args, minor):
    assert facts.money_amount(args)["minor"] == minor


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"amount": 1},
        {"amount": True, "currency": "EUR"},
        {"amount": "1.234", "currency": "EUR"},
        {"amount": "1,000", "currency": "EUR"},
        {"amount": "1e3", "currency": "EUR"},
        {"amount": "\u0661", "currency": "EUR"},
        {"amount": 1, "currency": "euro"},
        {"amount": None, "currency": "EUR"},
    ],
)
def test_an_inexact_amount_is_ignored(args):
    assert facts.money_amount(args) == {}


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        ({"rules": [rule(when="amuont.minor > 3")]}, "/rules/0/when", "BAD_EXPRESSION"),
        ({"rules": [rule(when="amount.cents > 3")]}, "/rules/0/when", "BAD_EXPRESSION"),
        ({"rules": [rule(), rule(name="b", when="amount.minor +")]}, "/rules/1/when", "BAD_EXPRESSION"),
        ({"rules": [rule(when="'text'")]}, "/rules/0/when", "BAD_EXPRESSION"),
        ({"rules": [rule(), rule(step_up="B")]}, "/rules/1/name", "NAME_TAKEN"),
        ({"rules": [rule("auto", step_up="A")]}, "/rules/0/step_up", "NO_EFFECT"),
        ({"rules": [rule("refuse", risk="HIGH")]}, "/rules/0/risk", "NO_EFFECT"),
        ({"rules": [rule(reason="Because.")]}, "/rules/0/reason", "NO_EFFECT"),
        ({"rules": [rule("allow")]}, "/rules/0/outcome", "SCHEMA"),
        ({"rules": [rule(decide_within_s=0)]}, "/rules/0/decide_within_s", "SCHEMA"),
        ({"rules": [rule(hours={"from": "9", "to": "17:00"})]}, "/rules/0/hours/from", "SCHEMA"),
        ({"hours": {"from": "09:00", "to": "09:00"}}, "/hours", "BAD_HOURS"),
        ({"hours": {"from": "09:00", "to": "17:00", "zone": "Mars/Base"}}, "/hours", "BAD_HOURS"),
        ({"thresholds": []}, "/thresholds", "SCHEMA"),
        ({"thresholds": [{"group": "a", "count": 0}]}, "/thresholds/0/count", "SCHEMA"),
        ({"thresholds": [{"group": "a", "count": 1, "deny": 0}]}, "/thresholds/0/deny", "SCHEMA"),
        ({"thresholds": [{"group": "a", "count": 1}, {"group": "a", "count": 2}]}, "/thresholds/1/group", "NAME_TAKEN"),
        ({"escalate_to": "leads"}, "/escalate_to", "INCOMPLETE"),
        ({"escalate_after_s": 60}, "/escalate_after_s", "INCOMPLETE"),
        ({"on_change": "ignore"}, "/on_change", "SCHEMA"),
        ({"break_glass": {"enabled": True, "review_within_s": 0}}, "/break_glass/review_within_s", "SCHEMA"),
        ({"break_glass": {"enabled": True, "reviewers": 0}}, "/break_glass/reviewers", "SCHEMA"),
        ({"privacy": {"reviewer_quality": "everyone"}}, "/privacy/reviewer_quality", "SCHEMA"),
        ({"batch": {"most": 51, "side_effect_classes": ["READ_ONLY"]}}, "/batch/most", "SCHEMA"),
    ],
)
def test_every_fault_of_a_policy_is_named_by_its_path(change, path, code):
    with pytest.raises(BadPolicy) as caught:
        policy.parse({"version": "1"} | change)

    assert (path, code) in {(fault["path"], fault["code"]) for fault in caught.value.errors}


def test_all_faults_are_reported_together():
    with pytest.raises(BadPolicy) as caught:
        policy.parse({"version": "1", "rules": [rule(when="a"), rule(name="b", when="b")], "escalate_to": "x"})

    assert len(caught.value.errors) == 3


@pytest.mark.parametrize("name", ["on_timeout", "default_decision", "auto_approve_after_s", "on_silence"])
def test_a_policy_cannot_approve_by_default(name):
    with pytest.raises(BadPolicy):
        policy.parse({"version": "1", name: "approve"})


@pytest.mark.parametrize("name", ["decide_within_s", "release_within_s", "grant_life_s", "escalate_after_s"])
@pytest.mark.parametrize("value", [0, -1, None, ""])
def test_no_duration_may_be_zero_or_unlimited(name, value):
    with pytest.raises(BadPolicy):
        policy.parse({"version": "1", "escalate_to": "leads", name: value})


def test_an_omitted_duration_has_a_default():
    terms = held().terms

    assert (terms.decide_within_s, terms.release_within_s) == (14400, 900)


def test_break_glass_is_disabled_by_default():
    assert not PLAIN.break_glass.enabled
    on = policy.parse({"version": "1", "break_glass": {"enabled": True, "groups": ["on-call"]}}).break_glass
    assert (on.enabled, on.groups, on.review_within_s, on.reviewers) == (True, {"on-call"}, 86400, 2)


def test_a_stored_policy_is_read_back():
    chosen = policy.parse({"version": "1", "rules": [rule(when="amount.minor > 3")]})

    assert policy.load_stored(chosen.document).digest == chosen.digest


def test_a_policy_without_a_version_is_refused():
    with pytest.raises(BadPolicy):
        policy.parse({})


@pytest.mark.req("R-AP-09")
def test_any_change_of_a_policy_changes_its_digest():
    assert policy.parse({"version": "1", "step_up": "A"}).digest != PLAIN.digest
    assert policy.parse({"version": "2"}).digest != PLAIN.digest
    assert (
        policy.parse({"step_up": "C", "version": "1"}).digest == policy.parse({"version": "1", "step_up": "C"}).digest
    )


def test_the_release_deadline_follows_the_decision():
    decided = NOW + timedelta(seconds=100)

    assert PLAIN.decide_by(requested_at=NOW) == NOW + timedelta(hours=4)
    assert PLAIN.release_by(decided_at=decided) == decided + timedelta(minutes=15)


@pytest.mark.req("R-AP-08")
def test_a_grant_never_outlives_its_approval():
    soon = NOW + timedelta(seconds=30)

    assert PLAIN.grant_expiry(minted_at=NOW, release_by=soon) == soon
    assert PLAIN.grant_expiry(minted_at=NOW, release_by=None) == NOW + timedelta(seconds=120)


@pytest.mark.parametrize(
    "boxes",
    [
        {},
        {"most_minutes": 30},
        {"most_count": 3},
        {"most_minutes": 61, "most_count": 3},
        {"most_minutes": 0, "most_count": 3},
        {"most_minutes": 30, "most_count": 0},
        {"most_minutes": 30, "most_count": 3, "approve": True},
    ],
)
def test_time_boxed_passes_have_both_limits_and_last_for_an_hour_at_most(boxes):
    with pytest.raises(BadPolicy):
        policy.parse({"version": "1", "standing_approvals": {"time_boxes": boxes}})
    longest = policy.parse(
        {"version": "1", "standing_approvals": {"time_boxes": {"most_minutes": 60, "most_count": 9}}}
    )
    assert longest.standing is not None
    assert longest.standing.time_boxes is not None
    assert (longest.standing.time_boxes.most_minutes, longest.standing.time_boxes.most_count) == (60, 9)


def test_without_a_word_about_them_there_are_no_time_boxed_passes():
    assert PLAIN.standing is None
    asked = policy.parse({"version": "1", "standing_approvals": {}})
    assert asked.standing is not None
    assert asked.standing.time_boxes is None
