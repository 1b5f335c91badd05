"""The vote on the approval's page: with a passkey, a code or a password; a refused one keeps the typed text."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from approvals.requests.queries import approvals
from approvals.voting.operations import challenges, signatures, votes
from approvals.voting.operations.refusal_records import write_refusal_records
from approvals.voting.rules import binding
from console.accounts.step_up import proof_class, session_hash
from console.actions.erased_pages import erased_page
from console.approvals.displays import record_displays
from console.approvals.schemas import Challenge
from console.approvals.views.approvals import render_approval
from console.edge.auth import NotAllowed
from console.edge.http import TenantRequest, in_tenant, undo_if_refused
from console.edge.transaction import json_response
from console.web import labels
from console.web.forms import UnsignedVoteForm, VoteForm
from ledger.people.rules.statements import coverage_digest
from ledger.record.rules.refusals import ProofNeeded, Refused


@in_tenant("reviewer", "operator")
@require_POST
def vote(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    _check_role(request)
    form = VoteForm(request.POST)
    if not form.is_valid():
        return render_approval(request, approval_id, form, status=422)
    try:
        proof = _proof(request, form)
        if not proof:
            return _wrong(request, approval_id, form)
        record_displays(request.caller, [approval_id])
        with undo_if_refused(request):
            votes.cast_vote(
                tenant_id=request.tenant.id,
                approval_id=approval_id,
                verdict=form.said(),
                voter=_voter(request, proof),
                seen=form.seen(),
                reason=form.cleaned_data["reason"],
                signed=_challenge_answer(request, form),
                at=request.as_of,
            )
    except Refused as refusal:
        if refusal.status == 404:
            raise
        return render_approval(request, approval_id, form, status=refusal.status, refusal=refusal)
    messages.success(request, f"Decision recorded: you {labels.VERDICTS[form.said()][1]}.")
    return redirect("approval", request.tenant.slug, approval_id)


@in_tenant("reviewer", "operator")
@require_POST
def challenge(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    """Create the passkey challenge for the page's script; refusals have the API's form."""
    _check_role(request)
    form = UnsignedVoteForm(request.POST)
    if not form.is_valid():
        faults = [str(each) for errors in form.errors.values() for each in errors]
        return JsonResponse({"code": "INVALID", "detail": " ".join(faults)}, status=422)
    try:
        record_displays(request.caller, [approval_id])
        with undo_if_refused(request):
            asked = challenges.create_vote_challenge(
                tenant_id=request.tenant.id,
                approval_id=approval_id,
                verdict=form.said(),
                voter=_voter(request, "A"),
                seen=form.seen(),
                reason=form.cleaned_data["reason"],
                session_hash=session_hash(request),
                credential_id=form.cleaned_data["credential_id"],
                at=request.as_of,
            )
    except Refused as refusal:
        return JsonResponse({"code": refusal.code, "detail": refusal.detail}, status=refusal.status)
    return json_response(Challenge.of(asked), 201)


@in_tenant()
def vote_coverage(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    """The present coverage of a vote; the page compares it with its display."""
    gone = erased_page(request, "approval", approval_id)
    if gone is not None:
        return gone
    approval = approvals.approval(request.tenant.id, approval_id)
    if approval is None:
        raise Http404
    covers = votes.vote_coverage(approval)
    held = {
        "state": approval.state,
        "payload_hash": covers.payload_hash,
        "rendering_digest": covers.rendering_digest,
        "covers": coverage_digest(covers),
    }
    return JsonResponse(held)


def _check_role(request: TenantRequest) -> None:
    """Operators who are not reviewers may only use break-glass, where the policy allows it."""
    if "reviewer" not in request.caller.roles and request.POST.get("verdict") != binding.VoteChoice.BREAK_GLASS:
        raise NotAllowed("Only reviewers may do this.")


def _proof(request: TenantRequest, form: VoteForm) -> str:
    held = form.cleaned_data
    return "A" if held["assertion"] else proof_class(request, request.user, held["password"], held["otp"])


def _wrong(request: TenantRequest, approval_id: UUID, form: VoteForm) -> HttpResponse:
    """A wrong password or code: on record, and the page again."""
    refused = votes.refused_vote(approval_id, request.caller.actor.id, ProofNeeded.code, at=request.as_of)
    write_refusal_records(request.tenant.id, [refused])
    if form.cleaned_data["otp"]:
        form.add_error("otp", "This code is wrong or was used before. Your decision was not recorded.")
    else:
        form.add_error("password", "This is not your password. Your decision was not recorded.")
    return render_approval(request, approval_id, form, status=403)


def _voter(request: TenantRequest, proof: str) -> binding.Voter:
    return binding.Voter(actor=str(request.caller.actor.id), roles=request.caller.roles, evidence_class=proof)


def _challenge_answer(request: TenantRequest, form: VoteForm) -> signatures.ChallengeAnswer | None:
    held: dict[str, Any] = form.cleaned_data
    if not held["assertion"]:
        return None
    return signatures.ChallengeAnswer(
        challenge_id=held["challenge_id"] or UUID(int=0),
        session_hash=session_hash(request),
        assertion=held["assertion"],
    )
