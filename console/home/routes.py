"""The items that wait for the caller, as on Home and in its badge."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.home import schemas
from console.home.inbox import inbox_items
from ledger.record.queries import events

router = Router(tags=["Approvals"])


@router.get(
    "/inbox",
    summary="Items that need you: approvals you may decide, confirmations, your and unassigned cases, incidents",
    response=schemas.Inbox,
)
@admits("person")
@in_tenancy
def get_inbox(request: HttpRequest) -> schemas.Inbox:
    caller = caller_of(request)
    tenant = events.tenants_by_id([caller.tenant_id])[caller.tenant_id]
    found = inbox_items(tenant, caller, at=timezone.now())
    return schemas.Inbox(items=[schemas.WaitingItem.of(each) for each in found])
