"""Time stamps by a real authority, and everything that must not pass for one (L22)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

from ledger import verify_bundle
from ledger.log.rules.timestamps import BadTimeStamp, verify_response
from tests.support.outside.authorities import DAY, TIME_STAMPING, Authority, issue

TEXT = b"console.example.org/log\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def request(data: bytes = TEXT, *, nonce: bool = True, algorithm=HashAlgorithm.SHA256, certificates: bool = True):
    builder = TimestampRequestBuilder().data(data).hash_algorithm(algorithm).nonce(nonce=nonce)
    return builder.cert_request(cert_request=certificates).build()


def stamped(authority: Authority, **parts):
    asked = request(**parts)
    return asked.nonce, authority.stamp(asked.as_bytes())


def check(authority: Authority, response: bytes, *, nonce, data: bytes = TEXT, **changes):
    now = datetime.now(UTC)
    parts = {"roots": [authority.root.certificate], "earliest": now - DAY, "latest": now + DAY} | changes
    return verify_response(response, data, nonce=nonce, **parts)


def test_a_stamp_of_a_real_authority_is_accepted(authority):
    """L22: request, response, chain, purpose, imprint, nonce, time."""
    before = datetime.now(UTC).replace(microsecond=0)
    nonce, response = stamped(authority)
    stamp = check(authority, response, nonce=nonce)
    assert before <= stamp.at <= datetime.now(UTC)
    nonce, response = stamped(authority)
    assert check(authority, response, nonce=nonce).serial == stamp.serial + 1


def test_the_offline_verifier_reaches_the_same_result(authority):
    """Two programs that share no code read the same response."""
    nonce, response = stamped(authority)
    at = verify_bundle.check_stamp(response, TEXT, [authority.root.certificate])
    assert at == check(authority, response, nonce=nonce).at
    with pytest.raises(verify_bundle.Bad):
        verify_bundle.check_stamp(response, TEXT + b"more", [authority.root.certificate])


def test_certificates_may_come_in_any_order(authority):
    nonce, response = stamped(authority)
    one, two = (each.certificate.public_bytes(Encoding.DER) for each in (authority.signer, authority.middle))
    assert (one + two in response) != (two + one in response)
    for order in (one + two, two + one):
        turned = response.replace(one + two, order).replace(two + one, order)
        assert check(authority, turned, nonce=nonce)


def test_a_stamp_of_another_text_is_refused(authority):
    """L22: wrong imprint."""
    nonce, response = stamped(authority, data=b"something else")
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce)
    nonce, response = stamped(authority)
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce, data=TEXT + b"more")


def test_a_stamp_for_another_request_is_refused(authority):
    """L22: wrong nonce, or none."""
    nonce, response = stamped(authority)
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce + 1)
    _, silent = stamped(authority, nonce=False)
    with pytest.raises(BadTimeStamp):
        check(authority, silent, nonce=nonce)
    assert check(authority, silent, nonce=None)


def test_an_authority_that_is_not_trusted_is_refused(authority):
    """L22: untrusted chain."""
    nonce, response = stamped(authority)
    for roots in ([issue("Another root", ca=True).certificate], [authority.signer.certificate][:0]):
        with pytest.raises(BadTimeStamp):
            check(authority, response, nonce=nonce, roots=roots)


def test_a_root_of_the_same_name_is_not_trusted(authority):
    nonce, response = stamped(authority)
    namesake = issue("Root of the tests", ca=True)
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce, roots=[namesake.certificate])


@pytest.mark.parametrize(("since", "until"), [(-20, -10), (10, 20)], ids=["expired", "not yet valid"])
def test_an_expired_certificate_is_refused(tmp_path, authority, since, until):
    """L22: expired certificate: valid at the stated time is what counts."""
    now = datetime.now(UTC)
    clock = issue("Late", by=authority.middle, usage=TIME_STAMPING, since=now + since * DAY, until=now + until * DAY)
    late = other(tmp_path, authority, clock)
    nonce, response = stamped(late)
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce)


def test_an_expired_root_is_refused(tmp_path):
    now = datetime.now(UTC)
    root = issue("Old root", ca=True, since=now - 20 * DAY, until=now - 10 * DAY)
    old = Authority(tmp_path / "old", root=root)
    nonce, response = stamped(old)
    with pytest.raises(BadTimeStamp):
        check(old, response, nonce=nonce)


@pytest.mark.parametrize(
    ("usage", "critical"),
    [
        ((ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.SERVER_AUTH), True),
        ((ExtendedKeyUsageOID.SERVER_AUTH,), True),
        ((ExtendedKeyUsageOID.TIME_STAMPING,), False),
        (None, True),
    ],
    ids=["and more", "something else", "not critical", "none"],
)
def test_a_certificate_not_limited_to_time_stamping_is_refused(authority, usage, critical):
    """L22: non-timestamp certificate. openssl itself refuses to stamp with one, so the words are signed again."""
    nonce, response = stamped(authority)
    good = issue("Clock", by=authority.middle, usage=TIME_STAMPING)
    assert check(authority, authority.restamp(response, good), nonce=nonce)
    other = issue("Clock", by=authority.middle, usage=usage, critical=critical)
    with pytest.raises(BadTimeStamp):
        check(authority, authority.restamp(response, other), nonce=nonce)


@pytest.mark.parametrize("algorithm", [HashAlgorithm.SHA512])
def test_another_hash_algorithm_is_refused(authority, algorithm):
    nonce, response = stamped(authority, algorithm=algorithm)
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce)


def test_a_stamp_without_its_certificate_is_refused(authority):
    nonce, response = stamped(authority, certificates=False)
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=nonce)


@pytest.mark.parametrize("away", [timedelta(minutes=10), -timedelta(minutes=10)])
def test_an_impossible_time_is_refused(authority, away):
    """The authority's clock is checked against when we asked and were answered."""
    nonce, response = stamped(authority)
    near = datetime.now(UTC) + away
    with pytest.raises(BadTimeStamp):
        check(
            authority, response, nonce=nonce, earliest=near - timedelta(minutes=5), latest=near + timedelta(minutes=5)
        )


