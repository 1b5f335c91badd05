"""The page on which a reviewer edits what was asked for: write, look at what changes, and then put it in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from approvals.requests.operations import edits
from approvals.requests.queries import approvals
from approvals.voting.operations import eligibility
from approvals.voting.rules import binding
from console.api.actions import predicates
from console.api.transaction import after_commit
from console.pages.actions.action_record import parse_arguments, payload_of
from console.pages.approvals import edit_form
from console.tasks import read_before
from console.web.http import TenantRequest, in_tenant, undo_if_refused
from console.web.labels import action_title
from ledger.actions.queries import actions
from ledger.record.rules.canonical import NotCanonical, read

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action

# What is wrong with what was written; everything else is about the request, and is shown as every refusal is.
_MENDABLE = (edits.EditRefused, edits.NothingChanged, binding.ReasonRequired, NotCanonical)


@require_http_methods(["GET", "POST"])
@in_tenant("reviewer")
def edit(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    found = approvals.approval(request.tenant.id, approval_id)
    action = actions.action(request.tenant.id, found.action_id) if found else None
    if found is None or action is None:
        raise Http404
    if request.method == "GET":
        return _page(request, found, action, edit_form.initial_form(found, parse_arguments(payload_of(action))))
    form = edit_form.EditForm(request.POST)
    if not form.is_valid():
        return _page(request, found, action, form, status=422)
    try:
        with undo_if_refused(request):
            seen = _made(request, approval_id, form) if "make" in request.POST else _looked(request, approval_id, form)
    except _MENDABLE as refusal:
        return _page(request, found, action, form, refusal=refusal, status=refusal.status)
    if seen.approval_id is None:
        differences = edit_form.changed_fields(seen.changes)
        return _page(request, found, action, form, differences=differences, dropped=seen.dropped, kept=seen.kept)
    messages.success(request, "Request replaced. The new version needs its own approval.")
    return redirect("approval", request.tenant.slug, seen.approval_id)


def _looked(request: TenantRequest, approval_id: UUID, form: edit_form.EditForm) -> edits.EditResult:
    return edits.preview_edit(
        tenant_id=request.tenant.id,
        approval_id=approval_id,
        edit=_wanted(form),
        compile_predicate=predicates.agent_predicate_fault,
        at=request.as_of,
    )


def _made(request: TenantRequest, approval_id: UUID, form: edit_form.EditForm) -> edits.EditResult:
    made = edits.apply_edit(
        tenant_id=request.tenant.id,
        approval_id=approval_id,
        edit=_wanted(form),
        editor=request.caller.actor.id,
        compile_predicate=predicates.agent_predicate_fault,
        at=request.as_of,
    )
    after_commit(read_before)
    return made


def _wanted(form: edit_form.EditForm) -> edits.Edit:
    said = form.cleaned_data
    return edits.Edit(arguments=read(said["payload"]), reason=said["reason"], payload_hash=said["payload_hash"])


def _leaves_nobody(request: TenantRequest, approval: Approval) -> bool:
    """Whether nobody who could approve now would be left to approve an edit by this person."""
    places = eligibility.voting_status(approval, at=request.as_of).may_vote
    return not any(place.actor != request.caller.actor.id and not place.away for place in places)


def _page(
    request: TenantRequest,
    approval: Approval,
    action: Action,
    form: edit_form.EditForm,
    *,
    status: int = 200,
    **shown: Any,
) -> HttpResponse:
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "back": reverse("approval", args=[request.tenant.slug, approval.id]),
        "title": action_title(action.operation_kind, action.target, parse_arguments(payload_of(action))),
        "action": action,
        "form": form,
        "leaves_nobody": _leaves_nobody(request, approval),
        **shown,
    }
    return render(request, "approvals/edit.html", context, status=status)
