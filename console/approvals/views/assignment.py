"""Assignment, presence and thread of an approval."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.requests.queries import approvals
from console.accounts.queries import actor_names
from console.actions import target_drift
from console.approvals import verbs
from console.approvals.queue import viewers_text
from console.edge.http import TenantRequest, in_tenant
from console.edge.transaction import after_commit
from console.notifications import operations as notices
from console.tasks import read_before
from console.verbs.verb import Ids, page_of
from console.web import presence

MOST_SHOWN = 100


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("approval", args=[request.tenant.slug, ids["approval_id"]])


def _thread(request: TenantRequest, ids: Ids, result: Any) -> str:
    return f"{_home(request, ids, result)}#thread"


claim = page_of(verbs.CLAIM, home=_home)
release = page_of(verbs.RELEASE, home=_home)
assign = page_of(verbs.ASSIGN, home=_home)
comment = page_of(verbs.COMMENT, home=_thread)
ask_agent = page_of(verbs.ASK, home=_thread)


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
    return [{"id": one, "words": viewers_text(found, one, called, me=me)} for one in ids]


def _get_or_404(request: TenantRequest, approval_id: UUID) -> Any:
    found = approvals.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    return found
