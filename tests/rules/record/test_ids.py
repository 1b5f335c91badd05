"""Ids: a time one can sort by, and nothing one can guess."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.record.rules.ids import lower_bound, next_uuid7, uuid7

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = st.integers(0, 200 * 10**15).map(lambda microseconds: EPOCH + timedelta(microseconds=microseconds))
RANDOMNESS = st.binary(min_size=10, max_size=10)


@given(TIMES, RANDOMNESS)
def test_an_id_is_a_uuid_of_version_seven(at, randomness):
    made = uuid7(at, randomness)
    assert (made.version, made.variant) == (7, RFC_4122)


@given(TIMES, RANDOMNESS)
def test_an_id_holds_its_millisecond_exactly(at, randomness):
    milliseconds = uuid7(at, randomness).int >> 80
    since = at - EPOCH
    assert milliseconds == (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


@given(TIMES, st.integers(1, 10**9), RANDOMNESS, RANDOMNESS)
def test_ids_of_later_milliseconds_sort_later(at, milliseconds, one, other):
    later = at + timedelta(milliseconds=milliseconds)
    assert str(uuid7(at, one)) < str(uuid7(later, other))


@given(TIMES, RANDOMNESS)
def test_the_lower_bound_of_a_time_sorts_before_every_id_of_that_time(at, randomness):
    made = uuid7(at, randomness)
    assert lower_bound(at) < made < lower_bound(at + timedelta(milliseconds=1))


@given(TIMES, st.lists(RANDOMNESS, min_size=2, max_size=20))
def test_ids_of_one_millisecond_sort_in_order_of_creation(at, randomness):
    made = [uuid7(at, bytes(10))]
    for piece in randomness:
        made.append(next_uuid7(made[-1], at, piece))
    assert made == sorted(set(made))
    assert {(one.version, one.variant, one.int >> 80) for one in made} == {(7, RFC_4122, made[0].int >> 80)}


@given(TIMES, RANDOMNESS)
def test_an_id_after_the_last_of_its_millisecond_starts_again(at, randomness):
    last = uuid7(at, bytes([255]) * 10)
    assert next_uuid7(last, at, randomness) == next_uuid7(None, at, randomness) == uuid7(at, randomness)


@pytest.mark.req("R-CX-10")
def test_different_randomness_makes_different_ids():
    at = datetime(2026, 11, 21, tzinfo=UTC)
    bits = {uuid7(at, (1 << bit).to_bytes(10, "big")) for bit in range(80)}
    # Four bits of the version and two of the variant are fixed; flipping one of those changes nothing.
    assert len(bits) == 80 - 6 + 1


def test_the_id_equals_the_example_of_the_standard():
    at = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)
    assert str(uuid7(at, bytes.fromhex("0cc318c4dc0c0c07398f"))) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_the_zone_of_a_time_does_not_matter():
    at = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert lower_bound(at) == lower_bound(at.astimezone(timezone(timedelta(hours=-7))))


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(TypeError):
        uuid7(datetime(2026, 11, 21), bytes(10))  # noqa: DTZ001
