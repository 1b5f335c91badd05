"""The connections of the gateway: how many there may be, in all and from one address, and how long a head may take.

1. One too many is answered with 503 and closed: nothing of it was read. (What is held or refused never gets a 503.)
2. A connection without a whole head within its time is answered with 408 and closed. Between requests the server's own
   keep-alive limit holds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import cast


class Connections:
    """Makes the protocol of each connection: the server's own behind a limit."""

    def __init__(self, server: Callable[[], asyncio.Protocol], *, most: int, most_per_address: int, head_s: float):
        self._server = server
        self._most, self._most_per_address, self._head_s = most, most_per_address, head_s
        self._open: Counter[str] = Counter()
        self._without_head: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        return _Limited(self, self._server)

    def has_head(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a connection's first head has been read."""
        timer = self._without_head.pop(transport, None) if transport is not None else None
        if timer is not None:
            timer.cancel()

    def admit(self, transport: asyncio.Transport, address: str) -> str:
        """Count a connection; the reason where it is one too many."""
        if self._open.total() >= self._most:
            return f"this gateway has {self._most} connections, the most that it takes"
        if self._open[address] >= self._most_per_address:
            return f"this gateway has {self._most_per_address} connections from your address, the most that it takes"
        self._open[address] += 1
        late = asyncio.get_running_loop().call_later(self._head_s, self._end_late, transport)
        self._without_head[transport] = late
        return ""

    def _end_late(self, transport: asyncio.Transport) -> None:
        del self._without_head[transport]
        end(transport, "408 Request Timeout", f"the head of the request did not arrive within {self._head_s:g} s")

    def lost(self, transport: asyncio.BaseTransport, address: str) -> None:
        """Forget a connection that was counted."""
        self.has_head(transport)
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


def end(transport: asyncio.Transport, status: str, text: str) -> None:
    """Answer before any request was read, and close."""
    body = f"Counterfoil: {text}; nothing was sent.\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    transport.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    transport.close()


class _Limited(asyncio.Protocol):
    """One connection: the server's protocol once it is admitted."""

    def __init__(self, connections: Connections, server: Callable[[], asyncio.Protocol]) -> None:
        self._connections, self._make_inner = connections, server
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.BaseTransport | None = None
        self._address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self._transport, self._address = transport, str(peer[0]) if peer else ""
        if why := self._connections.admit(cast(asyncio.Transport, transport), self._address):
            end(cast(asyncio.Transport, transport), "503 Service Unavailable", why)
            return
        self._inner = self._make_inner()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._inner is not None and self._transport is not None:
            self._connections.lost(self._transport, self._address)
            self._inner.connection_lost(exc)
