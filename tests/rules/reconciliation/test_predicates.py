"""Predicates: the ten kinds, three results, the scope that is always checked."""

from __future__ import annotations

import pytest

from reviews.reconciliation.rules import predicates
from reviews.reconciliation.rules.predicates import PredicateOrigin, PredicateOutcome
from reviews.reconciliation.rules.reading import ReadEffect, Reading, reading_bindings
from tests.support.verification_runs import reading, refund

SCOPE = {
    "tenant": "acme",
    "principal": "agent-1",
    "executed_at": "2026-03-02T09:00:00Z",
    "idempotency_key": "key-1",
    "trace_id": "tr-1",
}


def evaluated(found: Reading, *contract, added=(), scope=None, pre=None, sr=None):
    sr = {"order_id": "o-17", "amount": 1000, "currency": "EUR"} if sr is None else sr
    bindings = {
        "si": {"target_resource": "order/o-17"},
        "sr": sr,
        "so": {},
        "sa": reading_bindings(found, ("refund",)),
        "scope": SCOPE if scope is None else scope,
        "pre": {} if pre is None else pre,
    }
    return predicates.evaluate(found, bindings=bindings, contract=contract, added=added, target_resource="order/o-17")


def holds(text, fields, **kwargs):
    target = kwargs.pop("target", None)
    found = reading(refund(fields=fields), target=target)
    return evaluated(found, text, **kwargs)[-1].holds


KINDS = [
    ("sa.order_id == sr.order_id", {"order_id": "o-17"}, {"order_id": "o-18"}),
    ("sa.tenant_id == scope.tenant", {"tenant_id": "acme"}, {"tenant_id": "other"}),
    ("sa.status in ['succeeded', 'settled']", {"status": "settled"}, {"status": "pending"}),
    ("sa.amount == sr.amount", {"amount": 1000}, {"amount": 100}),
    ("sa.currency == sr.currency", {"currency": "EUR"}, {"currency": "USD"}),
    ("sa.version > pre.target.version", {"version": 8}, {"version": 7}),
    ("sa.actor == scope.principal", {"actor": "agent-1"}, {"actor": "somebody"}),
    ("sa.key == scope.idempotency_key", {"key": "key-1"}, {"key": "key-2"}),
    (
        "timestamp(sa.created_at) >= timestamp(scope.executed_at)",
        {"created_at": "2026-03-02T09:00:01+00:00"},
        {"created_at": "2026-03-02T08:59:59+00:00"},
    ),
    ("scope.trace_id in sa.audit", {"audit": ["tr-0", "tr-1"]}, {"audit": []}),
]


@pytest.mark.req("R-RC-03")
@pytest.mark.parametrize(("text", "right", "wrong"), KINDS)
def test_each_kind_of_predicate_can_be_true_false_and_undecidable(text, right, wrong):
    pre = {"target": {"version": 7}}
    assert holds(text, right, pre=pre) is PredicateOutcome.TRUE
    assert holds(text, wrong, pre=pre) is PredicateOutcome.FALSE
    assert holds(text, {}, pre=pre) is PredicateOutcome.UNDECIDABLE


@pytest.mark.req("R-RC-02")
def test_additional_fields_do_not_affect_a_predicate():
    extra = {"amount": 1000, "id": "re_1", "created_at": "2026-03-02T09:00:00Z", "fee": None}
    assert holds("sa.amount == sr.amount", extra) is PredicateOutcome.TRUE


def test_one_value_without_a_canonical_form_makes_all_predicates_undecidable():
    assert holds("sa.amount == sr.amount", {"amount": 1000, "note": "a\0b"}) is PredicateOutcome.UNDECIDABLE


def test_a_stored_predicate_that_no_longer_compiles_is_undecidable():
    (*_, result) = evaluated(reading(), "sa.amount ==")
    assert result.holds is PredicateOutcome.UNDECIDABLE
    assert "does not compile" in result.reason


@pytest.mark.req("R-RC-12")
@pytest.mark.parametrize("text", ["sa.amount == sr.amount", "sr.amount == sa.amount"])
def test_each_result_contains_the_expected_and_the_actual_value(text):
    found = reading(refund(fields={"amount": 1}))
    (*_, result) = evaluated(found, text)
    assert (result.expected, result.actual) == (1000, 1)
    assert result.source == "shop"
    assert result.consistency == "PRIMARY"
    assert result.observed_at == found.observed_at


