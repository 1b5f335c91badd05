"""Creates challenges for passkeys: a statement to sign, which may be answered once within two minutes.

Each browser tab gets its own challenge, so that one tab cannot answer another's (B12).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from approvals.models import ApproverKey, Challenge
from approvals.voting.operations import eligibility, signatures, votes
from approvals.voting.queries import approvers
from approvals.voting.rules import binding, passkeys
from ledger.people.rules.statements import challenge_bytes, confirmation_code, statement_hash
from ledger.record import operations as ledger
from ledger.record.rules.ids import lower_bound
from ledger.record.rules.refusals import Refused

LIFE = timedelta(seconds=120)
KEPT = timedelta(days=1)


class NoApproverKey(Refused):
    """You have no confirmed passkey that signs votes here."""

    code = "NO_APPROVER_KEY"
    status = 403


@dataclass(frozen=True, kw_only=True)
class PasskeyChallenge:
    """A challenge, and the options with which the browser answers it."""

    row: Challenge
    credential_id: str

    @property
    def code(self) -> str:
        """The short confirmation code of the statement."""
        return confirmation_code(bytes(self.row.statement))

    def options(self) -> dict[str, Any]:
        """The argument of `navigator.credentials.get()`, in WebAuthn's JSON."""
        return {
            "challenge": passkeys.base64url(challenge_bytes(bytes(self.row.statement))),
            "rpId": signatures.relying_party().id,
            "allowCredentials": [{"type": "public-key", "id": self.credential_id}],
            "userVerification": "required",
            "timeout": int(LIFE.total_seconds() * 1000),
        }


def create_vote_challenge(
    *,
    tenant_id: UUID,
    approval_id: UUID,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    seen: binding.DisplayedDigests,
    reason: str,
    session_hash: str,
    credential_id: str = "",
    at: datetime,
) -> PasskeyChallenge:
    """Create the challenge for a vote that would count now; refused as the vote itself would be."""
    facts = votes.load_facts(tenant_id, approval_id)
    approval, covers = facts.approval, votes.vote_coverage(facts.approval, facts)
    context = eligibility.load_context(approval, at=at, parties=facts.parties)
    voter = replace(voter, evidence_class="A")
    with votes.leave_refused_vote_on_record(approval_id, voter, at=at):
        voter = votes.check_vote(approval.state, approval, covers, verdict, voter, seen, reason, context, facts, at=at)
        key = active_approver_key(tenant_id, UUID(voter.actor), credential_id)
    voter = replace(voter, credential_id=key.credential_id)
    salt = secrets.token_bytes(32)
    return create_challenge(
        tenant_id=tenant_id,
        about_id=approval_id,
        actor_id=UUID(voter.actor),
        session_hash=session_hash,
        verdict=str(verdict),
        reason=reason,
        statement=votes.write_statement(facts, covers, verdict, voter, seen, reason, salt=salt, life=LIFE, at=at),
        salt=salt,
        credential_id=voter.credential_id,
        at=at,
    )


def create_challenge(
    *,
    tenant_id: UUID,
    about_id: UUID,
    actor_id: UUID,
    session_hash: str,
    verdict: str,
    reason: str,
    statement: bytes,
    salt: bytes,
    credential_id: str,
    at: datetime,
) -> PasskeyChallenge:
    """Store a statement for one passkey to sign: of a vote on an approval, or of the settlement of a case.

    Those of the days before go: nothing else removes a challenge, whether it was answered or not.
    """
    row = Challenge(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        approval_id=about_id,
        actor_id=actor_id,
        session_hash=session_hash,
        verdict=verdict,
        reason=reason,
        statement=statement,
        statement_hash=statement_hash(statement),
        salt=salt,
        created_at=at,
        expires_at=at + LIFE,
    )
    Challenge.objects.filter(tenant_id=tenant_id, id__lt=lower_bound(at - KEPT)).delete()
    row.save(force_insert=True)
    return PasskeyChallenge(row=row, credential_id=credential_id)


def active_approver_key(tenant_id: UUID, actor_id: UUID, credential_id: str) -> ApproverKey:
    """The active key to sign with: the named one, or the newest."""
    active = approvers.approver_keys(tenant_id, actor_id=actor_id, states=["ACTIVE"])
    wanted = [key for key in active if credential_id in ("", key.credential_id)]
    if not wanted:
        raise NoApproverKey
    return wanted[-1]
