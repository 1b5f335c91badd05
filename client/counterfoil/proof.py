"""Proof of possession: an executor's Ed25519 key, and the DPoP proofs (RFC 9449) that it signs.

A grant is bound to the public key that the executor registered, so a stolen grant starts nothing.
Each start carries a proof: a compact JWS with `typ` dpop+jwt and the public key as `jwk` in its
header, and the claims `jti` (fresh each time), `htm`, `htu` (no query, no fragment), `iat`, and
`ath`, the SHA-256 of the grant.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil.canonical import encode_canonical


class KeyNotPrivate(Exception):
    """Other users of this machine can read the executor's key file; its mode must be 0600."""


@dataclass(frozen=True)
class ExecutorKey:
    """The key that this executor proves possession of; the private half never leaves the process
    and its file.
    """

    private: Ed25519PrivateKey

    @property
    def public_jwk(self) -> dict[str, str]:
        """The public key as a JWK (RFC 8037)."""
        return {
            "crv": "Ed25519",
            "kty": "OKP",
            "x": encode_base64url(self.private.public_key().public_bytes_raw()),
        }

    @property
    def thumbprint(self) -> str:
        """The JWK thumbprint (RFC 7638) that a grant names as `cnf.jkt`."""
        return encode_base64url(hashlib.sha256(encode_canonical(self.public_jwk)).digest())

    def proof(self, *, method: str, url: str, token: str, at: float) -> str:
        """A DPoP proof for one request that presents `token`; each proof is good for one use."""
        header = {"alg": "Ed25519", "jwk": self.public_jwk, "typ": "dpop+jwt"}
        claims = {
            "ath": encode_base64url(hashlib.sha256(token.encode("ascii")).digest()),
            "htm": method.upper(),
            "htu": _without_query(url),
            "iat": int(at),
            "jti": str(uuid.uuid4()),
        }
        signed = f"{encode_base64url(encode_canonical(header))}.{encode_base64url(encode_canonical(claims))}"
        return f"{signed}.{encode_base64url(self.private.sign(signed.encode('ascii')))}"


def encode_base64url(data: bytes) -> str:
    """Base64url without padding (RFC 7515 section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str) -> bytes:
    """The bytes of a base64url text without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def load_key(path: Path) -> ExecutorKey:
    """The key kept at `path` as a private JWK, made on first use with mode 0600."""
    if not path.exists():
        _create(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise KeyNotPrivate(f"{path} can be read by others; set its mode to 0600.")
    jwk = json.loads(path.read_text())
    return ExecutorKey(Ed25519PrivateKey.from_private_bytes(decode_base64url(jwk["d"])))


def read_claims(token: str) -> dict[str, Any]:
    """The claims of a compact JWS, unverified: for its holder, who need not trust it."""
    try:
        claims = json.loads(decode_base64url(token.split(".")[1]))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _create(path: Path) -> None:
    key = ExecutorKey(Ed25519PrivateKey.generate())
    jwk = {**key.public_jwk, "d": encode_base64url(key.private.private_bytes_raw())}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(encode_canonical(jwk))
    # A link never replaces a file: when two processes start at once, one key wins and both read
    # that one.
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
