from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.gate.rules import malformed
from approvals.gate.rules.malformed import Malformed
from ledger.catalogue.rules import schemas as rules_schemas

SCHEMA = {
    "type": "object",
    "required": ["path", "value"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "pattern": "^[a-z/.]+$"},
        "value": {"type": "integer", "minimum": 1, "maximum": 100},
        "mode": {"enum": ["append", "replace"]},
        "kind": {"const": "file"},
        "when": {"type": "string", "format": "date-time"},
        "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "unit": {"anyOf": [{"type": "null"}, {"enum": ["kg", "g"]}]},
        "inner": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"depth": {"type": "integer"}},
        },
    },
}
GOOD = {"path": "a/b.txt", "value": 7}


def found(arguments):
    return malformed.find_mistake(arguments, schema=SCHEMA, validator=rules_schemas.compile_schema(SCHEMA))


def test_valid_arguments_contain_no_mistake():
    assert found(GOOD) is None


@pytest.mark.req("R-MC-02")
def test_an_invented_enum_value_lists_the_allowed_ones():
    mistake = found(GOOD | {"mode": "merge"})

    assert mistake.code == "ARGUMENT_HALLUCINATION"
    assert mistake.errors[0]["path"] == "/mode"
    assert mistake.errors[0]["allowed"] == ["append", "replace"]
    assert "append, replace" in mistake.hint


@pytest.mark.parametrize(
    "change",
    [{"value": 0}, {"value": 101}, {"path": "A B"}, {"kind": "folder"}, {"when": "soon"}, {"unit": "lb"}],
)
def test_a_value_outside_its_bounds_is_an_argument_hallucination(change):
    assert found(GOOD | change).code == "ARGUMENT_HALLUCINATION"


def test_the_allowed_values_of_a_branch_are_listed():
    assert found(GOOD | {"unit": "lb"}).errors[0]["allowed"] == ["kg", "g"]


@pytest.mark.req("R-MC-03")
def test_a_renamed_parameter_is_drift_and_the_hint_names_the_real_one():
    mistake = found({"path": "a", "content": 7})

    assert mistake.code == "SCHEMA_DRIFT"
    assert mistake.suggestion == "value"
    assert mistake.hint == "Use `value` instead of `content`."


def test_each_unknown_parameter_gets_the_nearest_name():
    mistake = found({"pth": "a", "valu": 7})

    assert "`path` instead of `pth`" in mistake.hint
    assert "`value` instead of `valu`" in mistake.hint


def test_a_misspelt_parameter_is_drift_with_the_nearest_name():
    assert found(GOOD | {"Mode": "append"}).suggestion == "mode"


def test_an_unknown_parameter_far_from_all_lists_the_parameters():
    mistake = found(GOOD | {"zzzzzz": 1})

    assert mistake.code == "SCHEMA_DRIFT"
    assert "`path`" in mistake.hint


def test_a_missing_parameter_is_named():
    mistake = found({"path": "a"})

    assert mistake.code == "SCHEMA_DRIFT"
    assert mistake.errors[0]["path"] == "/value"


@pytest.mark.req("R-MC-04")
def test_a_number_sent_as_text_is_a_type_mistake_with_the_expected_type():
    mistake = found(GOOD | {"value": "42"})

    assert mistake.code == "TYPE_COERCION"
    assert mistake.errors[0]["expected"] == ["integer"]
    assert "an integer" in mistake.hint


@pytest.mark.req("R-MC-04")
@pytest.mark.parametrize("wrapper", ["args", "arguments", "input", "write_file"])
def test_an_extra_wrapping_object_is_a_type_mistake(wrapper):
    mistake = found({wrapper: GOOD})

    assert mistake.code == "TYPE_COERCION"
    assert "wrapping" in mistake.hint


@pytest.mark.req("R-MC-04")
@pytest.mark.parametrize(
    "sent",
    [
        {"name": "write_file", "arguments": GOOD},
        {"type": "function", "function": "write_file", "arguments": '{"path": "a/b.txt", "value": 7}'},
        {"input": '{"path": "a/b.txt", "value": 7}'},
    ],
)
def test_a_whole_call_sent_as_its_own_arguments_is_recognised_as_wrapping(sent):
    mistake = found(sent)

    assert mistake.code == "TYPE_COERCION"
    assert mistake.errors[0]["path"] in ("/arguments", "/input")


def test_a_parameter_beside_the_wrapper_is_not_wrapping():
    assert found({"value": 7, "args": {"path": "a"}}).code == "SCHEMA_DRIFT"


@pytest.mark.req("R-MC-02")
@pytest.mark.parametrize(("sent", "meant"), [("apend", "append"), ("Replace", "replace"), ("merge", None)])
def test_the_nearest_allowed_value_is_suggested_when_it_is_near(sent, meant):
    assert found(GOOD | {"mode": sent}).suggestion == meant


@pytest.mark.parametrize("value", [True, None, [7], {"n": 7}, "7"])
def test_no_value_of_another_type_is_accepted(value):
    assert found(GOOD | {"value": value}).code == "TYPE_COERCION"


