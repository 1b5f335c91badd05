"""The events of one session, as server-sent events for the agent that opened it.

An `action` event gives the state of an action, an `approval` event the full verdict on a request to people, so that
nobody has to guess from "resolved". A `verdict` event is the completion guard's, without its text; a `summary` event
comes when the run was forced to end or the session was closed, after everything before it (R-FB-04).

The record is polled; `id:` is a position in it. An agent that returns with `Last-Event-ID` gets what it has missed, and
perhaps the last few seconds twice: `event_id` tells those apart. While nothing else flows, a comment line is sent every
ten seconds, which no reader of events sees (R-FB-07, R-FB-09). Nothing here is written, and a broken stream says
nothing about any action.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.db import close_old_connections, connections
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from approvals.requests.queries import approvals as approvals_queries
from approvals.sessions import queries as sessions_queries
from approvals.sessions.operations.sessions import REACHED
from console.accounts import queries as accounts_queries
from console.approvals import context
from console.edge import problems, stream
from console.edge.auth import Caller, Key, NotAllowed, NotSignedIn
from console.sessions import session_context
from ledger.actions.queries import actions as actions_queries
from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from ledger.record.rules.refusals import NotFound, Refused

_OF_THE_SESSION = {
    "message_allowed": "verdict",
    "message_blocked": "verdict",
    REACHED: "summary",
    "session_closed": "summary",
}


@login_not_required
async def stream_session(request: HttpRequest, session_id: UUID) -> HttpResponseBase:
    """Stream a session's events to the key that opened it."""
    if request.method != "GET":
        return problems.method_not_allowed(request, "GET")
    try:
        caller = await sync_to_async(_caller)(request, session_id)
    except Refused as refusal:
        return problems.refusal_response(request, refusal)
    since = _place(request.headers.get("Last-Event-ID", "")) or timezone.now()
    response = StreamingHttpResponse(session_events(caller, session_id, since), content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _caller(request: HttpRequest, session_id: UUID) -> Caller:
    try:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        caller = Key().authenticate(request, token.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise NotSignedIn
        if caller.kind != "agent":
            raise NotAllowed
        with tenancy(caller.tenant_id, reads_only=True):
            session = sessions_queries.session(caller.tenant_id, session_id)
        if session is None or session.key_actor != caller.actor.id:
            raise NotFound
        return caller
    finally:
        close_old_connections()


def _place(text: str) -> datetime | None:
    """The moment in one of our `id:` values; any other value begins now."""
    try:
        return datetime.fromtimestamp(int(text.partition(".")[0]) / 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


async def session_events(caller: Caller, session_id: UUID, since: datetime) -> AsyncIterator[bytes]:
    """Stream the events from a moment on while the key is valid; a disconnected client leaves nothing open."""
    try:
        async for chunk in _events(caller, session_id, since):
            yield chunk
    finally:
        # The thread that read for this stream ends with it, and would leave its connection open (R-FB-08).
        await sync_to_async(connections.close_all)()


async def _events(caller: Caller, session_id: UUID, since: datetime) -> AsyncIterator[bytes]:
    seen: dict[UUID, datetime] = {}
    clock = asyncio.get_running_loop().time
    looked = said = clock()
    yield b": connected\n\n"
    while True:
        found = await sync_to_async(_new_events)(caller.tenant_id, session_id, since - stream.LOOK_BACK, set(seen))
        for kind, data, event_id, at in found:
            place = f"{int(at.timestamp() * 1_000_000)}.{event_id}"
            yield f"id: {place}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()
            seen[event_id] = at
            said = clock()
        since = max([since, *(at for *_, at in found)])
        seen = {event_id: at for event_id, at in seen.items() if at >= since - stream.LOOK_BACK}
        if clock() - looked >= stream.KEEPALIVE_S:
            if not await sync_to_async(_is_good)(caller):
                return
            looked = clock()
        if clock() - said >= stream.KEEPALIVE_S:
            said = clock()
            yield b": still here\n\n"
        await asyncio.sleep(min(stream.EVERY_S, max(0.0, said + stream.KEEPALIVE_S - clock())))


def _is_good(caller: Caller) -> bool:
    try:
        return accounts_queries.is_key_active(caller.tenant_id, caller.actor.id, at=timezone.now())
    finally:
        close_old_connections()


def _new_events(
    tenant_id: UUID, session_id: UUID, after: datetime, seen: set[UUID]
) -> list[tuple[str, Any, UUID, datetime]]:
    """Return (kind, data, event, recorded at) of a session's new events, oldest first."""
    try:
        with tenancy(tenant_id, reads_only=True):
            actions = {each.id: each for each in actions_queries.actions(tenant_id, session=session_id, limit=500)}
            approvals = {
                each.id: actions[each.action_id] for each in approvals_queries.approvals_for(tenant_id, actions)
            }
            rows = events_queries.subject_events(tenant_id, [session_id, *actions, *approvals], after=after)
            return [
                (_kind(row), _event_data(row, actions, approvals), row.id, row.recorded_at)
                for row in rows
                if row.id not in seen and _concerns(row)
            ]
    finally:
        close_old_connections()


def _kind(row: Any) -> str:
    return _OF_THE_SESSION[row.kind] if row.subject_kind == "session" else str(row.subject_kind)


def _concerns(row: Any) -> bool:
    """Return whether an event concerns the agent; reviewers' discussion before a decision does not."""
    if row.subject_kind == "session":
        return row.kind in _OF_THE_SESSION
    return bool(row.subject_kind == "action" or row.from_state != row.state or row.kind == "question_asked")


def _event_data(row: Any, actions: dict[UUID, Any], approvals: dict[UUID, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"event_id": str(row.id), "event": row.kind}
    if row.subject_kind == "session":
        return said | (_summed_up(row) if _kind(row) == "summary" else _guard_verdict(row))
    if row.subject_kind == "action":
        return said | {"action_id": str(row.subject_id), "state": row.state}
    action = approvals[row.subject_id]
    current = context.verdict_for_agent(action) if action.approval_id == row.subject_id else None
    return said | {"action_id": str(action.id), "approval_id": str(row.subject_id), "verdict": current}


def _summed_up(row: Any) -> dict[str, Any]:
    """Return the present summary, which may be later than the event."""
    session = sessions_queries.session(row.tenant_id, row.subject_id)
    return session_context.summary_document(session) if session is not None else {}


def _guard_verdict(row: Any) -> dict[str, Any]:
    """Return the guard's verdict on a message, as codes; the message's sender got its text in the answer."""
    found = events_queries.event_with_detail(row.tenant_id, row.subject_id, row.seq)
    detail = (found[2] if found else None) or {}
    return {
        "verdict": "BLOCK" if row.kind == "message_blocked" else "ALLOW",
        "codes": detail.get("codes", []),
        "message_hash": detail.get("message_hash"),
    }
