"""Canonical bytes: one meaning, one spelling."""

from __future__ import annotations

import contextlib
import json
import math
from collections import OrderedDict
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from pathlib import Path
from uuid import UUID

import orjson
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.record.rules import canonical as rules
from ledger.record.rules.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_STORED_BYTES,
    NotCanonical,
    NotJson,
    canonical,
    parse,
    read,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "canonical.json").read_text())
MOST = 2**53 - 1

PLAIN = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)
ASTRAL = st.text(st.characters(min_codepoint=0xE000), max_size=4)
CONTROL = st.text(st.characters(max_codepoint=0x9F), max_size=6)
TEXTS = PLAIN | ASTRAL | CONTROL
SCALARS = st.none() | st.booleans() | st.integers(-MOST, MOST) | TEXTS


def documents(names):
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5),
        max_leaves=25,
    )


def nested(depth, kernel):
    for _ in range(depth):
        kernel = [kernel]
    return kernel


@given(documents(TEXTS))
def test_the_reader_is_the_inverse_of_the_writer(document):
    written = canonical(document)
    assert parse(written) == document
    assert canonical(parse(written)) == written


@given(documents(PLAIN | CONTROL))
@example({"\x7f": '\x00\x08\t\n\x0b\x0c\r\x1f\x7f\x80\u2028"\\/', "é": 1, "e\u0301": 2, "\uffff": 3})
def test_the_fast_writer_writes_like_the_reference(document):
    fast = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    assert fast == rfc8785.dumps(document) == canonical(document)


@given(documents(TEXTS))
@example({"\U0001f600": 1, "\ufb33": 2, "\ue000": 3, "a": 4})
@example([{"plain": {"\U0001f600": {"\ufb33": 1}, "\ufb33": 2}}])
def test_every_document_is_written_like_the_reference(document):
    assert canonical(document) == rfc8785.dumps(document)


@given(st.dictionaries(TEXTS, SCALARS, max_size=8), st.randoms())
def test_the_order_of_names_does_not_matter(document, random):
    names = list(document)
    random.shuffle(names)
    assert canonical({name: document[name] for name in names}) == canonical(document)


@given(documents(TEXTS))
def test_every_spelling_is_read_and_only_one_is_canonical(document):
    loose = json.dumps(document, indent=1, ensure_ascii=True).encode()
    assert read(loose) == read(loose.decode()) == document
    if loose != canonical(document):
        with pytest.raises(NotCanonical):
            parse(loose)


@given(documents(TEXTS), st.data())
def test_a_damaged_byte_is_refused_or_changes_the_meaning(document, data):
    written = canonical(document)
    place = data.draw(st.integers(0, len(written) - 1))
    damaged = bytearray(written)
    damaged[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(NotCanonical):
        assert canonical(parse(bytes(damaged))) == bytes(damaged) != written


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_the_bytes_equal_those_of_the_vectors(vector):
    written = canonical(json.loads(vector["json"]))
    assert written.hex() == vector["canonical_hex"]
    assert rules.digest(written) == vector["sha256"]


def test_a_tuple_is_written_as_an_array_and_an_enum_as_its_string():
    class Word(StrEnum):
        YES = "yes"

    assert canonical({"a": (1, Word.YES), "\U0001f600": Word.YES}) == '{"a":[1,"yes"],"\U0001f600":"yes"}'.encode()


@pytest.mark.parametrize("depth", [0, 1, MAX_DEPTH])
def test_nesting_is_allowed_up_to_the_limit(depth):
    assert parse(canonical(nested(depth, 1))) == nested(depth, 1)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 300, 900])
