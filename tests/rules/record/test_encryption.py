"""Sealing: opened in its own place with its own key, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.record.rules.encryption import NONCE_BYTES, CannotOpen, open_sealed, seal
from tests.support.tables import every_row

KEY, NONCE, PLACE = bytes(range(32)), bytes(range(12)), "tenant/subject/pointer"
SEALED = seal(KEY, NONCE, b'{"amount":100}', PLACE)


@given(st.binary(max_size=200), st.binary(min_size=32, max_size=32), st.binary(min_size=12, max_size=12), st.text())
def test_sealed_data_can_be_opened_again(data, key, nonce, place):
    place = place.encode("utf-8", "replace").decode()
    assert open_sealed(key, seal(key, nonce, data, place), place) == data


def test_a_sealed_text_does_not_contain_its_plaintext():
    assert b"amount" not in SEALED
    assert len(SEALED) == NONCE_BYTES + len(b'{"amount":100}') + 16


@every_row("place", range(len(SEALED)))
def test_one_flipped_bit_anywhere_is_refused(place):
    damaged = bytearray(SEALED)
    damaged[place] ^= 1
    with pytest.raises(CannotOpen):
        open_sealed(KEY, bytes(damaged), PLACE)


@every_row("length", range(len(SEALED)))
def test_a_truncated_text_is_refused(length):
    with pytest.raises(CannotOpen):
        open_sealed(KEY, SEALED[:length], PLACE)


@pytest.mark.parametrize("place", ["", "tenant/subject/other", "other/subject/pointer", "tenant/subject/pointer/"])
def test_a_text_sealed_for_another_context_is_refused(place):
    with pytest.raises(CannotOpen):
        open_sealed(KEY, SEALED, place)


@pytest.mark.parametrize("key", [bytes(32), KEY[::-1], b"", b"short"])
def test_nothing_is_opened_with_another_key(key):
    with pytest.raises(CannotOpen):
        open_sealed(key, SEALED, PLACE)


def test_the_cipher_gives_the_published_test_vector():
    # AES-256-GCM, test case 14 of the original GCM submission: zero key, zero nonce, one zero block.
    sealed = seal(bytes(32), bytes(12), bytes(16), "")
    assert sealed[12:].hex() == "cea7403d4d606b6e074ec5d3baf39d18" + "d0d1c8a799996bf0265b98b5d48ab919"
