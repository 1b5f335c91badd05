"""`manage.py draft_system`."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.rules.systems.test_drafting import OPENAPI, PATH


def drafted(path, *arguments):
    out, told = StringIO(), StringIO()
    call_command("draft_system", str(path), *arguments, stdout=out, stderr=told)
    return json.loads(out.getvalue()), told.getvalue()


def test_a_draft_is_printed_with_what_is_missing_beside_it(tmp_path):
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(OPENAPI))
    document, told = drafted(file, "--name", "pay_refunds")
    assert (document["name"], document["states"]) == ("pay_refunds", {})
    assert told.startswith("To be added by a person:\n- Where `customer` stands in the object, if it has one.\n")
    assert "- What the secret is, in words.\n" in told
    assert "Not valid yet:" in told


def test_one_of_several_objects_is_asked_for(tmp_path):
    file = tmp_path / "openapi.json"
    several = OPENAPI | {"paths": OPENAPI["paths"] | {"/v1/charges/{charge}": OPENAPI["paths"][PATH]}}
    file.write_text(json.dumps(several))
    with pytest.raises(CommandError) as refused:
        drafted(file)
    assert str(refused.value) == (
        "Choose the path of one object:\n  --path '/v1/refunds/{refund}'\n  --path '/v1/charges/{charge}'"
    )
    assert drafted(file, "--path", PATH)[0]["gets"]["one"]["path"] == "/api/v1/refunds/{id}"


@pytest.mark.parametrize("text", ["{", "[]", '{"swagger": "2.0"}', '{"openapi": "3.0.0", "paths": {}}'])
def test_a_document_that_cannot_be_used_is_refused_in_a_sentence(tmp_path, text):
    file = tmp_path / "openapi.json"
    file.write_text(text)
    with pytest.raises(CommandError):
        drafted(file)
    with pytest.raises(CommandError):
        drafted(tmp_path / "none.json")
