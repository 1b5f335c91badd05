"""Notices over HTTP: what a person is told, how they want it, and what could not be delivered."""

from __future__ import annotations

from datetime import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from console.api import answers, paging
from console.api.auth import admits, caller_of
from console.api.notices import answers as notices_answers
from console.api.notices.answers import ChannelsBody, SeenBody, WishesBody
from console.api.schemas import Paged
from console.api.transaction import in_tenancy, json_response
from console.notifications import inbox, sending
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications.routing import MailPreferences, NotificationSettings, parse_mail_preferences
from ledger.record.queries import events
from ledger.record.rules.envelope import instant

router = Router(tags=["Notices"])


@router.get("/notices", summary="What you are told, newest first", response=answers.Page[notices_answers.NoticeAnswer])
@admits("person")
@in_tenancy
def list_messages(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    caller = caller_of(request)
    tenant = events.tenant_by_id(caller.tenant_id)
    found = notifications_queries.messages(
        tenant.id, caller.actor.id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    told = {each.row.id: each for each in inbox.inbox_items(tenant, found)}
    return paging.page_response(found, wanted.limit, lambda row: _message(told[row.id]))


@router.post("/notices/read", summary="You have seen what you were told", response=notices_answers.Seen)
@admits("person")
@in_tenancy
def read(request: HttpRequest, body: SeenBody) -> HttpResponse:
    caller = caller_of(request)
    seen = notifications_operations.mark_seen(
        tenant_id=caller.tenant_id, actor_id=caller.actor.id, upto=body.upto, at=timezone.now()
    )
    return json_response({"read": seen})


@router.get("/notices/wishes", summary="How you want your mail", response=notices_answers.Wishes)
@admits("person")
@in_tenancy
def get_wishes(request: HttpRequest) -> HttpResponse:
    caller = caller_of(request)
    return json_response(_wish(notifications_queries.mail_preferences(caller.tenant_id, caller.actor.id)))


@router.post("/notices/wishes", summary="Say how you want your mail", response=notices_answers.Wishes)
@admits("person")
@in_tenancy
def set_wishes(request: HttpRequest, body: WishesBody) -> HttpResponse:
    caller = caller_of(request)
    chosen = body.model_dump()
    for end in ("quiet_from", "quiet_until"):
        chosen[end] = time.fromisoformat(chosen[end]) if chosen[end] else None
    wish = parse_mail_preferences(**chosen)
    notifications_operations.set_mail_preferences(
        tenant_id=caller.tenant_id, actor_id=caller.actor.id, wish=wish, at=timezone.now()
    )
    return json_response(_wish(wish))


@router.get("/notices/channels", summary="What the tenant tells by which channel", response=notices_answers.Channels)
@admits("administrator", "oper")
@in_tenancy
def get_channels(request: HttpRequest) -> HttpResponse:
    tenant = events.tenant_by_id(caller_of(request).tenant_id)
    return json_response(_channels(tenant, notifications_queries.tenant_settings(tenant.id)))


@router.post("/notices/channels", summary="Say what the tenant tells", response=notices_answers.Channels)
@admits("administrator")
@in_tenancy
def set_channels(request: HttpRequest, body: ChannelsBody) -> HttpResponse:
    caller = caller_of(request)
    document = body.model_dump()
    settings = notifications_operations.set_settings(
        tenant_id=caller.tenant_id, document=document, by=caller.actor, at=timezone.now()
    )
    return json_response(_channels(events.tenant_by_id(caller.tenant_id), settings))


@router.get(
    "/notices/undelivered",
    summary="Messages that were given up, newest first",
    response=answers.Page[notices_answers.Undelivered],
)
@admits("administrator", "oper")
@in_tenancy
def undelivered(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    caller = caller_of(request)
    found = notifications_queries.undelivered_notices(
        caller.tenant_id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_response(found, wanted.limit, _undelivered)


@router.post(
    "/notices/undelivered/{notice_id}/again",
    summary="Try a message that was given up once more",
    response=notices_answers.SentAgain,
)
@admits("administrator")
@in_tenancy
def again(request: HttpRequest, notice_id: UUID) -> HttpResponse:
    caller, at = caller_of(request), timezone.now()
    row = notifications_operations.retry_notice(tenant_id=caller.tenant_id, notice_id=notice_id, by=caller.actor, at=at)
    return json_response({"notice_id": str(row.id), "due_at": instant(at)})


def _message(item: inbox.InboxItem) -> dict[str, Any]:
    row, fact = item.row, item.fact
    return {
        "message_id": str(row.id),
        "kind": row.kind,
        "text": item.title,
        "risk": row.risk,
        "about": {"kind": row.about_kind, "id": str(row.about_id)},
        "verb": fact.verb or None,
        "side_effect_class": fact.side_effect_class or None,
        "decide_by": instant(fact.decide_by) if fact.decide_by else None,
        "still_waits": fact.still_waits,
        "url": fact.href,
        "raised_at": instant(row.raised_at),
        "read_at": instant(row.read_at) if row.read_at else None,
    }


def _wish(wish: MailPreferences) -> dict[str, Any]:
    quiet = wish.quiet
    return {
        "email": dict(wish.email),
        "digest_min": wish.digest_min,
        "quiet_from": quiet.begin.isoformat("minutes") if quiet else None,
        "quiet_until": quiet.end.isoformat("minutes") if quiet else None,
        "zone": quiet.zone if quiet else "UTC",
        "urgent_passes": wish.urgent_passes,
    }


def _channels(tenant: Any, settings: NotificationSettings) -> dict[str, Any]:
    return settings.document() | {"ways_out": sending.available_channels(tenant)}


def _undelivered(row: Any) -> dict[str, Any]:
    return {
        "notice_id": str(row.id),
        "topic": row.topic,
        "channel": row.channel,
        "kind": row.kind,
        "to": str(row.actor_id) if row.actor_id else None,
        "attempts": row.attempts,
        "fault": row.fault,
        "raised_at": instant(row.raised_at),
        "given_up_at": instant(row.given_up_at),
    }
