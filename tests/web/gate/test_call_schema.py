"""The document's schema of a call against the gate's own reader, over odd values in every place of a call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from approvals.gate.rules.proposals import read_call
from console.api.root import api
from ledger.record.rules.canonical import read
from ledger.record.rules.refusals import Refused
from tests.support.bad_calls import Malice
from tests.support.odd_values import TEXTS, VALUES

READ = {"resource": "order/17", "read_at": "2026-01-01T00:00:00Z"}
LONG = ["x" * 128, "x" * 129, "x" * 512, "x" * 513, ["x"] * 50, ["x"] * 51, ["x"] * 100, ["x"] * 101]
READS = [[READ] * 50, [READ] * 51, [READ | {"version": 7}], [READ | {"version": True}], [READ | {"read_at": "now"}]]
EVIDENCE = [
    [{"statement": "x"}] * 20,
    [{"statement": "x"}] * 21,
    [{}],
    [{"link": ""}],
    [{"id": "x" * 2001}],
    [{"by": "me"}],
]
ODD = [*VALUES, *TEXTS, *LONG, *READS, *EVIDENCE, {"expected_predicates": ["x"] * 101}, {"target_resource": 7}]
FIELDS = ("call_id", "tool", "goal", "pin_hash", "target_resource", "intended_outcome", "depends_on", "acknowledges")
FIELDS += ("based_on", "evidence", "supersedes", "dry_run")
PARTS = {
    "intended_outcome": ({}, ("target_resource", "expected_predicates")),
    "based_on": (READ, ("resource", "version")),
}
PARTS["evidence"] = ({"statement": "It is paid."}, ("statement", "link", "id", "by"))


def whole() -> dict[str, Any]:
    """A call with every field."""
    return Malice("0" * 64, "purge").good() | {
        "goal": "Tidy up.",
        "target_resource": "file/one.md",
        "intended_outcome": {"target_resource": "file/one.md", "expected_predicates": ["sa.size == 0"]},
        "depends_on": ["a"],
        "acknowledges": ["b"],
        "based_on": [READ | {"version": "3"}],
        "evidence": [{"statement": "It is paid.", "link": "https://example.org", "id": "17"}],
        "dry_run": True,
        "supersedes": "c",
    }


def calls() -> Iterator[Any]:
    """The whole call, and that call with one thing changed, left out or added."""
    yield whole()
    for name in FIELDS:
        yield {each: value for each, value in whole().items() if each != name}
        for value in ODD:
            yield whole() | {name: value}
    for name, (part, inner) in PARTS.items():
        for each in inner:
            for value in ODD:
                changed = part | {each: value}
                yield whole() | {name: changed if name == "intended_outcome" else [changed]}
    yield from (whole() | {"role": "administrator"}, *VALUES)


def sendable(call: Any) -> bool:
    """Whether it can come as far as the gate: the body's parser takes it."""
    try:
        read(json.dumps(call).encode())
    except (Refused, UnicodeEncodeError):
        return False
    return True


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = api.get_openapi_schema()
    return found


def test_the_document_accepts_exactly_the_calls_that_the_gate_can_read(document):
    schema = document["components"]["schemas"]["CallsBody"]["properties"]["calls"]["items"]
    assert set(schema["properties"]) == set(whole())
    validator = jsonschema_rs.Draft202012Validator(
        schema | {"components": document["components"]}, validate_formats=True
    )
    sent = [call for call in calls() if sendable(call)]
    readable = [not read_call(call).fault for call in sent]
    wrong = [call for call, is_read in zip(sent, readable, strict=True) if validator.is_valid(call) != is_read]
    assert wrong == []
    assert min(readable.count(True), readable.count(False)) > 200


@pytest.mark.parametrize("arguments", [{}, {"path": "a"}, "", '{"path": "a"}', [], 7, None, True])
def test_arguments_are_an_object_or_text(document, arguments):
    schema = document["components"]["schemas"]["CallsBody"]["properties"]["calls"]["items"]["properties"]["arguments"]
    assert jsonschema_rs.is_valid(schema, arguments) == isinstance(arguments, dict | str)
