"""Signed tokens in compact form (RFC 7515), parsed strictly, for grants and proofs of possession.

1. Three parts, base64url without padding, in the one spelling that the bytes have (RFC 7515 section 2).
2. Header and claims are JSON objects with unique names and no fractions (`ledger.record.rules.canonical.read`).
3. There is one algorithm, Ed25519 under its own name (RFC 9864), never what the token asks for: `none`, HS256, and the
   older spelling `EdDSA`, which leaves the curve open, are refused. So are `crit`, `jku`, `jwk`, `x5u` and every other
   header field that the caller did not name (RFC 8725 sections 3.1 and 3.10).
4. A token has a length limit, looked at first.

Anything wrong is a `NotAToken`; callers turn it into refusals of their own. Nothing here checks times or keys.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledger.record.rules.canonical import NotCanonical, canonical, read

ALG = "Ed25519"
MAX_TOKEN = 4096
_PART = re.compile(r"[A-Za-z0-9_-]+")


class NotAToken(ValueError):
    """The text is not a token of the expected form."""


@dataclass(frozen=True)
class Token:
    """A parsed token; no part of it may be trusted before `verify_token`."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def encode(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode(text: str) -> bytes:
    """The bytes of base64url text in its one spelling; padding, other characters and stray bits are refused."""
    if not _PART.fullmatch(text) or len(text) % 4 == 1:
        raise NotAToken("a part is not base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if encode(data) != text:
        raise NotAToken("a part has stray bits")
    return data


def write_token(*, header: Mapping[str, Any], claims: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A token over these claims; `sign` is the private key's."""
    signed = f"{encode(canonical(dict(header)))}.{encode(canonical(dict(claims)))}"
    return f"{signed}.{encode(sign(signed.encode('ascii')))}"


def parse_token(text: str, *, typ: str, fields: frozenset[str], most: int = MAX_TOKEN) -> Token:
    """The token in `text`, whose header has exactly `fields`, our algorithm, and the type `typ`."""
    if len(text) > most:
        raise NotAToken("it is too long")
    parts = text.split(".")
    if len(parts) != 3:
        raise NotAToken("it does not have three parts")
    header, claims = _object(parts[0]), _object(parts[1])
    if header.keys() != fields:
        raise NotAToken("its header has missing or unknown fields")
    if header["alg"] != ALG or header["typ"] != typ:
        raise NotAToken("it is of another type or algorithm")
    return Token(header, claims, f"{parts[0]}.{parts[1]}".encode("ascii"), decode(parts[2]))


def verify_token(token: Token, key: Ed25519PublicKey) -> None:
    """Refuse a token that `key` did not sign, with `NotAToken`."""
    try:
        key.verify(token.signature, token.signed)
    except InvalidSignature:
        raise NotAToken("its signature does not hold") from None


def _object(part: str) -> dict[str, Any]:
    try:
        value = read(decode(part))
    except NotCanonical:
        raise NotAToken("a part is not strict JSON") from None
    if not isinstance(value, dict):
        raise NotAToken("a part is not a JSON object")
    return value
