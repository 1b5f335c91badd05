"""Grants: short-lived, single-use tokens that let one executor start one attempt of one action (D8).

1. A grant is a compact JWS: alg Ed25519 (RFC 9864), typ counterfoil-grant+jwt, kid the RFC 7638 thumbprint of the key.
   The reader takes nothing else: no other type, no extra header field, no unknown or missing claim (`jws`, B25).
2. It names everything that it is for (`GrantTerms`): installation (iss), tenant
   and environment, action and revision, payload, tool and contract, target and its precondition, class, reversibility
   and limits, principal, policies, the approval with its votes and their place in the log, attempt, idempotency key,
   executor (aud) and its key (cnf.jkt), epoch. `check_terms` compares each with the current state (B1, R-AP-06).
3. It lives at most 300 seconds (R-AP-08); a key signs only within its window, so a retired key authorises nothing new.
4. It is used once (R-AP-07; `uses` is always 1, there are no standing grants). That is one conditional write of the
   operation that starts the attempt, never a look here.
5. It is stored as a hash and shown to its executor only (R-AP-21).
6. An installation has an epoch, raised whenever its database is restored; a grant of an older one is void (B16).

The verifier needs public keys only: nobody who can check a grant can make one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from approvals.execution.rules import dpop, jws
from approvals.voting.rules.binding import ContractChanged, PolicyChanged
from ledger.record.rules.refusals import Refused

TYP = "counterfoil-grant+jwt"
MAX_LIFE = timedelta(seconds=300)
MAX_GRANT = 16_384
SKEW = timedelta(seconds=5)
USES = 1

_HEADER = frozenset({"typ", "alg", "kid"})


class GrantInvalid(Refused):
    """The grant was not issued here for this action."""

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
class LogReference:
    """The log position of the event that decided an approval, and a signed log size that covers it."""

    origin: str
    index: int
    size: int


@dataclass(frozen=True, kw_only=True)
class ApprovalReference:
    """The approval that a grant rests on; `logged` is None only where the policy does not wait for the seal."""

    approval_id: str
    rule: str
    terms_digest: str
    votes: tuple[str, ...]
    logged: LogReference | None


@dataclass(frozen=True, kw_only=True)
class GrantTerms:
    """The terms of a grant; the current state has the same form, so that the two can be compared."""

    tenant: str
    environment: str
    epoch: int
    action_id: str
    revision: int
    attempt: int
    payload_hash: str
    payload_length: int
    tool: str
    tool_version: str
    contract_digest: str
    target: str
    precondition: str
    side_effect_class: str
    reversibility: str
    limits: Mapping[str, str]
    agent: str
    agent_version: str
    run_id: str
    policy_digests: Mapping[str, str]
    approval: ApprovalReference | None
    idempotency: str
    executor: str
    thumbprint: str


@dataclass(frozen=True, kw_only=True)
class GrantClaims:
    """A grant: its terms, its id, its issuer and its lifetime. Times are whole seconds."""

    issuer: str
    jti: str
    issued_at: datetime
    expires_at: datetime
    terms: GrantTerms


@dataclass(frozen=True)
class GrantKey:
    """A public key that grants were or are signed with, and when it may sign; `until` None means still."""

    public: Ed25519PublicKey
    since: datetime
    until: datetime | None = None

    @cached_property
    def kid(self) -> str:
        """The key's name: its thumbprint."""
        return dpop.thumbprint(dpop.public_jwk(self.public))


def amount_limits(payload: Mapping[str, Any], properties: Iterable[str]) -> dict[str, str]:
    """Amount and currency, where the contract has them and the payload names them, as text."""
    known = {name: payload.get(name) for name in ("amount", "currency") if name in properties}
    return {name: str(value) for name, value in known.items() if type(value) in (str, int)}


def mint_token(grant: GrantClaims, *, key: Ed25519PrivateKey) -> str:
    """The token of a grant, signed."""
    if not timedelta(0) < grant.expires_at - grant.issued_at <= MAX_LIFE:
        raise ValueError("a grant lives for up to 300 seconds")
    token = jws.write_token(
        header={"alg": jws.ALG, "kid": _key_id(key), "typ": TYP}, claims=_claims(grant), sign=key.sign
    )
    if len(token) > MAX_GRANT:
        raise ValueError("the grant is too long")
    return token


@lru_cache(maxsize=16)
def _key_id(key: Ed25519PrivateKey) -> str:
    return dpop.thumbprint(dpop.public_jwk(key.public_key()))


