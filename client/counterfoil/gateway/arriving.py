"""Bodies as they arrive: in pieces, and within the times that the settings give them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from aiohttp import web

from counterfoil.gateway.settings import FrontSettings
from counterfoil.gateway.upstream import HostSilent


class TooSlow(Exception):
    """A body came too slowly; the message says how."""


class Arriving:
    """The body of a request as it comes, within the times that the settings give it.

    `why` and `status` say why it was refused, once it was.
    """

    def __init__(self, request: web.Request, front: FrontSettings) -> None:
        self._content = request.content
        self._front = front
        self.why, self.status = "", 408

    async def pieces(self) -> AsyncIterator[bytes]:
        """The pieces of the body. Raises `TooSlow`."""
        front, begun, size = self._front, time.monotonic(), 0
        while True:
            try:
                async with asyncio.timeout(front.pause_s):
                    piece = await self._content.readany()
            except TimeoutError:
                raise self._too_slow(f"nothing of it came for {front.pause_s:g} s") from None
            if not piece:
                return
            size += len(piece)
            spent = time.monotonic() - begun
            if spent > front.body_s:
                raise self._too_slow(f"it took longer than {front.body_s:g} s to arrive")
            if spent > front.pause_s and size < spent * front.least_bytes_per_s:
                raise self._too_slow(f"it came with less than {front.least_bytes_per_s} bytes a second")
            yield piece

    async def read_passed(self, most: int) -> AsyncIterator[bytes]:
        """The pieces of a body that is not kept. Raises `TooSlow` and `HostSilent`."""
        size = 0
        async for piece in self.pieces():
            size += len(piece)
            if size > most:
                self.why, self.status = f"the request is larger than {most} bytes", 413
                raise HostSilent(self.why)
            yield piece

    def _too_slow(self, why: str) -> TooSlow:
        self.why = why
        return TooSlow(why)
