"""uvicorn's HTTP/1.1 on the parser of Node.js, limited in time and size, and strict where two servers may differ.

Run with `uvicorn --http console.edge.http_protocol:TimedHttp`.

1. uvicorn waits for ever for the rest of a head, and for a client to read; here both have a time.
2. The parser takes heads, trailers and parts of the chunked coding of any length; here a client may send so many bytes
   at most without a complete head or a byte of a body.
3. Requests that a proxy before us might take for something else are refused: those without exactly one `Host`, with
   another version than 1.0 or 1.1, or for anything but a path. What comes after the body (trailers) is no header.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import GZipMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

UNREAD_BYTES = 1_048_576
"""Bytes of an answer that may wait here for its reader; only a larger one can make a thread wait."""
UNFINISHED_BYTES = 65_536
"""Bytes that may come without a complete head or a byte of a body."""
_TOO_SLOW = b"The head of the request did not arrive in time; nothing was done.\n"


class Malformed(Exception):
    """A request that two servers could read in two ways."""


class TimedHttp(HttpToolsProtocol):
    """Limit each head and each unread part of an answer to COUNTERFOIL_REQUEST_WITHIN_S; slower clients are
    disconnected.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None
        self._in_head = self._in_message = False
        self._unfinished = 0
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock_of_head()
        self._stop_clock_of_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._is_refused:
            return
        self._unfinished += len(data)
        try:
            self._parse(data)
            self._is_refused = self._unfinished > UNFINISHED_BYTES
        except httptools.HttpParserError:
            self._is_refused = True
        if self._is_refused and (self._in_body or not self._is_answering):
            self._refuse()
        else:
            self._await_head()

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # Nobody here speaks another protocol, so what follows is the next request.
                data = data[upgrade.args[0] :]

    def _refuse(self) -> None:
        self._stop_clock_of_head()
        if not self.transport.is_closing():
            self.send_400_response("Invalid HTTP request received.")

    @property
    def _in_body(self) -> bool:
        return self._in_message and not self._in_head

    @property
    def _has_begun_head(self) -> bool:
        return self._in_head or self._unfinished > 0

    @property
    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._in_message = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._unfinished = False, 0
        hosts = sum(name == b"host" for name, _ in self.headers)
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1") or hosts > 1 or (version == "1.1" and not hosts):
            raise Malformed
        if not self.url.startswith(b"/"):
            raise Malformed
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_message, self._unfinished = False, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering:
            if self._is_refused:
                self._refuse()
            elif self._in_body:
                # Answered before its body was here: nobody waits for the rest.
                self.transport.close()
            elif self._has_begun_head:
                self._unset_keepalive_if_required()
                self._await_head()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(settings.COUNTERFOIL_REQUEST_WITHIN_S, self._abort_unread)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader = self.loop.call_later(settings.COUNTERFOIL_REQUEST_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_clock_of_reader()
        super().resume_writing()

    def _should_upgrade(self) -> bool:
        return False

    def _await_head(self) -> None:
        """Run one clock until a head is complete; between two requests uvicorn's own applies."""
        if self._in_body or self._is_answering:
            self._stop_clock_of_head()
        elif self._head is None:
            self._head = self.loop.call_later(settings.COUNTERFOIL_REQUEST_WITHIN_S, self._give_up)

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self._has_begun_head:
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


def refuse_plain_api(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: under https, refuse API requests over http.

    A redirect would work, and nobody would notice that the key travels without encryption.
    """
    # uvicorn loads this module before the settings are named, and ninja reads them when it is loaded.
    from console.edge.problems import problem_response

    def over_https(request: HttpRequest) -> HttpResponse:
        if not settings.SECURE_SSL_REDIRECT or request.is_secure() or not request.path.startswith("/api/"):
            return answer(request)
        detail = "The API answers over https only; nothing was done."
        if "Authorization" in request.headers:
            detail += " The key was sent without encryption: replace it."
        return problem_response(403, "HTTPS_REQUIRED", detail)

    return over_https


def security_headers(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware; an answer that has set its own policy keeps it. Only what says so may be stored on the way."""

    def with_headers(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT)
        response.headers.setdefault("Permissions-Policy", FEATURES)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return with_headers
