"""uvicorn's HTTP/1.1, with a limit of time for the head of a request and for taking in an answer.

uvicorn waits for ever for the rest of a head, and for a client to read. Run with
`uvicorn --http console.edge.http_protocol:TimedHttp`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, cast

import h11
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import GZipMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

UNREAD_BYTES = 1_048_576
"""How much of an answer may wait here for its reader; only a larger one can make a thread wait."""
_TOO_SLOW = b"The head of the request did not arrive in time; nothing was done.\n"


class TimedHttp(H11Protocol):
    """Limit each head and each unread part of an answer to COUNTERFOIL_REQUEST_WITHIN_S; slower clients are
    disconnected.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None
        self._head_is_due = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock_of_head()
        self._stop_clock_of_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_is_due = True
        super().data_received(data)
        self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._head_is_due = bool(self.conn.trailing_data[0])
        self._await_head()
        self.loop.call_later(settings.COUNTERFOIL_REQUEST_WITHIN_S, self._abort_unread)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader = self.loop.call_later(settings.COUNTERFOIL_REQUEST_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_clock_of_reader()
        super().resume_writing()

    def _await_head(self) -> None:
        """Run one clock until a head is complete; between two requests uvicorn's own applies."""
        if self.conn.their_state is not h11.IDLE or not self._head_is_due:
            self._stop_clock_of_head()
        elif self._head is None:
            self._head = self.loop.call_later(settings.COUNTERFOIL_REQUEST_WITHIN_S, self._give_up)

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            head = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n" % len(_TOO_SLOW) + _TOO_SLOW)
        self.transport.close()

    def _abort_unread(self) -> None:
        # Closing waits until everything was read, which may be never.
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self.transport.abort()

    def _stop_clock_of_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _stop_clock_of_reader(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None


# Sent with every answer: the browser runs, loads and frames nothing that is not ours.
CONTENT: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
# Passkeys answer this page alone, never a frame.
FEATURES: Final = (
    "camera=(), geolocation=(), microphone=(), payment=(), usb=(),"
    " publickey-credentials-create=(self), publickey-credentials-get=(self)"
)


def compress_pages(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that compresses pages and leaves API answers, streams and downloads unchanged.

    The library pads each page at random, and CSRF tokens are masked anew for each, so that lengths tell nothing.
    """
    library = GZipMiddleware(answer)

    def with_compression(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        is_page = not response.streaming and response.headers.get("Content-Type", "").startswith("text/html")
        return cast(HttpResponse, library.process_response(request, response)) if is_page else response

    return with_compression


TIME = "Counterfoil-Time"


def tell_time(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: add the time of each answer, by this process's clock, in seconds since 1970.

    `Date` is no measure for a clock: it has whole seconds, and a claim that waited gets that of when it came.
    """

    def with_time(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response.headers[TIME] = f"{time.time():.3f}"
        return response

    return with_time


def security_headers(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware; an answer that has set its own policy keeps it."""

    def with_headers(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT)
        response.headers.setdefault("Permissions-Policy", FEATURES)
        return response

    return with_headers
