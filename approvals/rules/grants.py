"""Grants: short-lived, single-use tokens that let one executor start one attempt of one action (D8).

1. A grant is a compact JWS: alg EdDSA over Ed25519, typ counterfoil-grant+jwt, kid the RFC 7638 thumbprint of the key.
   The reader takes nothing else: no other type, no extra header field, no unknown or missing claim (`jws`, B25).
2. It names what it is for: installation (iss), tenant, action (sub) and revision, payload hash, contract digest, policy
   digests, executor and its key (cnf.jkt), attempt. `check` compares each with what holds now (B1, R-AP-06).
3. It lives at most 300 seconds (R-AP-08); a key signs only within its window, so a retired key authorises nothing new.
4. It is used once (R-AP-07). That is one conditional write of the operation that starts the attempt, never a look here.
5. It is stored as a hash and shown to its executor only (R-AP-21).

The verifier needs public keys only: nobody who can check a grant can make one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from approvals.rules import jws, possession
from approvals.rules.binding import ContractChanged, PolicyChanged
from ledger.rules.refusals import Refused

TYP = "counterfoil-grant+jwt"
MAX_LIFE = timedelta(seconds=300)
SKEW = timedelta(seconds=5)

_HEADER = frozenset({"typ", "alg", "kid"})
_TEXTS = frozenset({"iss", "jti", "sub", "tenant", "payload_hash", "contract_digest", "executor"})
_INTEGERS = frozenset({"iat", "exp", "revision", "attempt"})
_CLAIMS = _TEXTS | _INTEGERS | {"policy_digests", "cnf"}


class GrantInvalid(Refused):
    """The grant is not one of ours for this action."""

    code = "GRANT_INVALID"
    status = 403


class GrantExpired(Refused):
    """The grant has expired; claim the order again."""

    code = "GRANT_EXPIRED"


class GrantWrongExecutor(Refused):
    """The grant was made for another executor."""

    code = "GRANT_WRONG_EXECUTOR"
    status = 403


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a grant is for; the same value describes what holds now, so that the two can be compared."""

    tenant: str
    action_id: str
    revision: int
    attempt: int
    payload_hash: str
    contract_digest: str
    policy_digests: Mapping[str, str]
    executor: str
    thumbprint: str


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A grant: its terms, its id, who issued it and for how long. Times are whole seconds."""

    issuer: str
    jti: str
    issued_at: datetime
    expires_at: datetime
    terms: Terms


@dataclass(frozen=True)
class GrantKey:
    """A public key that grants were or are signed with, and when it may sign; `until` None means still."""

    public: Ed25519PublicKey
    since: datetime
    until: datetime | None = None

    @property
    def kid(self) -> str:
        """The key's name: its thumbprint."""
        return possession.thumbprint(possession.public_jwk(self.public))


def mint(grant: Grant, *, key: Ed25519PrivateKey) -> str:
    """The token of a grant, signed."""
    if not timedelta(0) < grant.expires_at - grant.issued_at <= MAX_LIFE:
        raise ValueError("a grant lives for up to 300 seconds")
    kid = possession.thumbprint(possession.public_jwk(key.public_key()))
    return jws.write(header={"alg": jws.ALG, "kid": kid, "typ": TYP}, claims=_claims(grant), sign=key.sign)


def verify(token: str, *, keys: Iterable[GrantKey], issuer: str, at: datetime) -> Grant:
    """The grant in a token that one of `keys` signed for this installation and that still lives at `at`."""
    try:
        parts = jws.take_apart(token, typ=TYP, fields=_HEADER)
        key = next((one for one in keys if one.kid == parts.header["kid"]), None)
        if key is None:
            raise jws.NotAToken("its key is unknown")
        jws.verify(parts, key.public)
        grant = _grant(parts.claims)
    except jws.NotAToken as problem:
        raise GrantInvalid(f"The grant was refused: {problem}.") from None
    if grant.issuer != issuer:
        raise GrantInvalid("The grant was issued by another installation.")
    _check_times(grant, key, at)
    return grant


