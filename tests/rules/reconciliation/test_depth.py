"""Depth by class: what is required, what covers it, and what happens when nobody could check it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.catalogue.rules import depth
from ledger.catalogue.rules.depth import CheckEvidence, CheckRequirement
from ledger.catalogue.rules.effects import DEFAULT_SLA_S, SideEffectClass
from ledger.catalogue.rules.policies import BUILT_IN_NUMBERS
from reviews.reconciliation.rules.facts import ReadFailure
from reviews.reconciliation.rules.reading import Consistency
from tests.support.pure.refund_contract import refund_contract
from tests.support.verification_runs import (
    FACTS,
    FIELDS,
    MEDIUM,
    SLA,
    entry,
    failed,
    inputs,
    no_refund,
    reading,
    refund,
    walk,
)


def asked(**changes):
    """The depth of the refund contract, changed."""
    return depth.verification_depth(refund_contract(**changes))


def covering(**changes):
    return {one.check: one.by for one in asked(**changes).requirements}


def with_lookup(**part):
    verification = refund_contract()["verification"]
    effect = verification["lookup"]["effects"]["refund"]
    kept = {name: value for name, value in (effect | part).items() if value is not None}
    return {"verification": {"lookup": {"effects": {"refund": kept}}}}


@pytest.mark.req("R-VD-05")
def test_the_contract_covers_the_checks_required_by_a_high_risk_class():
    assert covering() == {
        "provider_transaction_id": CheckEvidence.EFFECTS,
        "delivery_status": CheckEvidence.PREDICATES,
        "recipient_or_target": CheckEvidence.SCOPE,
        "amount": CheckEvidence.PREDICATES,
        "idempotency_key": CheckEvidence.EFFECTS,
        "externally_visible_state": CheckEvidence.PREDICATES,
    }


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("READ_ONLY", "tenant_scope_confirmed"),
        ("EPHEMERAL_WRITE", "file_exists"),
        ("LOW_RISK_INTERNAL", "tenant_id"),
        ("MEDIUM_RISK_WRITE", "before_after_diff"),
        ("CRITICAL_MUTATION", "multi_source_reconciliation"),
    ],
)
@pytest.mark.req("R-VD-01", "R-VD-03", "R-VD-04", "R-VD-06")
def test_each_class_requires_its_own_checks(kind, check):
    assert check in covering(side_effect_class=kind)
    assert set(depth.REQUIRED[SideEffectClass(kind)]) <= set(covering(side_effect_class=kind))


def test_uncovered_checks_are_listed():
    plain = with_lookup(target_column=None, where={"id": "sr.amount"})
    assert set(asked(**plain).uncovered) == {"recipient_or_target", "idempotency_key"}


def test_a_contract_may_declare_what_makes_a_check_or_why_it_does_not_apply():
    plain = with_lookup(target_column=None, where={"id": "sr.amount"})
    plain["verification"]["checks"] = {
        "recipient_or_target": {"not_applicable": "The order is the account."},
        "idempotency_key": {"by": ["sa.amount == sr.amount"]},
    }
    assert asked(**plain).uncovered == ()
    assert covering(**plain)["recipient_or_target"] is CheckEvidence.NOT_APPLICABLE


@pytest.mark.req("R-VD-07")
@pytest.mark.parametrize("name", ["data_sensitivity", "cost", "user_impact"])
def test_a_high_risk_input_raises_the_depth_of_a_lower_class(name):
    plain = asked(side_effect_class="LOW_RISK_INTERNAL", reversibility="COMPENSABLE")
    deeper = asked(side_effect_class="LOW_RISK_INTERNAL", reversibility="COMPENSABLE", **{name: "HIGH"})
    assert deeper.level is SideEffectClass.MEDIUM_RISK_WRITE
    assert deeper.demanding
    assert not plain.demanding
    assert {one.check for one in plain.requirements} < {one.check for one in deeper.requirements}
    for grade in ("LOW", "MODERATE"):
        assert asked(side_effect_class="HIGH_RISK_EXTERNAL", **{name: grade}) == asked()


@pytest.mark.req("R-VD-07")
def test_an_irreversible_action_has_more_required_checks():
    lasting = asked(side_effect_class="LOW_RISK_INTERNAL", reversibility="IRREVERSIBLE")
    assert lasting.level is SideEffectClass.MEDIUM_RISK_WRITE
    assert lasting.because == ("it is irreversible",)


def test_the_depth_table_and_the_defaults_agree():
    assert {kind: row["sla_s"] for kind, row in depth._CLASSES.items()} == DEFAULT_SLA_S
    assert set(depth.CHECKS) == {check for checks in depth.REQUIRED.values() for check in checks}


# Over a run


def deep(*requirements, demanding=True, facts=FACTS):
    return replace(facts, depth=depth.VerificationDepth(facts.side_effect_class, demanding, (), requirements))


AMOUNT = CheckRequirement("amount", CheckEvidence.PREDICATES, texts=("sa.amount == sr.amount",))
TARGET = CheckRequirement("recipient_or_target", CheckEvidence.SCOPE, texts=("target",))
NOBODY = CheckRequirement("delivery_status", CheckEvidence.NOTHING, note="No predicate speaks of it.")


def made(outcome):
    return {one.check: str(one.made) for one in outcome.verdict.checks}


@pytest.mark.req("R-VD-05", "R-VD-10")
def test_a_required_check_that_cannot_be_made_prevents_success():
    outcome, passed, _ = walk(inputs(reading(), facts=deep(AMOUNT, NOBODY)))
    assert made(outcome) == {"amount": "CHECKED", "delivery_status": "UNCHECKED"}
    assert passed == ["UNKNOWN", "REVIEW_REQUIRED"]
    assert outcome.verdict.discrepancy == "UNVERIFIABLE_STATE"


@pytest.mark.req("R-VD-08")
def test_a_less_demanding_class_succeeds_without_the_check():
    outcome, passed, _ = walk(inputs(reading(), facts=deep(NOBODY, demanding=False)))
    assert passed[-1] == "RECONCILED_SUCCESS"
    assert made(outcome) == {"delivery_status": "UNCHECKED"}


def test_a_check_fails_with_its_predicate_or_its_scope():
    wrong = inputs(reading(refund(fields=FIELDS | {"amount": 1})), facts=deep(AMOUNT, TARGET))
    assert made(walk(wrong)[0]) == {"amount": "FAILED", "recipient_or_target": "CHECKED"}
    elsewhere = inputs(reading(refund(scope={"target": ("o-18",)})), facts=deep(TARGET))
    assert made(walk(elsewhere)[0]) == {"recipient_or_target": "FAILED"}


def test_a_scope_missing_from_the_reading_is_unchecked():
    outcome, _, _ = walk(inputs(reading(refund(scope={})), facts=deep(TARGET)))
    assert made(outcome) == {"recipient_or_target": "UNCHECKED"}


@pytest.mark.req("R-VD-06")
@pytest.mark.parametrize(
    ("by", "without", "outcome"),
    [
        (CheckEvidence.APPROVAL, set(), "CHECKED"),
        (CheckEvidence.APPROVAL, {"approval"}, "UNCHECKED"),
        (CheckEvidence.POLICIES, set(), "CHECKED"),
        (CheckEvidence.ENTRY, set(), "CHECKED"),
        (CheckEvidence.SOURCES, set(), "UNCHECKED"),
        (CheckEvidence.BEFORE, set(), "UNCHECKED"),
        (CheckEvidence.STRONG_READ, set(), "CHECKED"),
        (CheckEvidence.SETTLED, set(), "CHECKED"),
        (CheckEvidence.INTEGRITY, set(), "CHECKED"),
    ],
)
def test_checks_of_the_record_are_made_from_the_record(by, without, outcome):
    snapshot = {name: block for name, block in entry().items() if name not in without}
    run = inputs(reading(), facts=deep(CheckRequirement("one", by), demanding=False), entry=snapshot)
    assert made(walk(run)[0]) == {"one": outcome}


# Review triggers


def noticed(*args, **changes):
    return walk(inputs(*args, **changes))[0].attention


LOW = replace(MEDIUM, side_effect_class=SideEffectClass.LOW_RISK_INTERNAL)
REPLICA = reading(consistency=Consistency.REPLICA)


@pytest.mark.req("R-VD-03")
def test_a_replica_that_keeps_answering_needs_a_person_after_the_limit():
    assert noticed(REPLICA, facts=LOW, doubts=1) == ()
    outcome, passed, _ = walk(inputs(REPLICA, facts=LOW, doubts=2))
    assert outcome.attention == ("repeated_verification_mismatch",)
    assert outcome.case
    assert passed == []
    assert outcome.next_read_at is not None


@pytest.mark.req("R-VD-04")
def test_a_partial_effect_of_a_medium_class_is_noticed_beside_its_recovery():
    two = replace(MEDIUM, required_effects=("refund", "notice"))
    part = reading(refund(), replace(no_refund(), name="notice"))
    assert noticed(part, facts=two) == ("partial_success",)


@pytest.mark.req("R-VD-05")
@pytest.mark.parametrize(
    ("trigger", "found", "changes"),
    [
        ("decline", no_refund(), {"observation": failed("CARD_DECLINED")}),
        ("mismatch", refund(fields=FIELDS | {"amount": 1}), {}),
        ("duplicate", refund(count=2), {}),
        ("provider_unreachable", None, {"failure": ReadFailure("Down.", retryable=True), "attempts": 2}),
        ("verification_timeout", None, {"failure": ReadFailure("Down.", retryable=True), "at": SLA}),
    ],
)
def test_each_trigger_of_a_high_risk_class_needs_a_person(trigger, found, changes):
    readings = () if found is None else (reading(found),)
    outcome, _, _ = walk(inputs(*readings, **changes))
    assert trigger in outcome.attention
    assert outcome.case


def test_a_single_outage_needs_no_person():
    assert noticed(failure=ReadFailure("Down.", retryable=True)) == ()


def test_a_successful_verification_opens_no_case():
    assert noticed(reading()) == ()
    assert not walk(inputs(reading()))[0].case


@pytest.mark.req("R-VD-13")
def test_the_built_in_numbers_equal_those_of_the_table():
    assert BUILT_IN_NUMBERS.sla_s == DEFAULT_SLA_S
    assert BUILT_IN_NUMBERS.repeat_limit == 3
