"""Verifies proofs of possession (RFC 9449, DPoP): the presenter of a grant holds the key it is bound to.

1. The proof is a token of type dpop+jwt whose header carries the public key as a JWK: OKP, Ed25519, never a private
   part (section 4.2, RFC 8037).
2. It is signed by that key, for this method and this address without query and fragment (section 4.3, checks 8, 9).
3. It is fresh: made within the last minute, at most a few seconds ahead of our clock (check 11).
4. It names the grant that it accompanies by hash: `ath` (check 12).
5. Each `jti` counts once. That is the operation's to enforce, by a unique row that outlives the window.
6. Keys are compared by thumbprint (RFC 7638). A key of small order is refused: one signature would fit everything.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from approvals.execution.rules import jws
from ledger.record.rules.canonical import canonical
from ledger.record.rules.refusals import Refused

TYP = "dpop+jwt"
WINDOW = timedelta(seconds=60)
AHEAD = timedelta(seconds=10)

_HEADER = frozenset({"typ", "alg", "jwk"})
_CLAIMS = frozenset({"htm", "htu", "iat", "jti", "ath"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNRESERVED = re.compile(r"%(2D|2E|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])", re.IGNORECASE)
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")

# Encodings (sign bit cleared) of the points of order 1, 2, 4 and 8, the two non-canonical spellings included.
_SMALL_ORDER = frozenset(
    {
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    }
)


class ProofInvalid(Refused):
    """The proof of possession is not valid for this request."""

    code = "INVALID_DPOP_PROOF"
    status = 403


class BadKey(Refused):
    """The key is not a public Ed25519 key as a JWK (kty OKP, crv Ed25519, x)."""

    code = "BAD_KEY"
    status = 422


@dataclass(frozen=True)
class DpopProof:
    """A proof that holds: its id, to be used once until `forget_at`, and whose key made it."""

    jti: str
    issued_at: datetime
    forget_at: datetime
    thumbprint: str


def public_key(jwk: Mapping[str, Any]) -> Ed25519PublicKey:
    """The key in a JWK; anything but one public Ed25519 key is `BadKey`."""
    return Ed25519PublicKey.from_public_bytes(_public_point(jwk))


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """The RFC 7638 thumbprint (SHA-256, base64url) of a public Ed25519 key."""
    _public_point(jwk)
    required = {"crv": jwk["crv"], "kty": jwk["kty"], "x": jwk["x"]}
    return jws.encode(hashlib.sha256(canonical(required)).digest())


def public_jwk(key: Ed25519PublicKey) -> dict[str, str]:
    """The JWK of a public key, with its required members only."""
    return {"kty": "OKP", "crv": "Ed25519", "x": jws.encode(key.public_bytes_raw())}


def grant_hash(grant: str) -> str:
    """The `ath` of a grant: SHA-256 over its text, base64url."""
    return jws.encode(hashlib.sha256(grant.encode("utf-8")).digest())


def verify_proof(proof: str, *, method: str, url: str, grant: str, at: datetime) -> DpopProof:
    """The proof for a request of `method` to `url` that carries `grant`; `ProofInvalid` with the reason otherwise."""
    try:
        token = jws.parse_token(proof, typ=TYP, fields=_HEADER)
        jwk = token.header["jwk"]
        jws.verify_token(token, public_key(jwk if isinstance(jwk, dict) else {}))
        issued_at = _check_claims(token.claims, method=method, url=url, grant=grant, at=at)
    except (jws.NotAToken, BadKey) as problem:
        raise ProofInvalid(f"The proof of possession was refused: {problem}.") from None
    return DpopProof(token.claims["jti"], issued_at, issued_at + WINDOW + AHEAD, thumbprint(jwk))


def _check_claims(claims: Mapping[str, Any], *, method: str, url: str, grant: str, at: datetime) -> datetime:
    if claims.keys() != _CLAIMS:
        raise jws.NotAToken("its claims are not exactly htm, htu, iat, jti and ath")
    if (
        not all(isinstance(claims[name], str) for name in ("htm", "htu", "jti", "ath"))
        or type(claims["iat"]) is not int
    ):
        raise jws.NotAToken("a claim has the wrong type")
    if claims["htm"] != method.upper():
        raise jws.NotAToken("it was made for another method")
    if _address(claims["htu"], whole=True) != _address(url, whole=False):
        raise jws.NotAToken("it was made for another address")
    if not 16 <= len(claims["jti"]) <= 128:
        raise jws.NotAToken("its jti is too short or too long to be unique")
    if not compare_digest(claims["ath"].encode(), grant_hash(grant).encode()):
        raise jws.NotAToken("it was made for another grant")
    return _fresh(claims["iat"], at)


def _fresh(iat: int, at: datetime) -> datetime:
    # Compared as numbers first: a far iat would not fit a datetime.
    if not at.timestamp() - WINDOW.total_seconds() <= iat <= at.timestamp() + AHEAD.total_seconds():
        raise jws.NotAToken("it is not fresh; check the clock and make a new one for each request")
    return datetime.fromtimestamp(iat, tz=UTC)


def _address(url: str, *, whole: bool) -> tuple[str, str, int | None, str]:
    """Scheme, host, port and path of a URL in normal form (RFC 3986 section 6.2); with `whole` nothing else is
    allowed.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise jws.NotAToken("its htu is not an address") from None
    # `urlsplit` drops line breaks and tabs without a word; an address has none.
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        raise jws.NotAToken("its htu is not an address")
    if whole and (parts.query or parts.fragment or url.endswith(("?", "#"))):
        raise jws.NotAToken("its htu has a query or a fragment")
    path = _UNRESERVED.sub(lambda match: chr(int(match.group(1), 16)), parts.path or "/")
    path = _ESCAPE.sub(lambda match: match.group(0).upper(), path)
    return parts.scheme, parts.hostname.rstrip("."), port or _DEFAULT_PORTS[parts.scheme], path


def _public_point(jwk: Mapping[str, Any]) -> bytes:
    if "d" in jwk:
        raise BadKey("The key is a private one; keep it and make another.")
    if jwk.keys() - {"kty", "crv", "x", "kid", "alg", "use"}:
        raise BadKey
    if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519") or not isinstance(jwk.get("x"), str):
        raise BadKey
    try:
        point = jws.decode(jwk["x"])
    except jws.NotAToken:
        raise BadKey from None
    if len(point) != 32 or (point[:31] + bytes([point[31] & 0x7F])).hex() in _SMALL_ORDER:
        raise BadKey
    return point
