"""Break-glass over HTTP: what was let through by one person alone, and the reviews that follow."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from approvals.voting.queries import approvers
from approvals.voting.rules import break_glass
from console.api import answers, paging
from console.api.auth import admits, caller_of
from console.api.schemas import Body, Paged, Reason
from console.api.transaction import in_tenancy, json_response
from console.pages.break_glass import context as break_glass_context
from ledger.record.rules.envelope import instant

router = Router(tags=["People's work"])


class EmergenciesWanted(Paged):
    """Which uses of break-glass a list is of."""

    reviewed: bool = False


class EmergencyReviewBody(Body):
    """What somebody found who looked at it afterwards."""

    finding: Annotated[break_glass.Finding, Field(strict=False)]
    reason: Reason


class EmergencyReview(answers.Answer):
    """One person's finding."""

    actor: str
    finding: str
    reason: str
    at: str


class Emergency(answers.Answer):
    """One use of break-glass."""

    emergency_id: str
    approval_id: str
    action_id: str
    used_by: str
    reason: str
    used_at: str
    review_by: str
    reviewed_at: str | None
    reviews: list[EmergencyReview]


class EmergencyState(answers.Answer):
    """Where the review of one use stands."""

    emergency_id: str
    state: str


@router.get(
    "/emergencies", summary="Uses of break-glass, the most urgent review first", response=answers.Page[Emergency]
)
@admits("person", "oper", "audit")
@in_tenancy
def list_emergencies(request: HttpRequest, wanted: Query[EmergenciesWanted]) -> HttpResponse:
    tenant_id, place = caller_of(request).tenant_id, paging.decode_cursor(wanted.cursor)
    if wanted.reviewed:
        found = approvers.emergencies(tenant_id, reviewed=True, before=place, limit=wanted.limit + 1)
        return paging.page_response(found, wanted.limit, _shown)
    return paging.whole_list_response(approvers.emergencies(tenant_id, limit=500), wanted, _shown)


@router.post(
    "/emergencies/{emergency_id}/reviews", summary="Review a use of break-glass", response={201: EmergencyState}
)
@admits("reviewer", "operator", "compliance", "administrator")
@in_tenancy
def review(request: HttpRequest, emergency_id: UUID, body: EmergencyReviewBody) -> HttpResponse:
    caller = caller_of(request)
    state = break_glass_context.record_review(
        tenant_id=caller.tenant_id,
        emergency_id=emergency_id,
        finding=body.finding,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return json_response({"emergency_id": str(emergency_id), "state": state}, 201)


def _shown(row: Any) -> dict[str, Any]:
    return {
        "emergency_id": str(row.id),
        "approval_id": str(row.approval_id),
        "action_id": str(row.action_id),
        "used_by": str(row.used_by),
        "reason": row.reason,
        "used_at": instant(row.used_at),
        "review_by": instant(row.review_by),
        "reviewed_at": instant(row.reviewed_at) if row.reviewed_at else None,
        "reviews": [{name: each[name] for name in ("actor", "finding", "reason", "at")} for each in row.reviews],
    }
