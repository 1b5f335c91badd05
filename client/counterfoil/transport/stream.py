"""A session's events as they happen: `for event in session.stream()`, or `async for` where one awaits.

1. A stream that breaks off is taken up again where it was (`Last-Event-ID`), after a pause that
   grows; anything that arrives, a comment too, shows that the console is there.
2. Silence longer than `silence_s` is a break: the console sends a comment at least every 10 seconds.
3. In a `with` block it is connected from the first line on, else from the first step of the loop.
   What happened before is not told.
4. Only a refusal that will not pass (the key is no longer good, the session is not there) or
   `give_up_after_s` without a byte ends it with an exception. `close()` ends it at once, also from
   another thread.
5. An event is news and no proof: what became of an action is asked of the action.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any

import httpx

from counterfoil.connection import Connection
from counterfoil.problems import Problem, Unreachable, problem_from_response
from counterfoil.transport import request
from counterfoil.transport.async_connection import AsyncConnection
from counterfoil.transport.events import Event, EventParser
from counterfoil.transport.request import Backoff


class Reconnection:
    """The rules by which a stream continues after a break, the same for both kinds."""

    def __init__(self, path: str, *, last_event_id: str, give_up_after_s: float, silence_s: float) -> None:
        self.path = path
        self.feed = EventParser(last_event_id)
        self.timeout = httpx.Timeout(15.0, read=silence_s)
        self._backoff = Backoff(give_up_after_s=give_up_after_s)
        self.heard()

    @property
    def headers(self) -> dict[str, str]:
        place = self.feed.last_event_id
        return {"Accept": "text/event-stream", **({"Last-Event-ID": place} if place else {})}

    def heard(self) -> None:
        """Something arrived."""
        self._tries, self._since = 0, time.monotonic()

    def pause(self, fault: Exception) -> float:
        """The seconds to wait before reconnecting; a final fault is raised."""
        self._tries += 1
        spent = time.monotonic() - self._since
        wait = self._backoff.pause(fault, tries=self._tries, spent_s=spent, chance=random.random())
        if wait is None:
            raise fault
        return max(wait, self.feed.retry_s or 0.0)

    def broken(self, fault: Exception | None) -> Unreachable:
        """The error for a connection that ended without a message."""
        return request.unreachable_error("GET", self.path, fault or EOFError("the stream ended"))


class Stream:
    """The events of one session, for blocking programs."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        *,
        last_event_id: str = "",
        give_up_after_s: float = 300.0,
        silence_s: float = 35.0,
    ) -> None:
        self._connection = connection
        self._course = Reconnection(
            path, last_event_id=last_event_id, give_up_after_s=give_up_after_s, silence_s=silence_s
        )
        self._closed = threading.Event()
        self._response: httpx.Response | None = None
        self._events = self._follow()

    @property
    def last_event_id(self) -> str:
        """The position to resume from, in this process or another."""
        return self._course.feed.last_event_id

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Event:
        while True:
            event = next(self._events)
            if event is not None:
                return event

    def __enter__(self) -> Stream:
        next(self._events)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the stream; a thread that waits for the next event gets the end."""
        self._closed.set()
        _shut_down(self._response)
        # Another thread that runs the generator ends it by itself.
        with suppress(ValueError):
            self._events.close()

    def _follow(self) -> Generator[Event | None, None, None]:
        while not self._closed.is_set():
            fault: Exception | None = None
            try:
                yield from self._connect()
            except Problem as refusal:
                fault = refusal
            except (httpx.TransportError, httpx.StreamError, OSError) as broken:
                fault = self._course.broken(broken)
            if self._closed.is_set():
                return
            self._closed.wait(self._course.pause(fault or self._course.broken(None)))

    def _connect(self) -> Generator[Event | None, None, None]:
        headers = request.request_headers(self._connection.authorization, self._course.headers)
        url = self._connection.address(self._course.path)
        with self._connection.http.stream("GET", url, headers=headers, timeout=self._course.timeout) as response:
            self._response = response
            if not response.is_success:
                response.read()
                raise problem_from_response(response)
            self._course.feed.connected()
            yield None
            for chunk in response.iter_bytes():
                self._course.heard()
                yield from self._course.feed.chunk(chunk)


class AsyncStream:
    """The events of one session, for asynchronous programs."""

    def __init__(
        self,
        connection: AsyncConnection,
        path: str,
        *,
        last_event_id: str = "",
        give_up_after_s: float = 300.0,
        silence_s: float = 35.0,
    ) -> None:
        self._connection = connection
        self._course = Reconnection(
            path, last_event_id=last_event_id, give_up_after_s=give_up_after_s, silence_s=silence_s
        )
        self._events = self._follow()

    @property
    def last_event_id(self) -> str:
        """The position to resume from, in this process or another."""
        return self._course.feed.last_event_id

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Event:
        while True:
            event = await anext(self._events)
            if event is not None:
                return event

    async def __aenter__(self) -> AsyncStream:
        await anext(self._events)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the stream; a task that waits for the next event is cancelled by its own program."""
        await self._events.aclose()

    async def _follow(self) -> AsyncGenerator[Event | None, None]:
        while True:
            fault: Exception | None = None
            try:
                async with aclosing(self._connect()) as events:
                    async for event in events:
                        yield event
            except Problem as refusal:
                fault = refusal
            except (httpx.TransportError, httpx.StreamError, OSError) as broken:
                fault = self._course.broken(broken)
            await asyncio.sleep(self._course.pause(fault or self._course.broken(None)))

    async def _connect(self) -> AsyncGenerator[Event | None, None]:
        headers = request.request_headers(self._connection.authorization, self._course.headers)
        url = self._connection.address(self._course.path)
        async with self._connection.http.stream("GET", url, headers=headers, timeout=self._course.timeout) as response:
            if not response.is_success:
                await response.aread()
                raise problem_from_response(response)
            self._course.feed.connected()
            yield None
            async for chunk in response.aiter_bytes():
                self._course.heard()
                for event in self._course.feed.chunk(chunk):
                    yield event


def _shut_down(response: httpx.Response | None) -> None:
    # Closing a socket does not wake the thread that reads from it; shutting it down does.
    stream: Any = response.extensions.get("network_stream") if response is not None else None
    wire_end = stream.get_extra_info("socket") if stream is not None else None
    if wire_end is not None:
        with suppress(OSError):
            wire_end.shutdown(socket.SHUT_RDWR)
