"""Drafts from OpenAPI documents: what they say is taken over, the rest is asked for, and no state is guessed."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.systems.rules.description import BadDescription, parse_description
from reviews.systems.rules.drafting import UnusableDocument, draft_description, readable_paths

PATH = "/v1/refunds/{refund}"
REFUND = {
    "allOf": [
        {"type": "object", "properties": {"id": {"type": "string"}, "created": {"type": "integer"}}},
        {
            "properties": {
                "status": {"$ref": "#/components/schemas/status"},
                "amount": {"type": "integer"},
                "currency": {"type": "string"},
            }
        },
    ]
}
OPENAPI = {
    "openapi": "3.0.0",
    "info": {"title": "Payments", "version": "1"},
    "servers": [{"url": "https://pay.example.org/api"}],
    "externalDocs": {"url": "https://docs.example.org/refunds"},
    "components": {
        "schemas": {"refund": REFUND, "status": {"type": "string", "enum": ["open", "paid", "lost"]}},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    },
    "paths": {
        "/v1/refunds": {
            "get": {
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {
                                "schema": {
                                    "properties": {
                                        "data": {"type": "array", "items": {"$ref": "#/components/schemas/refund"}},
                                        "has_more": {"type": "boolean"},
                                    }
                                }
                            }
                        }
                    }
                }
            }
        },
        PATH: {
            "get": {
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/refund"}}}}
                }
            }
        },
        "/v1/refunds/{refund}/cancel": {"post": {"responses": {}}},
    },
}


def completed(document):
    """The draft with what a person adds."""
    found = copy.deepcopy(document)
    found["authentication"]["secret"] = "a key that may read refunds"
    found["gets"]["one"]["absent"]["where"] = {"/error": "not_found"}
    found["gets"]["list"]["paging"] = {"by": "none"}
    return found | {
        "amount_in": "minor",
        "states": {"terminal": ["paid"], "failed": ["lost"], "other": ["open"]},
        "indicators": {"differs": "refund_mismatch"},
        "freshness": {"consistency": "STRONG"},
        "limits": {"reads_per_minute": 60},
        "cannot_prove": ["What the bank does."],
    }


def test_what_stands_under_a_plain_name_is_taken_over():
    draft = draft_description(OPENAPI, PATH, "payments_refunds")
    assert draft.document["address"] == "https://pay.example.org"
    assert draft.document["authentication"] == {"by": "bearer", "secret": ""}
    assert draft.document["fields"] == {
        "id": "/id",
        "state": "/status",
        "amount": "/amount",
        "currency": "/currency",
        "time": "/created",
    }
    assert draft.document["gets"]["one"]["path"] == "/api/v1/refunds/{id}"
    assert draft.document["gets"]["list"] == {"path": "/api/v1/refunds", "at": "/data", "paging": {}}


def test_no_state_is_guessed_and_those_of_the_document_are_named():
    draft = draft_description(OPENAPI, PATH, "payments_refunds")
    assert draft.document["states"] == {}
    assert (
        "What each state means: terminal, pending, failed, undone or other. The document lists open, paid, lost."
        in draft.remarks
    )


def test_what_was_not_found_is_told():
    document = copy.deepcopy(OPENAPI)
    del document["components"]["securitySchemes"], document["externalDocs"], document["servers"]
    del document["paths"]["/v1/refunds"]
    remarks = draft_description(document, PATH, "mine").remarks
    for told in (
        "Its address: the document names none that begins with https.",
        "How a request is signed: the document names no way that a description can have.",
        "The pages of its documentation.",
        "How the operations on a target are listed: the document has no list beside the object.",
        "Where `customer` stands in the object, if it has one.",
        "Whether the amount is in minor or major units (`amount_in`).",
    ):
        assert told in remarks


def test_a_draft_is_no_valid_description_until_a_person_has_completed_it():
    draft = draft_description(OPENAPI, PATH, "payments_refunds")
    with pytest.raises(BadDescription):
        parse_description(draft.document)
    assert parse_description(completed(draft.document)).kind_of_state["paid"] == "terminal"


def test_another_document_or_path_is_refused():
    for document in ({}, {"swagger": "2.0", "paths": {}}, {"openapi": "3.1.0"}):
        with pytest.raises(UnusableDocument):
            readable_paths(document)
    with pytest.raises(UnusableDocument):
        draft_description(OPENAPI, "/v1/refunds", "mine")
    assert readable_paths(OPENAPI) == [PATH]


def test_a_reference_that_leads_in_a_circle_or_elsewhere_ends():
    document = copy.deepcopy(OPENAPI)
    document["components"]["schemas"]["refund"] = {"$ref": "#/components/schemas/refund"}
    draft = draft_description(document, PATH, "mine")
    assert "The document does not say what /v1/refunds/{refund} answers with." in draft.remarks
    document["components"]["schemas"]["refund"] = {"$ref": "other.json#/refund"}
    assert (
        "other.json#/refund is in another document, which was not read."
        in draft_description(document, PATH, "m").remarks
    )


NAMES = [
    "get",
    "responses",
    "200",
    "content",
    "application/json",
    "schema",
    "properties",
    "$ref",
    "allOf",
    "type",
    "id",
]
PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "https://a.example", "#/paths", "apiKey"]),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(NAMES), part, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["servers", "info", "externalDocs", "components"]), PARTS), PARTS)
def test_a_document_of_any_shape_makes_a_draft_or_is_refused(parts, item):
    document = {"openapi": "3.0.0", "paths": {"/x": item, "/x/{id}": item}, **parts}
    for path in readable_paths(document):
        assert draft_description(document, path, "mine").remarks
