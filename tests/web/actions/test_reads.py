"""Reads: a tool that changes nothing and names no check is answered, or has failed; it is never an unknown outcome."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from approvals import tasks
from ledger.management.commands import verify_ledger
from ledger.record.queries import events as events_queries
from tests.support.api_tenant import Clock, Workshop, contract, document, result

TOOL = "look_up_note"
ANSWER = {"title": "Returns", "pages": 2.5}
SCHEMA = {
    "type": "object",
    "required": ["title", "pages"],
    "properties": {"title": {"type": "string"}, "pages": {"type": "number"}},
}
UNTRUE = re.compile(r"\b(verified|confirmed|unknown|not known|reviewed)\b", re.IGNORECASE)


def reading_contract(**changes: Any) -> dict[str, Any]:
    document = contract("write_document") | {
        "name": TOOL,
        "side_effect_class": "READ_ONLY",
        "reversibility": "REVERSIBLE",
        "description": "Look up a note. Use when: its text is asked for. NOT for: changing it.",
        "operation_kind": "look_up",
        **changes,
    }
    for name in ("verification", "required_effects", "claims", "recovery", "approval"):
        document.pop(name, None)
    return document


@pytest.fixture
def reader(shop: Workshop) -> Workshop:
    """The workshop with a tool that only reads."""
    return registered(shop)


def registered(shop: Workshop, **changes: Any) -> Workshop:
    answer = shop.operator_key.post("/contracts", reading_contract(**changes))
    assert answer.status_code == 201, answer.content
    tools = [TOOL, "delete_document", "write_document"]
    made = shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": tools})
    assert made.status_code == 201, made.content
    assert provided(shop, tools).status_code == 201
    return shop


def provided(shop: Workshop, tools: list[str]) -> Any:
    body = {"executor_id": "runner", "public_jwk": shop.key.public_jwk, "tools": tools}
    return shop.executor.post("/executors", body)


def begun(shop: Workshop) -> dict[str, Any]:
    """A read that its executor has started."""
    session = shop.session()
    body = {
        "call_id": "the-read",
        "tool": TOOL,
        "arguments": document("notes/today.md", "Quiet."),
        "pin_hash": session["pin"]["hash"],
    }
    call = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]}).json()["results"][0]
    assert call["state"] == "VALIDATED", call
    order = next(each for each in shop.claim() if each["action_id"] == call["action_id"])
    answer = shop.start(order)
    assert answer.status_code == 201, answer.content
    return answer.json() | {"session_id": session["session_id"]}


def answered(shop: Workshop, started: dict[str, Any], **changes: Any) -> str:
    answer = shop.observe(started, result=result(tool=TOOL, **({"evidence": ANSWER} | changes)))
    assert answer.status_code == 202, answer.content
    return str(answer.json()["state"])


def page(shop: Workshop, path: str) -> str:
    html = shop.reviewer.client.get(f"/t/{shop.slug}/{path}", follow=True).content.decode()
    main = html[html.index("<main") : html.index("</main>")]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


def test_an_answered_read_ends_as_answered_at_once_on_every_surface(reader: Workshop, clock: Clock):
    started = begun(reader)
    action_id = started["action_id"]
    assert answered(reader, started) == "RECONCILED_SUCCESS"
    assert reader.path(action_id)[-3:] == ["PENDING", "COMMITTED", "RECONCILED_SUCCESS"]
    report = reader.report(action_id)
    assert (report["code"], report["text"], report["completed"]) == ("ANSWERED", "Read; changes nothing.", False)
    assert report["trust_level"] == 1
    told = reader.agent.get(f"/sessions/{started['session_id']}/context").json()
    assert "Read; changes nothing." in told["text"]
    assert [each["action_id"] for each in told["facts"]] == [action_id]
    assert told["unresolved"] == []
    assert not UNTRUE.search(told["text"].split("Settled:")[1].split("Trust level")[0])
    shown = page(reader, f"actions/{action_id}")
    assert "Read; changes nothing." in shown
    assert "Answered" in shown
    assert "Done and confirmed" not in shown
    assert "no answer yet" not in shown
    assert "nothing was read back" in shown
    assert "Nothing is wrong on record: no open case or incident, no unknown outcome, no alert." in page(reader, "")
    assert TOOL not in page(reader, "actions?outcome=UNKNOWN")
    assert TOOL in page(reader, "actions?outcome=ANSWERED")
    assert reader.auditor.get(f"/actions/{action_id}").json()["outcome"] == "ANSWERED"
    assert reader.case_of(action_id) is None
    # No reading is due, now or later.
    clock.forward(hours=2)
    assert reader.read_back(action_id, clock) is None
    assert reader.path(action_id)[-1] == "RECONCILED_SUCCESS"


@pytest.mark.req("R-VD-01", "R-VD-18")
def test_the_record_names_the_four_checks_and_says_that_nothing_was_read_back(reader: Workshop):
    started = begun(reader)
    answered(reader, started)
    events = {event["event"]: event for event in reader.history(started["action_id"])}
    assert {"observed", "answer_checked", "answered"} <= set(events)
    assert not {"verified", "reconciled"} & set(events)
    entry = events["answered"]["entry"]
    assert entry["verification"] == {
        "status": "UNVERIFIABLE",
        "source": "the tool's answer; nothing was read back",
        "query_pointer": None,
        "verified_state_pointer": None,
    }
    run = reader.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
    assert [(each["check"], each["made"]) for each in run["checks"]] == [
        ("request_parameters_confirmed", "CHECKED"),
        ("tenant_scope_confirmed", "CHECKED"),
        ("source_identity_confirmed", "CHECKED"),
        ("response_integrity_confirmed", "CHECKED"),
    ]
    assert started["payload_hash"] in run["checks"][0]["by"]
    assert "runner is registered for look_up_note" in run["checks"][2]["by"]
    for place, of in ((1, "tenant"), (2, "source")):
        assert run["checks"][place]["by"].endswith(f"The contract names no field of the answer for its {of}.")
    assert entry["timestamps"]["verified_at"] is None
    tenant = events_queries.tenant_by_id(reader.tenant)
    verify_ledger.verify(tenant.id, tenant.origin)
    shown = page(reader, f"actions/{started['action_id']}")
    assert "Executor runner belongs to this tenant." in shown
    assert "Readback" not in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed", "error": {"code": "GONE", "message": "No.", "phase": "after_send"}},
        {"status": "failed", "error": {"code": "GONE", "message": "No.", "phase": "before_send"}},
        {"status": "timeout", "error": {"code": "SLOW", "message": "No.", "phase": "unknown"}},
        {"status": "nonsense"},
    ],
)
def test_a_read_whose_tool_failed_ends_as_failed(reader: Workshop, changes: dict[str, Any]):
    started = begun(reader)
    assert answered(reader, started, evidence=None, **changes) == "FAILED"
    report = reader.report(started["action_id"])
    assert (report["code"], report["text"]) == ("FAILED", "The read failed; nothing was changed.")
    assert report["completed"] is False
    assert reader.case_of(started["action_id"]) is None
    shown = page(reader, f"actions/{started['action_id']}")
    assert "The read failed; nothing was changed." in shown
    assert "No effect, confirmed" not in shown
    # It may simply be repeated.
    assert answered(reader, begun(reader)) == "RECONCILED_SUCCESS"


def test_a_read_that_answers_with_an_error_text_is_not_shown_as_answered(reader: Workshop):
    """A tool's server may put its error into a text and give no sign of it."""
    started = begun(reader)
    assert answered(reader, started, evidence="Error: there is no note of this name") == "FAILED"
    report = reader.report(started["action_id"])
    assert (report["code"], report["completed"]) == ("FAILED", False)
    assert report["text"] == "The read failed; nothing was changed."
    said = (
        "The tool answered with text; it gave no sign of an error and did not state an outcome:"
        " “Error: there is no note of this name”"
    )
    assert said in page(reader, f"actions/{started['action_id']}")
    assert TOOL not in page(reader, "actions?outcome=ANSWERED")


