"""Casts votes: a person's signed answer to one request, bound to its exact bytes.

A vote and the decision that it causes are one transaction.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Model

from approvals.agents.operations.registry_entry import refusal_to_act
from approvals.models import Approval, Vote
from approvals.requests.operations import assignment, clocks, target_drift
from approvals.requests.operations.preflight import check_drift
from approvals.requests.operations.requests import lock_with_action
from approvals.requests.queries import approvals
from approvals.requests.queries.approvals import ApprovalFacts
from approvals.requests.rules import rendering
from approvals.voting.operations import attention, break_glass, eligibility, signatures
from approvals.voting.operations.decision import apply_vote
from approvals.voting.operations.eligibility import EligibilityContext, Roster
from approvals.voting.rules import binding
from ledger.catalogue.rules.targets import target_text
from ledger.people.operations.statements import STATEMENT_LIFE, SignedStatement, declaration_fields, read_log_head
from ledger.people.rules.statements import statement_hash
from ledger.record import operations as ledger
from ledger.record.rules.canonical import canonical, digest, parse
from ledger.record.rules.entry import Entry
from ledger.record.rules.envelope import commitment
from ledger.record.rules.refusals import AlreadyDecided, NotFound, Refused, leave_on_record

POLICY = "approval"


def vote_coverage(approval: Approval, facts: ApprovalFacts | None = None) -> binding.Coverage:
    """Everything that a vote on this approval covers, from the stored bytes and never from the page."""
    facts = facts or load_facts(approval.tenant_id, approval.id)
    action, session, _ = facts.parties
    assert session is not None
    payload = facts.payload()
    arguments = parse(payload)
    return binding.Coverage(
        installation=settings.COUNTERFOIL_PUBLIC_URL,
        environment=settings.COUNTERFOIL_ENVIRONMENT,
        tenant=str(approval.tenant_id),
        approval_id=str(approval.id),
        action_id=str(action.id),
        revision=1,
        payload_hash=action.payload_hash,
        payload_commitment=facts.payload_commitment,
        payload_length=len(payload),
        evidence_commitment=facts.evidence_commitment,
        tool=action.tool,
        tool_version=action.tool_version,
        contract_digest=action.contract_digest,
        target_resource=target_text(action.target),
        precondition=approval.baseline_digest,
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        amount=_argument_text(arguments, "amount"),
        currency=_argument_text(arguments, "currency"),
        max_uses=binding.MAX_USES,
        agent=session.agent_id,
        agent_version=session.agent_version,
        run_id=session.run_id,
        session_pin=session.pin_hash,
        on_behalf_of=str(approval.requester),
        policy=POLICY,
        policy_version=approval.policy_version,
        policy_digest=approval.policy_digest,
        policy_row=approval.policy_row,
        quorum_digest=digest(canonical(approval.terms)),
        step_up=approval.step_up,
        preflight_digest=approval.preflight_digest,
        rendering_digest=rendering.rendering_digest(rendering.render_payload(arguments)),
        renderer=rendering.RENDERER,
        locale=settings.LANGUAGE_CODE,
    )


def load_facts(tenant_id: UUID, approval_id: UUID) -> ApprovalFacts:
    """Load the facts that a vote on an approval covers and is checked against."""
    facts = approvals.approval_facts(tenant_id, approval_id)
    if facts is None:
        raise NotFound("Approval")
    return facts


def _argument_text(arguments: Any, name: str) -> str:
    """Return an amount or currency of the payload as text; "" if it has none."""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def cast_vote(
    *,
    tenant_id: UUID,
    approval_id: UUID,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    seen: binding.DisplayedDigests,
    reason: str,
    at: datetime,
    signed: signatures.ChallengeAnswer | None = None,
) -> Vote:
    """Cast one person's vote with its statement, and decide the approval if it is the last one needed (R-AP-17).

    A vote signed by a passkey answers a challenge, which is consumed whether or not the vote counts. A refused vote is
    rolled back; the edge records afterwards that it was refused.
    """
    with leave_refused_vote_on_record(approval_id, voter, at=at):
        # Lock challenge and key before action and approval, in the same order as suspending a key does.
        opened = signatures.consume_challenge(tenant_id, approval_id, voter.actor, signed, at=at) if signed else None
        action_head, head, facts, context = _lock_and_read(tenant_id, approval_id, at=at)
        approval = facts.approval
        head = clocks.settle_clock_if_late(head, approval, at=at)
        assignment.check_voting_rate(approval, UUID(voter.actor), at=at)
        covers = vote_coverage(approval, facts)
        if opened is not None:
            voter = replace(voter, evidence_class="A")
        voter = check_vote(
            head.state, approval, covers, verdict, voter, seen, reason, context, facts, entry=action_head.entry, at=at
        )
        if opened is None:
            salt = secrets.token_bytes(32)
            text = write_statement(facts, covers, verdict, voter, seen, reason, salt=salt, at=at)
            signed_vote = SignedStatement(statement=text, salt=salt, evidence_class=voter.evidence_class)
        else:
            signed_vote = signatures.verify_vote_signature(
                opened, covers=covers, verdict=verdict, voter=voter, seen=seen, reason=reason, at=at
            )
            voter = replace(voter, credential_id=signed_vote.credential_id)
    row, evidence, stored = _seal_vote(facts, signed_vote, verdict, voter, reason, at=at)
    detail = _vote_detail(row, signed_vote, is_without_reading=seen.is_without_reading(verdict))
    context = replace(context, cast=(*context.cast, row))
    try:
        apply_vote(
            (action_head, head),
            approval,
            row,
            stored=stored,
            evidence=evidence,
            detail=detail,
            context=context,
            at=at,
        )
    except IntegrityError as error:
        if "vote_once" in str(error):
            raise AlreadyDecided from None
        raise
    return row


def _lock_and_read(
    tenant_id: UUID, approval_id: UUID, *, at: datetime
) -> tuple[ledger.SubjectHead, ledger.SubjectHead, ApprovalFacts, EligibilityContext]:
    """Lock the action and its approval, and read under the locks the facts by which a vote is judged."""
    action_head, head, [rows] = lock_with_action(
        tenant_id, approval_id, approvals.vote_call(tenant_id, approval_id, at)
    )
    facts, cast, people = approvals.read_vote_facts(rows)
    return action_head, head, facts, eligibility.make_context(facts.approval, facts.parties, Roster.of(*people), cast)


def refused_vote(approval_id: UUID, voter: UUID, code: str, *, at: datetime) -> ledger.RefusedEvent:
    """Return the event of a vote that did not count, for the approval's record."""
    return ledger.RefusedEvent(
        subject_kind="approval",
        subject_id=approval_id,
        event=ledger.NewEvent(kind="vote_refused", detail={"code": code}),
        actor=ledger.Actor("person", voter),
        at=at,
    )


