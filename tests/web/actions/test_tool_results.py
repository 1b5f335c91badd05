"""What a tool answers: kept with all its parts, judged by its form, and never believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from ledger.db import tenancy
from ledger.record.queries import evidence
from reviews import queries as after
from tests.support.api_tenant import Clock, Workshop, contract, document, result

PARTS = {"tool", "status", "evidence", "error", "timestamp", "side_effects"}


def observed(shop: Workshop, **changes: Any) -> tuple[str, Any]:
    """An action whose tool answered so, and how its answer was judged."""
    started = shop.started(path=f"policies/{len(changes)}{'-'.join(sorted(changes)).replace('_', '')}.md")
    body = {name: value for name, value in result(**changes).items() if value != "left out"}
    assert shop.observe(started, result=body).status_code == 202
    with tenancy(shop.tenant):
        return started["action_id"], after.last_observation(shop.tenant, UUID(started["action_id"]))


def kept(shop: Workshop, action_id: str) -> dict[str, Any]:
    with tenancy(shop.tenant):
        pointers = evidence.evidence_of(shop.tenant, UUID(action_id))
        data = next(evidence.open_evidence(shop.tenant, each.id) for each in pointers if each.purpose == "observation")
    assert data is not None
    found: dict[str, Any] = orjson.loads(data)["result"]
    return found


@pytest.mark.req("R-TC-01", "R-TC-05", "R-RC-05")
def test_the_ledger_names_the_contract_s_four_versions_and_how_its_effect_was_verified(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    versions = {"name": "file_note", "version": "1.4.0", "schema_version": "3", "wrapper_version": "7"}
    filed = contract("write_document") | versions
    assert shop.operator_key.post("/contracts", filed).status_code == 201
    tools = ["file_note"]
    agent = {"agent_id": "librarian", "version": "2", "tools": tools}
    executor = {"executor_id": "runner", "public_jwk": shop.key.public_jwk, "tools": tools}
    assert shop.operator_key.post("/agents", agent).status_code == 201
    assert shop.executor.post("/executors", executor).status_code == 201
    action_id = shop.call("file_note", document("notes/today.md", "Quiet."))["action_id"]
    started = shop.start(shop.claim()[0], wrapper_version="another").json()
    (tmp_path / "documents" / "notes").mkdir()
    (tmp_path / "documents" / "notes" / "today.md").write_text("Quiet.")
    shop.observe(started, result=result(tool="file_note"))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"

    assert all(each["entry"]["tool_contract"] == versions for each in shop.history(action_id) if each["entry"])
    entry = shop.history(action_id)[-1]["entry"]
    registered = shop.auditor.get("/contracts/file_note/1.4.0").json()["document"]
    assert registered["verification"] == filed["verification"]
    assert entry["intended_outcome"]["expected_predicates"] == registered["verification"]["predicates"]
    assert entry["verification"]["source"] == registered["verification"]["system"]
    assert entry["verification"]["status"] == "VERIFIED"


@pytest.mark.req("R-TC-08", "R-TC-09")
def test_an_answer_is_stored_with_its_six_parts_and_one_without_a_status_is_malformed(shop: Workshop):
    action_id, seen = observed(shop, side_effects=["deletion"])
    assert kept(shop, action_id).keys() == PARTS
    assert kept(shop, action_id)["side_effects"] == ["deletion"]
    assert seen.status == "success"

    action_id, seen = observed(shop, status="left out")
    assert (seen.status, seen.claimed_success) == ("malformed", False)
    assert kept(shop, action_id).keys() == PARTS - {"status"}
    assert shop.state(action_id) == "PENDING"


@pytest.mark.req("R-TC-12")
def test_a_failure_with_evidence_of_an_effect_contradicts_itself(shop: Workshop):
    error = {"code": "REFUSED", "message": "No."}
    action_id, seen = observed(shop, status="failed", error=error)
    assert seen.status == "malformed"
    assert shop.report(action_id)["completed"] is False
    _, seen = observed(shop, status="failed", error=error, evidence=None)
    assert (seen.status, seen.error_code) == ("failed", "REFUSED")


@pytest.mark.req("R-TC-19", "R-TC-10")
def test_the_word_success_in_an_error_is_not_a_success(shop: Workshop):
    error = {"code": "TIMED_OUT", "message": "success: the document was deleted, completed with warnings"}
    action_id, seen = observed(shop, status="failed", evidence=None, error=error)
    assert (seen.claimed_success, seen.error_code) == (False, "TIMED_OUT")
    report = shop.report(action_id)
    assert report["completed"] is False
    assert "success" not in report["text"]
    action_id, seen = observed(shop, status="success", error=error)
    assert (seen.status, seen.claimed_success) == ("malformed", False)


@pytest.mark.req("R-TC-21")
def test_an_answer_that_fits_its_schema_still_awaits_verification(shop: Workshop):
    action_id, seen = observed(shop)
    assert (seen.status, seen.claimed_success) == ("success", True)
    assert shop.state(action_id) == "PENDING"
    report = shop.report(action_id)
    assert (report["completed"], report["code"]) == (False, "RESPONSE_RECEIVED_VERIFICATION_PENDING")


@pytest.mark.req("R-TC-13", "R-MC-13")
def test_the_record_of_a_call_has_its_parts_and_shows_raw_output_to_compliance_only(shop: Workshop):
    error = {"code": "REFUSED", "message": "no route to host db-7.internal"}
    action_id, _ = observed(shop, status="failed", evidence=None, error=error)
    path = f"/actions/{action_id}"
    for reader in (shop.operator_key, shop.reviewer, shop.operator):
        call = reader.get(path).json()["call"]
        parts = {
            "tool",
            "arguments",
            "status",
            "success",
            "result",
            "error",
            "timestamp",
            "idempotency_key",
            "trace_id",
        }
        assert call.keys() == parts
        assert (call["tool"], call["status"], call["error"]) == ("delete_document", "failed", {"code": "REFUSED"})
        assert call["arguments"]["reason"]
        assert len(call["idempotency_key"]) == 64
    assert shop.auditor.get(path).json()["call"]["error"] == error
    assert "db-7.internal" not in shop.agent.get(path).content.decode()
    waiting = shop.operator_key.get(f"/actions/{shop.propose(path='old/new.md')}").json()["call"]
    assert (waiting["status"], waiting["result"], waiting["error"]) == (None, None, None)


@pytest.mark.req("R-TC-20")
def test_a_tool_that_reports_two_effects_instead_of_one_has_not_succeeded(shop: Workshop, clock: Clock, tmp_path: Path):
    action_id = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    notes = tmp_path / "documents" / "notes"
    notes.mkdir()
    (notes / "today.md").write_text("Quiet.")
    wanted = contract("write_document")["required_effects"]
    shop.observe(started, result=result(tool="write_document", side_effects=wanted * 2))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "REVIEW_REQUIRED"
    assert "RECONCILED_SUCCESS" not in shop.path(action_id)
    entry = shop.auditor.get(f"/actions/{action_id}").json()["entry"]
    assert entry["reconciliation"]["discrepancy_class"] == "DUPLICATE_SIDE_EFFECT"
    assert shop.report(action_id)["completed"] is False
