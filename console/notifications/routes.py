"""Notices over HTTP: what a person is told, how they want it, and what could not be delivered."""

from __future__ import annotations

from datetime import time
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications import schemas, sending, verbs
from console.notifications.lists import NOTICES, UNDELIVERED
from console.notifications.routing import NotificationSettings, parse_mail_preferences
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.record.queries import events

router = Router(tags=["Notifications"])


add_lists(router, __name__, NOTICES)


add_verbs(router, __name__, [verbs.READ])


@router.get("/notices/wishes", summary="Your mail settings", response=schemas.Wishes)
@admits("person")
@in_tenancy
def get_wishes(request: HttpRequest) -> schemas.Wishes:
    caller = caller_of(request)
    return schemas.Wishes.of(notifications_queries.mail_preferences(caller.tenant_id, caller.actor.id))


@router.post("/notices/wishes", summary="Change your mail settings", response=schemas.Wishes)
@admits("person")
@in_tenancy
def set_wishes(request: HttpRequest, body: schemas.WishesBody) -> schemas.Wishes:
    caller = caller_of(request)
    chosen = body.model_dump()
    for end in ("quiet_from", "quiet_until"):
        chosen[end] = time.fromisoformat(chosen[end]) if chosen[end] else None
    wish = parse_mail_preferences(**chosen)
    notifications_operations.set_mail_preferences(
        tenant_id=caller.tenant_id, actor_id=caller.actor.id, wish=wish, at=timezone.now()
    )
    return schemas.Wishes.of(wish)


@router.get("/notices/channels", summary="Notification channels of the tenant", response=schemas.Channels)
@admits("administrator", "oper")
@in_tenancy
def get_channels(request: HttpRequest) -> schemas.Channels:
    tenant = events.tenant_by_id(caller_of(request).tenant_id)
    return _channels(tenant, notifications_queries.tenant_settings(tenant.id))


@router.post("/notices/channels", summary="Change the tenant's notification channels", response=schemas.Channels)
@admits("administrator")
@in_tenancy
def set_channels(request: HttpRequest, body: schemas.ChannelsBody) -> schemas.Channels:
    caller = caller_of(request)
    document = body.model_dump()
    settings = notifications_operations.set_settings(
        tenant_id=caller.tenant_id, document=document, by=caller.actor, at=timezone.now()
    )
    return _channels(events.tenant_by_id(caller.tenant_id), settings)


add_lists(router, __name__, UNDELIVERED)


add_verbs(router, __name__, [verbs.AGAIN])


def _channels(tenant: Any, settings: NotificationSettings) -> schemas.Channels:
    return schemas.Channels.of(settings.document() | {"ways_out": sending.available_channels(tenant)})