def test_nesting_beyond_the_limit_is_refused_by_writer_and_reader(depth):
    with pytest.raises(NotCanonical):
        canonical(nested(depth, 1))
    with pytest.raises(NotCanonical):
        read("[" * depth + "1" + "]" * depth)
    with pytest.raises(NotCanonical):
        read('{"a":' * depth + "1" + "}" * depth)


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        1.5,
        float("nan"),
        float("inf"),
        MOST + 1,
        -MOST - 1,
        10**400,
        "\ud800",
        "a\udfff",
        {"\udc00": 1},
        {1: "a"},
        {None: "a"},
        {True: "a"},
        {b"a": "a"},
        b"bytes",
        {"set"},
        pytest.param(object(), id="an object"),
        1j,
    ],
    ids=repr,
)
def test_a_value_outside_the_profile_is_refused_at_any_place(value):
    for document in (value, [value], {"a": [value]}, {"\U0001f600": value}):
        with pytest.raises(NotCanonical):
            canonical(document)


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1e400",
        "-1e400",
        "1E2",
        "-0.0",
        "NaN",
        "Infinity",
        "-Infinity",
        str(MOST + 1),
        str(-MOST - 1),
        "9" * 5000,
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '[{"b":{"a":1,"a":2}}]',
        r'"\ud800"',
        r'"\udc00\ud800"',
        r'{"\udfff":1}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:24],
)
def test_json_outside_the_profile_is_refused_and_not_repaired(text):
    with pytest.raises(NotCanonical) as refusal:
        read(text)
    assert refusal.value.code == "NOT_CANONICAL"


@pytest.mark.parametrize(
    "data",
    [
        "",
        " ",
        "{",
        "[1,]",
        '{"a":1,}',
        "{'a':1}",
        "{a:1}",
        "01",
        "+1",
        ".5",
        "1 2",
        "nul",
        '"\n"',
        '"\x00"',
        r'"\x41"',
        "// note",
        "\ufeff1",
        b"\xef\xbb\xbf1",
        b"\xff",
        b'"\xed\xa0\x80"',
        b'"\xc0\x80"',
    ],
    ids=repr,
)
def test_text_that_is_not_json_is_refused_as_such(data):
    with pytest.raises(NotJson):
        read(data)


@pytest.mark.parametrize(
    "data", [b"-0", b" 1", b"1\n", b'{"b":1,"a":1}', b'{"a": 1}', b'"\\u0061"', b'"\\/"', b'"\\u00E9"']
)
def test_another_spelling_of_the_same_value_can_be_read_but_is_not_canonical(data):
    read(data)
    with pytest.raises(NotCanonical):
        parse(data)


def test_the_size_of_input_from_people_is_limited():
    fits = b'"' + b"a" * (MAX_BYTES - 2) + b'"'
    assert len(read(fits)) == MAX_BYTES - 2
    with pytest.raises(NotCanonical):
        read(fits + b" ")


def test_the_size_of_written_documents_is_limited_and_they_can_be_read_back():
    fits = "a" * (MAX_STORED_BYTES - 2)
    assert parse(canonical(fits)) == fits
    for refused in (lambda: canonical(fits + "a"), lambda: parse(b'"' + fits.encode() + b'a"')):
        with pytest.raises(NotCanonical):
            refused()


class Number(IntEnum):
    ONE = 1


class Text(str):
    pass


class Word(StrEnum):
    YES = "yes"


ODD = st.sampled_from(
    [1.5, 1e300, -0.0, math.nan, math.inf, UUID(int=7), datetime(2030, 1, 1, tzinfo=UTC), Number.ONE, Word.YES,
     Text("a"), 2**53, -(2**53), "\ud800", b"a", {1}, (1, None), {1: 2}, OrderedDict(a=1), "\U0001f600", None, True]
)  # fmt: skip


@given(st.recursive(ODD | st.text(max_size=3) | st.integers(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8))  # fmt: skip
def test_the_fast_and_the_slow_writer_agree_on_bytes_and_refusals(value):
    def written(way):
        try:
            return way(value)
        except NotCanonical as refusal:
            return refusal.detail

    def the_long_way(value):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rules, "_written_plainly", lambda _: None)
            return canonical(value)

    assert written(canonical) == written(the_long_way)


@given(st.recursive(st.floats() | st.text(max_size=3) | st.integers() | st.none(), lambda inner: st.lists(inner,
    max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8), st.booleans())  # fmt: skip
def test_the_fast_and_the_slow_reader_agree_on_values_and_refusals(value, spaced):
    data = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=None if spaced else (",", ":")).encode(
        errors="surrogatepass"
    )

    def readable(way):
        try:
            return way(data)
        except NotCanonical as refusal:
            return refusal.detail

    def the_long_way(data):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rules, "_is_plain", lambda _: False)
            return parse(data)

    assert readable(parse) == readable(the_long_way)
