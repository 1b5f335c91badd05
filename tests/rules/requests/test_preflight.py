"""Preflight: what shows before anybody is asked that an action is doomed, and what only raises its risk."""

from __future__ import annotations

import copy

import pytest

from approvals.requests.rules.preflight import judge_conditions
from ledger.catalogue.rules import contract
from ledger.catalogue.rules.contract import BadContract
from ledger.catalogue.rules.preflight_reads import PreflightSpec, read
from tests.rules.catalogue.test_contract import REFUND

PAID = {
    "pre": {"target": {"exists": True, "refunded": 0, "tenant": "acme"}},
    "sr": {"amount": 100},
    "scope": {"tenant": "acme"},
}
WISHES = read(
    {
        "preflight": [
            {"holds": "pre.target.exists", "otherwise": "There is no such charge."},
            "pre.target.refunded + sr.amount <= 150",
            "pre.target.tenant == scope.tenant",
        ]
    }
)


def over(wishes=WISHES, *, known=True, foreign=False, **target):
    bindings = copy.deepcopy(PAID)
    bindings["pre"]["target"] |= target
    return judge_conditions(wishes, bindings if known else {**bindings, "pre": {}}, known=known, foreign=foreign)


def test_an_action_that_can_succeed_passes_preflight():
    flight = over()
    assert (flight.refusals, flight.raises) == ((), ())


def test_a_doomed_action_is_refused_with_the_condition_and_the_values_read():
    flight = over(refunded=100)
    assert [each.holds for each in flight.refusals] == ["pre.target.refunded + sr.amount <= 150"]
    assert flight.message == (
        "The target does not allow it: `pre.target.refunded + sr.amount <= 150` does not hold."
        " Read before anybody was asked: pre.target.refunded is 100."
    )


def test_a_contract_may_give_its_own_message_for_a_failed_condition():
    assert over(exists=False).message.startswith("There is no such charge. Read")


def test_an_undecided_preflight_refuses_nothing_and_raises_the_risk():
    flight = over(known=False)
    assert flight.refusals == ()
    assert flight.raises == ("BASELINE_UNKNOWN", "PREFLIGHT_UNDECIDED")


def test_values_of_a_target_of_another_tenant_are_never_shown():
    flight = over(tenant="willow", foreign=True)
    assert "willow" not in flight.message
    assert flight.refusals[0].read == ()


def test_values_read_are_shown_shortened_and_without_hidden_characters():
    wishes = read({"preflight": ["pre.target.note == 'x'"]})
    message = over(wishes, note="\u202ey" + "z" * 500).message
    assert "⟦U+202E⟧yzz" in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("count", "touches", "raises"),
    [
        ("pre.target.rows", 40, ()),
        ("pre.target.rows * sr.amount", 4000, ("BLAST_RADIUS_HIGH",)),
        ("pre.target.nothing", None, ("BLAST_RADIUS_UNKNOWN",)),
        ("pre.target.tenant", None, ("BLAST_RADIUS_UNKNOWN",)),
        ("0 - pre.target.rows", None, ("BLAST_RADIUS_UNKNOWN",)),
    ],
)
def test_an_unknown_or_large_blast_radius_raises_the_risk(count, touches, raises):
    flight = over(read({"blast_radius": {"count": count, "high_above": 100}}), rows=40)
    assert (flight.touches, flight.raises) == (touches, raises)


def test_the_digest_covers_the_whole_result():
    assert over().digest == over().digest
    assert over().digest != over(refunded=1).digest


def test_a_contract_without_conditions_needs_no_reading():
    assert not PreflightSpec().wanted
    assert not read({"blast_radius": {"count": "sr.amount"}}).wanted
    assert read({"blast_radius": {"count": "pre.target.rows"}}).wanted


@pytest.mark.parametrize(
    ("approval", "code"),
    [
        ({"preflight": ["sa.amount == 1"]}, "BAD_PREFLIGHT"),
        ({"preflight": ["pre.target."]}, "BAD_PREFLIGHT"),
        ({"blast_radius": {"count": "[1, 2]"}}, "BAD_BLAST_RADIUS"),
        ({"blast_radius": {"count": "sa.count"}}, "BAD_BLAST_RADIUS"),
    ],
)
def test_conditions_that_can_never_be_evaluated_are_refused_at_registration(approval, code):
    with pytest.raises(BadContract) as refused:
        contract.validate(REFUND | {"approval": approval}, compile_predicate=_compiled)
    assert [fault["code"] for fault in refused.value.errors] == [code]


def test_a_baseline_requires_a_verification():
    blind = {name: part for name, part in REFUND.items() if name != "verification"}
    blind |= {"unverifiable_acknowledged": True, "approval": {"baseline": True}}
    with pytest.raises(BadContract) as refused:
        contract.validate(blind, compile_predicate=_compiled)
    assert refused.value.errors[0]["code"] == "NOTHING_TO_READ"


def _compiled(text):
    from ledger.catalogue.rules import expressions

    try:
        expressions.compile(text)
    except expressions.BadExpression as problem:
        return problem.detail
    return None
