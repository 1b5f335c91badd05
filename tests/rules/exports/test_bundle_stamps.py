"""Time stamps in a bundle: believed for the authorities of the auditor's policy, by bytes of a real authority (L22)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

from ledger import verify_bundle
from ledger.verify_bundle import Bad, Verdict, check_stamp, read_der, read_stamp
from tests.rules.exports.test_verify_bundle import checked, first
from tests.support.bundles import Draft, day, draft, encoded, policy
from tests.support.outside.authorities import DAY, TIME_STAMPING, Authority, Holder, issue

TEXT = day().checkpoint().partition(b"\n\n")[0] + b"\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def query(data: bytes = TEXT, *, algorithm: HashAlgorithm = HashAlgorithm.SHA256) -> bytes:
    return TimestampRequestBuilder().data(data).hash_algorithm(algorithm).build().as_bytes()


def stamped(*responses: bytes) -> Draft:
    made = draft(day())
    made.members |= {f"timestamps/12-{number}.tsr": each for number, each in enumerate(responses, 1)}
    return made


def trusting(*holders: Holder, required: bool = True) -> bytes:
    lines = [f"tsa root{n} {encoded(h.certificate.public_bytes(Encoding.DER))}" for n, h in enumerate(holders)]
    return policy(*lines, *(["stamp required"] if required else []))


@pytest.mark.parametrize("algorithm", [HashAlgorithm.SHA256, HashAlgorithm.SHA512])
def test_a_stamp_states_a_time_by_which_the_checkpoint_existed(authority, algorithm):
    response = authority.stamp(query(algorithm=algorithm))
    report = checked(stamped(response), trusting(authority.root))
    assert report.worst is Verdict.VERIFIED
    assert "12 entries existed before 20" in report.looked["time stamps"]
    at = check_stamp(response, TEXT, [authority.root.certificate])
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert check_stamp(response, TEXT, [authority.signer.certificate]) == at


def test_stamps_are_not_checked_without_authorities_in_the_policy(authority):
    report = checked(stamped(b"no stamp at all"))
    assert report.worst is Verdict.VERIFIED
    assert "the policy names no authority" in report.looked["time stamps"]


def test_a_missing_stamp_is_reported_where_the_policy_requires_one(authority):
    unanchored = (Verdict.UNANCHORED, "time stamps", None)
    assert first(checked(stamped(), trusting(authority.root))) == unanchored
    assert checked(stamped(), trusting(authority.root, required=False)).worst is Verdict.VERIFIED
    stranger = issue("Somebody else", ca=True)
    response = authority.stamp(query())
    assert first(checked(stamped(response), trusting(stranger))) == unanchored
    assert checked(stamped(response, response), trusting(stranger, authority.root)).worst is Verdict.VERIFIED


def test_a_stamp_of_another_text_is_broken(authority):
    """L22: wrong imprint."""
    report = checked(stamped(authority.stamp(query(b"something else"))), trusting(authority.root))
    assert first(report) == (Verdict.BROKEN, "time stamps", None)
    assert "the time stamp is not for this checkpoint" in str(report.of(report.worst))


@pytest.mark.whole
def test_a_stamp_with_any_changed_byte_is_detected(authority):
    response, roots = authority.stamp(query()), [authority.root.certificate]
    right = check_stamp(response, TEXT, roots)
    for place in range(len(response)):
        wrong = bytearray(response)
        wrong[place] ^= 1
        # What is not signed says nothing: the status, and the certificates that nobody needs.
        try:
            at = check_stamp(bytes(wrong), TEXT, roots)
        except Exception:  # noqa: BLE001 - certificates can be wrong in more ways than there are names for
            continue
        assert at == right
    wrong = response.replace(authority.signer.certificate.signature, bytes(len(authority.signer.certificate.signature)))
    assert checked(stamped(wrong), trusting(authority.root)).worst in (Verdict.BROKEN, Verdict.UNANCHORED)


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 50, 500, -1])
def test_a_truncated_stamp_is_broken(authority, cut):
    response = authority.stamp(query())
    report = checked(stamped(response[:cut] if cut >= 0 else response + b"\0"), trusting(authority.root))
    assert first(report) == (Verdict.BROKEN, "time stamps", None)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"usage": None}, Verdict.BROKEN),
        ({"usage": (ExtendedKeyUsageOID.SERVER_AUTH,)}, Verdict.BROKEN),
        ({"usage": (*TIME_STAMPING, ExtendedKeyUsageOID.SERVER_AUTH)}, Verdict.BROKEN),
        ({"usage": TIME_STAMPING, "critical": False}, Verdict.BROKEN),
        ({"usage": TIME_STAMPING, "until": datetime.now(UTC) - DAY}, Verdict.UNANCHORED),
        ({"usage": TIME_STAMPING, "since": datetime.now(UTC) + DAY}, Verdict.UNANCHORED),
    ],
    ids=["no purpose", "another purpose", "two purposes", "not critical", "run out", "not yet"],
)
def test_only_a_valid_certificate_for_time_stamping_alone_counts(
    authority: Authority, options: dict[str, object], verdict: Verdict
):
    """L22: expired or non-timestamp certificate."""
    signer = issue("Not a clock", by=authority.middle, **options)  # type: ignore[arg-type]
    forged = authority.restamp(authority.stamp(query()), signer)
    assert checked(stamped(forged), trusting(authority.root)).worst is verdict


def test_a_certificate_issued_by_a_non_authority_does_not_count(authority):
    """L22: untrusted chain."""
    signer = issue("Below a clock", by=authority.signer, usage=TIME_STAMPING)
    forged = authority.restamp(authority.stamp(query()), signer)
    assert checked(stamped(forged), trusting(authority.root)).worst is Verdict.UNANCHORED


def test_a_stamp_must_belong_to_a_checkpoint_of_the_bundle(authority):
    made = draft(day())
    made.members["timestamps/7-1.tsr"] = authority.stamp(query())
    assert checked(made, trusting(authority.root)).worst is Verdict.MALFORMED


def test_a_certificate_is_valid_from_its_first_second_to_its_last(authority):
    response, certificate = authority.stamp(query()), authority.signer.certificate
    moments = [certificate.not_valid_before_utc, certificate.not_valid_after_utc]
    stamp = read_stamp(response)
    held = [verify_bundle._leads_to(certificate, replace(stamp, at=at), [certificate]) for at in moments]
    second = timedelta(seconds=1)
    beyond = [moments[0] - second, moments[1] + second]
    held += [verify_bundle._leads_to(certificate, replace(stamp, at=at), [certificate]) for at in beyond]
    assert held == [True, True, False, False]


@pytest.mark.parametrize("length", [0, 127, 128, 255, 256, 65_535, 65_536, 2**24])
def test_each_der_length_is_read_in_its_shortest_encoding(length):
    size = (length.bit_length() + 7) // 8
    head = bytes([length]) if length < 128 else bytes([0x80 | size]) + length.to_bytes(size, "big")
    element, rest = read_der(b"\x30" + head + bytes(length) + b"more")
    assert (len(element.content), rest) == (length, b"more")


@pytest.mark.parametrize("data", ["", "30", "3080", "308100", "30820001ff", "3081", "3f0101", "30850000000001ff"])
def test_invalid_der_is_refused(data):
    with pytest.raises(Bad):
        read_der(bytes.fromhex(data))