def leave_refused_vote_on_record(
    approval_id: UUID, voter: binding.Voter, *, at: datetime
) -> AbstractContextManager[None]:
    """Leave the refusal of a vote on its approval's record, if there is such an approval."""

    def describe(refusal: Refused) -> ledger.RefusedEvent | None:
        if isinstance(refusal, NotFound):
            return None
        return refused_vote(approval_id, UUID(voter.actor), refusal.code, at=at)

    return leave_on_record(describe)


def check_vote(
    state: str,
    approval: Approval,
    covers: binding.Coverage,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    seen: binding.DisplayedDigests,
    reason: str,
    context: EligibilityContext,
    facts: ApprovalFacts,
    *,
    entry: Entry | None = None,
    at: datetime,
) -> binding.Voter:
    """Refuse a vote that would not count now; called before a passkey signs, and again with its signature.

    Pass the action's present `entry` where it was just read. Returns the voter as in the roster: the person behind the
    account, their groups, and who delegated to them.
    """
    action, session, agent = facts.parties
    assert session is not None
    lost = refusal_to_act(session, agent, facts.registered, tool=action.tool, version=action.tool_version)
    if lost is not None and state in ("REQUESTED", "VOIDED"):
        raise binding.RequestWithdrawn(f"{lost.detail} The request is withdrawn; nobody needs to decide.")
    if verdict is binding.VoteChoice.BREAK_GLASS:
        break_glass.check_allowed(approval, voter, at=at)
    binding.check_vote(
        covers,
        verdict=verdict,
        voter=voter,
        requesters=frozenset({str(approval.requester), str(session.key_actor)}),
        undecided=state == "REQUESTED",
        decide_by=approval.decide_by,
        seen=seen,
        frozen=facts.frozen,
        reason=reason,
        at=at,
    )
    voter = _identify_voter(approval, voter, verdict, context, at=at)
    if facts.in_force != approval.policy_digest:
        raise binding.PolicyChanged
    # A payload that was altered at rest cannot be approved.
    if (covers.payload_hash, covers.rendering_digest) != (approval.payload_hash, approval.rendering_digest):
        raise binding.PayloadChanged
    if verdict is binding.VoteChoice.APPROVE:
        attention.check_dwell(approval, UUID(voter.actor), at=at)
    if verdict in binding.AUTHORISING:
        check_drift(approval, at=at)
        is_unread = not seen.without_reading and target_drift.is_unread(approval, facts.target, entry)
        binding.check_reading(seen, is_read=facts.target.is_read, is_unread=is_unread)
    return voter


