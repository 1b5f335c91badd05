"""The stream of a session: results before the summary, comments that no reader sees, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from console.asgi import application
from console.edge import stream
from console.local.processes import wait_until
from counterfoil.transport.events import Event, EventParser
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.api_tenant import DELETE, Workshop, workshop

FROM_THE_START = {"Last-Event-ID": "1.0"}
STREAMS = 100
AT_ONCE = 10


@pytest.fixture
def busy(committed_db: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stream, "EVERY_S", 0.02)
    monkeypatch.setattr(stream, "KEEPALIVE_S", 0.05)
    yield workshop("orchid").set_up()
    asyncio.run(sync_to_async(connections.close_all)())


async def _heard(shop: Workshop, session: str, until: bytes, headers: dict[str, str]) -> list[bytes]:
    response: Any = await AsyncClient().get(f"/api/v1/sessions/{session}/stream", headers=shop.agent.headers | headers)
    assert response.status_code == 200, response.content
    chunks: list[bytes] = []
    async with asyncio.timeout(15):
        async for chunk in response.streaming_content:
            chunks.append(chunk)
            if until in chunk:
                break
    return chunks


def heard(shop: Workshop, session: str, *, until: bytes, **headers: str) -> list[bytes]:
    connections.close_all()
    return asyncio.run(_heard(shop, session, until, headers))


def events(chunks: list[bytes]) -> list[Event]:
    """What somebody who reads events gets of it."""
    feed = EventParser()
    return [event for chunk in chunks for event in feed.chunk(chunk)]


def propose(shop: Workshop, session: dict[str, Any], number: int, tool: str = "delete_document") -> dict[str, Any]:
    call = {"call_id": str(number), "tool": tool, "arguments": DELETE, "pin_hash": session["pin"]["hash"]}
    answer: dict[str, Any] = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()
    return answer


@pytest.mark.req("R-FB-04", "R-FB-01")
def test_earlier_events_come_before_the_summary(busy: Workshop):
    session = busy.session(iteration_limit=1)
    propose(busy, session, 1)
    forced = propose(busy, session, 2)["summary"]
    told = events(heard(busy, session["session_id"], until=b"event: summary", **FROM_THE_START))
    assert [each.data["event"] for each in told if each.kind == "action"] == ["proposed", "validated"]
    assert [each.kind for each in told][-1] == "summary"
    said = told[-1].data
    assert said["event"] == "iteration_limit_reached"
    assert said["forced"]
    assert said["lines"] == forced["lines"]


def test_a_closed_session_ends_with_a_summary(busy: Workshop):
    session = busy.session()
    propose(busy, session, 1)
    busy.agent.post(f"/sessions/{session['session_id']}/close")
    last = events(heard(busy, session["session_id"], until=b"event: summary", **FROM_THE_START))[-1]
    assert last.data["event"] == "session_closed"
    assert any("Not executed." in line for line in last.data["lines"])
    assert not last.data["forced"]


def test_the_verdict_of_the_guard_is_streamed_as_codes_without_the_message(busy: Workshop):
    session = busy.session()
    at = timezone.now()
    with tenancy(busy.tenant):
        ledger.append(
            ledger.lock_subject(tenant_id=busy.tenant, subject_id=UUID(session["session_id"]), kind="session"),
            ledger.NewEvent(
                kind="message_blocked", detail={"codes": ["PHANTOM"], "message_hash": "0" * 64, "claims": ["secret"]}
            ),
            actor=ledger.SYSTEM,
            at=at,
        )
    told = events(heard(busy, session["session_id"], until=b"event: verdict", **FROM_THE_START))[-1]
    assert told.kind == "verdict"
    assert {name: told.data[name] for name in ("verdict", "codes", "message_hash")} == {
        "verdict": "BLOCK",
        "codes": ["PHANTOM"],
        "message_hash": "0" * 64,
    }
    assert "secret" not in str(told.data)


@pytest.mark.req("R-FB-09")
def test_an_idle_stream_sends_comments_that_event_readers_ignore(busy: Workshop):
    session = busy.session()
    propose(busy, session, 1)
    quiet = heard(busy, session["session_id"], until=b"still here", **FROM_THE_START)
    comments = [chunk for chunk in quiet if chunk.startswith(b":")]
    assert quiet[0].startswith(b": connected")
    assert comments[-1] == b": still here\n\n"
    told = events(quiet)
    assert {each.kind for each in told} == {"action", "approval"}
    assert len(told) == len(quiet) - len(comments)
    assert all(each.event_id and each.data["event"] for each in told)


@pytest.mark.req("R-FB-07")
def test_a_comment_is_sent_every_ten_seconds(committed_db: Any, monkeypatch: pytest.MonkeyPatch):
    shop = workshop("orchid").set_up()
    session = shop.session()["session_id"]
    connections.close_all()
    slept, sleep = 0.0, asyncio.sleep

    async def skip(delay: float) -> None:
        nonlocal slept
        slept += delay
        assert slept < 60, "a minute without a comment"
        await sleep(0)

    async def comments() -> list[float]:
        loop = asyncio.get_running_loop()
        now, heard_at = loop.time, []
        begun = now()
        monkeypatch.setattr(loop, "time", lambda: now() + slept)
        monkeypatch.setattr(asyncio, "sleep", skip)
        path = f"/api/v1/sessions/{session}/stream"
        response: Any = await AsyncClient().get(path, headers=shop.agent.headers)
        async for chunk in response.streaming_content:
            assert chunk.startswith(b":"), chunk
            heard_at.append(loop.time() - begun)
            if len(heard_at) == 3:
                break
        monkeypatch.undo()
        return heard_at

    _, first, second = asyncio.run(comments())
    assert 10 <= first < 12.5
    assert 10 <= second - first < 12.5
    asyncio.run(sync_to_async(connections.close_all)())


async def _visit(path: str, headers: dict[str, str]) -> int:
    """One client of the real application, which goes away in the middle of the stream."""
    begun = asyncio.Event()
    status: list[int] = []
    asked = [True]

    async def receive() -> dict[str, Any]:
        if asked:
            asked.clear()
            return {"type": "http.request", "body": b"", "more_body": False}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
        elif b"still here" in message.get("body", b""):
            begun.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"testserver"), *((k.lower().encode(), v.encode()) for k, v in headers.items())],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    async with asyncio.timeout(60):
        await application(scope, receive, send)  # type: ignore[arg-type]
    return status[0]


@pytest.mark.req("R-FB-08")
def test_a_hundred_disconnecting_clients_leave_no_task_thread_or_connection(
    busy: Workshop, owner_connection: psycopg.Connection
):
    session = busy.session()
    path = f"/api/v1/sessions/{session['session_id']}/stream"
    connections.close_all()

    async def visits() -> set[str]:
        own = asyncio.all_tasks()
        for _ in range(STREAMS // AT_ONCE):
            statuses = await asyncio.gather(*(_visit(path, busy.agent.headers) for _ in range(AT_ONCE)))
            assert set(statuses) == {200}
        with suppress(TimeoutError):
            async with asyncio.timeout(20):
                while asyncio.all_tasks() - own:
                    await asyncio.sleep(0.02)
        return {repr(task) for task in asyncio.all_tasks() - own}

    before = threading.active_count()
    assert asyncio.run(visits()) == set()
    gc.collect()
    assert threading.active_count() <= before + 1
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'counterfoil_app'"

    def are_closed() -> bool:
        found = owner_connection.execute(query).fetchone()
        return found is not None and found[0] <= 2

    # The server notices a little later that a connection was closed.
    assert wait_until(are_closed, within_s=20)
