"""Verify execution grants in the executor, without trusting the console.

1. A grant is a compact JWS (RFC 7515) under exactly one algorithm, `Ed25519` (RFC 9864), of the
   type counterfoil-grant+jwt. A token of any other form, with any other header field or claim, is
   refused: `none`, HS256, `EdDSA`, `jwk`, `jku`, `x5u`, `crit`, a name that stands twice.
2. Its key is one of the issuer's JWKS, within its window. The set is kept for `max_age_s` at most;
   an unknown key is asked for once more, no oftener than every few seconds. A set that is too old
   and cannot be read again makes every grant unverifiable.
3. It is for this executor (`aud`) and this executor's key (`cnf.jkt`), from this issuer, for this
   environment, not over, and for exactly the payload that is about to run.
4. A strict executor also wants the proof that the votes stand in the signed log
   (`counterfoil.execution.sealed`): then a stolen grant key is not enough to make anything run.
5. A grant is used once. The console sees to it; an executor remembers what it used for as long as
   the grant lives, so that not even a restored console can offer it again.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from counterfoil.canonical import NotCanonical, encode_canonical, parse_json
from counterfoil.proof import decode_base64url, encode_base64url

ALGORITHM = "Ed25519"
TYPE = "counterfoil-grant+jwt"
LONGEST = 16_384
LONGEST_LIFE_S = 300
SKEW_S = 5
_PART = re.compile(r"[A-Za-z0-9_-]+")
_CLAIMS = {
    *("iss", "aud", "sub", "jti", "iat", "nbf", "exp", "uses", "tenant", "environment", "epoch"),
    *("revision", "attempt", "payload", "tool", "target", "effect", "limits", "principal"),
    *("policies", "approval", "idempotency", "cnf"),
}
_TIMES = ("iat", "nbf", "exp")


class GrantRefused(Exception):
    """This grant starts nothing here; `code` is the reason."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class KeysUnknown(GrantRefused):
    """The issuer's keys cannot be read, and those that are known are too old."""

    def __init__(self, detail: str) -> None:
        super().__init__("KEYS_UNKNOWN", detail)


@dataclass(frozen=True)
class IssuerKey:
    """One of the issuer's keys, with the seconds of POSIX between which it signs."""

    public: Ed25519PublicKey
    begins: int
    ends: int | None


@dataclass(frozen=True)
class GrantHolder:
    """The holder of grants: their issuer, this executor's id and key, and its environment."""

    issuer: str
    executor_id: str
    thumbprint: str
    environment: str = "production"


