"""Sealing of evidence: AES-256-GCM with one data key per subject, wrapped by the key-encryption key.

1. A data key belongs to one subject; destroying it makes all of the subject's evidence unreadable.
2. The associated data name tenant, subject and pointer, so a ciphertext cannot be moved to another place.
3. Nonces are 12 random bytes, passed in; a key seals few blobs, far below the bound of NIST SP 800-38D section 8.3.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.record.rules.refusals import Refused

NONCE_BYTES = 12


class CannotOpen(Refused):
    """The evidence cannot be opened: it was erased or altered, or its key is gone."""

    code = "EVIDENCE_UNREADABLE"
    status = 410


class EvidenceErased(CannotOpen):
    """This was erased on request; the record keeps that it was there, when it was erased and on whose decision."""

    code = "ERASED"


def seal(key: bytes, nonce: bytes, data: bytes, place: str) -> bytes:
    """Return nonce and ciphertext of `data`, bound to `place`."""
    return nonce + AESGCM(key).encrypt(nonce, data, place.encode())


def open_sealed(key: bytes, sealed: bytes, place: str) -> bytes:
    """Decrypt what `seal` encrypted; refuse a wrong key, place or byte."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place.encode())
    except (InvalidTag, ValueError):
        raise CannotOpen from None
