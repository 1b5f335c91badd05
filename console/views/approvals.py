"""The inbox of approvals, and the page on which a person decides about one."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth import authenticate
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals import queries
from approvals.operations import votes
from approvals.rules import binding
from console import erased, presence, target, words, working
from console.api.edge import after_commit
from console.decision import decision
from console.forms import Vote
from console.http import Request, in_tenant, looked
from console.queue_forms import Said
from console.tasks import read_before


@in_tenant()
def approval(request: Request, approval_id: UUID) -> HttpResponse:
    found = queries.approval(request.tenant.id, approval_id)
    if found and target.look_again(found, roles=request.caller.roles, by=request.caller.actor, at=request.as_of):
        after_commit(read_before)
    page = erased.instead(request, "approval", approval_id) or _page(request, approval_id, Vote())
    looked(request, "approval", approval_id, found.action_id if found else None)
    if found is not None and not request.htmx:
        presence.look(request.tenant.id, approval_id, request.caller.actor.id, at=request.as_of)
    return page


@in_tenant("reviewer", "operator")
@require_POST
def vote(request: Request, approval_id: UUID) -> HttpResponse:
    form = Vote(request.POST)
    if not form.is_valid():
        return _page(request, approval_id, form, status=422)
    # Through `authenticate`, so that wrong passwords count towards a lock as they do at sign-in.
    if authenticate(request, username=request.user.get_username(), password=form.cleaned_data["password"]) is None:
        votes.note_refused(
            tenant_id=request.tenant.id,
            approval_id=approval_id,
            voter=request.caller.actor.id,
            refusal=binding.StepUpRequired(),
            at=request.as_of,
        )
        form.add_error("password", "This is not your password. Your vote was not recorded.")
        return _page(request, approval_id, form, status=403)
    votes.vote(
        tenant_id=request.tenant.id,
        approval_id=approval_id,
        verdict=form.said(),
        voter=binding.Voter(actor=str(request.caller.actor.id), roles=request.caller.roles, evidence_class="C"),
        seen=form.seen(),
        reason=form.cleaned_data["reason"],
        at=request.as_of,
    )
    messages.success(request, f"Recorded: you {words.VERDICTS[form.said()][1]}.")
    return redirect("approval", request.tenant.slug, approval_id)


def _page(request: Request, approval_id: UUID, form: Vote, *, status: int = 200) -> HttpResponse:
    found = queries.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "approval": decision(request.tenant, found, caller=request.caller, at=request.as_of),
        "form": form,
        "work": working.work(request, found),
        "said": Said(auto_id="said-%s"),
    }
    name = "approvals/_detail.html" if request.htmx else "approvals/detail.html"
    return render(request, name, context, status=status)
