"""The inbox of approvals, and the page on which a person decides about one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.requests.queries import approvals
from approvals.voting.operations import attention
from console.api.transaction import after_commit
from console.notifications import operations as notices
from console.pages.actions import target_drift
from console.pages.actions.action_record import payload_of
from console.pages.approvals import queue
from console.pages.approvals.context import approval_context
from console.pages.approvals.forms import CommentForm
from console.tasks import read_before
from console.web import presence
from console.web.erased_pages import erased_page
from console.web.forms import VoteForm
from console.web.http import TenantRequest, in_tenant, record_page_view
from ledger.actions.queries import actions
from ledger.record.rules.refusals import Refused


@in_tenant()
def approval(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    found = approvals.approval(request.tenant.id, approval_id)
    if found and target_drift.request_reading(
        found, roles=request.caller.roles, by=request.caller.actor, at=request.as_of
    ):
        after_commit(read_before)
    shown = erased_page(request, "approval", approval_id) or render_approval(request, approval_id, VoteForm())
    record_page_view(request, "approval", approval_id, found.action_id if found else None)
    if found is not None and not request.htmx:
        presence.record_presence(request.tenant.id, approval_id, request.caller.actor.id, at=request.as_of)
    if found is not None and shown.status_code == 200:
        _served(request, found)
    notices.mark_seen(
        tenant_id=request.tenant.id, actor_id=request.caller.actor.id, about=approval_id, at=request.as_of
    )
    return shown


def _served(request: TenantRequest, found: Any) -> None:
    """From here on the time counts that the server measures; what was erased was shown to nobody."""
    action = actions.action(request.tenant.id, found.action_id)
    payload = payload_of(action) if action is not None else None
    if payload is not None:
        me, size = request.caller.actor.id, len(payload)
        attention.record_display(approval=found, actor_id=me, payload_bytes=size, at=request.as_of)


def render_approval(
    request: TenantRequest, approval_id: UUID, form: VoteForm, *, status: int = 200, refusal: Refused | None = None
) -> HttpResponse:
    """The page of one approval, with what was typed, and why it was not taken."""
    found = approvals.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "approval": approval_context(request.tenant, found, caller=request.caller, at=request.as_of),
        "form": form,
        "work": queue.assignment_panel(request, found),
        "said": CommentForm(auto_id="said-%s"),
        "refusal": refusal,
    }
    name = "approvals/_detail.html" if request.htmx else "approvals/detail.html"
    return render(request, name, context, status=status)
