"""The command that an author runs before anything is registered: no server, no database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from console.management.commands import lint_contract

ROOT = Path(__file__).parents[3]
DOCUMENT = json.loads((ROOT / "client/example/contracts/issue_refund.json").read_text())


def found(tmp_path, content):
    file = tmp_path / "contract.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return [(each["level"], each["code"]) for each in lint_contract._findings_of_files([str(file)])]


@pytest.mark.req("R-MC-17", "R-MC-18")
def test_the_linter_needs_no_server_and_fails_on_warnings_only_on_request(tmp_path):
    file = tmp_path / "contract.json"
    file.write_text(json.dumps(DOCUMENT | {"name": "manage_x", "description": "Manages."}))
    command = [sys.executable, "-W", "ignore", "manage.py", "lint_contract", str(file), "--strict"]
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.offline"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 1
    assert [line.split(" at ")[0] for line in done.stdout.splitlines()] == [
        "warning: VAGUE_NAME",
        "warning: NO_USE_WHEN",
        "warning: NO_NOT_FOR",
    ]


def test_a_valid_document_has_no_findings(tmp_path):
    assert found(tmp_path, DOCUMENT) == []


def test_refused_contracts_are_reported_as_errors(tmp_path):
    verification = DOCUMENT["verification"] | {"predicates": ["sa.nothing_like_it =="]}
    wrong = DOCUMENT | {"target_resource": "order/{nobody}", "pivot": True, "recovery": {"idempotent": False}}

    assert set(found(tmp_path, [wrong, DOCUMENT | {"name": "issue_refunds", "verification": verification}])) == {
        ("error", "BAD_TARGET"),
        ("error", "PIVOT_INCOMPLETE"),
        ("error", "BAD_PREDICATE"),
        ("warning", "LIKE_NAMES"),
    }


@pytest.mark.parametrize("content", ["{", "[1, {]", '{"name": "a", "name": "b"}', "[[]]"])
def test_a_file_that_is_not_a_contract_is_refused(tmp_path, content):
    with pytest.raises(CommandError):
        found(tmp_path, content)