def test_a_damaged_response_is_refused_or_gives_the_same_result(authority):
    """One bit flipped at each byte: never another time, another number or a crash."""
    nonce, response = stamped(authority)
    stamp = check(authority, response, nonce=nonce)
    believed = 0
    for place in range(len(response)):
        damaged = bytearray(response)
        damaged[place] ^= 1 << place % 8
        try:
            assert check(authority, bytes(damaged), nonce=nonce) == stamp
            believed += 1
        except BadTimeStamp:
            continue
    assert believed < len(response) / 2


@pytest.mark.parametrize("response", [b"", b"\x30", b"\x30\x00", b"hello", b"\x30\x80" + bytes(40), bytes(2**16 + 1)])
def test_an_invalid_response_is_refused(authority, response):
    with pytest.raises(BadTimeStamp):
        check(authority, response, nonce=1)


def test_a_refusal_by_the_authority_is_reported_as_a_refusal(authority):
    """A query that it cannot read makes openssl answer with a status of rejection."""
    refused = authority.stamp(b"no query at all")
    with pytest.raises(BadTimeStamp):
        check(authority, refused, nonce=1)


def test_an_answer_that_is_too_long_is_refused(authority):
    _, response = stamped(authority)
    with pytest.raises(BadTimeStamp):
        check(authority, response + bytes(10), nonce=None)


def test_the_imprint_is_a_sha_256_of_the_text():
    asked = request()
    assert asked.message_imprint.message == hashlib.sha256(TEXT).digest()


def other(tmp_path, authority: Authority, clock) -> Authority:
    """The same authority with another certificate for its clock."""
    made = Authority(tmp_path / "other", signer=clock, root=authority.root)
    (made.folder / "chain.pem").write_bytes(authority.middle.pem)
    return made