class KeySet:
    """The issuer's JWKS, cached for a while; `fetch` reads it again."""

    def __init__(
        self,
        fetch: Callable[[], Mapping[str, Any]],
        *,
        max_age_s: float = 300.0,
        again_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._max_age_s = max_age_s
        self._again_s = again_s
        self._clock = clock
        self._lock = Lock()
        self._keys: dict[str, IssuerKey] = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None

    def key(self, kid: str) -> IssuerKey:
        """The key of this name."""
        with self._lock:
            now = self._clock()
            fresh = self._read_at is not None and now - self._read_at < self._max_age_s
            if not fresh or kid not in self._keys:
                self._renew(now, needed=not fresh)
            if kid not in self._keys:
                raise GrantRefused("GRANT_INVALID", "The grant's key is not one of the issuer's.")
            return self._keys[kid]

    def _renew(self, now: float, *, needed: bool) -> None:
        if self._tried_at is not None and now - self._tried_at < self._again_s:
            if needed:
                raise KeysUnknown("The issuer's keys could not be read a moment ago.")
            return
        self._tried_at = now
        try:
            found = _keys(self._fetch())
        except Exception as fault:
            if needed:
                raise KeysUnknown(f"The issuer's keys cannot be read: {fault}") from fault
            return
        self._keys, self._read_at = found, now


@dataclass
class UsedGrants:
    """The grants that were used here, each for as long as it lives."""

    _until: dict[str, float] = field(default_factory=dict)

    def spend(self, claims: Mapping[str, Any], *, at: float) -> None:
        """Record that a grant is used; refuse one that was used before."""
        self._until = {jti: end for jti, end in self._until.items() if end > at}
        if claims["jti"] in self._until:
            raise GrantRefused("GRANT_CONSUMED", "This executor has used this grant before.")
        self._until[claims["jti"]] = claims["exp"] + SKEW_S


def verify_grant(token: str, *, keys: KeySet, holder: GrantHolder, at: float) -> dict[str, Any]:
    """The claims of a grant that holds for this executor at this time, in seconds of POSIX."""
    header, claims, signed, signature = _take_apart(token)
    if set(header) != {"alg", "typ", "kid"} or header["alg"] != ALGORITHM or header["typ"] != TYPE:
        raise GrantRefused("GRANT_INVALID", "The token is of another type or algorithm.")
    if not isinstance(header["kid"], str):
        raise GrantRefused("GRANT_INVALID", "The token names no key.")
    key = keys.key(header["kid"])
    try:
        key.public.verify(signature, signed)
    except InvalidSignature:
        raise GrantRefused("GRANT_INVALID", "The signature does not hold.") from None
    _check_form(claims)
    _check_times(claims, key, at)
    _check_holder(claims, holder)
    return claims


def check_payload(claims: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
    """Raise unless a grant is for exactly this payload."""
    try:
        data = encode_canonical(dict(payload))
    except NotCanonical as fault:
        raise GrantRefused("PAYLOAD_HASH_MISMATCH", str(fault)) from fault
    said = {"hash": hashlib.sha256(data).hexdigest(), "length": len(data)}
    if claims["payload"] != said:
        raise GrantRefused("PAYLOAD_HASH_MISMATCH", "The grant was made for another payload.")


def _take_apart(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    parts = token.split(".") if len(token) <= LONGEST else []
    if len(parts) != 3:
        raise GrantRefused("GRANT_INVALID", "The token is too long, or does not have three parts.")
    header, claims = (_object(part) for part in parts[:2])
    return header, claims, f"{parts[0]}.{parts[1]}".encode("ascii"), _bytes(parts[2])


def _object(part: str) -> dict[str, Any]:
    try:
        value = parse_json(_bytes(part))
        encode_canonical(value)
    except ValueError as fault:
        raise GrantRefused("GRANT_INVALID", "A part of the token is not strict JSON.") from fault
    if not isinstance(value, dict):
        raise GrantRefused("GRANT_INVALID", "A part of the token is not an object.")
    return value


def _bytes(part: str) -> bytes:
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise GrantRefused("GRANT_INVALID", "A part of the token is not base64url.")
    data = decode_base64url(part)
    if encode_base64url(data) != part:
        raise GrantRefused("GRANT_INVALID", "A part of the token has stray bits.")
    return data


def _check_form(claims: Mapping[str, Any]) -> None:
    payload, bound, approval = (claims.get(name) for name in ("payload", "cnf", "approval"))
    sound = (
        set(claims) == _CLAIMS
        and all(type(claims[name]) is int and claims[name] >= 0 for name in (*_TIMES, "epoch"))
        and all(isinstance(claims[name], str) and claims[name] for name in ("iss", "aud", "sub"))
        and isinstance(claims["jti"], str)
        and type(claims["uses"]) is int
        and claims["uses"] == 1
        and isinstance(payload, Mapping)
        and set(payload) == {"hash", "length"}
        and isinstance(bound, Mapping)
        and set(bound) == {"jkt"}
        and (approval is None or isinstance(approval, Mapping))
    )
    if not sound:
        raise GrantRefused("GRANT_INVALID", "The claims are not those of a grant.")


def _check_times(claims: Mapping[str, Any], key: IssuerKey, at: float) -> None:
    begins, ends = claims["iat"], claims["exp"]
    if begins < key.begins or (key.ends is not None and begins > key.ends):
        raise GrantRefused("GRANT_INVALID", "The grant was signed outside the life of its key.")
    if claims["nbf"] != begins or not 0 < ends - begins <= LONGEST_LIFE_S or begins > at + SKEW_S:
        raise GrantRefused("GRANT_INVALID", "The grant claims a life that no grant has.")
    if at >= ends:
        raise GrantRefused("GRANT_EXPIRED", "The grant has expired.")


def _check_holder(claims: Mapping[str, Any], holder: GrantHolder) -> None:
    if claims["iss"] != holder.issuer:
        raise GrantRefused("GRANT_INVALID", "The grant was issued by another installation.")
    if claims["environment"] != holder.environment:
        raise GrantRefused("GRANT_INVALID", "The grant is for another environment.")
    if claims["aud"] != holder.executor_id or claims["cnf"]["jkt"] != holder.thumbprint:
        raise GrantRefused("GRANT_WRONG_EXECUTOR", "The grant was made for another executor.")


def _keys(document: Mapping[str, Any]) -> dict[str, IssuerKey]:
    return {jwk["kid"]: _key(jwk) for jwk in document["keys"] if _is_ours(jwk)}


def _is_ours(jwk: Mapping[str, Any]) -> bool:
    form = (jwk.get("kty"), jwk.get("crv"), jwk.get("alg"))
    return form == ("OKP", "Ed25519", ALGORITHM) and jwk.get("kid") == _jwk_thumbprint(jwk)


def _jwk_thumbprint(jwk: Mapping[str, Any]) -> str:
    required = {name: jwk[name] for name in ("crv", "kty", "x")}
    return encode_base64url(hashlib.sha256(encode_canonical(required)).digest())


def _key(jwk: Mapping[str, Any]) -> IssuerKey:
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(jwk["x"] + "="))
    return IssuerKey(public, int(jwk.get("nbf", 0)), jwk.get("exp"))
