"""Break-glass over HTTP: what was let through by one person alone, and the reviews that follow."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.break_glass import operations as break_glass_operations
from console.break_glass import schemas
from console.break_glass.lists import BREAK_GLASS
from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.web.list_page import add_lists

router = Router(tags=["Approvals"])


add_lists(router, __name__, BREAK_GLASS)


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
