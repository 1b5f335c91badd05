"""Approvals: the queue, and one with what would be signed. For signed-in people only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from approvals.gate import queries as gate_queries
from approvals.requests.operations.target_drift import drift_since_request, newest_reading
from approvals.requests.queries import approvals
from approvals.requests.rules.rendering import render_payload
from approvals.voting.operations import eligibility, votes
from approvals.voting.queries import votes as voting_read
from console.accounts.queries import names_of
from console.actions import target_drift
from console.approvals import eligibility as eligibility_approvals
from console.approvals import schemas
from console.approvals.context import agent_contradictions, contradiction_rows
from console.approvals.edit_form import edit_of
from console.approvals.routes import votes as votes_approvals
from console.edge import paging, proofs
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page
from console.edge.transaction import in_tenancy, record_read
from ledger.actions.queries import actions
from ledger.people.rules.statements import coverage_digest
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import NotFound

router = Router(tags=["Approvals"])


@router.get("/approvals", summary="Approvals, the most urgent first", response=Page[schemas.ApprovalRow])
@admits("person")
@in_tenancy
def list_approvals(request: HttpRequest, wanted: Query[schemas.ApprovalsWanted]) -> Page[schemas.ApprovalRow]:
    caller = caller_of(request)
    after, limit, at = paging.decode_cursor(wanted.cursor), wanted.limit + 1, timezone.now()
    if wanted.state == "REQUESTED":
        found = approvals.queue(
            caller.tenant_id, sort=wanted.order, after=after, limit=limit, at=at, **wanted.filters()
        )
    else:
        found = approvals.approvals(caller.tenant_id, state=wanted.state, after=after, limit=limit)
    return paging.page_of(schemas.ApprovalRow.of, found, wanted.limit)


@router.get(
    "/approvals/{approval_id}",
    summary="One approval: the statement to sign and what it covers",
    response=schemas.Approval,
)
@admits("person")
@in_tenancy
def get_approval(request: HttpRequest, approval_id: UUID) -> schemas.Approval:
    caller = caller_of(request)
    approval = approvals.approval(caller.tenant_id, approval_id)
    if approval is None:
        raise NotFound
    record_read(request, "approval", approval_id, approval.action_id)
    covers = votes.vote_coverage(approval)
    action = actions.action(caller.tenant_id, approval.action_id)
    assert action is not None
    assert action.payload_pointer is not None
    payload = parse(evidence.open_evidence(caller.tenant_id, action.payload_pointer) or b"null")
    me = caller.actor.id
    stored = voting_read.votes_of(caller.tenant_id, approval_id)
    entry = events.entry(action.tenant_id, action.id, action.seq) or {}
    at, history = timezone.now(), events.history(caller.tenant_id, approval_id)
    context = eligibility.load_context(approval, at=at, cast=stored)
    session = context.session
    assert session is not None
    why_not = eligibility_approvals.ineligibility_reason(approval, me, caller.roles, at=at, context=context)
    return schemas.Approval.of(
        approval,
        covers=covers.__dict__,
        covers_digest=coverage_digest(covers),
        payload=payload,
        fields=render_payload(payload),
        votes=[schemas.VoteCast.of(vote) for vote in stored],
        votes_differ=proofs.find_vote_mismatch(history, stored),
        may_vote=not why_not,
        why_not=why_not,
        quorum=schemas.Quorum.of(eligibility.voting_status(approval, at=at, context=context)),
        keys=votes_approvals.signing_keys(caller),
        agent_evidence=[each.document() for each in gate_queries.evidence_of(action)],
        edit=edit_of(action, names_of(caller.tenant_id)) if action.supersedes else None,
        contradictions=contradiction_rows(agent_contradictions(action, session, entry, payload)),
        baseline=target_drift.baseline_document(approval, history),
        target_unread=target_drift.is_unread(approval),
        drift=_drift(approval),
    )


def _drift(approval: Any) -> schemas.Drift | None:
    """The drift of the newest reading from the baseline; None if nothing was read since."""
    found = drift_since_request(approval)
    now = newest_reading(approval.tenant_id, approval.action_id) if found is not None else None
    if found is None or now is None:
        return None
    return schemas.Drift.of(found, compared_at=now.state.observed_at, material=bool(found.material))