def test_predicates_of_the_agent_are_added_to_those_of_the_contract():
    results = evaluated(reading(), "sa.amount == sr.amount", added=("sa.currency == 'CHF'",))
    said = {one.origin: one.holds for one in results}
    assert said == {
        PredicateOrigin.SCOPE: PredicateOutcome.TRUE,
        PredicateOrigin.CONTRACT: PredicateOutcome.TRUE,
        PredicateOrigin.AGENT: PredicateOutcome.FALSE,
    }


@pytest.mark.req("R-RC-06", "R-RC-11", "R-CP-13", "R-CP-15")
@pytest.mark.parametrize(
    ("scope", "tenant", "target"),
    [
        ({"tenant": ("acme",), "target": ("o-17",)}, PredicateOutcome.TRUE, PredicateOutcome.TRUE),
        ({"tenant": ("acme",), "target": ("order/o-17",)}, PredicateOutcome.TRUE, PredicateOutcome.TRUE),
        ({"tenant": ("acme",), "target": ("17",)}, PredicateOutcome.TRUE, PredicateOutcome.FALSE),
        ({"tenant": ("acme",), "target": ("o-1",)}, PredicateOutcome.TRUE, PredicateOutcome.FALSE),
        ({"tenant": ("ACME",)}, PredicateOutcome.FALSE, PredicateOutcome.NOT_APPLICABLE),
        ({"tenant": ("acme", "other")}, PredicateOutcome.FALSE, PredicateOutcome.NOT_APPLICABLE),
        ({"tenant": (None,)}, PredicateOutcome.UNDECIDABLE, PredicateOutcome.NOT_APPLICABLE),
        ({"tenant": (None, "other")}, PredicateOutcome.FALSE, PredicateOutcome.NOT_APPLICABLE),
        ({"tenant": ()}, PredicateOutcome.UNDECIDABLE, PredicateOutcome.NOT_APPLICABLE),
        ({}, PredicateOutcome.NOT_APPLICABLE, PredicateOutcome.NOT_APPLICABLE),
    ],
)
def test_tenant_and_target_are_always_checked(scope, tenant, target):
    first, second = evaluated(reading(refund(scope=scope)))
    assert (first.holds, second.holds) == (tenant, target)
    assert all(one.reason for one in (first, second) if one.holds is not PredicateOutcome.TRUE)


def test_numbers_of_tenants_compare_as_text():
    found = reading(refund(scope={"tenant": (42,)}))
    assert evaluated(found, scope={"tenant": "42"})[0].holds is PredicateOutcome.TRUE


def test_without_an_authorised_tenant_the_scope_is_undecidable():
    found = reading(refund(scope={"tenant": ("acme",)}))
    assert evaluated(found, scope={})[0].holds is PredicateOutcome.UNDECIDABLE


def test_an_effect_that_is_absent_has_no_scope_to_check():
    absent = ReadEffect(name="refund", present=False, scope={"tenant": (), "target": ()})
    assert {one.holds for one in evaluated(reading(absent))} == {PredicateOutcome.NOT_APPLICABLE}


class TestWhatExpressionsSee:
    def test_the_first_required_effect_is_bound_at_the_top_level(self):
        found = reading_bindings(reading(refund(), target={"exists": True, "version": 3}), ("refund",))
        assert found["amount"] == 1000
        assert found["exists"] is True
        assert found["count"] == 1
        assert found["effects"]["refund"]["currency"] == "EUR"
        assert found["target"] == {"exists": True, "version": 3}

    def test_an_undetermined_effect_has_no_bindings(self):
        found = reading_bindings(reading(ReadEffect(name="refund", present=None)), ("refund",))
        assert found == {"effects": {"refund": {}}}

    def test_a_field_cannot_override_presence_and_count(self):
        forged = refund(fields={"exists": "yes", "count": 9})
        found = reading_bindings(reading(forged), ("refund",))
        assert (found["exists"], found["count"]) == (True, 1)

    def test_without_a_reading_there_are_no_bindings(self):
        assert reading_bindings(None, ("refund",)) == {}
