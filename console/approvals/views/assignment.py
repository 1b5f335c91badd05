"""Assignment, presence and thread of an approval."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from approvals.requests.operations import assignment, threads
from approvals.requests.queries import approvals
from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.actions import target_drift
from console.approvals.forms import CommentForm
from console.approvals.queue import eligible_assignees, refuse_no_assignee, viewers_text
from console.edge.http import TenantRequest, in_tenant, redirect_back
from console.edge.transaction import after_commit
from console.notifications import operations as notices
from console.tasks import read_before
from console.web import presence

MOST_SHOWN = 100


@in_tenant("reviewer", "operator")
@require_POST
def claim(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    assignment.claim_approval(
        tenant_id=request.tenant.id, approval_id=approval_id, by=request.caller.actor, at=request.as_of
    )
    return redirect_back(request, _page(request, approval_id))


@in_tenant("reviewer", "operator")
@require_POST
def release(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    assignment.release_claim(
        tenant_id=request.tenant.id, approval_id=approval_id, by=request.caller.actor, at=request.as_of
    )
    return redirect_back(request, _page(request, approval_id))


@in_tenant("reviewer", "operator")
@require_POST
def assign(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    among = eligible_assignees(_get_or_404(request, approval_id), at=request.as_of)
    try:
        to = UUID(request.POST.get("to", ""))
    except ValueError:
        to = assignment.suggest_assignee(request.tenant.id, among, at=request.as_of) or refuse_no_assignee()
    assignment.assign_approval(
        tenant_id=request.tenant.id,
        approval_id=approval_id,
        to=to,
        among=among,
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, f"Assigned to {actor_names(request.tenant.id).get(to, 'somebody')}.")
    return redirect(_page(request, approval_id))


@in_tenant("reviewer", "operator", "compliance")
@require_POST
def comment(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    return _add_line(request, approval_id, threads.add_comment)


@in_tenant("reviewer", "operator")
@require_POST
def ask_agent(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    return _add_line(request, approval_id, threads.ask_question)


@in_tenant()
@require_POST
def report_presence(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    """Report that this page is open, and return who else has it open.

    The first time the page says that it was opened just now: what its reader was told of it is seen, and the target is
    read again for a reviewer.
    """
    found, me = _get_or_404(request, approval_id), request.caller.actor
    if "opened" in request.POST:
        notices.mark_seen(tenant_id=request.tenant.id, actor_id=me.id, about=approval_id, at=request.as_of)
        if target_drift.request_reading(found, roles=request.caller.roles, by=me, at=request.as_of):
            after_commit(read_before)
    presence.record_presence(request.tenant.id, approval_id, request.caller.actor.id, at=request.as_of)
    return render(request, "approvals/_looking.html", {"looking": _looking(request, [approval_id])})


@in_tenant()
@require_GET
def list_presence(request: TenantRequest) -> HttpResponse:
    """List the people who have the listed approvals open."""
    ids = []
    for text in request.GET.getlist("id")[:MOST_SHOWN]:
        try:
            ids.append(UUID(text))
        except ValueError:
            raise Http404 from None
    known = approvals.approvals_named(request.tenant.id, ids)
    return render(
        request, "approvals/_looking_list.html", {"looking": _looking(request, [one for one in ids if one in known])}
    )


def _looking(request: TenantRequest, ids: list[UUID]) -> list[dict[str, Any]]:
    found = presence.present_viewers(request.tenant.id, ids, at=request.as_of)
    called = actor_names(request.tenant.id) if found else {}
    me = request.caller.actor.id
    return [{"id": one, "words": viewers_text(found.get(one, ()), called, me=me)} for one in ids]


def _add_line(request: TenantRequest, approval_id: UUID, say: Any) -> HttpResponse:
    form = CommentForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nothing was written: say something, in at most 4,000 characters.")
        return redirect(f"{_page(request, approval_id)}#thread")
    say(
        tenant_id=request.tenant.id,
        approval_id=approval_id,
        text=form.cleaned_data["text"],
        known=directory.mention_names(request.tenant.id),
        by=request.caller.actor,
        at=request.as_of,
    )
    return redirect(f"{_page(request, approval_id)}#thread")


def _get_or_404(request: TenantRequest, approval_id: UUID) -> Any:
    found = approvals.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    return found


def _page(request: TenantRequest, approval_id: UUID) -> str:
    return reverse("approval", args=[request.tenant.slug, approval_id])
