"""The pattern, credential and contract that follow from a description, and descriptions of an installation's own."""

from __future__ import annotations

import json
import os

import pytest
from django.conf import settings

from console.contracts.contract_check import validate_contract
from console.systems.credentials import example_credential
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from reviews.checks.catalogue import check_for, pattern_names
from reviews.readback.rules.addresses import resolve_address
from reviews.systems.descriptions import shipped_descriptions
from reviews.systems.rules.description import BadDescription
from reviews.systems.rules.examples import contract_example, documentation_table
from tests.support.browser_users import visitor, words

DESCRIPTIONS = shipped_descriptions()


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_description_makes_a_contract_that_is_accepted(name):
    contract = validate_contract(contract_example(DESCRIPTIONS[name]))
    assert contract.verification.pattern == name


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_description_makes_a_credential_that_names_its_address(name):
    example = example_credential(name)
    assert example["url"] == DESCRIPTIONS[name].document["address"]
    assert resolve_address({}, example)[1] == ""


def test_a_described_pattern_is_offered_by_its_title(stage):
    said = words(visitor(stage, "operator").page("systems"))
    for description in DESCRIPTIONS.values():
        assert description.title in said


def test_a_system_is_asked_no_faster_than_its_documentation_allows(stage):
    operator = visitor(stage, "operator")
    operator.post("systems/register", name="money", pattern="stripe_refunds")
    operator.post(
        "systems/register", name="own", pattern="stripe_refunds", **{"settings/limits/reads_per_minute": "30"}
    )
    with tenancy(stage.tenant):
        rates = [
            catalogue_queries.system(stage.tenant, name).settings["limits"]["reads_per_minute"]
            for name in ("money", "own")
        ]
    assert rates == [1200, 30]


def test_the_guide_lists_every_description_as_it_is():
    guide = settings.BASE_DIR / "docs" / "described-systems.md"
    wanted = documentation_table(DESCRIPTIONS.values())
    head, begin, rest = guide.read_text().partition(wanted.partition("\n")[0])
    table, end, tail = f"{begin}{rest}".partition("\n\n")
    if os.environ.get("WRITE_SNAPSHOTS"):
        guide.write_text(f"{head}{wanted}{end}{tail}")
        table = wanted
    assert table == wanted, "changed: WRITE_SNAPSHOTS=1 pytest tests/web/readback/test_described_systems.py"


@pytest.fixture
def folder(settings, tmp_path):
    settings.COUNTERFOIL_SYSTEMS_DIR = str(tmp_path)
    return tmp_path


def test_an_installation_describes_a_system_of_its_own(folder):
    document = dict(DESCRIPTIONS["zendesk_tickets"].document) | {"name": "help_desk", "title": "Our help desk"}
    (folder / "help_desk.json").write_text(json.dumps(document))
    assert "help_desk" in pattern_names()
    assert check_for("help_desk").pattern == "help_desk"
    (folder / "help_desk.json").write_text(json.dumps(document | {"title": "The new help desk"}))
    assert check_for("help_desk").description.title == "The new help desk"


def test_a_description_of_ones_own_replaces_none_of_ours(folder):
    document = dict(DESCRIPTIONS["zendesk_tickets"].document) | {"title": "Another"}
    (folder / "zendesk_tickets.json").write_text(json.dumps(document))
    assert check_for("zendesk_tickets").description.title == "Zendesk tickets"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "The description mine.json is no JSON."),
        ("{}", "mine.json: /: "),
        (
            json.dumps(DESCRIPTIONS["zendesk_tickets"].document),
            "mine.json describes zendesk_tickets; a file is named like",
        ),
    ],
)
def test_a_description_with_a_fault_is_refused_with_its_place(folder, stage, text, says):
    (folder / "mine.json").write_text(text)
    with pytest.raises(BadDescription) as refused:
        check_for("mine")
    assert refused.value.detail.startswith(says)
    assert "Mine" in words(visitor(stage, "operator").page("systems"))
