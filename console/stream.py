"""Live updates for the pages: what changed in a tenant, as server-sent events.

The record is polled, so nothing has to be published and nothing can be lost on the way: an event carries ids only, and
a page that missed some reads the present anyway. A comment line every ten seconds keeps proxies from hanging up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from console import queries
from ledger import queries as record
from ledger.tenancy import tenancy

EVERY_S = 1.0
KEEPALIVE_S = 10.0
# Rows become visible at commit but are stamped before it; looking back this far finds the late ones.
LOOK_BACK = timedelta(seconds=5)


async def changes(request: HttpRequest) -> HttpResponseBase:
    """A stream of `changed` events for the tenant named by `?tenant=`, for its members only."""
    user = await request.auser()
    tenant_id = await sync_to_async(_place)(user, request.GET.get("tenant", ""))
    if tenant_id is None:
        return HttpResponse(status=404)
    response = StreamingHttpResponse(_events(tenant_id), content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _place(user: object, slug: str) -> UUID | None:
    try:
        found = record.tenant(slug)
        place = queries.membership(user, found.id) if found else None  # type: ignore[arg-type]
        return place.tenant_id if place else None
    finally:
        close_old_connections()


async def _events(tenant_id: UUID) -> AsyncIterator[bytes]:
    since = timezone.now()
    seen: dict[UUID, datetime] = {}
    quiet = 0.0
    yield b": connected\n\n"
    while True:
        found = await sync_to_async(_changed)(tenant_id, since - LOOK_BACK)
        fresh = [event for event in found if event[3] not in seen and event[4] >= since - LOOK_BACK]
        for subject_kind, kind, subject_id, event_id, at in fresh:
            seen[event_id] = at
            data = json.dumps({"kind": subject_kind, "event": kind, "id": str(subject_id)})
            yield f"id: {event_id}\nevent: changed\ndata: {data}\n\n".encode()
        if found:
            since = max(since, found[-1][4])
        seen = {event_id: at for event_id, at in seen.items() if at >= since - LOOK_BACK}
        quiet = 0.0 if fresh else quiet + EVERY_S
        if quiet >= KEEPALIVE_S:
            quiet = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(EVERY_S)


def _changed(tenant_id: UUID, after: datetime) -> list[tuple[str, str, UUID, UUID, datetime]]:
    try:
        with tenancy(tenant_id):
            return record.recent_events(tenant_id, after=after)
    finally:
        close_old_connections()
