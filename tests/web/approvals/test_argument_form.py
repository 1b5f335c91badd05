"""The form of a call's arguments gives back what it was made from, and edits as JSON what no input can carry."""

from __future__ import annotations

import html
import re

import pytest

from console.approvals.argument_form import ArgumentForm

SCHEMA = {
    "type": "object",
    "required": ["name", "amount", "kind"],
    "properties": {
        "name": {"type": "string", "description": "Who is paid."},
        "note": {"type": "string"},
        "amount": {"type": "integer", "minimum": 1, "maximum": 500},
        "urgent": {"type": "boolean"},
        "kind": {"enum": ["full", "part"]},
        "lines": {"type": "array", "items": {"type": "object"}},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "always": True,
    },
}
PLAIN = {"name": "Ada", "amount": 5, "kind": "full"}


def sent(form):
    """What a browser would send of a form that nobody touched: line breaks as two characters."""
    return {key: re.sub("\n", "\r\n", str(form.initial[key])) for key in form.fields}


def read_back(values, schema=SCHEMA):
    form = ArgumentForm(schema, data=sent(ArgumentForm(schema, values=values)))
    assert form.is_valid(), form.errors
    return form.arguments


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"note": "Two\nlines", "urgent": False},
        {"note": ""},
        {"note": "\nbegins with a break"},
        {"note": "a\r\nb"},
        {"note": "no\u202ewards", "name": "\x00"},
        {"note": None, "urgent": None},
        {"note": 5, "urgent": "yes", "amount": "12", "kind": "else"},
        {"amount": True, "name": "  spaces  "},
        {"lines": [{"sku": "A", "n": 1}], "either": "x", "always": {"a": [None]}},
        {"unknown": "value", "od/d ~ name:é": 1, "": {"deep": {}}},
        {"name": "x" * 500, "note": "<b>&amp;"},
    ],
)
def test_an_unchanged_form_gives_the_original_arguments(more):
    assert read_back(PLAIN | more) == PLAIN | more


def kinds(values):
    return {row["name"]: row["kind"] for row in ArgumentForm(SCHEMA, values=values).rows()}


def test_plain_types_have_inputs_and_the_rest_is_json():
    assert kinds(PLAIN) == {
        "name": "text",
        "note": "text",
        "amount": "integer",
        "urgent": "boolean",
        "kind": "choice",
        "lines": "json",
        "either": "json",
        "always": "json",
    }
    assert kinds(PLAIN | {"note": "no\u202ewards"})["note"] == "json"
    assert kinds(PLAIN | {"other": 1})["other"] == "json"


def test_a_hidden_character_is_shown_in_the_input_as_an_escape():
    shown = html.unescape(str(ArgumentForm(SCHEMA, values=PLAIN | {"note": "no\u202ewards"})["argument:json:note"]))
    assert "no\\u202ewards" in shown


def test_an_empty_input_omits_an_optional_argument_and_sends_a_required_text_empty():
    data = sent(ArgumentForm(SCHEMA, values=PLAIN | {"note": "x", "urgent": True}))
    data |= {
        "argument:text:name": "",
        "argument:text:note": "",
        "argument:integer:amount": "",
        "argument:boolean:urgent": "",
    }
    form = ArgumentForm(SCHEMA, data=data)
    assert form.is_valid()
    assert form.arguments == {"name": "", "kind": "full"}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("argument:integer:amount", "1.5", "Enter a whole number."),
        ("argument:json:lines", "[1,", "The text is not JSON"),
        ("argument:json:lines", "1.5", ""),
        ("argument:choice:kind", "none", "Select a valid choice"),
        ("argument:boolean:urgent", "maybe", "Select a valid choice"),
    ],
)
def test_an_unreadable_argument_is_reported_at_its_input(key, text, said):
    form = ArgumentForm(SCHEMA, data=sent(ArgumentForm(SCHEMA, values=PLAIN)) | {key: text})
    assert not form.is_valid()
    assert said in str(form.errors[key])


def test_the_help_of_an_input_follows_the_schema():
    said = {row["name"]: row["help"] for row in ArgumentForm(SCHEMA, values=PLAIN).rows()}
    assert said["amount"] == "At least 1, at most 500."
    assert said["name"] == "Who is paid."
