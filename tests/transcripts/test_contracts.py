from __future__ import annotations

import json

import pytest

from counterfoil_transcripts import contracts, wording
from counterfoil_transcripts.contracts import InvalidContracts, NoContracts
from ledger.catalogue.rules.effects import SideEffectClass

CANCEL = {
    "type": "object",
    "required": ["reason", "reservation_id"],
    "properties": {"reservation_id": {"type": "string"}, "reason": {"type": "string", "enum": ["a", "b"]}},
}
OPENAI = {"type": "function", "function": {"name": "cancel_reservation", "description": "D.", "parameters": CANCEL}}
MCP = {"name": "cancel_reservation", "description": "D.", "inputSchema": CANCEL, "annotations": {}}
READ_BACK = {
    "name": "issue_refund",
    "version": "1",
    "schema_version": "1",
    "wrapper_version": "1",
    "description": "Refund an order.",
    "arguments_schema": {
        "type": "object",
        "required": ["order_id", "amount"],
        "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer"}},
        "additionalProperties": False,
    },
    "side_effect_class": "MEDIUM_RISK_WRITE",
    "target_resource": "order/{order_id}",
    "verification": {
        "pattern": "databases",
        "system": "shop",
        "lookup": {
            "effects": {
                "refund": {
                    "table": "shop.refunds",
                    "where": {"order_id": "sr.order_id"},
                    "fields": ["amount"],
                }
            }
        },
        "predicates": ["sa.amount == sr.amount"],
    },
}
ANTHROPIC = {"name": "cancel_reservation", "description": "D.", "input_schema": CANCEL}


def load(tmp_path, value, name="tools.json"):
    file = tmp_path / name
    file.write_text(json.dumps(value))
    return contracts.load_catalogue([file])


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


def test_written_contracts_can_be_edited_and_supplied_again(tmp_path):
    first = load(tmp_path, [OPENAI, {**MCP, "name": "send_money"}])
    again = load(tmp_path, first.documents(), "documents.json")

    assert again.documents() == first.documents()
    assert first.drafted == {"cancel_reservation", "send_money"}
    assert again.drafted == set()
    edited = [{**first.documents()[0], "side_effect_class": "READ_ONLY"}]
    assert not load(tmp_path, edited).contracts["cancel_reservation"].mutating


def test_contracts_are_read_from_a_folder_and_precede_tool_lists(tmp_path):
    document = load(tmp_path, [MCP]).documents()[0] | {"side_effect_class": "LOW_RISK_INTERNAL"}
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(document))
    (folder / "b.json").write_text(json.dumps([OPENAI]))

    found = contracts.load_catalogue([folder])

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
        ("Grep", "READ_ONLY"),
        ("LS", "READ_ONLY"),
        ("git_status", "READ_ONLY"),
        ("WebFetch", "READ_ONLY"),
        ("update_status", "MEDIUM_RISK_WRITE"),
        ("Bash", "MEDIUM_RISK_WRITE"),
        ("TodoWrite", "MEDIUM_RISK_WRITE"),
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
def test_the_class_of_a_tool_is_inferred_from_its_name_and_otherwise_a_change(name, expected):
    assert str(wording.infer_side_effect_class(name, "")) == expected


