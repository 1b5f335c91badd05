"""People who sign their votes with a passkey: enrolled and confirmed as the product does it, answered in software."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from approvals.voting.operations import approver_keys
from approvals.voting.queries import approvers
from approvals.voting.rules import passkeys
from console.models import Membership
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.outside.authenticators import Authenticator


def device(kind: str = "p256", **more: Any) -> Authenticator:
    """A passkey made for this installation."""
    return Authenticator(kind, rp_id=settings.COUNTERFOIL_RP_ID, origin=settings.COUNTERFOIL_ORIGINS[0], **more)


def actor_of(tenant: UUID, api: Any) -> UUID:
    """Who the person behind a test client is in the tenant."""
    user = getattr(api, "api", api).client.session["_auth_user_id"]
    return Membership.objects.get(tenant_id=tenant, user_id=user).actor_id


def enrolled(
    tenant: UUID, actor_id: UUID, one: Authenticator | None = None, *, confirmed: bool = True
) -> Authenticator:
    """A passkey of this person, confirmed by another unless not wanted."""
    one, at = one or device(), datetime.now(UTC)
    asked = b"c" * 32
    answer = one.registration(asked)
    with tenancy(tenant):
        row = approver_keys.enrol(
            tenant_id=tenant,
            by=ledger.Actor("person", actor_id),
            person_id=actor_id,
            name="Blue key",
            registered=passkeys.read_registration(answer, party=_party(one), wanted=asked),
            registration=b"{}",
            at=at,
        )
        if confirmed:
            second = uuid4()
            by = ledger.Actor("person", second)
            approver_keys.confirm(tenant_id=tenant, key_id=row.id, by=by, person_id=second, at=at)
    return one


def key_row(tenant: UUID, one: Authenticator) -> Any:
    with tenancy(tenant):
        return approvers.approver_key_by_credential(tenant, one.name)


def ask(api: Any, approval: dict[str, Any], **changes: Any) -> Any:
    """The answer to asking for a signature over a vote."""
    body = {
        "verdict": "approve",
        "payload_hash": approval["payload_hash"],
        "rendering_digest": approval["rendering_digest"],
        "covers": approval["covers_digest"],
        "without_reading": approval["target_unread"],
        "reason": "I have read it.",
    }
    return api.post(f"/approvals/{approval['approval_id']}/challenges", body | changes)


def wanted(challenge: dict[str, Any]) -> bytes:
    """The bytes that a challenge wants signed."""
    return passkeys.unbase64url(challenge["publicKey"]["challenge"])


def cast(api: Any, approval: dict[str, Any], challenge: dict[str, Any], assertion: Any, **changes: Any) -> Any:
    """The answer to a vote with this assertion."""
    body = {
        "verdict": "approve",
        "payload_hash": approval["payload_hash"],
        "rendering_digest": approval["rendering_digest"],
        "covers": approval["covers_digest"],
        "without_reading": approval["target_unread"],
        "reason": "I have read it.",
        "challenge_id": challenge["challenge_id"],
        "assertion": assertion,
    }
    return api.post(f"/approvals/{approval['approval_id']}/votes", body | changes)


def sign(api: Any, approval: dict[str, Any], one: Authenticator, **changes: Any) -> Any:
    """Ask for a signature, make it, and vote with it."""
    asked = ask(api, approval, **changes)
    assert asked.status_code == 201, asked.content
    challenge = asked.json()
    return cast(api, approval, challenge, one.answer(wanted(challenge)), **changes)


def _party(one: Authenticator) -> passkeys.RelyingParty:
    return passkeys.RelyingParty(id=one.rp_id, origins=frozenset({one.origin}))
