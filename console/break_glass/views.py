"""Break-glass: actions released by one person alone, and their reviews."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.voting.rules import break_glass as rules
from console.break_glass import operations as break_glass_operations
from console.break_glass.lists import BREAK_GLASS, FOUND
from console.edge.http import TenantRequest, in_tenant
from console.web.forms import BreakGlassReviewForm
from console.web.list_page import list_context
from ledger.people.queries import is_same_person

if TYPE_CHECKING:
    from approvals.models import BreakGlassUse

REVIEWERS = ("reviewer", "operator", "compliance", "administrator")


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(request, BreakGlassReviewForm())


@in_tenant(*REVIEWERS)
@require_POST
def review(request: TenantRequest, emergency_id: UUID) -> HttpResponse:
    form = BreakGlassReviewForm(request.POST)
    if not form.is_valid():
        return _page(request, form, about=emergency_id, status=422)
    break_glass_operations.record_review(
        tenant_id=request.tenant.id,
        use_id=emergency_id,
        finding=rules.Finding(form.cleaned_data["finding"]),
        reason=form.cleaned_data["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Recorded: your review of this use of break-glass.")
    return redirect("emergencies", request.tenant.slug)


def _page(
    request: TenantRequest, form: BreakGlassReviewForm, *, about: UUID | None = None, status: int = 200
) -> HttpResponse:
    waiting, done = BREAK_GLASS.rows(request, 100), BREAK_GLASS.rows(request, 50, reviewed=True)
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "waiting": [
            shown | _review_context(request, shown["row"], form if shown["row"].id == about else None)
            for shown in waiting
        ],
        "done": [shown | _review_context(request, shown["row"], None) for shown in done],
        "findings": FOUND.items(),
        **list_context(request, BREAK_GLASS),
    }
    return render(request, "break_glass/page.html", context, status=status)


def _review_context(request: TenantRequest, used: BreakGlassUse, form: BreakGlassReviewForm | None) -> dict[str, Any]:
    mine = request.caller.actor.id
    gone = [used.used_by, *(UUID(each["actor"]) for each in used.reviews)]
    return {
        "late": used.reviewed_at is None and used.review_by <= request.as_of,
        "may_review": used.reviewed_at is None and not any(is_same_person(each, mine) for each in gone),
        "approval_href": reverse("approval", args=[request.tenant.slug, used.approval_id]),
        "href": reverse("emergency-review", args=[request.tenant.slug, used.id]),
        "form": form,
    }
