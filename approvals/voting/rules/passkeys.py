"""Verifies passkey signatures over statements, for votes of class A (D7, B28).

The challenge is SHA-256(domain ‖ 0x00 ‖ canonical statement), so the authenticator signs exactly one statement, and
through it one payload, policy, verdict and person. An assertion counts when all of this holds (WebAuthn level 3, 7.2):

1. The client data is of a `webauthn.get`, bears this challenge and an origin of the exact list, and comes from no frame
   in another site's page.
2. The authenticator data is of this relying party and parses to its last byte; user present AND user verified are set,
   and "backed up" stands only with "may be backed up", which for one key never changes (BE is fixed for its life).
3. The key is one that was enrolled, signs with EdDSA over Ed25519 or with ES256 over P-256, and the signature holds.
   Nothing else is taken, whatever the key says of itself.
4. The signature counter grows, where the authenticator counts at all. One that stands still or falls is the sign of a
   copied key: the vote is refused, whatever else holds (`CounterRegressed`), and the key is suspended.

What this cannot say: a passkey signs a hash. That the person saw the right text depends on the page (6.7 of the
design), which is why the rendering's digest is part of the statement.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from fido2 import cbor
from fido2.cose import ES256, CoseKey, EdDSA
from fido2.webauthn import AttestationObject, AuthenticatorData, CollectedClientData

from ledger.people.rules.statements import challenge_bytes
from ledger.record.rules.canonical import canonical
from ledger.record.rules.refusals import Refused

LARGEST_PART = 16_384
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError, struct.error)
LONGEST_ID = 1_023
_PARTS = ("clientDataJSON", "authenticatorData", "signature")
_ED25519, _P256 = 6, 1


class AssertionInvalid(Refused):
    """The passkey's answer does not sign this statement."""

    code = "ASSERTION_INVALID"
    status = 403


class CounterRegressed(AssertionInvalid):
    """The passkey's counter went backwards, as a copied key's would; the passkey was suspended."""

    code = "COUNTER_REGRESSED"


@dataclass(frozen=True, kw_only=True)
class RelyingParty:
    """The relying party that requests signatures: the name that keys are bound to, and the allowed origins."""

    id: str
    origins: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class EnrolledKey:
    """An enrolled key: its COSE public key, and its properties at enrolment or last use."""

    credential_id: str
    public_key: bytes
    sign_count: int
    backup_eligible: bool


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """A browser's assertion, byte for byte."""

    credential_id: str
    client_data: bytes
    authenticator_data: bytes
    signature: bytes

    def document(self) -> dict[str, str]:
        """The stored form, with the names and spelling of the browser's own JSON."""
        return {
            "id": self.credential_id,
            "clientDataJSON": base64url(self.client_data),
            "authenticatorData": base64url(self.authenticator_data),
            "signature": base64url(self.signature),
        }

    def kept(self) -> bytes:
        """The canonical bytes of `document`."""
        return canonical(self.document())


@dataclass(frozen=True, kw_only=True)
class VerifiedAssertion:
    """The data of a valid assertion, without its signature."""

    sign_count: int
    backed_up: bool


@dataclass(frozen=True, kw_only=True)
class RegisteredKey:
    """The key from a registration."""

    credential_id: str
    public_key: bytes
    aaguid: bytes
    sign_count: int
    backup_eligible: bool


def read_assertion(document: Any) -> Assertion:
    """The assertion in `PublicKeyCredential.toJSON()`; anything that is not one is refused."""
    try:
        if document["type"] != "public-key" or document.get("rawId", document["id"]) != document["id"]:
            raise AssertionInvalid("The passkey's answer names no key.")
        parts = [unbase64url(document["response"][name]) for name in _PARTS]
        credential_id = base64url(unbase64url(document["id"]))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise AssertionInvalid("The passkey's answer cannot be read.") from None
    if any(not 0 < len(part) <= LARGEST_PART for part in parts) or not 0 < len(credential_id) <= LONGEST_ID:
        raise AssertionInvalid("The passkey's answer cannot be read.")
    return Assertion(credential_id=credential_id, client_data=parts[0], authenticator_data=parts[1], signature=parts[2])


def verify_assertion(
    assertion: Assertion, *, key: EnrolledKey, party: RelyingParty, statement: bytes
) -> VerifiedAssertion:
    """Verify that `key` signed exactly this statement for this relying party (rules 1 to 4)."""
    if assertion.credential_id != key.credential_id:
        raise AssertionInvalid("Another passkey answered than the one that was asked.")
    _check_client_data(assertion.client_data, party, challenge_bytes(statement))
    data = _authenticator_data(assertion.authenticator_data)
    _check_authenticator_data(data, key, party)
    public = read_key(key.public_key)
    try:
        public.verify(
            assertion.authenticator_data + hashlib.sha256(assertion.client_data).digest(), assertion.signature
        )
    except (InvalidSignature, ValueError, TypeError):
        raise AssertionInvalid("The passkey's signature does not hold.") from None
    if (data.counter or key.sign_count) and data.counter <= key.sign_count:
        raise CounterRegressed
    return VerifiedAssertion(sign_count=data.counter, backed_up=data.is_backed_up())


