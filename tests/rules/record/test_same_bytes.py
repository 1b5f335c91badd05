"""B2 and B3: what is signed, what is stored and what runs are one request, whoever reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil import canonical as client
from ledger import verify_bundle
from ledger.record.rules import canonical as console
from ledger.record.rules.refusals import Refused

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
# Pieces from which texts are made that one reader might take and another not.
PIECES = st.sampled_from(
    [
        *('{"a":1}', '{"a":1,"a":2}', '{"b":1,"a":2}', '{"a" : 1}', '{"":{"":[]}}', "null", "", "[1]\n", " [1]"),
        *("[1.0]", "[1]", "[01]", "[1e2]", "[-0]", "[0]", "[NaN]", "[9007199254740993]", "[1,]", "[tru]", "\ufeff[1]"),
        *('["\\u0041"]', '["A"]', '["\\ud800"]', '["\u00e9"]', '["e\u0301"]', '["\\/"]', '["/"]', '["\u2028"]'),
        "[" * 70 + "]" * 70,
    ]
)


@given(VALUES)
def test_executor_console_and_auditor_read_the_same_canonical_bytes(value):
    """B3: a differential over three readers that share no code."""
    data = console.canonical(value)
    assert client.encode_canonical(value) == data
    assert console.parse(data) == client.parse_json(data) == verify_bundle.strict(data) == value
    assert client.digest(value) == console.digest(data)
    assert verify_bundle.canonical(verify_bundle.strict(data)) == data


@given(st.one_of(PIECES, VALUES.map(json.dumps), VALUES.map(lambda v: json.dumps(v, indent=1, ensure_ascii=False))))
def test_the_console_and_the_executor_read_the_same_values(text):
    """B2, B3: whatever the console accepts, the executor reads as the same value with the same digest."""
    try:
        value = console.read(text)
    except Refused:
        return
    assert client.parse_json(text) == value
    assert client.encode_canonical(client.parse_json(text)) == console.canonical(value)


@given(st.binary(max_size=40))
def test_bytes_canonical_to_one_reader_are_canonical_to_both(data):
    """B3: bytes that the console takes as canonical are the ones that the executor would write."""
    try:
        value = console.parse(data)
    except Refused:
        return
    assert client.encode_canonical(client.parse_json(data)) == data == console.canonical(value)


SAME = [
    ('{"b":1,"a":2}', '{"a":2,"b":1}'),
    ('{"a": 1}', '{"a":1}'),
    ('{"a":"\\u0041"}', '{"a":"A"}'),
    ('{"a":"\\/"}', '{"a":"/"}'),
    ('{"a":-0}', '{"a":0}'),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_documents_of_equal_meaning_have_equal_payload_hashes(one, other):
    """B2: key order, blanks, escapes: provably equal."""
    first, second = (console.canonical(console.read(text)) for text in (one, other))
    assert console.digest(first) == console.digest(second)
    if one != first.decode():
        with pytest.raises(Refused):
            console.parse(one.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"a":2}',
        '{"a":1.0}',
        '{"a":1e0}',
        '{"a":NaN}',
        '{"a":01}',
        '{"a":"\\ud800"}',
        '{"a":9007199254740993}',
    ],
)
def test_ambiguous_documents_are_refused(text):
    """B2: duplicate names, 1 and 1.0, numbers that not every reader holds."""
    with pytest.raises(Refused):
        console.read(text)


def test_two_unicode_forms_are_different_payloads():
    """B2: nothing is normalised behind anybody's back; both forms are shown as what they are."""
    composed, decomposed = (console.canonical({"a": text}) for text in ("\u00e9", "e\u0301"))
    assert console.digest(composed) != console.digest(decomposed)
