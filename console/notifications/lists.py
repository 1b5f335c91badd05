"""A person's own notifications: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.urls import reverse

from console.accounts import queries as directory
from console.edge.http import TenantRequest
from console.notifications import inbox, queries, schemas
from console.notifications.messages import TITLES, message_title
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage
from ledger.record.operations import Actor
from ledger.record.queries import events

if TYPE_CHECKING:
    from console.models import Notice

CHANNELS: Final = {
    "email": "Mail",
    "push": "Phones and browsers",
    "slack": "Chat room",
    "webhook": "Webhook",
    "log": "Log",
}


def _own_messages(tenant_id: UUID, *, by: Actor, after: UUID | None, limit: int) -> list[Any]:
    return queries.messages(tenant_id, by.id, after=after, limit=limit)


def _answers(tenant_id: UUID, rows: Sequence[Any], at: datetime) -> Callable[[Any], schemas.NoticeAnswer]:
    told = {each.row.id: each for each in inbox.inbox_items(events.tenant_by_id(tenant_id), rows)}
    return lambda row: schemas.NoticeAnswer.of(told[row.id])


NOTICES: Final = ListPage(
    "notices",
    columns=(
        Column("title", "Notification", lambda row: row.title),
        Column("what", "About", lambda row: row.what),
        Column("raised", "Raised", lambda row: row.row.raised_at),
        Column("read", "Read", lambda row: row.row.read_at),
        Column("risk", "Risk", lambda row: labels.RISKS.get(row.row.risk, "")),
        Column("id", "Id", lambda row: row.row.id),
    ),
    query=_own_messages,
    rows_of=lambda request, found: inbox.inbox_items(request.tenant, found),
    get=GetRoute(
        path="/notices",
        operation="list_messages",
        summary="Your notifications, newest first",
        answer=schemas.NoticeAnswer,
        told=_answers,
        readers=("person",),
    ),
)


def _undelivered_rows(request: TenantRequest, found: Sequence[Notice]) -> list[dict[str, Any]]:
    names = directory.names_of(request.tenant.id)
    return [
        {
            "row": row,
            "what": message_title(row.kind, personal=False)
            if row.kind in TITLES
            else row.kind.replace("_", " ").capitalize(),
            "channel": CHANNELS[row.channel],
            "to": names.get(row.actor_id, "") if row.actor_id else "",
            "again": reverse("notice-again", args=[request.tenant.slug, row.id]),
        }
        for row in found
    ]


UNDELIVERED: Final = ListPage(
    "undelivered",
    page="notice-channels",
    query=queries.undelivered_notices,
    rows_of=_undelivered_rows,
    get=GetRoute(
        path="/notices/undelivered",
        operation="undelivered",
        summary="Undelivered messages, newest first",
        answer=schemas.Undelivered,
        readers=("administrator", "oper"),
    ),
)