def read_registration(document: Any, *, party: RelyingParty, wanted: bytes) -> RegisteredKey:
    """Return the key in a browser's answer to `navigator.credentials.create()` for the challenge `wanted`.

    User verification is demanded here too. What the maker of the authenticator attests is kept, and not believed.
    """
    try:
        client = unbase64url(document["response"]["clientDataJSON"])
        attestation = AttestationObject(unbase64url(document["response"]["attestationObject"]))
        data = attestation.auth_data
        credential = data.credential_data
    except _UNREADABLE:
        raise AssertionInvalid("The passkey's registration cannot be read.") from None
    _check_client_data(client, party, wanted, kind=CollectedClientData.TYPE.CREATE)
    _check_flags(data, party)
    if credential is None or document.get("id") != base64url(credential.credential_id):
        raise AssertionInvalid("The passkey's registration names no key.")
    public_key = cbor.encode(credential.public_key)
    read_key(public_key)
    return RegisteredKey(
        credential_id=base64url(credential.credential_id),
        public_key=public_key,
        aaguid=bytes(credential.aaguid),
        sign_count=data.counter,
        backup_eligible=data.is_backup_eligible(),
    )


def read_key(cose: bytes) -> CoseKey:
    """A public key in COSE bytes; only Ed25519 (EdDSA) and P-256 (ES256), spelt out in full, are taken (rule 3)."""
    try:
        said: Any = cbor.decode(cose)
        kind, algorithm, curve = said[1], said[3], said[-1]
        if cbor.encode(said) != cose:
            raise ValueError("spelt oddly")
    except _UNREADABLE:
        raise AssertionInvalid("The passkey's public key cannot be read.") from None
    if (kind, algorithm, curve) == (1, EdDSA.ALGORITHM, _ED25519) and _are_bytes(said, {-2: 32}):
        return EdDSA(said)
    if (kind, algorithm, curve) == (2, ES256.ALGORITHM, _P256) and _are_bytes(said, {-2: 32, -3: 32}):
        return ES256(said)
    raise AssertionInvalid("The passkey signs with an algorithm that is not taken here.")


def base64url(data: bytes) -> str:
    """Bytes as WebAuthn's JSON spells them."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def unbase64url(text: str) -> bytes:
    """Return the bytes of a `base64url` text, which must be in canonical form."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise ValueError("not base64url") from None
    if base64url(data) != text:
        raise ValueError("not base64url")
    return data


def _are_bytes(said: Mapping[int, Any], sizes: Mapping[int, int]) -> bool:
    coordinates = {name: said.get(name) for name in sizes}
    known = {1, 3, -1, *sizes}
    return set(said) == known and all(
        isinstance(value, bytes) and len(value) == sizes[name] for name, value in coordinates.items()
    )


def _check_client_data(
    data: bytes,
    party: RelyingParty,
    wanted: bytes,
    *,
    kind: CollectedClientData.TYPE = CollectedClientData.TYPE.GET,
) -> None:
    """Rule 1. A duplicate name would be ambiguous, so it is refused."""
    try:
        said = json.loads(data.decode(), object_pairs_hook=_unique)
        client = CollectedClientData(data)
        origin, sent = said["origin"], unbase64url(said["challenge"])
    except _UNREADABLE:
        raise AssertionInvalid("The passkey's client data cannot be read.") from None
    if said.get("type") != kind.value:
        raise AssertionInvalid("The passkey's answer is of another ceremony.")
    if sent != wanted or client.challenge != wanted:
        raise AssertionInvalid("The passkey signed something else than this statement.")
    if type(origin) is not str or origin not in party.origins:
        raise AssertionInvalid("The passkey was asked from an address that is not this console's.")
    if said.get("crossOrigin", False) is not False or "topOrigin" in said:
        raise AssertionInvalid("The passkey was asked from inside another site's page.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name stands twice")
    return value


def _authenticator_data(data: bytes) -> AuthenticatorData:
    try:
        read = AuthenticatorData(data)
        if read.has_extension_data() and not isinstance(read.extensions, Mapping):
            raise ValueError("extensions are a map")
        return read
    except _UNREADABLE:
        raise AssertionInvalid("The passkey's authenticator data cannot be read.") from None


def _check_authenticator_data(data: AuthenticatorData, key: EnrolledKey, party: RelyingParty) -> None:
    """Rule 2."""
    _check_flags(data, party)
    if data.is_attested():
        raise AssertionInvalid("The passkey's answer is of a registration.")
    if data.is_backup_eligible() != key.backup_eligible:
        raise AssertionInvalid("The passkey is of another kind than the one that was enrolled.")


def _check_flags(data: AuthenticatorData, party: RelyingParty) -> None:
    if data.rp_id_hash != hashlib.sha256(party.id.encode()).digest():
        raise AssertionInvalid("The passkey answered for another site.")
    if not data.is_user_present():
        raise AssertionInvalid("Nobody touched the passkey.")
    if not data.is_user_verified():
        raise AssertionInvalid("The passkey did not verify who used it.")
    if data.is_backed_up() and not data.is_backup_eligible():
        raise AssertionInvalid("The passkey says that it is backed up and cannot be.")
