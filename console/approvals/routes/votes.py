"""Votes: signed by a passkey, or given with a fresh code or password. For signed-in people only."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.voting.operations import challenges, signatures, votes
from approvals.voting.queries import approvers
from approvals.voting.rules import binding
from console.accounts.step_up import proof_class, session_hash
from console.approvals import schemas
from console.approvals.displays import record_displays
from console.edge.auth import Caller, admits, caller_of
from console.edge.transaction import in_tenancy

router = Router(tags=["Approvals"])


@router.post(
    "/approvals/{approval_id}/challenges",
    summary="Request a passkey signature for a vote",
    response={201: schemas.Challenge},
)
@admits("person")
@in_tenancy
def challenge(request: HttpRequest, approval_id: UUID, body: schemas.ChallengeBody) -> schemas.Challenge:
    caller = caller_of(request)
    record_displays(caller, [approval_id])
    asked = challenges.create_vote_challenge(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        verdict=binding.VoteChoice(body.verdict),
        voter=_voter(caller, "A"),
        seen=_displayed_digests(body),
        reason=body.reason,
        session_hash=session_hash(request),
        credential_id=body.credential_id,
        at=timezone.now(),
    )
    return schemas.Challenge.of(asked)


@router.post(
    "/approvals/{approval_id}/votes",
    summary="Vote: with a passkey (class A), a one-time code (B) or a password (C)",
    response={201: schemas.VoteTaken},
)
@admits("person")
@in_tenancy
def vote(request: HttpRequest, approval_id: UUID, body: schemas.VoteBody) -> schemas.VoteTaken:
    caller = caller_of(request)
    signed, proof = None, "A"
    if body.assertion is None:
        proof = proof_class(request, caller.user, body.password, body.otp)
    if body.assertion is not None:
        signed = signatures.ChallengeAnswer(
            challenge_id=body.challenge_id or UUID(int=0),
            session_hash=session_hash(request),
            assertion=body.assertion,
        )
    record_displays(caller, [approval_id])
    row = votes.cast_vote(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        verdict=binding.VoteChoice(body.verdict),
        voter=_voter(caller, proof),
        seen=_displayed_digests(body),
        reason=body.reason,
        signed=signed,
        at=timezone.now(),
    )
    return schemas.VoteTaken.of(row)


def signing_keys(caller: Caller) -> list[schemas.SigningKey]:
    """The caller's own passkeys that may sign votes."""
    active = approvers.approver_keys(caller.tenant_id, actor_id=caller.actor.id, states=["ACTIVE"])
    return [schemas.SigningKey.of(key) for key in active]


def _voter(caller: Caller, proof: str) -> binding.Voter:
    return binding.Voter(actor=str(caller.actor.id), roles=caller.roles, evidence_class=proof)


def _displayed_digests(body: schemas.VoteBody | schemas.ChallengeBody) -> binding.DisplayedDigests:
    return binding.DisplayedDigests(
        payload_hash=body.payload_hash,
        rendering_digest=body.rendering_digest,
        covers=body.covers,
        without_reading=body.without_reading,
    )
