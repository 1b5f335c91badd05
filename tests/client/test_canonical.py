from __future__ import annotations

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.canonical import MAX_INTEGER, NotCanonical, digest, encode_canonical, parse_json

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | _TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXT, inner, max_size=5),
    max_leaves=25,
)


@given(_VALUES)
def test_the_client_writes_the_bytes_of_the_reference_library(value):
    assert encode_canonical(value) == rfc8785.dumps(value)


@given(_VALUES)
def test_encoded_values_parse_back_unchanged(value):
    assert parse_json(encode_canonical(value)) == value


def test_names_are_sorted_by_utf16_units():
    text = '{"\U0001f600":2,"\ufb33":1}'
    assert encode_canonical({"\ufb33": 1, "\U0001f600": 2}) == text.encode()


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), MAX_INTEGER + 1, -MAX_INTEGER - 1, "\ud800", {"\udc00": 1}, {1: 2}, b"x"],
)
def test_a_value_outside_the_profile_is_refused(value):
    with pytest.raises(NotCanonical):
        encode_canonical({"value": [value]})


def test_a_value_nested_too_deep_is_refused():
    with pytest.raises(NotCanonical):
        encode_canonical(parse_json("[" * 70 + "]" * 70))


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "[NaN]", "[Infinity]", "[" * 100_000])
def test_a_text_with_two_meanings_is_refused(text):
    with pytest.raises(NotCanonical):
        parse_json(text)


def test_the_digest_is_plain_lower_case_hex():
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
