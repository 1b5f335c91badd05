"""The contracts that `counterfoil-agents` brings, and its catalogue of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.contracts.contract_check import validate_contract
from counterfoil.coding_agents.__main__ import main
from counterfoil.coding_agents.catalogue import COMMANDS
from counterfoil.coding_agents.onboarding import sorted_contracts
from ledger.catalogue.rules.lint import lint

TABLE = (Path(__file__).resolve().parents[3] / "docs/coding-agents.md").read_text().split("\n## ")[0]
DOCUMENTS = [json.loads(file.read_text()) for file in sorted_contracts()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["name"])
def test_each_contract_is_valid_reads_back_has_words_and_a_receipt_line_and_lint_finds_nothing(document):
    contract = validate_contract(document)
    assert contract.verifiable
    assert contract.claims.done
    assert contract.report
    assert [str(finding) for finding in lint(document)] == []


def told(*words):
    with pytest.raises(SystemExit) as ended:
        main(["catalogue", *words])
    assert not ended.value.code


def test_the_catalogue_names_every_contract_once_with_its_class_and_what_is_not_proved(capsys):
    told("--json")
    tools = [tool for each in json.loads(capsys.readouterr().out) for tool in each["tools"]]
    assert sorted(tool["name"] for tool in tools) == [document["name"] for document in DOCUMENTS]
    told()
    said = capsys.readouterr().out
    push = "  git_force_push: MEDIUM_RISK_WRITE, IRREVERSIBLE, read in the system git by the check git\n"
    assert push in said
    assert said.startswith("git push\n")
    for document in DOCUMENTS:
        assert f"  {document['name']}: {document['side_effect_class']}, {document['reversibility']}, " in said
    assert said.count("  not proved: ") == len(COMMANDS)


@pytest.mark.parametrize("known", COMMANDS, ids=lambda known: known.command)
def test_the_table_in_the_docs_matches_the_catalogue(known):
    assert f"| {known.read_back} | {known.not_proved} |" in TABLE
