"""Break-glass: what one person let through alone, and what others found who looked at it afterwards."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.voting.queries import approvers
from approvals.voting.rules import break_glass as rules
from console.accounts.queries import actor_names
from console.break_glass import operations as break_glass_operations
from console.edge.http import TenantRequest, in_tenant
from console.web.forms import BreakGlassReviewForm
from console.web.list_page import Column, ListPage, list_context
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import actions as actions_queries
from ledger.people.queries import is_same_person

REVIEWERS = ("reviewer", "operator", "compliance", "administrator")
BREAK_GLASS_LIST = ListPage(
    "emergencies",
    columns=(
        Column("action", "Action", lambda row: f"{row['action'].tool} on {row['action'].target}"),
        Column("used_by", "Used by", lambda row: row["by"]),
        Column("used", "Used", lambda row: row["row"].used_at),
        Column("why", "Why", lambda row: row["row"].reason),
        Column("due", "Review due", lambda row: row["row"].review_by),
        Column("reviewed", "Reviewed", lambda row: row["row"].reviewed_at),
        Column(
            "reviews", "Reviews", lambda row: "; ".join(f"{each['by']}: {each['found']}" for each in row["reviews"])
        ),
        Column("action_id", "Action id", lambda row: row["row"].action_id),
        Column("id", "Id", lambda row: row["row"].id),
    ),
)
FOUND = {"justified": "justified", "not_justified": "not justified"}


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
    tenant_id = request.tenant.id
    called = actor_names(tenant_id)
    waiting = approvers.break_glass_uses(tenant_id)
    done = approvers.break_glass_uses(tenant_id, reviewed=True, limit=50)
    actions = actions_queries.actions_by_id(tenant_id, [each.action_id for each in (*waiting, *done)])
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "waiting": [
            _review_row(request, each, actions, called, form if each.id == about else None) for each in waiting
        ],
        "done": [_review_row(request, each, actions, called, None) for each in done],
        "findings": FOUND.items(),
        **list_context(request, BREAK_GLASS_LIST),
    }
    return render(request, "break_glass/page.html", context, status=status)


def exported_rows(request: TenantRequest) -> list[dict[str, Any]]:
    """The uses that wait for a review, then the reviewed ones."""
    called = actor_names(request.tenant.id)
    found = [
        each
        for reviewed in (False, True)
        for each in approvers.break_glass_uses(request.tenant.id, reviewed=reviewed, limit=MOST_EXPORTED)
    ]
    actions = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in found])
    return [_about(each, actions, called) for each in found]


def _about(used: Any, actions: dict[UUID, Any], names: dict[UUID, str]) -> dict[str, Any]:
    return {
        "row": used,
        "action": actions.get(used.action_id),
        "by": names.get(used.used_by, "an operator"),
        "reviews": [
            {
                "by": names.get(UUID(each["actor"]), "somebody"),
                "found": FOUND[each["finding"]],
                "reason": each["reason"],
            }
            for each in used.reviews
        ],
    }


def _review_row(
    request: TenantRequest,
    used: Any,
    actions: dict[UUID, Any],
    names: dict[UUID, str],
    form: BreakGlassReviewForm | None,
) -> dict[str, Any]:
    mine = request.caller.actor.id
    gone = [used.used_by, *(UUID(each["actor"]) for each in used.reviews)]
    return _about(used, actions, names) | {
        "late": used.reviewed_at is None and used.review_by <= request.as_of,
        "may_review": used.reviewed_at is None and not any(is_same_person(each, mine) for each in gone),
        "approval_href": reverse("approval", args=[request.tenant.slug, used.approval_id]),
        "href": reverse("emergency-review", args=[request.tenant.slug, used.id]),
        "form": form,
    }
