"""Votes: one person's signed answer to one request, bound to exactly these bytes.

A vote and what it decides are one transaction.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from approvals import queries
from approvals.models import Approval, Session, Vote
from approvals.operations import clocks
from approvals.operations.deciding import decide
from approvals.operations.requests import locked
from approvals.rules import binding, rendering
from ledger.operations import record as ledger
from ledger.queries import record
from ledger.rules.canonical import parse
from ledger.rules.envelope import commitment
from ledger.rules.refusals import Refused

STATEMENT_LIFE = timedelta(minutes=5)


def coverage(approval: Approval) -> binding.Coverage:
    """Everything that a vote on this approval covers, from the stored bytes (never from the page)."""
    action = record.action(approval.tenant_id, approval.action_id)
    assert action is not None
    assert action.payload_pointer is not None
    session = Session.objects.get(tenant_id=approval.tenant_id, id=action.session_id)
    payload = record.opened(approval.tenant_id, action.payload_pointer) or b""
    return binding.Coverage(
        installation=settings.COUNTERFOIL_PUBLIC_URL,
        tenant=str(approval.tenant_id),
        approval_id=str(approval.id),
        action_id=str(action.id),
        revision=1,
        payload_hash=action.payload_hash,
        payload_length=len(payload),
        tool=action.tool,
        tool_version=action.tool_version,
        contract_digest=action.contract_digest,
        target_resource=action.target,
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        agent=session.agent_id,
        agent_version=session.agent_version,
        run_id=session.run_id,
        session_pin=session.pin_hash,
        policy_version=approval.policy_version,
        policy_digest=approval.policy_digest,
        policy_row=approval.policy_row,
        step_up=approval.step_up,
        rendering_digest=rendering.rendering_digest(rendering.render_payload(parse(payload))),
        renderer=rendering.RENDERER,
    )


def vote(
    *,
    tenant_id: UUID,
    approval_id: UUID,
    verdict: binding.Verdict,
    voter: binding.Voter,
    seen: binding.Seen,
    reason: str,
    at: datetime,
) -> Vote:
    """Take one person's vote, with the statement they stand for, and decide the approval by it (R-AP-17).

    A refused vote leaves nothing but the fact that it was refused, which the edge puts on record after the rollback.
    """
    head = locked(tenant_id, approval_id)
    approval = queries.approval(tenant_id, approval_id)
    assert approval is not None
    head = clocks.settle_if_late(head, approval, at=at)
    covers = coverage(approval)
    try:
        _check(head, approval, covers, verdict, voter, seen, reason, at=at)
    except Refused as refusal:
        refusal.afterwards = partial(
            note_refused, tenant_id=tenant_id, approval_id=approval_id, voter=UUID(voter.actor), refusal=refusal, at=at
        )
        raise
    row = _signed(approval, covers, verdict, voter, reason, at=at)
    decide(head, approval, row, evidence=_kept(approval, row, at=at), at=at)
    return row


def note_refused(*, tenant_id: UUID, approval_id: UUID, voter: UUID, refusal: Refused, at: datetime) -> None:
    """Put a vote that did not count on the approval's record."""
    ledger.append(
        locked(tenant_id, approval_id),
        ledger.Happening(kind="vote_refused", detail={"code": refusal.code}),
        actor=ledger.Actor("person", voter),
        at=at,
    )


def _check(
    head: ledger.Head,
    approval: Approval,
    covers: binding.Coverage,
    verdict: binding.Verdict,
    voter: binding.Voter,
    seen: binding.Seen,
    reason: str,
    *,
    at: datetime,
) -> None:
    action = record.action(approval.tenant_id, approval.action_id)
    assert action is not None
    session = queries.session(approval.tenant_id, action.session_id)
    assert session is not None
    freezes = record.freezes_on(approval.tenant_id, agent=action.agent, tool=action.tool, target=action.target)
    binding.check_vote(
        covers,
        verdict=verdict,
        voter=voter,
        requesters=frozenset({str(approval.requester), str(session.key_actor)}),
        undecided=head.state == "REQUESTED",
        decide_by=approval.decide_by,
        seen=seen,
        frozen=bool(freezes),
        reason=reason,
        at=at,
    )
    # What was asked for must still be what is stored: a payload altered at rest is nobody's to approve.
    if (covers.payload_hash, covers.rendering_digest) != (approval.payload_hash, approval.rendering_digest):
        raise binding.PayloadChanged


def _signed(
    approval: Approval,
    covers: binding.Coverage,
    verdict: binding.Verdict,
    voter: binding.Voter,
    reason: str,
    *,
    at: datetime,
) -> Vote:
    salt = secrets.token_bytes(32)
    statement = binding.statement(
        covers,
        binding.Vote(
            statement_id=str(ledger.new_id(at)),
            voter=voter.actor,
            role=binding.REVIEWER,
            verdict=verdict,
            reason_commitment=commitment("reason", salt, reason.encode()),
            evidence_class=voter.evidence_class,
            issued_at=at,
            expires_at=at + STATEMENT_LIFE,
        ),
    )
    try:
        with transaction.atomic():
            return Vote.objects.create(
                tenant_id=approval.tenant_id,
                id=ledger.new_id(at),
                approval_id=approval.id,
                voter=UUID(voter.actor),
                verdict=str(verdict),
                evidence_class=voter.evidence_class,
                statement=statement,
                statement_hash=binding.statement_hash(statement),
                reason=reason,
                at=at,
            )
    except IntegrityError:
        raise binding.AlreadyDecided from None


def _kept(approval: Approval, row: Vote, *, at: datetime) -> ledger.Sealed:
    return ledger.seal(
        tenant_id=approval.tenant_id,
        subject_id=approval.id,
        purpose="statement",
        data=bytes(row.statement),
        media_type="application/json",
        source="voter",
        at=at,
    )
