"""Votes: signed by a passkey, or given with a fresh code or password. For signed-in people only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from approvals.voting.operations import challenges, signatures, votes
from approvals.voting.queries import approvers
from approvals.voting.rules import binding
from approvals.voting.rules.passkeys import confirmation_code
from console.accounts.step_up import proof_class, session_hash
from console.api import answers
from console.api.auth import Caller, admits, caller_of
from console.api.schemas import ChallengeBody, VoteBody
from console.api.transaction import in_tenancy, json_response, run_once
from ledger.record.rules.envelope import instant

router = Router(tags=["People's work"])


@router.post(
    "/approvals/{approval_id}/challenges",
    summary="Ask for a passkey's signature over a vote",
    response={201: answers.Challenge},
)
@admits("person")
@in_tenancy
def challenge(request: HttpRequest, approval_id: UUID, body: ChallengeBody) -> HttpResponse:
    caller = caller_of(request)
    asked = challenges.create_vote_challenge(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        verdict=binding.VoteChoice(body.verdict),
        voter=_voter(caller, "A"),
        seen=_seen(body),
        reason=body.reason,
        session_hash=session_hash(request),
        credential_id=body.credential_id,
        at=timezone.now(),
    )
    return json_response(challenge_document(asked), 201)


@router.post(
    "/approvals/{approval_id}/votes",
    summary="Vote: with a passkey (class A), a one-time code (B) or a password (C)",
    response={201: answers.VoteTaken},
    by_alias=True,
)
@admits("person")
def vote(request: HttpRequest, approval_id: UUID, body: VoteBody) -> HttpResponse | None:
    # Outside the vote's transaction: a wrong password counts towards the lock, whatever becomes of the vote.
    user, proof = caller_of(request).user, "A"
    if body.assertion is None:
        proof = proof_class(request, user, body.password, body.otp)
    return run_once(request, lambda: _vote(request, approval_id, body, proof))


def _vote(request: HttpRequest, approval_id: UUID, body: VoteBody, proof: str) -> HttpResponse:
    caller = caller_of(request)
    signed = None
    if body.assertion is not None:
        signed = signatures.ChallengeAnswer(
            challenge_id=body.challenge_id or UUID(int=0),
            session_hash=session_hash(request),
            assertion=body.assertion,
        )
    row = votes.cast_vote(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        verdict=binding.VoteChoice(body.verdict),
        voter=_voter(caller, proof),
        seen=_seen(body),
        reason=body.reason,
        signed=signed,
        at=timezone.now(),
    )
    return json_response({"vote_id": str(row.id), **{name: vote_document(row)[name] for name in _TAKEN}}, 201)


_TAKEN = ("verdict", "class", "statement_hash", "confirmation_code")


def challenge_document(asked: challenges.PasskeyChallenge) -> dict[str, Any]:
    """A challenge, for the script that has it answered."""
    return {
        "challenge_id": str(asked.row.id),
        "statement": bytes(asked.row.statement).decode(),
        "statement_hash": asked.row.statement_hash,
        "confirmation_code": asked.code,
        "expires_at": instant(asked.row.expires_at),
        "publicKey": asked.options(),
    }


def vote_document(vote: Any) -> dict[str, Any]:
    """A vote as it was given; what was erased is empty."""
    statement = bytes(vote.statement)
    return {
        "voter": str(vote.voter),
        "verdict": vote.verdict,
        "class": vote.evidence_class,
        "groups": vote.groups,
        "delegated_by": str(vote.delegated_by) if vote.delegated_by else None,
        "credential_id": vote.credential_id or None,
        "statement_hash": vote.statement_hash,
        "confirmation_code": confirmation_code(statement) if statement else "",
        "at": instant(vote.at),
    }


def signing_keys(caller: Caller) -> list[dict[str, str]]:
    """The caller's own passkeys that may sign votes."""
    active = approvers.approver_keys(caller.tenant_id, actor_id=caller.actor.id, states=["ACTIVE"])
    return [{"credential_id": key.credential_id, "name": key.name} for key in active]


def _voter(caller: Caller, proof: str) -> binding.Voter:
    return binding.Voter(actor=str(caller.actor.id), roles=caller.roles, evidence_class=proof)


def _seen(body: VoteBody | ChallengeBody) -> binding.DisplayedDigests:
    return binding.DisplayedDigests(
        payload_hash=body.payload_hash, rendering_digest=body.rendering_digest, covers=body.covers
    )