def check(grant: Grant, now: Terms) -> None:
    """Nothing if the grant is for exactly what holds now; else the refusal that names the difference."""
    meant = grant.terms
    if (meant.executor, meant.thumbprint) != (now.executor, now.thumbprint):
        raise GrantWrongExecutor
    fixed = ("tenant", "action_id", "revision", "attempt", "payload_hash")
    if any(getattr(meant, name) != getattr(now, name) for name in fixed):
        raise GrantInvalid
    if meant.contract_digest != now.contract_digest:
        raise ContractChanged
    if dict(meant.policy_digests) != dict(now.policy_digests):
        raise PolicyChanged


def token_hash(token: str) -> str:
    """What is stored of a token (rule 5)."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def jwks(keys: Iterable[GrantKey]) -> dict[str, Any]:
    """The JWK set of the grant keys, with the window in which each may sign (as nbf and exp)."""
    return {"keys": [_published(key) for key in keys]}


def _published(key: GrantKey) -> dict[str, Any]:
    jwk: dict[str, Any] = {**possession.public_jwk(key.public), "kid": key.kid, "alg": jws.ALG, "use": "sig"}
    jwk["nbf"] = int(key.since.timestamp())
    if key.until is not None:
        jwk["exp"] = int(key.until.timestamp())
    return jwk


def _check_times(grant: Grant, key: GrantKey, at: datetime) -> None:
    # Whole seconds in the token: a key that began signing within this very second is still the right key.
    began = key.since.replace(microsecond=0)
    if grant.issued_at < began or (key.until is not None and grant.issued_at > key.until):
        raise GrantInvalid("The grant was signed outside the life of its key.")
    if grant.expires_at - grant.issued_at > MAX_LIFE or grant.issued_at > at + SKEW:
        raise GrantInvalid("The grant claims a life that no grant has.")
    if at >= grant.expires_at:
        raise GrantExpired


def _claims(grant: Grant) -> dict[str, Any]:
    terms = grant.terms
    return {
        "iss": grant.issuer,
        "jti": grant.jti,
        "iat": int(grant.issued_at.timestamp()),
        "exp": int(grant.expires_at.timestamp()),
        "sub": terms.action_id,
        "tenant": terms.tenant,
        "revision": terms.revision,
        "attempt": terms.attempt,
        "payload_hash": terms.payload_hash,
        "contract_digest": terms.contract_digest,
        "policy_digests": dict(terms.policy_digests),
        "executor": terms.executor,
        "cnf": {"jkt": terms.thumbprint},
    }


def _grant(claims: Mapping[str, Any]) -> Grant:
    if claims.keys() != _CLAIMS:
        raise jws.NotAToken("it has missing or unknown claims")
    if not _well_typed(claims):
        raise jws.NotAToken("a claim has the wrong type")
    return Grant(
        issuer=claims["iss"],
        jti=claims["jti"],
        issued_at=_instant(claims["iat"]),
        expires_at=_instant(claims["exp"]),
        terms=Terms(
            tenant=claims["tenant"],
            action_id=claims["sub"],
            revision=claims["revision"],
            attempt=claims["attempt"],
            payload_hash=claims["payload_hash"],
            contract_digest=claims["contract_digest"],
            policy_digests=claims["policy_digests"],
            executor=claims["executor"],
            thumbprint=claims["cnf"]["jkt"],
        ),
    )


def _well_typed(claims: Mapping[str, Any]) -> bool:
    policies, bound = claims["policy_digests"], claims["cnf"]
    return (
        all(isinstance(claims[name], str) and claims[name] for name in _TEXTS)
        and all(type(claims[name]) is int and claims[name] >= 0 for name in _INTEGERS)
        and isinstance(policies, dict)
        and all(isinstance(value, str) for value in policies.values())
        and isinstance(bound, dict)
        and bound.keys() == {"jkt"}
        and isinstance(bound["jkt"], str)
    )


def _instant(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        raise jws.NotAToken("a time is out of range") from None
