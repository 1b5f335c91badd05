"""Cases: who works on one and when, what may be decided, and the decision. For signed-in people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from console.approvals import schemas as approval_schemas
from console.approvals.routes.votes import signing_keys
from console.cases import schemas, settlement_signing, verbs
from console.cases.corrections import corrections_of, rows_in_question
from console.edge import paging
from console.edge.auth import Caller, NotAllowed, admits, caller_of
from console.edge.schemas import Page
from console.edge.transaction import after_commit, in_tenancy, run_once
from console.verbs.verb import add_verbs
from ledger.people.rules.statements import coverage_digest
from ledger.record.rules.refusals import NotFound, ProofNeeded
from reviews import queries as after
from reviews.cases.operations import cases as operations
from reviews.cases.operations import settlements
from reviews.cases.rules import resolutions
from reviews.cases.rules.resolutions import HeldAction, Resolution
from reviews.cases.rules.settlements import Act, act_of
from reviews.tasks import verify_due

router = Router(tags=["Cases and incidents"])


@router.get(
    "/reviews",
    summary="Open cases, the most severe first",
    response=Page[schemas.CaseRow],
    operation_id="approvals_list_cases",
)
@admits("person", "oper")
@in_tenancy
def list_cases(request: HttpRequest, wanted: Query[schemas.CasesWanted]) -> Page[schemas.CaseRow]:
    caller = caller_of(request)
    found = after.cases(
        caller.tenant_id, resolved=wanted.resolved, after=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_of(schemas.CaseRow.of, found, wanted.limit)


@router.get(
    "/reviews/{case_id}",
    summary="One case with the resolutions allowed",
    response=schemas.Case,
    operation_id="approvals_get_case",
)
@admits("person", "oper")
@in_tenancy
def get_case(request: HttpRequest, case_id: UUID) -> schemas.Case:
    caller = caller_of(request)
    case = after.case(caller.tenant_id, case_id)
    if case is None:
        raise NotFound
    run = after.last_run(caller.tenant_id, case.action_id) if case.action_id else None
    at = timezone.now()
    held = operations.held_action(case)
    covers, policy = settlements.coverage(case, held), settlement_signing.required_class(case, at=at)
    allowed = resolutions.allowed_resolutions(held) if case.state != "RESOLVED" else ()
    findings = after.run_findings(run) if run else {}
    return schemas.Case.of(
        case,
        allowed=[_allowed_resolution(held, each, policy) for each in allowed],
        proposal=_proposal(case, held, policy, caller) if case.state == "AWAITING_SECOND" else None,
        covers=asdict(covers),
        covers_digest=coverage_digest(covers),
        keys=signing_keys(caller) if caller.kind == "person" else [],
        findings=findings or None,
        rows=rows_in_question(findings),
        corrections=corrections_of(caller.tenant_id, case.action_id) if case.action_id else [],
        comments=list(after.comments_of(caller.tenant_id, case_id)),
    )


def _allowed_resolution(held: HeldAction, resolution: Resolution, policy: str) -> schemas.Allowed:
    return schemas.Allowed(
        resolution=resolution,
        needs_second=resolutions.needs_second(held, resolution),
        **settlement_signing.signing_terms(held, resolution, policy=policy, act=act_of(held, resolution)),
    )


def _proposal(case: Any, held: HeldAction, policy: str, caller: Caller) -> schemas.Proposal:
    terms = settlement_signing.signing_terms(held, Resolution(case.proposed_resolution), policy=policy, act=Act.CONFIRM)
    why_not = settlement_signing.confirm_refusal(case, caller)
    return schemas.Proposal.of(case, **terms, may_confirm=not why_not, why_not=why_not)


add_verbs(router, __name__, (verbs.CLAIM, verbs.RELEASE, verbs.COMMENT))


@router.post(
    "/reviews/{case_id}/challenges",
    summary="Request a passkey signature for a settlement",
    response={201: approval_schemas.Challenge},
    operation_id="approvals_challenge",
)
@admits("operator", "reviewer")
@in_tenancy
def challenge(request: HttpRequest, case_id: UUID, body: schemas.SettlementChallengeBody) -> approval_schemas.Challenge:
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
    return approval_schemas.Challenge.of(
        settlement_signing.create_challenge(request, caller, case_id, said, at=timezone.now())
    )


@router.post(
    "/reviews/{case_id}/resolve",
    summary="Resolve a case, or propose a resolution to a second person; with a passkey, one-time code or password",
    response=schemas.CaseState,
    operation_id="approvals_resolve",
)
@admits("operator")
def resolve(request: HttpRequest, case_id: UUID, body: schemas.ResolveBody) -> HttpResponse | None:
    def write() -> schemas.CaseState:
        given = _given_proof(request, body)
        caller, at = caller_of(request), timezone.now()
        state = operations.resolve(
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
        return schemas.CaseState(case_id=case_id, state=state)

    return run_once(request, write)


@router.post(
    "/reviews/{case_id}/resolve/confirm",
    summary="Confirm or return a proposed resolution as the second person, signed like the first",
    response=schemas.CaseState,
    operation_id="approvals_confirm",
)
@admits("operator", "reviewer")
def confirm(request: HttpRequest, case_id: UUID, body: schemas.ConfirmBody) -> HttpResponse | None:
    def write() -> schemas.CaseState:
        given = _given_proof(request, body)
        caller, at = caller_of(request), timezone.now()
        state = operations.confirm(
            tenant_id=caller.tenant_id,
            case_id=case_id,
            accept=body.accept,
            by=caller.actor,
            proof=settlement_signing.verified_proof(request, caller, case_id, given, at=at) if body.accept else None,
            at=at,
        )
        return schemas.CaseState(case_id=case_id, state=state)

    return run_once(request, write)


def _given_proof(request: HttpRequest, body: schemas.SignatureBody) -> settlement_signing.GivenProof:
    given = settlement_signing.verify_identity(request, body.model_dump(), caller_of(request).user)
    if not given.evidence_class:
        raise ProofNeeded("Wrong password or code. Nothing was saved.")
    return given


add_verbs(router, __name__, (verbs.ASSIGN, verbs.SNOOZE, verbs.WAKE, verbs.REOPEN))
