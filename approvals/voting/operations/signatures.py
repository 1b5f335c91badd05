"""A passkey's answer to a challenge: used once, and checked against the present state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from approvals.models import ApproverKey, Challenge
from approvals.voting.rules import binding, passkeys
from ledger.people.operations.statements import SignedStatement
from ledger.record.rules.canonical import canonical
from ledger.record.rules.outcomes import PASSKEY
from ledger.record.rules.refusals import RefusalRecord, Refused, leave_on_record


class ChallengeSpent(Refused):
    """This signature request was already used, has expired or is not yours; request another."""

    code = "CHALLENGE_SPENT"


class KeyNotActive(Refused):
    """This passkey cannot sign votes: it awaits a second person's confirmation, or was disabled."""

    code = "KEY_NOT_ACTIVE"
    status = 403


@dataclass(frozen=True, kw_only=True)
class ChallengeAnswer:
    """A passkey's answer to a challenge as the browser's own JSON, with the session that sent it."""

    challenge_id: UUID
    session_hash: str
    assertion: Any


@dataclass(frozen=True, kw_only=True)
class ConsumedChallenge:
    """A challenge that was used up in this transaction, with its answer and the locked key."""

    challenge: Challenge
    key: ApproverKey
    assertion: passkeys.Assertion


@dataclass(frozen=True, kw_only=True)
class AnsweredChallenge(RefusalRecord):
    """A challenge that stays used up, although the vote that answered it was refused."""

    challenge_id: UUID


@dataclass(frozen=True, kw_only=True)
class CopiedKeyUse(RefusalRecord):
    """A key that signed with a counter no higher than its last, so it has been copied (B11)."""

    key_id: UUID
    approval_id: UUID
    stored: int
    said: int


@dataclass(frozen=True, kw_only=True)
class VerifiedSignature(SignedStatement):
    """A statement with a signature that holds, the key that made it, and its answer."""

    key_id: UUID
    answer: passkeys.Assertion


def relying_party() -> passkeys.RelyingParty:
    """This installation as a relying party for passkeys."""
    return passkeys.RelyingParty(id=settings.COUNTERFOIL_RP_ID, origins=frozenset(settings.COUNTERFOIL_ORIGINS))


def consume_challenge(
    tenant_id: UUID, approval_id: UUID, voter: str, signed: ChallengeAnswer, *, at: datetime
) -> ConsumedChallenge:
    """Consume the challenge for this voter in this session only, and lock the key that answers it (B12).

    One conditional write: of two answers at once, one finds nothing left. It stays used up if the vote is refused.
    """
    assertion = passkeys.read_assertion(signed.assertion)
    found = Challenge.objects.filter(
        tenant_id=tenant_id,
        id=signed.challenge_id,
        approval_id=approval_id,
        actor_id=UUID(voter),
        session_hash=signed.session_hash,
        consumed_at__isnull=True,
        expires_at__gt=at,
    )
    if not found.update(consumed_at=at):
        raise ChallengeSpent
    challenge = Challenge.objects.get(tenant_id=tenant_id, id=signed.challenge_id)
    key = (
        ApproverKey.objects.select_for_update()
        .filter(tenant_id=tenant_id, credential_id=assertion.credential_id, actor_id=UUID(voter))
        .first()
    )
    if key is None or key.state != "ACTIVE":
        raise KeyNotActive(records=(AnsweredChallenge(challenge_id=challenge.id, at=at),))
    return ConsumedChallenge(challenge=challenge, key=key, assertion=assertion)


def verify_vote_signature(
    opened: ConsumedChallenge,
    *,
    covers: binding.Coverage,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    seen: binding.DisplayedDigests,
    reason: str,
    at: datetime,
) -> VerifiedSignature:
    """Return the proof, if the key signed the statement of this very vote about exactly the present state (B1, B13,
    B28).
    """

    def check(statement: bytes) -> None:
        said_covers, said = binding.read_statement(statement)
        binding.check_covered(said_covers, covers)
        _check_statement(said, opened.challenge, opened.key, verdict, voter, seen, reason, at=at)

    return verify_signature(opened, check, at=at)


def verify_signature(opened: ConsumedChallenge, check: Callable[[bytes], None], *, at: datetime) -> VerifiedSignature:
    """Return the proof if the key signed the challenge's statement and `check` accepts it; `check` raises `Refused`
    otherwise.
    """
    key, challenge = opened.key, opened.challenge
    statement = bytes(challenge.statement)
    with (
        leave_on_record(lambda _: AnsweredChallenge(challenge_id=challenge.id, at=at)),
        leave_on_record(lambda _: _copied_key_use(opened, at=at), of=passkeys.CounterRegressed),
    ):
        check(statement)
        proven = passkeys.verify_assertion(
            opened.assertion,
            key=passkeys.EnrolledKey(
                credential_id=key.credential_id,
                public_key=bytes(key.public_key),
                sign_count=key.sign_count,
                backup_eligible=key.backup_eligible,
            ),
            party=relying_party(),
            statement=statement,
        )
    ApproverKey.objects.filter(tenant_id=key.tenant_id, id=key.id).update(sign_count=proven.sign_count)
    kept_key = {
        "id": str(key.id),
        "credential_id": key.credential_id,
        "public_key": passkeys.base64url(bytes(key.public_key)),
    }
    return VerifiedSignature(
        statement=statement,
        salt=bytes(challenge.salt),
        evidence_class=PASSKEY,
        credential_id=key.credential_id,
        assertion=canonical({"version": 1, "assertion": opened.assertion.document(), "key": kept_key}),
        key_id=key.id,
        answer=opened.assertion,
    )


def _copied_key_use(opened: ConsumedChallenge, *, at: datetime) -> CopiedKeyUse:
    return CopiedKeyUse(
        key_id=opened.key.id,
        approval_id=opened.challenge.approval_id,
        stored=opened.key.sign_count,
        said=int.from_bytes(opened.assertion.authenticator_data[33:37]),
        at=at,
    )


def _check_statement(
    said: binding.VoteStatement,
    challenge: Challenge,
    key: ApproverKey,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    seen: binding.DisplayedDigests,
    reason: str,
    *,
    at: datetime,
) -> None:
    """Check that the statement agrees with the vote, and with the roster about the voter."""
    if at >= said.expires_at:
        raise ChallengeSpent
    is_meant = said.says(
        verdict=verdict,
        without_reading=seen.is_without_reading(verdict),
        voter=voter.actor,
        person=voter.person,
        groups=voter.groups,
        delegated_by=voter.delegated_by,
        evidence_class=voter.evidence_class,
        credential_id=key.credential_id,
        rp_id=relying_party().id,
    )
    if not is_meant or challenge.reason != reason:
        raise binding.StatementChanged


def spend_challenge(tenant_id: UUID, challenge_id: UUID, *, at: datetime) -> None:
    """Mark a challenge as used up, unless it is already."""
    Challenge.objects.filter(tenant_id=tenant_id, id=challenge_id, consumed_at__isnull=True).update(consumed_at=at)