def _identify_voter(
    approval: Approval, voter: binding.Voter, verdict: binding.VoteChoice, context: EligibilityContext, *, at: datetime
) -> binding.Voter:
    try:
        place = eligibility.eligible_voter(approval, UUID(voter.actor), context=context, at=at)
    except Refused:
        # Whoever breaks the glass need not be in the roster.
        if verdict is not binding.VoteChoice.BREAK_GLASS:
            raise
        return replace(voter, person=voter.actor)
    lender = str(place.lender) if place.lender else ""
    return replace(voter, person=place.person, groups=tuple(sorted(place.groups)), delegated_by=lender)


def write_statement(
    facts: ApprovalFacts,
    covers: binding.Coverage,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    seen: binding.DisplayedDigests,
    reason: str,
    *,
    salt: bytes,
    life: timedelta = STATEMENT_LIFE,
    at: datetime,
) -> bytes:
    """The statement of a vote, with the newest signed head of the log."""
    return binding.statement(
        covers,
        binding.VoteStatement(
            voter=voter.actor,
            role=binding.OPERATOR if verdict is binding.VoteChoice.BREAK_GLASS else binding.REVIEWER,
            groups=voter.groups,
            delegated_by=voter.delegated_by,
            verdict=verdict,
            reason_commitment=commitment("reason", salt, reason.encode()),
            without_reading=seen.is_without_reading(verdict),
            not_before=at,
            **declaration_fields(
                person=voter.person,
                evidence_class=voter.evidence_class,
                credential_id=voter.credential_id,
                head=read_log_head(facts.approval.tenant_id, *facts.checkpoint),
                life=life,
                at=at,
            ),
        ),
    )


def _seal_vote(
    facts: ApprovalFacts,
    signed_vote: SignedStatement,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    reason: str,
    *,
    at: datetime,
) -> tuple[Vote, tuple[ledger.SealedEvidence, ...], list[Model]]:
    """The vote, its evidence and the rows of both: the statement, and with a passkey the raw assertion and the public
    key.
    """
    approval = facts.approval
    row = Vote(
        tenant_id=approval.tenant_id,
        id=ledger.new_id(at),
        approval_id=approval.id,
        voter=UUID(voter.actor),
        verdict=str(verdict),
        evidence_class=voter.evidence_class,
        statement=signed_vote.statement,
        statement_hash=statement_hash(signed_vote.statement),
        reason=reason,
        at=at,
        person_id=UUID(voter.person),
        groups=list(voter.groups),
        delegated_by=UUID(voter.delegated_by) if voter.delegated_by else None,
        credential_id=voter.credential_id,
        assertion=signed_vote.answer.kept() if isinstance(signed_vote, signatures.VerifiedSignature) else None,
    )
    pieces = signed_vote.pieces
    sealed, rows = ledger.seal_pieces(
        tenant_id=approval.tenant_id,
        subject_id=approval.id,
        pieces=pieces,
        sources=dict.fromkeys(pieces, "voter"),
        media_types=dict.fromkeys(pieces, "application/json"),
        at=at,
        key_id=facts.key_id,
    )
    return row, sealed, [row, *rows]


def _vote_detail(row: Vote, signed_vote: SignedStatement, *, is_without_reading: bool) -> dict[str, Any]:
    """The detail of the vote's event; the salt lets a reader check the reason against the statement."""
    key = {"key_id": str(signed_vote.key_id)} if isinstance(signed_vote, signatures.VerifiedSignature) else {}
    return {
        "statement_hash": row.statement_hash,
        "evidence_class": row.evidence_class,
        "person": str(row.person_id),
        "credential_id": row.credential_id,
        "reason": row.reason,
        "reason_salt": signed_vote.salt.hex(),
        **key,
        **({"without_reading": True} if is_without_reading else {}),
    }