@pytest.mark.parametrize(
    ("name", "description", "arguments", "expected"),
    [
        ("add", "Add two numbers", ["a", "b"], "READ_ONLY"),
        ("add_numbers", "", ["numbers"], "READ_ONLY"),
        ("multiply", "", ["first_number", "second_number"], "READ_ONLY"),
        ("roll_dice", "", ["sides"], "READ_ONLY"),
        ("slugify", "Converts a title to a slug.", ["title"], "READ_ONLY"),
        ("current_time", "Returns the current time in a zone.", ["zone"], "READ_ONLY"),
        ("reflect", "Writes a thought down; it does not change the database.", ["thought"], "READ_ONLY"),
        ("add", "", ["item"], "MEDIUM_RISK_WRITE"),
        ("add_user", "", ["number"], "MEDIUM_RISK_WRITE"),
        ("add_funds", "", ["value"], "HIGH_RISK_EXTERNAL"),
        ("activate_account", "Returns the account.", ["account_id"], "MEDIUM_RISK_WRITE"),
        ("run_query", "Returns the result of any SQL.", ["text"], "MEDIUM_RISK_WRITE"),
        ("update_user", "Does not change the password.", ["user_id"], "MEDIUM_RISK_WRITE"),
    ],
)
def test_a_function_that_only_computes_is_not_a_change(name, description, arguments, expected):
    assert str(wording.infer_side_effect_class(name, description, arguments)) == expected


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["thought"], "think/think"),
        (["path", "text"], "think/{path}"),
        (["text", "order_id"], "think/{order_id}"),
        (["city", "text"], "think/{city}"),
    ],
)
def test_free_text_arguments_do_not_name_the_target_of_a_draft(tmp_path, arguments, target):
    schema = {"type": "object", "required": arguments, "properties": {one: {"type": "string"} for one in arguments}}
    assert (
        load(tmp_path, [{**MCP, "name": "think", "inputSchema": schema}]).contracts["think"].target_template == target
    )


def test_annotations_outweigh_the_name_but_never_lower_the_class(tmp_path):
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


def test_a_schema_with_outside_references_is_replaced_and_reported(tmp_path):
    reaching = {**MCP, "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}}
    found = load(tmp_path, [reaching])

    assert found.contracts["cancel_reservation"].arguments_validator.is_valid({"anything": 1})
    assert "cancel_reservation" in found.notes[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"a": 1}', "7"])
def test_a_file_without_a_contract_is_refused_in_one_sentence(tmp_path, text):
    file = tmp_path / "tools.json"
    file.write_text(text)

    with pytest.raises(NoContracts) as refusal:
        contracts.load_catalogue([file, tmp_path / "missing.json"] if text == "" else [file])
    assert refusal.value.detail.endswith(".")


def test_every_refused_definition_is_named_with_all_reasons(tmp_path):
    good = load(tmp_path, [MCP]).documents()[0]
    unknown_class = {**good, "name": "send_money", "side_effect_class": "HARMLESS"}
    without_schema = {key: value for key, value in good.items() if key != "arguments_schema"}

    with pytest.raises(InvalidContracts) as refusal:
        load(tmp_path, [good, unknown_class, {**without_schema, "name": "pay"}, {"name": ""}])

    first, *reasons = refusal.value.detail.split("\n")
    assert first == "3 contracts are refused. Nothing was audited."
    assert [reason.split(": ")[1] for reason in reasons[:2]] == ["send_money", "pay"]
    assert "HARMLESS" in reasons[0]
    assert "arguments_schema" in reasons[1]
    assert reasons[2].endswith("'' is the name of no contract and of no tool.")


@pytest.mark.parametrize(
    ("predicate", "sentence"),
    [
        ("sa.amuont == sr.amount", "sa has no field `amuont` (known: amount, "),
        ("sa.amount == sr.amuont", "sr has no field `amuont` (known: amount, order_id)"),
        ("sa['amuont'] == sr.amount", "sa has no field `amuont` (known: amount, "),
        ("so.state == 'ok'", "so has no field `state` (known: error, evidence, side_effects, status, success)"),
        ("scope.account == 'x'", "scope has no field `account` (known: action_id, "),
        ("sa.amount == pre.amuont", "pre has no field `amuont` (known: amount, "),
    ],
)
def test_a_predicate_with_an_unknown_field_is_refused_with_the_known_names(tmp_path, predicate, sentence):
    with pytest.raises(InvalidContracts) as refusal:
        load(tmp_path, [READ_BACK | {"verification": READ_BACK["verification"] | {"predicates": [predicate]}}])

    assert sentence in refusal.value.detail


def test_predicates_with_known_fields_are_accepted(tmp_path):
    predicates = ["sa.amount == sr.amount", "so.success", "scope.tenant != ''", "si.anything == 1", "pre.count == 0"]

    found = load(tmp_path, [READ_BACK | {"verification": READ_BACK["verification"] | {"predicates": predicates}}])

    assert list(found.contracts["issue_refund"].predicates) == predicates
