from __future__ import annotations

import json

import pytest

from console.transcripts import contracts, wording
from console.transcripts.contracts import NoContracts
from ledger.rules.effects import SideEffectClass

CANCEL = {
    "type": "object",
    "required": ["reason", "reservation_id"],
    "properties": {"reservation_id": {"type": "string"}, "reason": {"type": "string", "enum": ["a", "b"]}},
}
OPENAI = {"type": "function", "function": {"name": "cancel_reservation", "description": "D.", "parameters": CANCEL}}
MCP = {"name": "cancel_reservation", "description": "D.", "inputSchema": CANCEL, "annotations": {}}
ANTHROPIC = {"name": "cancel_reservation", "description": "D.", "input_schema": CANCEL}


def load(tmp_path, value, name="tools.json"):
    file = tmp_path / name
    file.write_text(json.dumps(value))
    return contracts.load([file])


@pytest.mark.parametrize(
    "value",
    [
        OPENAI,
        [OPENAI],
        {"tools": [OPENAI]},
        [MCP],
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}},
        {"tools": [ANTHROPIC]},
        {"functions": [OPENAI["function"]]},
    ],
)
def test_every_kind_of_tool_list_becomes_a_contract(tmp_path, value):
    found = load(tmp_path, value).contracts["cancel_reservation"]

    assert found.side_effect_class is SideEffectClass.MEDIUM_RISK_WRITE
    assert found.target_template == "reservation/{reservation_id}"
    assert "cancelled" in found.claims.done
    assert found.claims.object == ("reservation",)
    assert found.arguments_validator.is_valid({"reservation_id": "A", "reason": "a"})
    assert not found.arguments_validator.is_valid({"reservation_id": "A", "reason": "a", "more": 1})


def test_what_is_written_out_can_be_edited_and_given_back(tmp_path):
    first = load(tmp_path, [OPENAI, {**MCP, "name": "send_money"}])
    again = load(tmp_path, first.documents(), "documents.json")

    assert again.documents() == first.documents()
    assert first.drafted == {"cancel_reservation", "send_money"}
    assert again.drafted == set()
    edited = [{**first.documents()[0], "side_effect_class": "READ_ONLY"}]
    assert not load(tmp_path, edited).contracts["cancel_reservation"].mutating


def test_a_folder_holds_contracts_and_a_document_goes_before_a_tool(tmp_path):
    document = load(tmp_path, [MCP]).documents()[0] | {"side_effect_class": "LOW_RISK_INTERNAL"}
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(document))
    (folder / "b.json").write_text(json.dumps([OPENAI]))

    found = contracts.load([folder])

    assert found.contracts["cancel_reservation"].side_effect_class is SideEffectClass.LOW_RISK_INTERNAL
    assert found.drafted == set()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_order_details", "READ_ONLY"),
        ("list_all_airports", "READ_ONLY"),
        ("find_user_id_by_email", "READ_ONLY"),
        ("searchFlights", "READ_ONLY"),
        ("calculate", "READ_ONLY"),
        ("send_email", "HIGH_RISK_EXTERNAL"),
        ("issue_refund", "HIGH_RISK_EXTERNAL"),
        ("book_reservation", "HIGH_RISK_EXTERNAL"),
        ("delete_file", "CRITICAL_MUTATION"),
        ("update_user", "MEDIUM_RISK_WRITE"),
        ("frobnicate", "MEDIUM_RISK_WRITE"),
        ("transfer_to_human_agents", "LOW_RISK_INTERNAL"),
        ("browser_close", "MEDIUM_RISK_WRITE"),
    ],
)
def test_a_name_suggests_a_class_and_in_doubt_a_change(name, expected):
    assert str(wording.side_effect(name, "")) == expected


def test_annotations_outweigh_the_name_but_never_lower_it(tmp_path):
    named = [
        ({"readOnlyHint": True}, "READ_ONLY"),
        ({"readOnlyHint": False}, "MEDIUM_RISK_WRITE"),
        ({"destructiveHint": True}, "MEDIUM_RISK_WRITE"),
    ]
    for hints, expected in named:
        found = load(tmp_path, [{**MCP, "name": "get_thing", "annotations": hints}])
        assert found.contracts["get_thing"].side_effect_class == expected
    found = load(tmp_path, [{**MCP, "name": "delete_thing", "annotations": {"readOnlyHint": False}}])
    assert found.contracts["delete_thing"].side_effect_class == "CRITICAL_MUTATION"


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("send_email", "sent"),
        ("issue_refund", "refunded"),
        ("modify_pending_order_address", "changed"),
        ("copy_file", "copied"),
        ("create_ticket", "created"),
        ("exchange_delivered_order_items", "exchanged"),
        ("transfer_to_human_agents", "transferred"),
    ],
)
def test_claim_phrases_come_from_the_verb(name, phrase):
    assert phrase in wording.done_phrases(name)


def test_a_schema_that_reaches_outside_is_replaced_and_that_is_said(tmp_path):
    reaching = {**MCP, "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}}
    found = load(tmp_path, [reaching])

    assert found.contracts["cancel_reservation"].arguments_validator.is_valid({"anything": 1})
    assert "cancel_reservation" in found.notes[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '[{"name": ""}]', '{"a": 1}', "7"])
def test_a_file_without_a_contract_is_refused_in_a_sentence(tmp_path, text):
    file = tmp_path / "tools.json"
    file.write_text(text)

    with pytest.raises(NoContracts) as refusal:
        contracts.load([file, tmp_path / "missing.json"] if text == "" else [file])
    assert refusal.value.detail.endswith(".")


def test_a_bad_document_is_said_and_the_others_are_taken(tmp_path):
    good = load(tmp_path, [MCP]).documents()[0]
    found = load(tmp_path, [{**good, "name": "x", "side_effect_class": "HARMLESS"}, good])

    assert set(found.contracts) == {"cancel_reservation"}
    assert "x" in found.notes[0]
