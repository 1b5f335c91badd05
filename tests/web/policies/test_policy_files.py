"""Policies that are kept as files: compared with what is in force, and drafted like on the page."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from console.accounts.members.queries import member_by_username
from ledger.catalogue import queries
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.record.rules.refusals import ReasonMissing
from tests.support.api_tenant import Workshop
from tests.support.browser_users import Visitor, words
from tests.web.releases.test_releases import in_force

LARGE = {"name": "large", "when": "amount.minor > 50000", "outcome": "hold"}


@pytest.fixture
def file(tmp_path: Path):
    def write(kind: str = "approval", **changes: Any) -> str:
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(default_policy(kind) | {"version": "2"} | changes, indent=2))
        return str(path)

    return write


def run(shop: Workshop, step: str, file: str, **options: Any) -> tuple[int, str]:
    """The exit code of the command, and what it printed."""
    printed = StringIO()
    try:
        call_command("policy", step, file, tenant=shop.slug, stdout=printed, **options)
    except SystemExit as left:
        return int(left.code or 0), printed.getvalue()
    except CommandError as refusal:
        return refusal.returncode, str(refusal)
    return 0, printed.getvalue()


def releases(shop: Workshop) -> list[Any]:
    with tenancy(shop.tenant):
        return list(queries.releases(shop.tenant, limit=10))


def test_a_file_is_compared_in_sentences_and_a_difference_exits_with_1(shop: Workshop, file):
    assert run(shop, "diff", file()) == (0, "Approval policy: no difference from version 1, which is in force.\n")
    code, said = run(shop, "diff", file(rules=[LARGE]))
    assert code == 1
    assert (
        "  + “large”: if the amount in the smallest unit of its currency is more than 50,000, approval is required."
        " If that cannot be evaluated, approval is required.\n" in said
    )
    assert "\nPlace by place\n  /rules: not given -> [{" in said
    assert releases(shop) == []


def test_a_file_is_drafted_in_the_name_of_a_member_who_cannot_sign_it_and_nothing_takes_effect(shop: Workshop, file):
    ada, ben = shop.person("administrator", name="ada@files"), shop.person("operator", name="ben@files")
    path = file(rules=[LARGE])
    code, said = run(shop, "apply", path, by="ada@files", reason="Large refunds are asked about.")
    assert code == 0
    (row,) = releases(shop)
    assert said.endswith(f"Drafted as release {row.id}. It has no effect yet; run its gates next.\n")
    with tenancy(shop.tenant):
        assert row.author == member_by_username(shop.tenant, "ada@files").actor_id
    assert (row.state, in_force(shop, "approval")) == ("DRAFT", "1")
    ben.post(f"/releases/{row.id}/gates")
    assert "You drafted it, so another person must sign." in words(
        Visitor(ada.client, shop.slug).page(f"releases/{row.id}")
    )
    # The same file again is the same draft.
    assert run(shop, "apply", path, by="ada@files", reason="Again.")[0] == 0
    assert len(releases(shop)) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "rita@files"}, "Name with --by the operator or administrator who drafts it by their username."),
        ({}, "Name with --by the operator or administrator who drafts it by their username."),
        ({"by": "ada@files", "reason": ""}, ReasonMissing().detail),
    ],
)
def test_a_draft_needs_a_member_who_may_and_a_reason(shop: Workshop, file, options: dict[str, str], said: str):
    shop.person("administrator", name="ada@files")
    shop.person("reviewer", name="rita@files")
    code, printed = run(shop, "apply", file(rules=[LARGE]), **{"reason": "Because."} | options)
    assert code == 2
    assert printed.strip() == said
    assert releases(shop) == []


def test_a_fault_of_a_file_is_named_with_its_line_and_what_is_allowed(shop: Workshop, file):
    path = file()
    Path(path).write_text(
        '{\n  "version": "2",\n  "rules": [\n    {"name": "a", "outcome": "held"},\n'
        '    {"name": "b", "wen": "true", "outcome": "hold"},\n    {\n      "name": "c", "outcome": "hold",\n'
        '      "when": "amunt.minor > 5"\n    }\n  ],\n  "step_up": "D"\n}\n'
    )
    code, said = run(shop, "diff", path)
    assert code == 2
    assert f'{path}:4: /rules/0/outcome: "held" is not one of "auto", "hold" or "refuse"' in said
    assert (
        f"{path}:5: /rules/1/wen: “wen” is not a name that is allowed here. Allowed: decide_within_s, hours,"
        " independence, name, outcome, reason, release_within_s, risk, step_up, thresholds, wait_for_seal, when."
        in said
    )
    assert f'{path}:11: /step_up: "D" is not one of "A", "B" or "C"' in said
    Path(path).write_text('{"rules": [\n{"name": "c", "outcome": "hold",\n"when": "amunt.minor > 5"}]}')
    code, said = run(shop, "diff", path)
    assert said.startswith(f"{path}:3: /rules/0/when: `amunt.minor > 5` does not compile: ")
    assert said.endswith("Known: agent, amount, args, contract, now, session, target.")
    Path(path).write_text('{\n  "rules": [}\n')
    code, said = run(shop, "diff", path)
    assert said.startswith(f"{path}:2: This is not JSON from here on")
