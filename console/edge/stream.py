"""Live updates for the pages: what changed in a tenant, as server-sent events.

The record is polled, so nothing has to be published and nothing can be lost on the way: an event carries ids only, and
a page that missed some reads the present anyway. A comment line every ten seconds keeps proxies from hanging up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.db import close_old_connections, connections
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from console.accounts import queries as accounts_queries
from console.accounts.sign_in.sessions import SessionStanding
from console.edge import problems
from console.edge.auth import NotSignedIn
from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from console.models import User

EVERY_S = 1.0
KEEPALIVE_S = 10.0
# Rows become visible at commit but are stamped before it; looking back this far finds the late ones.
LOOK_BACK = timedelta(seconds=5)


@login_not_required
async def stream_changes(request: HttpRequest) -> HttpResponseBase:
    """Stream `changed` events for the tenant named by `?tenant=`, for its members only."""
    if request.method != "GET":
        return problems.method_not_allowed(request, "GET")
    user = await request.auser()
    if not user.is_authenticated:
        return problems.refusal_response(request, NotSignedIn())
    tenant_id = await sync_to_async(_place)(user, request.GET.get("tenant", ""))
    if tenant_id is None:
        return problems.refusal_response(request, NotFound())
    changes = tenant_changes(user, tenant_id, request.session.session_key)
    response = StreamingHttpResponse(changes, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _place(user: User, slug: str) -> UUID | None:
    try:
        # No column of text holds U+0000, so nothing can be looked for by it.
        found = events_queries.tenant(slug) if "\0" not in slug else None
        place = accounts_queries.membership(user, found.id) if found else None
        return place.tenant_id if place else None
    finally:
        close_old_connections()


async def tenant_changes(user: User, tenant_id: UUID, session_key: str | None) -> AsyncIterator[bytes]:
    """Stream the changes from now on while the person is a member of the tenant, the account is open and the session
    has not ended.
    """
    try:
        async for chunk in _events(user, tenant_id, session_key):
            yield chunk
    finally:
        # The thread that read for this stream ends with it, and would leave its connection open (R-FB-08).
        await sync_to_async(connections.close_all)()


async def _events(user: User, tenant_id: UUID, session_key: str | None) -> AsyncIterator[bytes]:
    since = timezone.now()
    seen: dict[UUID, datetime] = {}
    clock = asyncio.get_running_loop().time
    said = clock()
    yield b": connected\n\n"
    while True:
        found = await sync_to_async(_recent_changes)(tenant_id, since - LOOK_BACK)
        for subject_kind, kind, subject_id, event_id, at in found:
            if event_id not in seen:
                data = json.dumps({"kind": subject_kind, "event": kind, "id": str(subject_id)})
                yield f"id: {event_id}\nevent: changed\ndata: {data}\n\n".encode()
            seen[event_id] = at
        since = max([since, *(at for *_, at in found)])
        seen = {event_id: at for event_id, at in seen.items() if at >= since - LOOK_BACK}
        if clock() - said >= KEEPALIVE_S:
            if not await sync_to_async(_belongs)(user, tenant_id, session_key):
                return
            said = clock()
            yield b": still here\n\n"
        await asyncio.sleep(EVERY_S)


def _belongs(user: User, tenant_id: UUID, session_key: str | None) -> bool:
    try:
        goes_on = SessionStanding(session_key).end(timezone.now()) is None
        return goes_on and accounts_queries.membership(user, tenant_id) is not None
    finally:
        close_old_connections()


def _recent_changes(tenant_id: UUID, after: datetime) -> list[tuple[str, str, UUID, UUID, datetime]]:
    try:
        with tenancy(tenant_id, reads_only=True):
            return events_queries.recent_events(tenant_id, after=after)
    finally:
        close_old_connections()