def verify_token(token: str, *, keys: Iterable[GrantKey], issuer: str, at: datetime) -> GrantClaims:
    """The grant in a token that one of `keys` signed for this installation and that still lives at `at`."""
    try:
        parts = jws.parse_token(token, typ=TYP, fields=_HEADER, most=MAX_GRANT)
        key = next((one for one in keys if one.kid == parts.header["kid"]), None)
        if key is None:
            raise jws.NotAToken("its key is unknown")
        jws.verify_token(parts, key.public)
        grant = _parse_grant(parts.claims)
    except jws.NotAToken as problem:
        raise GrantInvalid(f"The grant was refused: {problem}.") from None
    if grant.issuer != issuer:
        raise GrantInvalid("The grant was issued by another installation.")
    _check_times(grant, key, at)
    return grant


def check_terms(grant: GrantClaims, now: GrantTerms) -> None:
    """Refuse a grant whose terms differ from the current state, naming the difference.

    The signed size of the log may have grown since; everything else is the same or refused.
    """
    meant = grant.terms
    if (meant.executor, meant.thumbprint) != (now.executor, now.thumbprint):
        raise GrantWrongExecutor
    if meant.epoch != now.epoch:
        raise GrantInvalid("The grant was made before the database was restored; claim the order again.")
    if meant.contract_digest != now.contract_digest:
        raise ContractChanged
    if dict(meant.policy_digests) != dict(now.policy_digests):
        raise PolicyChanged
    names = [each.name for each in fields(GrantTerms) if each.name != "approval"]
    other = [name for name in names if getattr(meant, name) != getattr(now, name)]
    if not _same_approval(meant.approval, now.approval):
        other.append("approval")
    if other:
        raise GrantInvalid(f"The grant was made for another {other[0].replace('_', ' ')}.")


def _same_approval(meant: ApprovalReference | None, now: ApprovalReference | None) -> bool:
    if meant is None or now is None:
        return meant is now
    if replace(meant, logged=None) != replace(now, logged=None):
        return False
    if meant.logged is None:
        # Minted where the policy did not wait; the seal may have caught up since.
        return True
    return now.logged is not None and meant.logged.size <= now.logged.size and _place(meant) == _place(now)


def _place(approval: ApprovalReference) -> tuple[str, int] | None:
    return (approval.logged.origin, approval.logged.index) if approval.logged is not None else None