def test_a_read_whose_executor_stays_silent_ends_as_failed_without_a_case(reader: Workshop, clock: Clock):
    started = begun(reader)
    clock.forward(seconds=300)
    tasks.lapse()
    assert "nothing was changed" in reader.report(started["action_id"])["text"]
    assert reader.read_back(started["action_id"], clock) == "FAILED"
    report = reader.report(started["action_id"])
    assert (report["code"], report["text"]) == ("FAILED", "The read failed; nothing was changed.")
    assert reader.case_of(started["action_id"]) is None
    entry = reader.history(started["action_id"])[-1]["entry"]
    assert entry["verification"]["status"] == "FAILED"
    assert entry["timestamps"]["verified_at"] is None
    # What it answers afterwards is kept, and changes nothing.
    assert answered(reader, started) == "FAILED"


def test_an_answer_that_violates_its_schema_is_shown_as_unusable(shop: Workshop, clock: Clock):
    reader = registered(shop, result_schema=SCHEMA)
    good = begun(reader)
    assert answered(reader, good) == "RECONCILED_SUCCESS"
    started = begun(reader)
    assert answered(reader, started, evidence={"title": 7}) == "FAILED"
    report = reader.report(started["action_id"])
    assert report["code"] == "FAILED"
    assert report["text"] == (
        "The answer does not fit what the tool promises, and is not to be used; nothing was changed."
    )
    run = reader.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
    failed = [each for each in run["checks"] if each["made"] == "FAILED"]
    assert [each["check"] for each in failed] == ["response_integrity_confirmed"]
    assert "does not fit the answer schema" in failed[0]["by"]
    assert "the answer cannot be used" in page(reader, f"actions/{started['action_id']}")


