"""Enrolment of an approver's passkey in the browser, separate from signing in.

Why not allauth's: it holds one ceremony per session, whoever began it; it asks for no resident key unless the page says
so; and its keys sign in, while these sign statements. Here the challenge names tenant and person, lives two minutes, is
used once, and user verification and a resident key are demanded. Each key has a user handle of its own: an
authenticator keeps one resident key per site and handle, so a shared one would overwrite the passkey for signing in.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from approvals.voting.rules import passkeys
from ledger.record.rules.canonical import canonical
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from django.contrib.sessions.backends.base import SessionBase

CEREMONY = "approver_key_ceremony"
LIFE = timedelta(minutes=2)
CHALLENGE_BYTES, HANDLE_BYTES = 32, 32
# EdDSA over Ed25519 and ES256 over P-256, in this order: what `rules.passkeys` takes.
ALGORITHMS = (-8, -7)


class NoPendingEnrolment(Refused):
    """This enrolment was not started here, took longer than two minutes or has already ended; start again."""

    code = "NO_CEREMONY"
    status = 409


def relying_party() -> passkeys.RelyingParty:
    return passkeys.RelyingParty(id=settings.COUNTERFOIL_RP_ID, origins=frozenset(settings.COUNTERFOIL_ORIGINS))


def begin_enrolment(
    session: SessionBase, *, tenant_id: UUID, actor_id: UUID, name: str, known: Iterable[Any], at: datetime
) -> Any:
    """Build the options for `navigator.credentials.create()`; `known` are the person's keys, so that none is enrolled
    twice.
    """
    challenge = secrets.token_bytes(CHALLENGE_BYTES)
    session[CEREMONY] = {
        "tenant": str(tenant_id),
        "actor": str(actor_id),
        "challenge": passkeys.base64url(challenge),
        "at": at.timestamp(),
    }
    return {
        "publicKey": {
            "rp": {"id": settings.COUNTERFOIL_RP_ID, "name": "Counterfoil"},
            "user": {
                "id": passkeys.base64url(secrets.token_bytes(HANDLE_BYTES)),
                "name": f"Approvals: {name}",
                "displayName": f"Approvals: {name}",
            },
            "challenge": passkeys.base64url(challenge),
            "pubKeyCredParams": [{"type": "public-key", "alg": each} for each in ALGORITHMS],
            "timeout": int(LIFE.total_seconds() * 1000),
            "excludeCredentials": [{"type": "public-key", "id": key.credential_id} for key in known],
            "authenticatorSelection": {
                "residentKey": "required",
                "requireResidentKey": True,
                "userVerification": "required",
            },
            "attestation": "none",
        }
    }


def finish_enrolment(
    session: SessionBase, *, tenant_id: UUID, actor_id: UUID, credential: Any, at: datetime
) -> tuple[passkeys.RegisteredKey, bytes]:
    """The key in the browser's answer, and the answer as stored. The challenge is consumed in any case."""
    begun = session.pop(CEREMONY, None)
    if begun is None or (begun["tenant"], begun["actor"]) != (str(tenant_id), str(actor_id)):
        raise NoPendingEnrolment
    if not 0 <= at.timestamp() - begun["at"] <= LIFE.total_seconds():
        raise NoPendingEnrolment
    registered = passkeys.read_registration(
        credential, party=relying_party(), wanted=passkeys.unbase64url(begun["challenge"])
    )
    return registered, canonical(credential)
