"""Time stamps: an external authority certifies that some bytes existed at a time (RFC 3161).

`verify_response` accepts a response only if all of this holds:

1. It was granted, and its token is signed by a certificate that leads to one of the given roots, each certificate on
   the way being valid at the stated time.
2. That certificate is for time stamps and for nothing else (section 2.3: extended key usage, critical, alone).
3. The imprint is the SHA-256 of the bytes, and the nonce is the one that was asked with.
4. The stated time lies within what we know ourselves: not before we asked, not after we were answered, give or take.

The response is stored whole, so that anyone can repeat this check.

Authorities send their certificates in any order (CMS allows it), and the library that reads them asks for the order
of DER. They are not part of what is signed, so they are sorted before it looks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import TimeStampResponse, VerificationError, VerifierBuilder, decode_timestamp_response

from ledger.record.rules.refusals import Refused

LARGEST_RESPONSE = 2**16
_SHA256 = x509.ObjectIdentifier("2.16.840.1.101.3.4.2.1")


class BadTimeStamp(Refused):
    """The time stamp does not show what it was asked to show."""

    code = "BAD_TIME_STAMP"
    status = 502


class TimeStamp(NamedTuple):
    """The time at which the authority attests that the bytes existed, and its serial number for the stamp."""

    at: datetime
    serial: int


def verify_response(
    response: bytes,
    data: bytes,
    *,
    nonce: int | None,
    roots: Sequence[x509.Certificate],
    earliest: datetime,
    latest: datetime,
) -> TimeStamp:
    """Return the time stamp that a response gives `data`; refuse it unless rules 1 to 4 hold."""
    if len(response) > LARGEST_RESPONSE:
        raise BadTimeStamp("The answer is too long for a time stamp.")
    try:
        stamp = _verified_stamp(decode_timestamp_response(_sort_certificates(response)), data, nonce, roots)
    except VerificationError as wrong:
        raise BadTimeStamp(f"{BadTimeStamp.__doc__} {wrong}.") from None
    except (ValueError, TypeError, IndexError, OverflowError, x509.ExtensionNotFound):
        raise BadTimeStamp("The answer is not a time stamp that can be read.") from None
    if not earliest <= stamp.at <= latest:
        raise BadTimeStamp(f"The authority says it is {stamp.at.isoformat()}, which it is not.")
    return stamp


def _verified_stamp(
    response: TimeStampResponse, data: bytes, nonce: int | None, roots: Sequence[x509.Certificate]
) -> TimeStamp:
    if response.status != 0:
        raise BadTimeStamp("The authority refused to stamp.")
    info = response.tst_info
    if info.message_imprint.hash_algorithm != _SHA256:
        raise BadTimeStamp("The imprint is not a SHA-256 hash.")
    if nonce is not None and info.nonce != nonce:
        raise BadTimeStamp("The nonce is not the one that was asked with.")
    builder = VerifierBuilder(roots=list(roots), nonce=nonce)
    builder.build().verify(response, hashlib.sha256(data).digest())
    _check_purpose(response)
    return TimeStamp(info.gen_time, info.serial_number)


def _check_purpose(response: TimeStampResponse) -> None:
    """Rule 2, in addition to the library's checks: time stamping must be the only purpose of the certificate."""
    (signer,) = response.signed_data.signer_infos
    for each in response.signed_data.certificates:
        certificate = x509.load_der_x509_certificate(each)
        if (certificate.issuer, certificate.serial_number) != (signer.issuer, signer.serial_number):
            continue
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        if usage.critical and list(usage.value) == [ExtendedKeyUsageOID.TIME_STAMPING]:
            return
    raise BadTimeStamp("The certificate of the authority is not for time stamps alone.")


class _Element(NamedTuple):
    """One element of DER: the positions of its beginning, its content and its end."""

    start: int
    content: int
    end: int


def _sort_certificates(response: bytes) -> bytes:
    """Return the response with its certificates sorted; of the same length, and unchanged if there is
    nothing to sort.
    """
    status_and_token = _elements(response, _element(response, 0))
    if len(status_and_token) < 2:
        return response
    kind_and_content = _elements(response, status_and_token[1])
    signed_data = _elements(response, kind_and_content[1])[0]
    for part in _elements(response, signed_data):
        if response[part.start] == 0xA0:
            certificates = sorted(response[each.start : each.end] for each in _elements(response, part))
            return response[: part.content] + b"".join(certificates) + response[part.end :]
    return response


def _elements(data: bytes, outer: _Element) -> list[_Element]:
    found, at = [], outer.content
    while at < outer.end:
        found.append(_element(data, at))
        at = found[-1].end
    if at != outer.end:
        raise ValueError("an element ends outside of the one around it")
    return found


def _element(data: bytes, start: int) -> _Element:
    length, content = data[start + 1], start + 2
    if length & 0x80:
        count = length & 0x7F
        length, content = int.from_bytes(data[content : content + count], "big"), content + count
    if content + length > len(data):
        raise ValueError("an element is cut off")
    return _Element(start, content, content + length)
