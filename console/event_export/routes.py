"""Destinations of events over HTTP: how each stands, where it starts, and a test of it."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.event_export import operations, schemas, sending, verbs
from console.event_export.status import address_of, status_of
from console.verbs.verb import add_verbs
from ledger.record.queries import events

router = Router(tags=["Ledger"])
WRITERS = ("compliance", "administrator")


@router.get("/event-destinations", summary="Event export destinations", response=schemas.EventDestinations)
@admits("oper", "audit", *WRITERS)
@in_tenancy
def list_destinations(request: HttpRequest) -> schemas.EventDestinations:
    return verbs.destinations_answer(caller_of(request).tenant_id)


@router.post(
    "/event-destinations/{destination_name}/start",
    summary="Start sending events to a destination, or restart from another position",
    response=schemas.EventDestinationShown,
)
@admits(*WRITERS)
@in_tenancy
def start(request: HttpRequest, destination_name: str, body: schemas.EventExportStart) -> schemas.EventDestinationShown:
    caller, tenant = caller_of(request), events.tenant_by_id(caller_of(request).tenant_id)
    address_of(tenant, destination_name)
    operations.start(
        tenant_id=tenant.id, name=destination_name, start_at=body.chosen(), by=caller.actor, at=timezone.now()
    )
    return schemas.EventDestinationShown.of(status_of(tenant, destination_name))


add_verbs(router, __name__, [verbs.STOP])


@router.post(
    "/event-destinations/{destination_name}/test",
    summary="Send a test message without recorded data to a destination",
    response=schemas.Tested,
)
@admits(*WRITERS)
@in_tenancy
def send_test(request: HttpRequest, destination_name: str) -> schemas.Tested:
    tenant = events.tenant_by_id(caller_of(request).tenant_id)
    fault = sending.send_test(tenant, address_of(tenant, destination_name), at=timezone.now())
    return schemas.Tested(delivered=not fault, fault=fault)