def test_a_wrong_type_for_every_branch_is_a_type_mistake():
    mistake = found(GOOD | {"note": 5})

    assert mistake.code == "TYPE_COERCION"
    assert mistake.errors[0]["expected"] == ["null", "string"]


def test_a_mistake_inside_an_object_is_found_by_its_path():
    assert found(GOOD | {"inner": {"depth": "3"}}).errors[0]["path"] == "/inner/depth"
    assert found(GOOD | {"inner": {"dept": 3}}).code == "SCHEMA_DRIFT"


def test_names_outweigh_types_and_types_outweigh_values():
    both = GOOD | {"mode": "merge", "value": "7"}

    assert found(both).code == "TYPE_COERCION"
    assert found(both | {"modus": 1}).code == "SCHEMA_DRIFT"
    assert {error["code"] for error in found(both | {"modus": 1}).errors} == {
        "SCHEMA_DRIFT",
        "TYPE_COERCION",
        "ARGUMENT_HALLUCINATION",
    }


@pytest.mark.req("R-MC-07")
@pytest.mark.parametrize("raw", ["{", "", "[1]", '"text"', "null", None, 3, ["a"], "{'a': 1}", "[" * 50_000])
def test_arguments_that_are_not_a_json_object_are_unparseable(raw):
    mistake = malformed.read_arguments(raw)

    assert isinstance(mistake, Malformed)
    assert mistake.code == "UNPARSEABLE_ARGUMENTS"


_ODD = {
    '{"a": 1.5}': "/a",
    '{"a": {"b": [1, 2.5]}}': "/a/b/1",
    '{"a": 1, "a": 2}': "/a",
    '{"o": {"a": 1, "a": 1}}': "/o/a",
    '{"a": NaN}': "/a",
    '{"a": -Infinity}': "/a",
    '{"a": 1E400}': "/a",
    '{"a": 1E-400}': "/a",
    '{"a": 1e99999999999999999999}': "/a",
    '{"a": 9007199254740993}': "/a",
    '{"a": -9007199254740992.0}': "/a",
    '{"a": ' + "9" * 5000 + "}": "/a",
    '{"a": 0.1000000000000000055511151231257827}': "/a",
    '{"a": "\\ud800"}': "/a",
    '{"a": ' + "[" * 70 + "]" * 70 + "}": "/a" + "/0" * 64,
}


@pytest.mark.parametrize("raw", [*_ODD, {"a": 1.5}, {"a": float("nan")}, {"a": 2**53}, {"a": "\ud800"}])
def test_a_value_without_a_canonical_form_is_refused_with_its_path_and_a_hint(raw):
    mistake = malformed.read_arguments(raw)

    assert isinstance(mistake, Malformed)
    assert mistake.code == "UNPARSEABLE_ARGUMENTS"
    (error,) = mistake.errors
    assert error["code"] == "NOT_CANONICAL"
    assert error["path"] == (_ODD[raw] if isinstance(raw, str) else "/a")
    assert mistake.hint.startswith("Send ")


@pytest.mark.parametrize(
    ("written", "number"),
    [
        *(("1.0", 1), ("1e3", 1000), ("1E+3", 1000), ("12.50e1", 125), ("-0", 0), ("-0.0", 0), ("0e-9", 0)),
        *(("9007199254740991.0", 2**53 - 1), ("-9007199254740991", 1 - 2**53), ("1000000000000000000e-3", 10**15)),
    ],
)
def test_a_whole_number_is_an_integer_in_any_notation(written, number):
    text = f'{{"a": {written}, "b": [{written}]}}'
    read = malformed.read_arguments(text)

    assert read == malformed.read_arguments(json.loads(text)) == {"a": number, "b": [number]}
    assert (type(read["a"]), type(read["b"][0])) == (int, int)


def test_arguments_may_be_an_object_or_its_json_text():
    assert malformed.read_arguments(GOOD) == malformed.read_arguments('{ "value": 7, "path": "a/b.txt" }') == GOOD


@pytest.mark.req("R-MC-13")
def test_no_sent_value_appears_in_the_error():
    secret = "sk_live_4242"
    mistake = found({"path": secret, "value": secret, "mode": secret, secret.upper()[:3] + "\n<b>": 1})

    assert secret not in repr(mistake)
    assert "<b>" not in repr(mistake)
    assert "\\n" not in repr(mistake)


def test_the_number_of_errors_is_limited():
    assert len(found({f"p{index}": 1 for index in range(50_000)}).errors) <= 20


@pytest.mark.req("R-MC-01", "R-MC-22")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("issue_refunds", "issue_refund"), ("Issue-Refund", "issue_refund"), ("launch_rocket", None), ("", None)],
)
def test_the_nearest_name_is_suggested_when_it_is_near(name, expected):
    assert malformed.nearest_name(name, ["issue_refund", "delete_document"]) == expected


@given(st.text())
def test_a_name_is_sanitised_before_it_is_shown(name):
    text = malformed.safe_name(name)

    assert len(text) <= 64
    assert text.isascii()
    assert not set(text) & set("`\"'<>\n\r")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_any_input_is_accepted_or_refused(raw):
    arguments = malformed.read_arguments(raw)

    assert isinstance(arguments, Malformed) or found(arguments) is None or found(arguments).code
