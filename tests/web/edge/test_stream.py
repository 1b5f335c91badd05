"""Live updates: for members only, one event per change, and a sign of life when nothing changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from console.edge import stream
from console.models import Membership
from tests.support.api_tenant import Workshop, anonymous, workshop
from tests.support.callers import Api


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY_S", 0.02)
    monkeypatch.setattr(stream, "KEEPALIVE_S", 0.04)


@pytest.fixture
def busy(committed_db: Any, hurried: None) -> Any:
    """A tenant whose record another connection reads."""
    yield workshop("orchid").set_up()
    asyncio.run(_leave())


async def _leave() -> None:
    # The threads that read for the streams hold connections to a database that is about to go.
    await sync_to_async(connections.close_all)()


async def heard(person: Api, slug: str, *, until: bytes, meanwhile: Any = None, within_s: float = 10.0) -> list[bytes]:
    """Every chunk of a person's stream up to the one that holds `until`; `meanwhile` happens after the first."""
    client = AsyncClient()
    client.cookies = person.client.cookies
    response: Any = await client.get(f"/api/v1/stream?tenant={slug}")
    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream"
    chunks: list[bytes] = []

    async def listen() -> None:
        async for chunk in response.streaming_content:
            chunks.append(chunk)
            if len(chunks) == 1 and meanwhile is not None:
                await asyncio.to_thread(meanwhile)
            if until in chunk:
                return

    await asyncio.wait_for(listen(), within_s)
    return chunks


def test_only_members_of_the_tenant_can_listen(busy: Workshop):
    elsewhere = workshop("willow")
    cases: list[tuple[Api, str, int]] = [
        (anonymous(), "orchid", 401),
        (busy.agent, "orchid", 401),
        (elsewhere.reviewer, "orchid", 404),
        (busy.reviewer, "willow", 404),
        (busy.reviewer, "nowhere", 404),
        (busy.reviewer, "", 404),
        (busy.reviewer, "%00", 404),
    ]

    async def refusals() -> None:
        for caller, slug, status in cases:
            client = AsyncClient()
            client.cookies = caller.client.cookies
            answer = await client.get(f"/api/v1/stream?tenant={slug}", headers=caller.headers)
            assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), slug
        assert (await AsyncClient().post("/api/v1/stream")).status_code == 405

    asyncio.run(refusals())


def test_a_change_is_streamed_once_with_ids_only(busy: Workshop):
    action: list[str] = []

    def propose() -> None:
        action.append(busy.propose())
        connections.close_all()

    async def run() -> list[bytes]:
        return await heard(busy.reviewer, busy.slug, until=b"still here", meanwhile=propose)

    chunks = asyncio.run(run())
    events = [chunk.decode().split("\n") for chunk in chunks if chunk.startswith(b"id: ")]
    told = [json.loads(lines[2].removeprefix("data: ")) for lines in events]
    assert {"kind": "action", "event": "validated", "id": action[0]} in told
    assert len({lines[0] for lines in events}) == len(events)
    assert all(lines[1] == "event: changed" for lines in events)
    assert all(one.keys() == {"kind", "event", "id"} for one in told)


def test_an_idle_stream_sends_comments(busy: Workshop):
    assert b": still here\n\n" in asyncio.run(heard(busy.reviewer, busy.slug, until=b"still here"))


def test_a_stream_ends_when_its_listener_loses_the_membership(busy: Workshop):
    def remove() -> None:
        Membership.objects.filter(is_reviewer=True).update(removed_at=timezone.now())
        connections.close_all()

    async def run() -> list[bytes]:
        return await heard(busy.reviewer, busy.slug, until=b"never", meanwhile=remove)

    assert b"still here" not in asyncio.run(run())[-1]
