"""What changed between two versions of a contract is said in words."""

from __future__ import annotations

import pytest

from console.contracts.change_sentences import change_sentence
from console.contracts.contract_check import diff_documents

CONTRACT = {
    "version": "1.0.0",
    "side_effect_class": "COMMUNICATION",
    "arguments_schema": {
        "properties": {"amount": {"type": "integer", "maximum": 100}, "note": {"type": "string"}},
        "required": ["amount"],
    },
    "verification": {"system": "shop", "predicates": ["sa.exists", "sa.amount == sr.amount"]},
    "idempotent": True,
}


def said(**changed):
    return [change_sentence(each) for each in diff_documents(CONTRACT, CONTRACT | changed)]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"side_effect_class": "CRITICAL_MUTATION"}, "Side-effect class: COMMUNICATION became CRITICAL_MUTATION."),
        ({"idempotent": False}, "Idempotent: yes became no."),
        (
            {"verification": {"system": "shop", "predicates": ["sa.exists"]}},
            "Checks: sa.amount == sr.amount removed.",
        ),
        (
            {"verification": CONTRACT["verification"] | {"system": "books"}},
            "System of record: shop became books.",
        ),
        ({"verification": CONTRACT["verification"] | {"sla_s": 60}}, "Verification, sla s: added 60."),
    ],
)
def test_a_change_is_described_in_one_sentence(changed, sentence):
    assert said(**changed) == [sentence]


def test_changes_of_arguments_name_the_argument():
    schema = {
        "properties": {"amount": {"type": "integer", "maximum": 200}, "currency": {"type": "string"}},
        "required": ["amount", "currency"],
    }
    assert said(arguments_schema=schema) == [
        "Argument amount, maximum: 100 became 200.",
        "Argument currency is new.",
        "Argument note is gone.",
        "Required arguments: currency added.",
    ]
