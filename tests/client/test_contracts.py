"""The example's contract documents against the product's own rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from example import registration
from example.cases import BY_NAME, TABLE
from example.executor import TOOLS
from ledger.catalogue.rules import contract, expressions

DOCUMENTS = registration.contracts()
_names = pytest.mark.parametrize("document", DOCUMENTS, ids=[one["name"] for one in DOCUMENTS])


def _fault(text):
    try:
        expressions.compile(text)
    except expressions.BadExpression as problem:
        return problem.detail
    return None


@_names
def test_each_contract_is_valid_and_lint_finds_nothing(document):
    assert contract.validate(document, compile_predicate=_fault).findings == ()


@_names
def test_each_lookup_value_can_be_computed(document):
    for effect in document["verification"]["lookup"]["effects"].values():
        for text in [*effect.get("where", {}).values(), *effect.get("match", {}).values()]:
            expressions.check_value(text, expressions.VARIABLES)
        if "present_if" in effect:
            names = ("row", "sr", "si", "scope", "pre")
            expressions.compile(effect["present_if"], dict.fromkeys(names))


@_names
def test_each_contract_has_a_tool(document):
    assert document["name"] in TOOLS


def test_the_agent_is_registered_for_every_tool():
    entry = registration.agent(DOCUMENTS)
    assert sorted(entry["tools"]) == sorted(TOOLS)


def test_each_remedy_is_a_tool_of_the_example_and_gets_every_argument_that_it_needs():
    known = {one["name"]: one for one in DOCUMENTS}
    for document in DOCUMENTS:
        remedies = contract.validate(document, compile_predicate=_fault).recovery
        for relation, remedy in remedies.whole.items():
            wanted = known[remedy.tool]["arguments_schema"]["required"]
            assert sorted(remedy.arguments) == sorted(wanted), (document["name"], relation)


def test_irreversible_tools_require_a_persons_approval():
    kinds = {one["name"]: one["reversibility"] for one in DOCUMENTS}
    irreversible = {name for name, kind in kinds.items() if kind == "IRREVERSIBLE"}
    assert irreversible == {"issue_refund", "cancel_order", "delete_document"}


def test_the_label_of_every_case_begins_with_example():
    assert all(case.label.startswith("Example: ") for case in BY_NAME.values())


def test_the_table_has_twenty_one_cases():
    assert len(TABLE) == 21


def test_no_system_carries_a_secret():
    text = json.dumps(registration.systems(Path("/srv/documents")))
    assert "password" not in text
    assert "://" not in text