@pytest.mark.req("R-VD-01", "R-TC-06")
def test_an_answer_with_another_tenant_or_source_than_expected_is_not_used(shop: Workshop):
    named = {"tenant": {"path": "org.id", "is": "o-7"}, "source": {"path": "from", "is": "notes"}}
    reader = registered(shop, answer_origin=named)
    started = begun(reader)
    assert answered(reader, started, evidence=ANSWER | {"org": {"id": "o-7"}, "from": "notes"}) == "RECONCILED_SUCCESS"
    run = reader.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
    assert run["checks"][1]["by"].endswith("The answer names o-7 as its tenant, at org.id.")
    assert replayed_alike(reader, started["action_id"])
    for shown, check, said in (
        (
            {"org": {"id": "o-8"}, "from": "notes"},
            "tenant_scope_confirmed",
            "names o-8 as its tenant, at org.id, and o-7",
        ),
        ({"org": {"id": "o-7"}}, "source_identity_confirmed", "names nothing as its source, at from, and notes"),
    ):
        started = begun(reader)
        assert answered(reader, started, evidence=ANSWER | shown) == "FAILED"
        run = reader.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
        failed = {each["check"]: each["by"] for each in run["checks"] if each["made"] == "FAILED"}
        assert list(failed) == [check]
        assert said in failed[check]


def test_the_origin_of_an_answer_is_checked_only_for_reads_that_are_not_read_back(shop: Workshop):
    named = {"tenant": {"path": "org", "is": "o-7"}}
    writing = contract("write_document") | {"version": "9", "answer_origin": named}
    refused = shop.operator_key.post("/contracts", writing)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "BAD_ANSWER_PATH")
    unknown = reading_contract(result_schema=SCHEMA, answer_origin=named)
    refused = shop.operator_key.post("/contracts", unknown)
    assert "The answer has no field `org`" in refused.content.decode()


def replayed_alike(reader: Workshop, action_id: str) -> bool:
    return bool(reader.auditor.get(f"/actions/{action_id}/replay").json()["same"])


def test_an_answer_of_an_executor_not_registered_for_the_tool_is_not_used(reader: Workshop):
    started = begun(reader)
    assert provided(reader, ["write_document"]).status_code in (200, 201)
    assert answered(reader, started) == "FAILED"
    assert "Where the answer came from is not certain" in reader.report(started["action_id"])["text"]


def test_a_read_in_progress_waits_for_its_answer(reader: Workshop, clock: Clock):
    started = begun(reader)
    assert answered(reader, started, status="accepted", evidence=None) == "PENDING"
    assert answered(reader, started) == "RECONCILED_SUCCESS"


def test_a_read_that_never_answers_ends_as_failed(reader: Workshop, clock: Clock, tmp_path: Path):
    started = begun(reader)
    assert answered(reader, started, status="accepted", evidence=None) == "PENDING"
    clock.forward(hours=2)
    assert reader.read_back(started["action_id"], clock) == "FAILED"
