"""Break-glass over HTTP: what was let through by one person alone, and the reviews that follow."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from approvals.voting.queries import approvers
from console.break_glass import operations as break_glass_operations
from console.break_glass import schemas
from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page
from console.edge.transaction import in_tenancy

router = Router(tags=["Approvals"])


@router.get(
    "/emergencies", summary="Uses of break-glass, the most urgent review first", response=Page[schemas.Emergency]
)
@admits("person", "oper", "audit")
@in_tenancy
def list_emergencies(request: HttpRequest, wanted: Query[schemas.EmergenciesWanted]) -> Page[schemas.Emergency]:
    tenant_id, place = caller_of(request).tenant_id, paging.decode_cursor(wanted.cursor)
    if wanted.reviewed:
        found = approvers.break_glass_uses(tenant_id, reviewed=True, before=place, limit=wanted.limit + 1)
        return paging.page_of(schemas.Emergency.of, found, wanted.limit)
    return paging.page_of_whole_list(schemas.Emergency.of, approvers.break_glass_uses(tenant_id, limit=500), wanted)


@router.post(
    "/emergencies/{emergency_id}/reviews", summary="Review a use of break-glass", response={201: schemas.EmergencyState}
)
@admits("reviewer", "operator", "compliance", "administrator")
@in_tenancy
def review(request: HttpRequest, emergency_id: UUID, body: schemas.EmergencyReviewBody) -> schemas.EmergencyState:
    caller = caller_of(request)
    state = break_glass_operations.record_review(
        tenant_id=caller.tenant_id,
        use_id=emergency_id,
        finding=body.finding,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.EmergencyState(emergency_id=emergency_id, state=state)
