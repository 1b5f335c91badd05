"""Streams over real sockets: resuming, refusals, silence, closing."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from itertools import islice

import pytest

from counterfoil.agent import Agent, AsyncAgent
from counterfoil.problems import NotFound, Unreachable
from tests.client.consoles import Answer, refusal, stand_in
from tests.client.sessions import a_day


def _event(number, kind="action"):
    return f'id: {number}.x\nevent: {kind}\ndata: {{"n": {number}}}\n\n'.encode()


@pytest.fixture
def console():
    with stand_in() as server:
        a_day(server)
        yield server


@contextmanager
def _session(console):
    with Agent(url=console.url, key="k", agent_id="a") as agent:
        yield agent.open_session(goal="g", ttl_seconds=60)


def test_a_stream_that_breaks_off_goes_on_where_it_was(console):
    console.plan(
        "/stream",
        Answer(chunks=[b": connected\n\n", _event(1), b"id: 2.x\ndata: ha"]),
        refusal(503, "AWAY"),
        Answer(silent=True),
        Answer(chunks=[_event(1), _event(2), _event(3)], hold_s=30),
    )
    with _session(console) as session, session.stream() as stream:
        assert [event.data["n"] for event in islice(stream, 3)] == [1, 2, 3]
        assert stream.last_event_id == "3.x"
    assert [seen.headers.get("last-event-id") for seen in console.to("/stream")] == [None, "1.x", "1.x", "1.x"]
    assert console.to("/stream")[0].headers["accept"] == "text/event-stream"


def test_a_stream_begins_at_a_given_event_id(console):
    console.plan("/stream", Answer(chunks=[_event(8)], hold_s=30))
    with _session(console) as session, session.stream(last_event_id="7.x") as stream:
        assert next(stream).event_id == "8.x"
    assert console.to("/stream")[0].headers["last-event-id"] == "7.x"


def test_a_permanent_refusal_ends_a_stream(console):
    console.plan("/stream", refusal(404, "NOT_FOUND"))
    with _session(console) as session:
        with pytest.raises(NotFound), session.stream():
            pass
        with pytest.raises(NotFound):
            next(session.stream())


def test_a_stream_is_connected_from_the_first_line_of_its_block(console):
    console.plan("/stream", Answer(chunks=[], hold_s=30))
    with _session(console) as session, session.stream():
        assert len(console.to("/stream")) == 1


def test_a_silent_stream_reconnects_and_ends_after_its_time_limit(console):
    console.plan("/stream", Answer(chunks=[], hold_s=30))
    with (
        _session(console) as session,
        session.stream(silence_s=0.1, give_up_after_s=1.0) as stream,
        pytest.raises(Unreachable),
    ):
        next(stream)
    assert len(console.to("/stream")) > 1


def test_closing_a_stream_ends_it_in_the_waiting_thread(console):
    console.plan("/stream", Answer(chunks=[_event(1)], hold_s=30))
    got = []
    with _session(console) as session:
        stream = session.stream()
        thread = threading.Thread(target=lambda: got.extend(stream))
        thread.start()
        while not got:
            time.sleep(0.01)
        stream.close()
        thread.join(timeout=5)
        assert not thread.is_alive()
    assert [event.data for event in got] == [{"n": 1}]


def test_an_asynchronous_stream_resumes_and_closes(console):
    console.plan("/stream", Answer(chunks=[_event(1)]), Answer(chunks=[_event(1), _event(2)], hold_s=30))

    async def follow():
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            session = await agent.open_session(goal="g", ttl_seconds=60)
            async with session.stream() as stream:
                return [(await anext(stream)).data["n"], (await anext(stream)).data["n"]]

    assert asyncio.run(follow()) == [1, 2]
    assert [seen.headers.get("last-event-id") for seen in console.to("/stream")] == [None, "1.x"]


def test_an_asynchronous_stream_ends_with_a_refusal_or_after_too_long_a_silence(console):
    console.plan("/stream", Answer(chunks=[], hold_s=0.2), refusal(404, "NOT_FOUND"))

    async def follow(**options):
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            session = await agent.open_session(goal="g", ttl_seconds=60)
            async with session.stream(**options) as stream:
                return await anext(stream)

    with pytest.raises(NotFound):
        asyncio.run(follow())
    console.plan("/stream", Answer(chunks=[], hold_s=30))
    with pytest.raises(Unreachable):
        asyncio.run(follow(silence_s=0.1, give_up_after_s=0.5))
