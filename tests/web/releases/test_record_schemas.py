"""The schemas of entries and observations are on record, change only by a release, and can be checked from outside."""

from __future__ import annotations

import hashlib
from typing import Any

import jsonschema_rs
import pytest
import rfc8785

from ledger.catalogue.rules.policies import default_policy
from ledger.record.rules import record_schemas
from ledger.record.rules.record_schemas import BUILT_IN
from tests.support.api_tenant import DELETE, PASSWORD, Workshop

NEXT = {"version": 3, "digest": hashlib.sha256(b"the next version").hexdigest()}


def digest_of(document: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def verification(shop: Workshop, **schemas: Any) -> dict[str, Any]:
    document = {name: value for name, value in default_policy("verification").items() if name != "version"}
    return document | {"schemas": document["schemas"] | schemas}


def a_call(shop: Workshop) -> tuple[str, dict[str, Any]]:
    """The path and body of one call in a session of its own."""
    session = shop.session()
    call = {"call_id": "c", "tool": "delete_document", "arguments": DELETE, "pin_hash": session["pin"]["hash"]}
    return f"/sessions/{session['session_id']}/calls", {"calls": [call]}


@pytest.mark.req("R-RG-10")
def test_an_outsider_gets_the_schema_that_an_entry_was_written_under_and_checks_both(shop: Workshop):
    action_id = shop.propose()
    policy = shop.auditor.get("/policies").json()["verification"]
    entry = shop.auditor.get(f"/actions/{action_id}/history").json()["items"][-1]["entry"]
    named_by_entry = entry["policy_context"]["verification_policy_digest"]
    assert named_by_entry == policy["digest"] == digest_of(policy["document"])
    carried = {row["table"]: row["content"] for row in shop.auditor.get("/handoffs/reference").json()["rows"]}
    for name, named in policy["document"]["schemas"].items():
        assert digest_of(carried[name]) == named["digest"] == BUILT_IN[name]["digest"]
    assert jsonschema_rs.Draft202012Validator(carried["ledger_entry"]).is_valid(entry)


@pytest.mark.req("R-RG-10")
def test_a_program_that_writes_another_schema_than_the_one_in_force_writes_nothing(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """As after an upgrade whose new schema nobody has released."""
    action_id = shop.propose()
    before = shop.history(action_id)
    monkeypatch.setitem(record_schemas.WRITABLE, "ledger_entry", [NEXT])
    refused = shop.agent.post(*a_call(shop))
    assert (refused.status_code, refused.json()["code"]) == (503, "SCHEMA_NOT_RELEASED"), refused.content
    voted = shop.vote(shop.approval_of(action_id))
    assert (voted.status_code, voted.json()["code"]) == (503, "SCHEMA_NOT_RELEASED")
    assert shop.history(action_id) == before


@pytest.mark.req("R-RG-10", "R-RG-12")
def test_a_new_schema_takes_effect_by_release_and_an_older_program_then_writes_nothing(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    drafted = {"version": "2", "document": verification(shop, ledger_entry=NEXT), "reason": "The next schema."}
    unknown = shop.operator_key.post("/releases", drafted | {"kind": "verification"})
    assert (unknown.status_code, unknown.json()["errors"][0]["path"]) == (422, "/schemas/ledger_entry")
    straight = shop.operator_key.post("/policies/verification", {"version": "2", "document": drafted["document"]})
    assert straight.status_code in (409, 422)
    carried = record_schemas.WRITABLE["ledger_entry"]
    monkeypatch.setitem(record_schemas.WRITABLE, "ledger_entry", [*carried, NEXT])
    assert shop.propose(), "the program still writes the version in force"
    answer = shop.operator_key.release("verification", {"version": "2", "document": drafted["document"]})
    assert answer.status_code == 201, answer.content
    assert shop.propose(path="notes/second.md")
    monkeypatch.setitem(record_schemas.WRITABLE, "ledger_entry", carried)
    stopped = shop.agent.post(*a_call(shop))
    assert (stopped.status_code, stopped.json()["code"]) == (503, "SCHEMA_NOT_RELEASED")
    back = {"version": "1", "reason": "The older program runs again.", "password": PASSWORD}
    assert shop.person("administrator").post("/policies/verification/rollback", back).status_code == 200
    assert shop.propose(path="notes/third.md")


@pytest.mark.req("R-RG-06", "R-RG-10")
def test_the_gate_of_the_schemas_fails_where_the_program_cannot_write_what_the_draft_names(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    carried = record_schemas.WRITABLE["observation"]
    monkeypatch.setitem(record_schemas.WRITABLE, "observation", [*carried, NEXT])
    draft = {
        "kind": "verification",
        "version": "2",
        "document": verification(shop, observation=NEXT),
        "reason": "Next.",
    }
    release = shop.operator_key.post("/releases", draft).json()["release_id"]
    for can_write, passed in ((True, True), (False, False)):
        written = [*carried, NEXT] if can_write else carried
        monkeypatch.setitem(record_schemas.WRITABLE, "observation", written)
        gates = shop.operator_key.post(f"/releases/{release}/gates").json()["gates"]
        (gate,) = (each for each in gates if each["gate"] == "RG-06")
        assert gate["passed"] is passed, gate
    assert "version 3 of the schema observation" in gate["summary"]
