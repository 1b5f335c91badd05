"""Envelopes: what is hashed, byte for byte."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.record.rules.canonical import canonical
from ledger.record.rules.envelope import (
    BrokenEnvelope,
    Commitment,
    Envelope,
    UnknownEnvelope,
    commitment,
    entry_hash,
    instant,
    parse,
    write,
)
from ledger.record.rules.refusals import Refused

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "envelope.json").read_text())
HASH = "ab" * 32
FIRST = Envelope(
    origin="console.example.org/counterfoil/0190",
    id="01990000-0000-7000-8000-000000000002",
    kind="proposed",
    subject_kind="action",
    subject_id="01990000-0000-7000-8000-000000000001",
    seq=1,
    prev=None,
    from_state="",
    to_state="PROPOSED",
    actor_kind="agent",
    actor_id="01990000-0000-7000-8000-000000000003",
    at=datetime(2026, 11, 21, 12, 0, 0, 5, tzinfo=UTC),
    digests={"contract": HASH},
    commitments=(Commitment("entry", None, 700, HASH), Commitment("payload", "p-1", 14, "cd" * 32)),
)
SECOND = replace(FIRST, seq=2, prev=HASH, kind="validated", from_state="PROPOSED", to_state="VALIDATED", causation="c")
WRITTEN = json.loads(write(SECOND))

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
COMMITMENTS = st.builds(
    Commitment,
    purpose=WORDS,
    pointer=st.none() | st.uuids().map(str),
    length=st.integers(0, 2**40),
    digest=HASHES,
)


@st.composite
def envelopes(draw):
    seq = draw(st.integers(1, 2**31 - 1))
    words = {each.name: draw(WORDS) for each in fields(Envelope) if each.type == "str"}
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=draw(st.integers(0, 200 * 10**15)))
    return Envelope(
        **words,
        seq=seq,
        prev=draw(HASHES) if seq > 1 else None,
        at=at,
        causation=draw(st.none() | WORDS),
        digests=draw(st.dictionaries(WORDS, HASHES, max_size=4)),
        commitments=tuple(draw(st.lists(COMMITMENTS, max_size=4))),
    )


@given(envelopes())
def test_a_written_envelope_is_read_back(envelope):
    assert parse(write(envelope)) == envelope
    assert write(parse(write(envelope))) == write(envelope)


@given(envelopes(), envelopes())
def test_different_envelopes_have_different_bytes(one, other):
    assert (write(one) == write(other)) == (one == other)


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize("bit", range(8))
def test_one_flipped_bit_anywhere_is_refused_or_changes_the_hash(bit):
    written = write(SECOND)
    for place in range(len(written)):
        damaged = bytearray(written)
        damaged[place] ^= 1 << bit
        assert entry_hash(bytes(damaged)) != entry_hash(written)
        with contextlib.suppress(Refused):
            assert parse(bytes(damaged)) != SECOND


def test_a_truncated_envelope_is_refused():
    written = write(SECOND)
    for length in range(len(written)):
        with pytest.raises(Refused):
            parse(written[:length])


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_the_bytes_equal_those_of_the_vectors(vector):
    envelope = parse(bytes.fromhex(vector["envelope_hex"]))
    assert write(envelope).decode() == vector["envelope"]
    assert entry_hash(write(envelope)).hex() == vector["entry_hash"]


@pytest.mark.parametrize("vector", VECTORS["commitments"], ids=lambda vector: vector["purpose"])
def test_the_commitments_equal_those_of_the_vectors(vector):
    salt, data = bytes.fromhex(vector["salt"]), bytes.fromhex(vector["data"])
    assert commitment(vector["purpose"], salt, data) == vector["digest"]


@pytest.mark.req("R-LE-07")
def test_an_envelope_has_exactly_these_members():
    assert set(WRITTEN) == {
        *("v", "origin", "id", "kind", "subject", "seq", "prev", "from", "to"),
        *("actor", "at", "causation", "digests", "commitments"),
    }
    assert WRITTEN["v"] == 1


def test_the_hash_is_the_leaf_hash_of_the_log():
    assert entry_hash(b"bytes") == hashlib.sha256(b"\x00bytes").digest()


# Another shape


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_a_missing_member_is_refused(name):
    with pytest.raises(BrokenEnvelope):
        parse(canonical({key: value for key, value in WRITTEN.items() if key != name}))


@pytest.mark.parametrize("place", ["", "subject", "actor"])
def test_an_extra_member_is_refused(place):
    value = json.loads(write(SECOND))
    (value[place] if place else value)["extra"] = 1
    with pytest.raises(BrokenEnvelope):
        parse(canonical(value))


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]], ids=repr)
def test_an_unknown_version_has_its_own_refusal(version):
    with pytest.raises(UnknownEnvelope):
        parse(canonical(WRITTEN | {"v": version}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("v", [True]),
        ("origin", [1, None, ["a"]]),
        ("id", [1, None]),
        ("kind", [True, {}]),
        ("subject", ["action", None, {"kind": "action"}, {"id": 1, "kind": "action"}]),
        ("seq", [0, -1, True, "2", None, 1]),
        ("prev", [None, "", "ab", HASH.upper(), HASH + "00", 7]),
        ("from", [None, 1]),
        ("to", [None, 1]),
        ("actor", [[], {"kind": "agent", "id": None}]),
        ("at", ["2026-11-21T12:00:00Z", "2026-11-21T12:00:00.000005+00:00", "2026-11-21 12:00:00.000005Z", "now", 5]),
        ("causation", [1, False, {}]),
        ("digests", [[], None, ["ab"], "ab", 5, {"contract": 1}, {"contract": "ab"}, {"contract": None}]),
        (
            "commitments",
            [
                {},
                None,
                "ab",
                [[]],
                ["ab"],
                [{"purpose": "entry"}],
                [{"purpose": "entry", "pointer": None, "length": "1", "digest": HASH}],
                [{"purpose": "entry", "pointer": None, "length": -1, "digest": HASH}],
                [{"purpose": "entry", "pointer": 1, "length": 1, "digest": HASH}],
                [{"purpose": None, "pointer": None, "length": 1, "digest": HASH}],
                [{"purpose": "entry", "pointer": None, "length": 1, "digest": "ab"}],
                [{"purpose": "entry", "pointer": None, "length": 1, "digest": HASH, "extra": 1}],
            ],
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_malformed_member_is_refused(name, values):
    for value in values:
        with pytest.raises(BrokenEnvelope):
            parse(canonical(WRITTEN | {name: value}))


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"null", b"{}", b'"v"', b"\xff"], ids=repr)
def test_malformed_envelopes_are_refused(data):
    with pytest.raises(Refused):
        parse(data)


def test_only_the_first_event_has_no_predecessor():
    with pytest.raises(BrokenEnvelope):
        parse(write(replace(FIRST, prev=HASH)))
    with pytest.raises(BrokenEnvelope):
        parse(write(replace(SECOND, prev=None)))


# Commitments and times


@given(st.binary(max_size=50), st.binary(min_size=32, max_size=32))
def test_a_commitment_depends_on_purpose_salt_and_data(data, salt):
    made = commitment("entry", salt, data)
    assert made == commitment("entry", salt, data)
    assert made != commitment("detail", salt, data)
    assert made != commitment("entry", salt[::-1] if salt != salt[::-1] else bytes([salt[0] ^ 1]) + salt[1:], data)
    assert made != commitment("entry", salt, data + b"\x00")


@pytest.mark.parametrize("salt", [b"", bytes(31), bytes(33)])
def test_a_commitment_without_a_full_salt_raises_an_error(salt):
    with pytest.raises(ValueError, match="32 bytes"):
        commitment("entry", salt, b"")


def test_a_time_is_written_in_utc_with_six_digits():
    at = datetime(2026, 11, 21, 12, tzinfo=timezone(timedelta(hours=2)))
    assert instant(at) == "2026-11-21T10:00:00.000000Z"


def test_a_time_without_a_zone_raises_an_error():
    with pytest.raises(ValueError, match="aware"):
        instant(datetime(2026, 11, 21))  # noqa: DTZ001