def token_hash(token: str) -> str:
    """The stored hash of a token (rule 5)."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def jwks(keys: Iterable[GrantKey]) -> dict[str, Any]:
    """The JWK set of the grant keys, with the window in which each may sign (as nbf and exp)."""
    return {"keys": [_public_key(key) for key in keys]}


def _public_key(key: GrantKey) -> dict[str, Any]:
    jwk: dict[str, Any] = {**dpop.public_jwk(key.public), "kid": key.kid, "alg": jws.ALG, "use": "sig"}
    jwk["nbf"] = int(key.since.timestamp())
    if key.until is not None:
        jwk["exp"] = int(key.until.timestamp())
    return jwk


def _check_times(grant: GrantClaims, key: GrantKey, at: datetime) -> None:
    # Whole seconds in the token: a key that began signing within this very second is still the right key.
    began = key.since.replace(microsecond=0)
    if grant.issued_at < began or (key.until is not None and grant.issued_at > key.until):
        raise GrantInvalid("The grant was signed outside the life of its key.")
    if grant.expires_at - grant.issued_at > MAX_LIFE or grant.issued_at > at + SKEW:
        raise GrantInvalid("The grant claims a life that no grant has.")
    if at >= grant.expires_at:
        raise GrantExpired


_ID, _TEXT, _NUMBER = "a text that is not empty", "a text", "a number"
_LOGGED = {"origin": _ID, "index": _NUMBER, "size": _NUMBER}
_APPROVED = {"id": _ID, "rule": _TEXT, "terms": _ID, "votes": [_ID], "log": (None, _LOGGED)}
_SHAPE: dict[str, Any] = {
    **dict.fromkeys(("iss", "aud", "sub", "jti", "tenant", "environment"), _ID),
    **dict.fromkeys(("iat", "nbf", "exp", "epoch", "revision", "attempt", "uses"), _NUMBER),
    "payload": {"hash": _ID, "length": _NUMBER},
    "tool": {"name": _ID, "version": _ID, "contract": _ID},
    "target": {"resource": _TEXT, "precondition": _TEXT},
    "effect": {"class": _ID, "reversibility": _ID},
    "limits": {str: _TEXT},
    "principal": {"agent": _ID, "version": _TEXT, "run": _TEXT},
    "policies": {str: _ID},
    "approval": (None, _APPROVED),
    "idempotency": _TEXT,
    "cnf": {"jkt": _ID},
}


def _claims(grant: GrantClaims) -> dict[str, Any]:
    terms, approval = grant.terms, grant.terms.approval
    begins = int(grant.issued_at.timestamp())
    return {
        "iss": grant.issuer,
        "aud": terms.executor,
        "sub": terms.action_id,
        "jti": grant.jti,
        "iat": begins,
        "nbf": begins,
        "exp": int(grant.expires_at.timestamp()),
        "uses": USES,
        "tenant": terms.tenant,
        "environment": terms.environment,
        "epoch": terms.epoch,
        "revision": terms.revision,
        "attempt": terms.attempt,
        "payload": {"hash": terms.payload_hash, "length": terms.payload_length},
        "tool": {"name": terms.tool, "version": terms.tool_version, "contract": terms.contract_digest},
        "target": {"resource": terms.target, "precondition": terms.precondition},
        "effect": {"class": terms.side_effect_class, "reversibility": terms.reversibility},
        "limits": dict(terms.limits),
        "principal": {"agent": terms.agent, "version": terms.agent_version, "run": terms.run_id},
        "policies": dict(terms.policy_digests),
        "approval": None if approval is None else _approval_claim(approval),
        "idempotency": terms.idempotency,
        "cnf": {"jkt": terms.thumbprint},
    }


def _approval_claim(approval: ApprovalReference) -> dict[str, Any]:
    return {
        "id": approval.approval_id,
        "rule": approval.rule,
        "terms": approval.terms_digest,
        "votes": list(approval.votes),
        "log": None if approval.logged is None else asdict(approval.logged),
    }


def _parse_grant(claims: Mapping[str, Any]) -> GrantClaims:
    if not _fits(claims, _SHAPE):
        raise jws.NotAToken("its claims are not those of a grant")
    if claims["uses"] != USES or claims["nbf"] != claims["iat"]:
        raise jws.NotAToken("it claims what no grant has")
    return GrantClaims(
        issuer=claims["iss"],
        jti=claims["jti"],
        issued_at=_from_seconds(claims["iat"]),
        expires_at=_from_seconds(claims["exp"]),
        terms=_terms(claims),
    )


def _terms(claims: Mapping[str, Any]) -> GrantTerms:
    return GrantTerms(
        tenant=claims["tenant"],
        environment=claims["environment"],
        epoch=claims["epoch"],
        action_id=claims["sub"],
        revision=claims["revision"],
        attempt=claims["attempt"],
        payload_hash=claims["payload"]["hash"],
        payload_length=claims["payload"]["length"],
        tool=claims["tool"]["name"],
        tool_version=claims["tool"]["version"],
        contract_digest=claims["tool"]["contract"],
        target=claims["target"]["resource"],
        precondition=claims["target"]["precondition"],
        side_effect_class=claims["effect"]["class"],
        reversibility=claims["effect"]["reversibility"],
        limits=claims["limits"],
        agent=claims["principal"]["agent"],
        agent_version=claims["principal"]["version"],
        run_id=claims["principal"]["run"],
        policy_digests=claims["policies"],
        approval=_approval_reference(claims["approval"]),
        idempotency=claims["idempotency"],
        executor=claims["aud"],
        thumbprint=claims["cnf"]["jkt"],
    )


def _approval_reference(claim: Mapping[str, Any] | None) -> ApprovalReference | None:
    if claim is None:
        return None
    return ApprovalReference(
        approval_id=claim["id"],
        rule=claim["rule"],
        terms_digest=claim["terms"],
        votes=tuple(claim["votes"]),
        logged=None if claim["log"] is None else LogReference(**claim["log"]),
    )


def _fits(value: Any, shape: Any) -> bool:
    """Return whether a claim has exactly this shape: a tuple is a choice, a list a list of one kind, {str: …} any
    names.
    """
    if isinstance(shape, tuple):
        return any(value is None if each is None else _fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            return False
        if str in shape:
            return all(_fits(each, shape[str]) for each in value.values())
        return value.keys() == shape.keys() and all(_fits(value[name], shape[name]) for name in shape)
    if shape is _NUMBER:
        return type(value) is int and value >= 0
    return isinstance(value, str) and (value != "" or shape is _TEXT)


def _from_seconds(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        raise jws.NotAToken("a time is out of range") from None
