"""The inbox of approvals, and the page on which a person decides about one."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.requests.queries import approvals
from approvals.voting.operations import eligibility
from console.actions.erased_pages import erased_page
from console.approvals import queue, verbs
from console.approvals.context import approval_context
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.standing_approvals.context import time_box_notices
from console.standing_approvals.time_box import time_box_panel
from console.verbs.form import BodyForm
from console.web.forms import VoteForm
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.refusals import Refused

UNREADABLE: Final = (
    "This request cannot be shown, so nobody can decide on it: its key is gone, or its bytes were altered."
)
UNREADABLE_HINT: Final = (
    "It expires by itself, and nothing of it is executed. Tell whoever runs the servers: once the key database has its"
    " key again, the request can be read."
)


@in_tenant()
def approval(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    """The page, which only reads; its own request (`report_presence`) records the opening."""
    found = approvals.approval(request.tenant.id, approval_id)
    try:
        shown = erased_page(request, "approval", approval_id) or render_approval(request, approval_id, VoteForm())
    except CannotOpen:
        raise CannotOpen(UNREADABLE, hint=UNREADABLE_HINT) from None
    record_page_view(request, "approval", approval_id, found.action_id if found else None)
    return shown


def render_approval(
    request: TenantRequest,
    approval_id: UUID,
    form: VoteForm,
    *,
    status: int = 200,
    refusal: Refused | None = None,
    time_box: BodyForm | None = None,
) -> HttpResponse:
    """The page of one approval, with the typed text and the reason of a refusal."""
    found = approvals.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    eligible = eligibility.load_context(found, at=request.as_of)
    shown = approval_context(request.tenant, found, eligible, caller=request.caller, at=request.as_of)
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "approval": shown,
        "form": form,
        "work": queue.assignment_panel(request, found, eligible, shown["names"]),
        "said": verbs.COMMENT.form(auto_id="said-%s"),
        "refusal": refusal,
        "time_box": time_box_panel(request, found, form=time_box),
        "time_boxes": time_box_notices(request),
    }
    name = "approvals/_detail.html" if request.htmx else "approvals/detail.html"
    return render(request, name, context, status=status)
