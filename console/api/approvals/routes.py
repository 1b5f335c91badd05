"""People's work: approvals, cases, evidence, freezes. Votes and resolutions are for signed-in people only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.gate import queries as gate_queries
from approvals.requests.queries import approvals
from approvals.requests.rules.rendering import render_payload
from approvals.sessions import queries as sessions_queries
from approvals.voting.operations import attention, eligibility, votes
from approvals.voting.queries import votes as voting_read
from approvals.voting.rules.binding import coverage_digest
from console.accounts.queries import names_of
from console.api import answers, paging
from console.api.approvals import votes as votes_approvals
from console.api.attachments import read_evidence
from console.api.auth import NotAllowed, admits, caller_of
from console.api.openapi import request_body
from console.api.schemas import (
    ApprovalsWanted,
    CasesWanted,
    CommentBody,
    ConfirmBody,
    FreezeBody,
    Paged,
    ReasonBody,
    ResolveBody,
    SettlementChallengeBody,
    SignatureBody,
)
from console.api.transaction import NotFound, after_commit, in_tenancy, json_response, run_once
from console.pages.actions import target_drift
from console.pages.approvals import eligibility as eligibility_approvals
from console.pages.approvals.context import agent_contradictions, contradiction_rows
from console.pages.approvals.edit_form import edit_of
from console.pages.cases import containment, settlement_signing
from console.tasks import read_before
from console.web import proofs
from ledger.actions.queries import actions, freezes
from ledger.catalogue.operations import registration
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.envelope import instant
from reviews import queries as after
from reviews.cases.operations import cases, casework
from reviews.cases.rules.resolutions import Resolution
from reviews.cases.rules.settlements import ProofNeeded
from reviews.tasks import verify_due

router = Router(tags=["People's work"])


@router.get("/approvals", summary="Approvals, the most urgent first", response=answers.Page[answers.ApprovalRow])
@admits("person")
@in_tenancy
def list_approvals(request: HttpRequest, wanted: Query[ApprovalsWanted]) -> HttpResponse:
    caller = caller_of(request)
    after, limit, at = paging.decode_cursor(wanted.cursor), wanted.limit + 1, timezone.now()
    if wanted.state == "REQUESTED":
        found = approvals.queue(
            caller.tenant_id, sort=wanted.order, after=after, limit=limit, at=at, **wanted.filters()
        )
    else:
        found = approvals.approvals(caller.tenant_id, states=(wanted.state,), after=after, limit=limit)
    return paging.page_response(found, wanted.limit, _approval)


@router.get(
    "/approvals/{approval_id}",
    summary="One approval: what would be signed, and what it covers",
    response=answers.Approval,
    by_alias=True,
)
@admits("person")
@in_tenancy
def get_approval(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    approval = approvals.approval(caller.tenant_id, approval_id)
    if approval is None:
        raise NotFound
    if target_drift.request_reading(approval, roles=caller.roles, by=caller.actor, at=timezone.now()):
        after_commit(read_before)
    covers = votes.vote_coverage(approval)
    action = actions.action(caller.tenant_id, approval.action_id)
    assert action is not None
    assert action.payload_pointer is not None
    payload = parse(evidence.open_evidence(caller.tenant_id, action.payload_pointer) or b"null")
    fields = [
        {"path": each.path, "label": each.label, "kind": each.kind, "display": each.display, "warnings": each.warnings}
        for each in render_payload(payload)
    ]
    size, me = covers.payload_length, caller.actor.id
    attention.record_display(approval=approval, actor_id=me, payload_bytes=size, at=timezone.now())
    stored = voting_read.votes_of(caller.tenant_id, approval_id)
    cast = [votes_approvals.vote_document(vote) for vote in stored]
    said = agent_contradictions(
        action, sessions_queries.session(caller.tenant_id, action.session_id), _entry(action), payload
    )
    seen = eligibility.voting_status(approval, at=timezone.now())
    why_not = eligibility_approvals.ineligibility_reason(approval, me, caller.roles, at=timezone.now())
    return json_response(
        _approval(approval)
        | {
            "covers": covers.__dict__,
            "payload": payload,
            "fields": fields,
            "votes": cast,
            "votes_differ": proofs.find_vote_mismatch(caller.tenant_id, approval_id, stored),
            "may_vote": not why_not,
            "why_not": why_not,
        }
        | {"edit": edit_of(action, names_of(caller.tenant_id)) if action.supersedes else None}
        | {"agent_evidence": [each.document() for each in gate_queries.evidence_of(action)]}
        | {"contradictions": contradiction_rows(said), "covers_digest": coverage_digest(covers)}
        | {"keys": votes_approvals.signing_keys(caller), "quorum": eligibility_approvals.eligibility_document(seen)}
        | {"baseline": target_drift.baseline_document(approval), "drift": target_drift.drift_document(approval)}
    )


@router.get("/reviews", summary="Open cases, the most severe first", response=answers.Page[answers.CaseRow])
@admits("person", "oper")
@in_tenancy
def list_cases(request: HttpRequest, wanted: Query[CasesWanted]) -> HttpResponse:
    caller = caller_of(request)
    found = after.cases(
        caller.tenant_id, resolved=wanted.resolved, after=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_response(found, wanted.limit, _case)


@router.get("/reviews/{case_id}", summary="One case with what may be decided", response=answers.Case)
@admits("person", "oper")
@in_tenancy
def get_case(request: HttpRequest, case_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    case = after.case(caller.tenant_id, case_id)
    if case is None:
        raise NotFound
    run = after.last_run(caller.tenant_id, case.action_id) if case.action_id else None
    comments = [
        {"author": str(each.author), "text": each.text, "at": instant(each.at)}
        for each in after.comments_of(caller.tenant_id, case_id)
    ]
    return json_response(
        _case(case)
        | settlement_signing.settlement_document(case, caller, at=timezone.now())
        | {"keys": votes_approvals.signing_keys(caller) if caller.kind == "person" else []}
        | {"findings": after.run_findings(run) if run else None, "comments": comments}
    )


@router.post("/reviews/{case_id}/claim", summary="Take a case", response=answers.CaseOwner)
@admits("operator")
@in_tenancy
def claim_case(request: HttpRequest, case_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    casework.claim(tenant_id=caller.tenant_id, case_id=case_id, by=caller.actor, at=timezone.now())
    return json_response({"case_id": str(case_id), "claimed_by": str(caller.actor.id)})


@router.post("/reviews/{case_id}/release", summary="Give a case back", response=answers.CaseOwner)
@admits("operator")
@in_tenancy
def release_case(request: HttpRequest, case_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    casework.release(tenant_id=caller.tenant_id, case_id=case_id, by=caller.actor, at=timezone.now())
    return json_response({"case_id": str(case_id), "claimed_by": None})


@router.post("/reviews/{case_id}/comments", summary="Add to a case's thread", response={201: answers.CommentTaken})
@admits("operator", "reviewer", "compliance")
@in_tenancy
def comment(request: HttpRequest, case_id: UUID, body: CommentBody) -> HttpResponse:
    caller = caller_of(request)
    row = casework.comment(
        tenant_id=caller.tenant_id, case_id=case_id, text=body.text, by=caller.actor, at=timezone.now()
    )
    return json_response({"comment_id": str(row.id)}, 201)


@router.post(
    "/reviews/{case_id}/challenges",
    summary="Ask for a passkey's signature over a settlement",
    response={201: answers.Challenge},
)
@admits("operator", "reviewer")
@in_tenancy
def challenge(request: HttpRequest, case_id: UUID, body: SettlementChallengeBody) -> HttpResponse:
    caller = caller_of(request)
    if body.resolution is not None and "operator" not in caller.roles:
        raise NotAllowed
    said = settlement_signing.SettlementDraft(
        covers=body.covers,
        resolution=Resolution(body.resolution) if body.resolution is not None else None,
        reason=body.reason,
        evidence=body.evidence,
        credential_id=body.credential_id,
    )
    return json_response(
        votes_approvals.challenge_document(
            settlement_signing.create_challenge(request, caller, case_id, said, at=timezone.now())
        ),
        201,
    )


@router.post(
    "/reviews/{case_id}/resolve",
    summary="Decide a case, or propose it to a second person; with a passkey, a one-time code or a password",
    response=answers.CaseState,
)
@admits("operator")
def resolve(request: HttpRequest, case_id: UUID, body: ResolveBody) -> HttpResponse | None:
    given = _given(request, body)

    def write() -> HttpResponse:
        caller, at = caller_of(request), timezone.now()
        state = cases.resolve(
            tenant_id=caller.tenant_id,
            case_id=case_id,
            resolution=Resolution(body.resolution),
            reason=body.reason,
            evidence=body.evidence,
            by=caller.actor,
            proof=settlement_signing.verified_proof(request, caller, case_id, given, at=at),
            at=at,
        )
        after_commit(verify_due)
        return json_response({"case_id": str(case_id), "state": state})

    return run_once(request, write)


@router.post(
    "/reviews/{case_id}/resolve/confirm",
    summary="The second person's word on a proposed resolution, signed as the first's is",
    response=answers.CaseState,
)
@admits("operator", "reviewer")
def confirm(request: HttpRequest, case_id: UUID, body: ConfirmBody) -> HttpResponse | None:
    given = _given(request, body)

    def write() -> HttpResponse:
        caller, at = caller_of(request), timezone.now()
        state = cases.confirm(
            tenant_id=caller.tenant_id,
            case_id=case_id,
            accept=body.accept,
            by=caller.actor,
            proof=settlement_signing.verified_proof(request, caller, case_id, given, at=at) if body.accept else None,
            at=at,
        )
        return json_response({"case_id": str(case_id), "state": state})

    return run_once(request, write)


def _given(request: HttpRequest, body: SignatureBody) -> settlement_signing.GivenProof:
    # Outside the settlement's transaction: a wrong password counts towards the lock, whatever becomes of it.
    given = settlement_signing.verify_identity(request, body.model_dump(), caller_of(request).user)
    if not given.evidence_class:
        raise ProofNeeded("The password or the code is wrong. Nothing was recorded.")
    return given


@router.post(
    "/evidence",
    summary="Store a piece of evidence about an action",
    openapi_extra=request_body("EvidenceText", file="EvidenceFile"),
    response={201: answers.Pointer},
)
@admits("operator", "reviewer", "compliance")
@in_tenancy
def add_evidence(request: HttpRequest) -> HttpResponse:
    caller = caller_of(request)
    action_id, data, media_type = read_evidence(request)
    if actions.action(caller.tenant_id, action_id) is None:
        raise NotFound
    pointer = cases.attach_evidence(
        tenant_id=caller.tenant_id,
        action_id=action_id,
        data=data,
        media_type=media_type,
        by=caller.actor,
        at=timezone.now(),
    )
    return json_response({"pointer": str(pointer)}, 201)


@router.post(
    "/freezes",
    summary="Stop an agent, a target, a tool, a tenant or everything; what does not exist is refused",
    response={201: answers.FreezePlaced},
)
@admits("operator", "administrator", "oper")
@in_tenancy
def freeze(request: HttpRequest, body: FreezeBody) -> HttpResponse:
    caller = caller_of(request)
    is_unknown = containment.check_freeze_target(
        caller.tenant_id, scope=body.scope, value=body.value, unknown_ok=body.unknown_ok
    )
    row = registration.place_freeze(
        tenant_id=caller.tenant_id,
        scope=body.scope,
        value=body.value,
        reason=body.reason,
        actor=caller.actor,
        at=timezone.now(),
        is_unknown=is_unknown,
    )
    return json_response({"freeze_id": str(row.id), "scope": row.scope, "value": row.value}, 201)


@router.get("/freezes", summary="The freezes in force", response=answers.Page[answers.Freeze])
@admits("person", "oper")
@in_tenancy
def list_freezes(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    rows = freezes.freezes_in_force(caller_of(request).tenant_id)
    return paging.whole_list_response(rows, wanted, _freeze)


@router.post(
    "/freezes/{freeze_id}/lift", summary="Lift a freeze; says what about it is still open", response=answers.Lifted
)
@admits("operator", "administrator")
@in_tenancy
def lift(request: HttpRequest, freeze_id: UUID, body: ReasonBody) -> HttpResponse:
    caller = caller_of(request)
    registration.lift_freeze(
        tenant_id=caller.tenant_id, freeze_id=freeze_id, reason=body.reason, actor=caller.actor, at=timezone.now()
    )
    row = freezes.freezes_by_id(caller.tenant_id, [freeze_id])[freeze_id]
    return json_response({"freeze_id": str(freeze_id), "lifted": True, "still_open": _open_work(row)})


def _freeze(row: Any) -> dict[str, Any]:
    placed = {"freeze_id": str(row.id), "scope": row.scope, "value": row.value, "reason": row.reason}
    return placed | {"still_open": _open_work(row)}


def _open_work(freeze: Any) -> dict[str, list[str]]:
    return {kind: [str(row.id) for row in rows] for kind, rows in containment.open_work(freeze).items()}


def _entry(action: Any) -> dict[str, Any]:
    return events.entry(action.tenant_id, action.id, action.seq) or {}


def _approval(approval: Any) -> dict[str, Any]:
    return {
        "approval_id": str(approval.id),
        "action_id": str(approval.action_id),
        "state": approval.state,
        "payload_hash": approval.payload_hash,
        "rendering_digest": approval.rendering_digest,
        "policy": {"version": approval.policy_version, "rules": approval.policy_row, "step_up": approval.step_up},
        "requested_at": instant(approval.requested_at),
        "decide_by": instant(approval.decide_by),
        "release_by": instant(approval.release_by) if approval.release_by else None,
        "risk": approval.risk,
        "claimed_by": str(approval.claimed_by) if approval.claimed_by else None,
        "claimed_until": instant(approval.claimed_until) if approval.claimed_until else None,
        "assigned_to": str(approval.assigned_to) if approval.assigned_to else None,
        "escalated_at": instant(approval.escalated_at) if approval.escalated_at else None,
        "stopped_at": instant(approval.paused_at) if approval.paused_at else None,
    }


def _case(case: Any) -> dict[str, Any]:
    return {
        "case_id": str(case.id),
        "action_id": str(case.action_id) if case.action_id else None,
        "state": case.state,
        "reason": case.reason,
        "discrepancy": case.discrepancy or None,
        "side_effect_class": case.side_effect_class,
        "claimed_by": str(case.claimed_by) if case.claimed_by else None,
        "proposed_resolution": case.proposed_resolution or None,
        "resolution": case.resolution or None,
        "snoozed_until": instant(case.snoozed_until) if case.snoozed_until else None,
        "opened_at": instant(case.opened_at),
    }
