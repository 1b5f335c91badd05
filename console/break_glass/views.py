"""Break-glass: actions released by one person alone, and their reviews."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.break_glass import verbs
from console.break_glass.lists import BREAK_GLASS, FOUND
from console.edge.http import TenantRequest, in_tenant
from console.verbs.form import BodyForm
from console.verbs.verb import page_of
from console.web.list_page import list_context
from ledger.people.queries import is_same_person

if TYPE_CHECKING:
    from approvals.models import BreakGlassUse


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: TenantRequest,
    /,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    emergency_id: UUID | None = None,
    status: int = 200,
) -> HttpResponse:
    form = forms.get("review") or verbs.REVIEW.form()
    waiting, done = BREAK_GLASS.rows(request, 100), BREAK_GLASS.rows(request, 50, reviewed=True)
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "waiting": [
            shown | _review_context(request, shown["row"], form if shown["row"].id == emergency_id else None)
            for shown in waiting
        ],
        "done": [shown | _review_context(request, shown["row"], None) for shown in done],
        "findings": FOUND.items(),
        **list_context(request, BREAK_GLASS),
    }
    return render(request, "break_glass/page.html", context, status=status)


review = page_of(
    verbs.REVIEW,
    home=lambda request, ids, result: reverse("emergencies", args=[request.tenant.slug]),
    render=_page,
)


def _review_context(request: TenantRequest, used: BreakGlassUse, form: BodyForm | None) -> dict[str, Any]:
    mine = request.caller.actor.id
    gone = [used.used_by, *(UUID(each["actor"]) for each in used.reviews)]
    return {
        "late": used.reviewed_at is None and used.review_by <= request.as_of,
        "may_review": used.reviewed_at is None and not any(is_same_person(used.tenant_id, each, mine) for each in gone),
        "approval_href": reverse("approval", args=[request.tenant.slug, used.approval_id]),
        "href": reverse("emergency-review", args=[request.tenant.slug, used.id]),
        "form": form,
    }
