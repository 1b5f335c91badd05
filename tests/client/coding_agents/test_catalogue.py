"""The contracts that `counterfoil-agents` brings."""

from __future__ import annotations

import json

import pytest

from console.pages.contracts.contract_check import validate_contract
from counterfoil.coding_agents.onboarding import sorted_contracts
from ledger.catalogue.rules.lint import lint

DOCUMENTS = [json.loads(file.read_text()) for file in sorted_contracts()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["name"])
def test_each_contract_is_valid_reads_back_has_words_and_a_receipt_line_and_lint_finds_nothing(document):
    contract = validate_contract(document)
    assert contract.verifiable
    assert contract.claims.done
    assert contract.report
    assert [str(finding) for finding in lint(document)] == []
