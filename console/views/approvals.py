"""The inbox of approvals, and the page on which a person decides about one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.operations import attention
from approvals.queries import asking
from console import erased, presence, target, working
from console.account import payload_of
from console.api.edge import after_commit
from console.decision import decision
from console.forms import Vote
from console.http import Request, in_tenant, looked
from console.notices import operations as notices
from console.queue_forms import Said
from console.tasks import read_before
from ledger.queries import acting
from ledger.rules.refusals import Refused


@in_tenant()
def approval(request: Request, approval_id: UUID) -> HttpResponse:
    found = asking.approval(request.tenant.id, approval_id)
    if found and target.look_again(found, roles=request.caller.roles, by=request.caller.actor, at=request.as_of):
        after_commit(read_before)
    shown = erased.instead(request, "approval", approval_id) or page(request, approval_id, Vote())
    looked(request, "approval", approval_id, found.action_id if found else None)
    if found is not None and not request.htmx:
        presence.look(request.tenant.id, approval_id, request.caller.actor.id, at=request.as_of)
    if found is not None and shown.status_code == 200:
        _served(request, found)
    notices.see(tenant_id=request.tenant.id, actor_id=request.caller.actor.id, about=approval_id, at=request.as_of)
    return shown


def _served(request: Request, found: Any) -> None:
    """From here on the time counts that the server measures; what was erased was shown to nobody."""
    action = acting.action(request.tenant.id, found.action_id)
    payload = payload_of(action) if action is not None else None
    if payload is not None:
        me, size = request.caller.actor.id, len(payload)
        attention.served(approval=found, actor_id=me, payload_bytes=size, at=request.as_of)


def page(
    request: Request, approval_id: UUID, form: Vote, *, status: int = 200, refusal: Refused | None = None
) -> HttpResponse:
    """The page of one approval, with what was typed, and why it was not taken."""
    found = asking.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "approval": decision(request.tenant, found, caller=request.caller, at=request.as_of),
        "form": form,
        "work": working.work(request, found),
        "said": Said(auto_id="said-%s"),
        "refusal": refusal,
    }
    name = "approvals/_detail.html" if request.htmx else "approvals/detail.html"
    return render(request, name, context, status=status)
