"""Notices over HTTP: what a person is told, how they want it, and what could not be delivered."""

from __future__ import annotations

from datetime import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from console.notifications import inbox, schemas, sending
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications.routing import NotificationSettings, parse_mail_preferences
from ledger.record.queries import events

router = Router(tags=["Notifications"])


@router.get("/notices", summary="Your notifications, newest first", response=Page[schemas.NoticeAnswer])
@admits("person")
@in_tenancy
def list_messages(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.NoticeAnswer]:
    caller = caller_of(request)
    tenant = events.tenant_by_id(caller.tenant_id)
    found = notifications_queries.messages(
        tenant.id, caller.actor.id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    told = {each.row.id: each for each in inbox.inbox_items(tenant, found)}
    return paging.page_of(lambda row: schemas.NoticeAnswer.of(told[row.id]), found, wanted.limit)


@router.post("/notices/read", summary="Mark notifications as seen", response=schemas.Seen)
@admits("person")
@in_tenancy
def read(request: HttpRequest, body: schemas.SeenBody) -> schemas.Seen:
    caller = caller_of(request)
    seen = notifications_operations.mark_seen(
        tenant_id=caller.tenant_id, actor_id=caller.actor.id, upto=body.upto, at=timezone.now()
    )
    return schemas.Seen(read=seen)


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


@router.get(
    "/notices/undelivered",
    summary="Undelivered messages, newest first",
    response=Page[schemas.Undelivered],
)
@admits("administrator", "oper")
@in_tenancy
def undelivered(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.Undelivered]:
    caller = caller_of(request)
    found = notifications_queries.undelivered_notices(
        caller.tenant_id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_of(schemas.Undelivered.of, found, wanted.limit)


@router.post(
    "/notices/undelivered/{notice_id}/again",
    summary="Retry an undelivered message",
    response=schemas.SentAgain,
)
@admits("administrator")
@in_tenancy
def again(request: HttpRequest, notice_id: UUID) -> schemas.SentAgain:
    caller, at = caller_of(request), timezone.now()
    row = notifications_operations.retry_notice(tenant_id=caller.tenant_id, notice_id=notice_id, by=caller.actor, at=at)
    return schemas.SentAgain(notice_id=row.id, due_at=at)


def _channels(tenant: Any, settings: NotificationSettings) -> schemas.Channels:
    return schemas.Channels.of(settings.document() | {"ways_out": sending.available_channels(tenant)})
