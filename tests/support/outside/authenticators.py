"""A software authenticator that does what it is told, rightly or wrongly: every byte of its answers can be bent.

The bytes are put together by hand, so that nothing a test bends comes from what it is about to check.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

UP, UV, BE, BS, AT, ED = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80
RP_ID = "testserver"
ORIGIN = "http://testserver"


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def cose_ed25519(public: bytes) -> bytes:
    """{1: 1, 3: -8, -1: 6, -2: public}"""
    return b"\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20" + public


def cose_p256(x: bytes, y: bytes) -> bytes:
    """{1: 2, 3: -7, -1: 1, -2: x, -3: y}"""
    return b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20" + x + b"\x22\x58\x20" + y


@dataclass
class Authenticator:
    """One passkey. `kind` is ed25519 or p256; `flags` are what it says when it signs."""

    kind: str = "p256"
    rp_id: str = RP_ID
    origin: str = ORIGIN
    flags: int = UP | UV
    counter: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def __post_init__(self) -> None:
        self.ed25519 = Ed25519PrivateKey.generate()
        self.p256 = ec.generate_private_key(ec.SECP256R1())

    @property
    def name(self) -> str:
        return b64(self.credential_id)

    @property
    def public_key(self) -> bytes:
        if self.kind == "ed25519":
            return cose_ed25519(self.ed25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        numbers = self.p256.public_key().public_numbers()
        return cose_p256(numbers.x.to_bytes(32), numbers.y.to_bytes(32))

    def data(self, *, flags: int | None = None, counter: int | None = None, rest: bytes = b"") -> bytes:
        """Authenticator data."""
        number = self.counter if counter is None else counter
        shown = self.flags if flags is None else flags
        return hashlib.sha256(self.rp_id.encode()).digest() + bytes([shown]) + number.to_bytes(4) + rest

    def client_data(self, challenge: bytes, /, **changes: Any) -> bytes:
        said = {"type": "webauthn.get", "challenge": b64(challenge), "origin": self.origin, "crossOrigin": False}
        return json.dumps({name: value for name, value in (said | changes).items() if value is not None}).encode()

    def sign(self, message: bytes) -> bytes:
        if self.kind == "ed25519":
            return self.ed25519.sign(message)
        return self.p256.sign(message, ec.ECDSA(hashes.SHA256()))

    def answer(
        self,
        challenge: bytes,
        *,
        data: bytes | None = None,
        client_data: bytes | None = None,
        signature: bytes | None = None,
    ) -> dict[str, Any]:
        """What `navigator.credentials.get()` would give as JSON."""
        authenticator_data = self.data() if data is None else data
        client = self.client_data(challenge) if client_data is None else client_data
        made = self.sign(authenticator_data + hashlib.sha256(client).digest())
        return {
            "id": self.name,
            "rawId": self.name,
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": b64(client),
                "authenticatorData": b64(authenticator_data),
                "signature": b64(made if signature is None else signature),
            },
        }

    def registration(self, challenge: bytes, /, *, flags: int | None = None, **client: Any) -> dict[str, Any]:
        """What `navigator.credentials.create()` would give as JSON, with an attestation of the format "none"."""
        said = self.client_data(challenge, **({"type": "webauthn.create"} | client))
        rest = bytes(16) + len(self.credential_id).to_bytes(2) + self.credential_id + self.public_key
        data = self.data(flags=(self.flags if flags is None else flags) | AT, rest=rest)
        # {"fmt": "none", "attStmt": {}, "authData": data}
        whole = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59" + len(data).to_bytes(2) + data
        response = {"clientDataJSON": b64(said), "attestationObject": b64(whole)}
        return {"id": self.name, "rawId": self.name, "type": "public-key", "response": response}
