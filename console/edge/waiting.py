"""Requests that wait for something to happen, without a thread.

A view that has nothing to answer yet returns `StillWaiting`. The server (console/asgi.py) keeps the request, looks for
it now and then, and calls the view again once there may be an answer or the time is over. Where nothing keeps requests,
as in the client that tests have in their own process, a view is told that there is no time to wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from console.edge.admission import ClientDisconnected, Receive

LOOK_EVERY_S = 0.25
LOOKS_PER_S = 40
"""Looks of all requests of a process together; with more requests each looks less often."""
MOST_WAITING = 500
LARGEST_WAITING = 64 << 10
"""Bytes of a request's body; a larger one is answered at once, since it would be kept in memory."""
_MAY_WAIT, _WAITED = "counterfoil.may_wait", "counterfoil.waited"


@dataclass(frozen=True)
class Wait:
    """A request that waits, until a moment of the monotonic clock.

    `look` returns whether there may be an answer; it runs on another thread, outside of any transaction. `kept` is what
    the view needs again when it is called the next time.
    """

    until: float
    look: Callable[[], bool]
    kept: Any = None


class StillWaiting(HttpResponse):
    """There is nothing to answer yet; never sent."""

    status_code = 204

    def __init__(self, wait: Wait) -> None:
        super().__init__()
        self.wait = wait


def earlier_wait(request: HttpRequest) -> Wait | None:
    """The wait that has just ended for this request; None the first time that the view is called."""
    wait: Wait | None = request.META.get(_WAITED)
    return wait


def end_of_wait(request: HttpRequest, wait_s: int) -> float:
    """The moment until which a request may wait, by the monotonic clock; now where it may not."""
    wait = earlier_wait(request)
    if wait is not None:
        return wait.until
    return time.monotonic() + (wait_s if request.META.get(_MAY_WAIT) else 0)


class WaitingRoom:
    """The requests of a process that wait. `call` runs a function on a thread that may use the databases."""

    def __init__(self, call: Callable[[Callable[[], bool]], Awaitable[bool]]) -> None:
        self._call = call
        self._inside = 0

    @property
    def inside(self) -> int:
        """The number of requests that wait."""
        return self._inside

    def facts(self, wait: Wait | None, *, size: int = 0) -> Mapping[str, object]:
        """The part of a request's environment that tells its view what it waited for, or whether it may wait."""
        if wait is not None:
            return {_WAITED: wait}
        return {_MAY_WAIT: self._inside < MOST_WAITING and size <= LARGEST_WAITING}

    async def stay(self, wait: Wait, receive: Receive) -> None:
        """Return once there may be an answer or the time is over; `ClientDisconnected` if nobody waits for it."""
        gone = asyncio.ensure_future(receive())
        with self._place():
            try:
                while (left := wait.until - time.monotonic()) > 0:
                    pause = max(LOOK_EVERY_S, self._inside / LOOKS_PER_S)
                    if (await asyncio.wait({gone}, timeout=min(pause, left)))[0]:
                        raise ClientDisconnected
                    if await self._call(wait.look):
                        return
            finally:
                gone.cancel()

    @contextmanager
    def _place(self) -> Iterator[None]:
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
