"""B28 and B13: what a passkey's answer must be to stand for a vote, each condition broken on its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.voting.rules import passkeys
from approvals.voting.rules.passkeys import AssertionInvalid, CounterRegressed, EnrolledKey, RelyingParty
from ledger.people.rules.statements import challenge_bytes, confirmation_code
from tests.support.outside.authenticators import AT, BE, BS, ED, UP, UV, Authenticator, b64, cose_ed25519, cose_p256

STATEMENT = b'{"domain":"counterfoil-approval-statement","version":2}'
ORIGIN = "https://console.example.org"
PARTY = RelyingParty(id="console.example.org", origins=frozenset({ORIGIN}))
CHALLENGE = challenge_bytes(STATEMENT)


def device(kind: str = "p256", **settings: Any) -> Authenticator:
    return Authenticator(kind, rp_id=PARTY.id, origin=ORIGIN, **settings)


def key_of(one: Authenticator, **changes: Any) -> EnrolledKey:
    return replace(
        EnrolledKey(credential_id=one.name, public_key=one.public_key, sign_count=0, backup_eligible=False), **changes
    )


def checked(one: Authenticator, *, key: EnrolledKey | None = None, statement: bytes = STATEMENT, **bent: Any) -> Any:
    answer = passkeys.read_assertion(one.answer(CHALLENGE, **bent))
    return passkeys.verify_assertion(answer, key=key or key_of(one), party=PARTY, statement=statement)


def refused(one: Authenticator, **how: Any) -> str:
    with pytest.raises(AssertionInvalid) as said:
        checked(one, **how)
    return said.value.detail


# What counts


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_signature_over_the_statement_counts(kind):
    assert checked(device(kind)).sign_count == 0


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_an_increased_counter_is_returned(kind):
    one = device(kind, counter=8)
    assert checked(one, key=key_of(one, sign_count=7)).sign_count == 8


def test_a_backup_eligible_key_counts_and_reports_its_backup_state():
    one = device(flags=UP | UV | BE | BS)
    assert checked(one, key=key_of(one, backup_eligible=True)).backed_up is True


def test_readable_extensions_are_accepted():
    one = device()
    assert checked(one, data=one.data(flags=UP | UV | ED, rest=b"\xa0")).sign_count == 0


def test_the_challenge_depends_on_the_statement_and_is_not_its_plain_hash():
    assert challenge_bytes(STATEMENT) != challenge_bytes(STATEMENT + b" ")
    assert challenge_bytes(STATEMENT) != hashlib.sha256(STATEMENT).digest()
    assert confirmation_code(STATEMENT) != confirmation_code(STATEMENT + b" ")
    assert len(confirmation_code(STATEMENT)) == 9


# B13: other ceremonies, other statements


def test_a_signature_over_another_statement_is_refused():
    """B13: recorded for S, presented for another."""
    assert "something else" in refused(device(), statement=STATEMENT + b" ")


def test_a_sign_in_assertion_is_refused_as_a_vote():
    """B13: the challenge of a login is random and binds to nothing."""
    one = device()
    assert "something else" in refused(one, client_data=one.client_data(b"\x07" * 32))


def test_a_registration_is_refused_as_a_vote():
    """B13: registration as authentication."""
    one = device()
    assert "another ceremony" in refused(one, client_data=one.client_data(CHALLENGE, type="webauthn.create"))
    attested = bytes(16) + len(one.credential_id).to_bytes(2) + one.credential_id + one.public_key
    assert "of a registration" in refused(one, data=one.data(flags=UP | UV | AT, rest=attested))


@pytest.mark.parametrize("kind", ["payment.get", "WEBAUTHN.GET", "", 1, None, ["webauthn.get"]])
def test_any_other_type_is_refused_as_a_vote(kind):
    one = device()
    refused(one, client_data=one.client_data(CHALLENGE, type=kind))


# B28, one by one


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (UV, "touched"),
        (UP, "verify who"),
        (0, "touched"),
        (UP | UV | BS, "backed up and cannot be"),
        (UP | UV | BE, "another kind"),
    ],
)
def test_missing_or_contradictory_flags_are_refused(flags, words):
    """B28: UP missing, UV missing, BS without BE, BE changed since the enrolment."""
    assert words in refused(device(flags=flags))


def test_a_backup_eligible_key_cannot_lose_that_flag():
    """B28: BE is fixed for the life of a key."""
    one = device()
    assert "another kind" in refused(one, key=key_of(one, backup_eligible=True))


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://sub.console.example.org",
        "https://example.org",
        "http://console.example.org",
        "https://console.example.org:8443",
        "https://console.example.org/",
        "https://CONSOLE.example.org",
        "https://console.example.org.evil.example",
        "https://console.example.org\u200b",
        "android:apk-key-hash:abc",
        "null",
        "",
        None,
        7,
        ["https://console.example.org"],
    ],
)
def test_only_the_exact_origin_is_accepted(origin):
    """B28: wrong origin, sub-domain, port, http."""
    one = device()
    refused(one, client_data=one.client_data(CHALLENGE, origin=origin))


@pytest.mark.parametrize(
    "changes", [{"crossOrigin": True}, {"crossOrigin": "false"}, {"crossOrigin": 0}, {"topOrigin": ORIGIN}]
)
def test_a_cross_origin_frame_is_refused(changes):
    """B28: cross-origin."""
    one = device()
    assert "inside another" in refused(one, client_data=one.client_data(CHALLENGE, **changes))


@pytest.mark.parametrize("rp_id", ["example.org", "evil.example", "Console.example.org", ""])
def test_an_assertion_for_another_site_is_refused(rp_id):
    """B28: wrong RP id."""
    one = device()
    one.rp_id = rp_id
    assert "another site" in refused(one)


@pytest.mark.parametrize(("before", "now"), [(5, 5), (5, 4), (5, 0), (2**32 - 1, 1)])
def test_a_counter_that_does_not_increase_is_reported_as_regressed(before, now):
    """B28: counter regression."""
    one = device(counter=now)
    with pytest.raises(CounterRegressed):
        checked(one, key=key_of(one, sign_count=before))


def test_a_wrong_signature_is_not_reported_as_a_regressed_counter():
    """B28: nobody without the key can make it look copied."""
    one, other = device(counter=1), device(counter=1)
    with pytest.raises(AssertionInvalid) as said:
        checked(one, key=key_of(one, sign_count=5, public_key=other.public_key))
    assert not isinstance(said.value, CounterRegressed)


def public(one: Authenticator) -> bytes:
    return one.public_key[-32:]


@pytest.mark.parametrize(
    "cose",
    [
        b"",
        b"\xff",
        b"\xa0",
        b"\x80",
        b"\x01",
        b"\xa1\x03\x27",
        b"\x9b" + b"\xff" * 8,
        b"\xa5\x01\x03\x03\x39\x01\x00\x20\x06\x21\x58\x20" + bytes(32) + b"\x22\x43\x01\x00\x01",
        b"\xa4\x01\x01\x03\x26\x20\x06\x21\x58\x20" + bytes(32),
        b"\xa4\x01\x01\x03\x27\x20\x07\x21\x58\x20" + bytes(32),
        b"\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x1f" + bytes(31),
        cose_ed25519(bytes(32)) + b"\x00",
        cose_p256(b"\x01" * 32, b"\x02" * 32),
        cose_p256(bytes(32), bytes(32)),
    ],
)
def test_an_unknown_algorithm_or_a_malformed_key_is_refused(cose):
    """B28: unknown algorithm, malformed CBOR, a point that is on no curve."""
    one = device()
    refused(one, key=key_of(one, public_key=cose))


def test_a_signature_of_another_algorithm_is_refused():
    """B28: the algorithm is the enrolled key's, never the answer's."""
    one, other = device("p256"), device("ed25519")
    assert "does not hold" in refused(one, key=key_of(one, public_key=other.public_key))


def test_an_assertion_by_the_key_of_another_person_is_refused():
    """B28: credential of another user."""
    one, other = device(), device()
    assert "Another passkey" in refused(one, key=key_of(other))
    assert "does not hold" in refused(one, key=key_of(other, credential_id=one.name))


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_truncated_signature_is_refused(kind):
    """B28: truncated signature."""
    one = device(kind)
    whole = one.sign(one.data() + hashlib.sha256(one.client_data(CHALLENGE)).digest())
    for signature in (whole[:-1], whole[1:], whole + b"\x00", b"\x00" * len(whole), b"\x00"):
        assert "does not hold" in refused(one, signature=signature)


@pytest.mark.parametrize(
    "rest",
    [b"\x00", b"\xa0", b"\xff" * 5],
)
def test_trailing_bytes_in_authenticator_data_are_refused(rest):
    """B28: malformed CBOR, trailing bytes."""
    one = device()
    assert "cannot be read" in refused(one, data=one.data(rest=rest))


@pytest.mark.parametrize("rest", [b"", b"\xff", b"\x9b" + b"\xff" * 8, b"\xa1\x61", b"\x81" * 5000 + b"\x00"])
def test_malformed_extensions_are_refused(rest):
    """B28: malformed CBOR."""
    one = device()
    assert "cannot be read" in refused(one, data=one.data(flags=UP | UV | ED, rest=rest))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"type":"webauthn.get","origin":"https://console.example.org","challenge":1}',
        b"[" * 8000,
    ],
)
def test_malformed_client_data_is_refused(data):
    one = device()
    with pytest.raises(AssertionInvalid):
        checked(one, client_data=data)


def test_ambiguous_client_data_is_refused():
    """B3: one name twice, for two readers."""
    one = device()
    said = one.client_data(CHALLENGE)
    assert "cannot be read" in refused(one, client_data=said[:-1] + b', "origin": "https://evil.example"}')


@pytest.mark.parametrize(
    "bend",
    [
        lambda said: said.pop("id"),
        lambda said: said.update(type="password"),
        lambda said: said.update(rawId="AAAA"),
        lambda said: said.update(id=said["id"] + "=", rawId=said["id"] + "="),
        lambda said: said.update(id="", rawId=""),
        lambda said: said.update(id="a" * 4000, rawId="a" * 4000),
        lambda said: said.pop("response"),
        lambda said: said["response"].pop("signature"),
        lambda said: said["response"].update(signature=""),
        lambda said: said["response"].update(signature=7),
        lambda said: said["response"].update(signature="not base64!"),
        lambda said: said["response"].update(signature=b64(b"x" * 20_000)),
    ],
)
def test_a_malformed_assertion_is_refused_when_it_is_read(bend):
    said = device().answer(CHALLENGE)
    bend(said)
    with pytest.raises(AssertionInvalid):
        passkeys.read_assertion(said)


@pytest.mark.parametrize("said", [None, [], "assertion", 1, {}])
def test_an_assertion_that_is_not_json_is_refused(said):
    with pytest.raises(AssertionInvalid):
        passkeys.read_assertion(said)


@given(st.binary(max_size=200))
def test_any_bytes_as_authenticator_data_are_refused_without_an_error(data):
    """B28: whatever comes, it is a refusal and never a fault of ours."""
    one = device()
    if data:
        with pytest.raises(AssertionInvalid):
            checked(one, data=data)


@given(st.integers(0, 300), st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_refused(place, bit):
    """B13, B28: nothing of an assertion can be changed afterwards."""
    one = device("ed25519")
    whole = passkeys.read_assertion(one.answer(CHALLENGE))
    parts = {"client_data": whole.client_data, "authenticator_data": whole.authenticator_data}
    for name, part in (parts | {"signature": whole.signature}).items():
        bent = bytearray(part)
        bent[place % len(part)] ^= 1 << bit
        with pytest.raises(AssertionInvalid):
            passkeys.verify_assertion(
                replace(whole, **{name: bytes(bent)}), key=key_of(one), party=PARTY, statement=STATEMENT
            )


def test_a_stored_assertion_can_be_verified_again():
    """B30: the stored bytes hold everything that the browser gave."""
    one = device()
    answer = one.answer(CHALLENGE)
    kept = json.loads(passkeys.read_assertion(answer).kept())
    assert kept == {"id": answer["id"], **answer["response"]}


# Registrations


def registered(one: Authenticator, **how: Any) -> passkeys.RegisteredKey:
    return passkeys.read_registration(one.registration(CHALLENGE, **how), party=PARTY, wanted=CHALLENGE)


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_registration_yields_the_public_key(kind):
    one = device(kind, counter=3, flags=UP | UV | BE)
    brought = registered(one)
    assert brought.public_key == one.public_key
    assert (brought.credential_id, brought.sign_count, brought.backup_eligible) == (one.name, 3, True)


@pytest.mark.parametrize(
    "how",
    [
        {"flags": UP},
        {"flags": UV},
        {"flags": UP | UV | BS},
        {"type": "webauthn.get"},
        {"origin": "https://evil.example"},
        {"challenge": b64(b"\x07" * 32)},
        {"crossOrigin": True},
    ],
)
def test_a_registration_without_verification_or_from_elsewhere_is_refused(how):
    """B13, B28: the enrolment demands what the vote demands."""
    with pytest.raises(AssertionInvalid):
        registered(device(), **how)


@pytest.mark.parametrize("said", [None, {}, {"response": {}}, {"response": {"clientDataJSON": "AA"}}])
def test_a_malformed_registration_is_refused(said):
    with pytest.raises(AssertionInvalid):
        passkeys.read_registration(said, party=PARTY, wanted=CHALLENGE)


def test_a_registration_whose_id_is_not_that_of_its_key_is_refused():
    one = device()
    said = one.registration(CHALLENGE) | {"id": device().name}
    with pytest.raises(AssertionInvalid):
        passkeys.read_registration(said, party=PARTY, wanted=CHALLENGE)
