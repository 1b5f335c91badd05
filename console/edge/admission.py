"""Admission control: a request gets a worker thread once its body is complete and there is capacity.

Everything here runs on the event loop, before anybody is known and before anything is done, so whatever is refused
here has changed nothing and may be sent again. When there is more than the threads can do, what would begin something
in the world is refused first, and what says how something ended, or stops something, last: the edge knows neither
caller nor tool, so it goes by the address alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final

import orjson
from django.urls import Resolver404, resolve

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST: Final = 1_048_576
"""Bytes of a body, for every address; settings.DATA_UPLOAD_MAX_MEMORY_SIZE says the same to Django."""
MOST_UNFINISHED: Final = 128
"""Bodies that may be under way at once. One more, and the one that began first is given up."""
DISCARD_FOR_S: Final = 10.0
"""How long what is left of a refused body is taken and thrown away, so that its sender comes to read the refusal."""
RETRY_AFTER_S: Final = 2

ALIVE: Final = frozenset({"/livez", "/api/v1/livez"})
READY: Final = frozenset({"/readyz", "/api/v1/readyz"})


class RequestRank(IntEnum):
    """The priority of a request when there is no room for all."""

    BEGINS = 0
    ORDINARY = 1
    TELLS_OR_STOPS = 2


WAITING: Final = {RequestRank.BEGINS: 32, RequestRank.ORDINARY: 128, RequestRank.TELLS_OR_STOPS: 192}
"""How many may stand in line for a thread when one more of this rank comes."""

_BEGINS = re.compile(r"/api/v1/(executions/claim|actions/[^/]+/executions)")
_TELLS_OR_STOPS = re.compile(
    r"/api/v1/("
    r"actions/[^/]+/executions/[^/]+/(observations|heartbeat)|hooks/[^/]+/[^/]+|freezes"
    r"|actions/[^/]+/cancel|agents/.+/revoke|systems/[^/]+/stop-releasing|batches/[^/]+/(pause|cancel)|runs/.+/cancel)"
    r"|/t/[^/]+/(freezes/place|systems/[^/]+/stop|agents/[^/]+/revoke|runs/.+/cancel|incidents/[^/]+/contain)"
)


def request_rank(method: str, path: str) -> RequestRank:
    """The rank of a request; reading is never more than ordinary."""
    if method == "POST" and _BEGINS.fullmatch(path):
        return RequestRank.BEGINS
    return RequestRank.TELLS_OR_STOPS if method == "POST" and _TELLS_OR_STOPS.fullmatch(path) else RequestRank.ORDINARY


def is_stream(path: str) -> bool:
    """Return whether this is exactly the address of one of the two streams."""
    if not path.endswith("/stream"):
        return False
    try:
        return resolve(path).url_name in ("stream", "session-stream")
    except Resolver404:
        return False


# Refusals


class ClientDisconnected(Exception):
    """The client went away before its request was whole."""


class NotAdmitted(Exception):
    """A request that gets no thread; the text is for its sender."""

    status = 503
    code = "OVERLOADED"
    detail = "The console is overloaded; nothing was done. Try again in a moment."


class TooLarge(NotAdmitted):
    status = 413
    code = "TOO_LARGE"
    detail = "The body is larger than 1 MiB; nothing was stored."


class TooSlow(NotAdmitted):
    status = 408
    code = "REQUEST_TIMEOUT"
    detail = "The body did not arrive in time; nothing was done."


async def send_refusal(refusal: NotAdmitted, scope: Message, receive: Receive, send: Send) -> None:
    """Answer as the API and the pages do, and read the rest of the request, whose sender might never read the answer
    otherwise.
    """
    if scope["path"].startswith("/api/"):
        problem = {
            "type": f"urn:counterfoil:problem:{refusal.code.lower()}",
            "title": refusal.code.replace("_", " ").capitalize(),
            "status": refusal.status,
            "code": refusal.code,
            "detail": refusal.detail,
        }
        kind, said = b"application/problem+json", orjson.dumps(problem)
    else:
        kind, said = b"text/plain; charset=utf-8", refusal.detail.encode() + b"\n"
    headers = [(b"connection", b"close")]
    if refusal.status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    unread = receive if isinstance(refusal, TooLarge) else None
    await send_response(send, refusal.status, said, kind=kind, headers=headers, unread=unread)


async def send_response(
    send: Send,
    status: int,
    body: bytes,
    *,
    kind: bytes = b"application/json",
    headers: list[tuple[bytes, bytes]] | None = None,
    unread: Receive | None = None,
) -> None:
    """A whole answer; with `unread`, the connection stays open until the rest of the request has been thrown away."""
    told = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *(headers or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": told})
    if unread is not None:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await _discard(unread)
        body = b""
    await send({"type": "http.response.body", "body": body})


async def _discard(receive: Receive) -> None:
    try:
        async with asyncio.timeout(DISCARD_FOR_S):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        return


# Bodies


class BodyReader:
    """The bodies that are under way: each limited in bytes and in seconds, all together in number."""

    def __init__(self) -> None:
        self._unfinished: dict[asyncio.Timeout, None] = {}

    async def read(self, scope: Message, receive: Receive, *, within_s: float) -> bytes:
        """Read the whole body. Raises TooLarge, TooSlow or HungUp; an incomplete body is dropped."""
        if _declared_length(scope) > LARGEST:
            raise TooLarge
        try:
            async with asyncio.timeout(within_s) as limit:
                return await self._rest(receive, limit)
        except TimeoutError:
            raise TooSlow from None

    async def _rest(self, receive: Receive, limit: asyncio.Timeout) -> bytes:
        self._begin(limit)
        body = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnected
                body += message.get("body", b"")
                if len(body) > LARGEST:
                    raise TooLarge
                if not message.get("more_body", False):
                    return bytes(body)
        finally:
            self._unfinished.pop(limit, None)

    def _begin(self, limit: asyncio.Timeout) -> None:
        if len(self._unfinished) >= MOST_UNFINISHED:
            oldest = next(iter(self._unfinished))
            del self._unfinished[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        self._unfinished[limit] = None


def _declared_length(scope: Message) -> int:
    """Return the length in the headers; 0 if they give none."""
    return max((int(value) for name, value in scope["headers"] if name == b"content-length"), default=0)


def with_body(scope: Message, receive: Receive, body: bytes) -> tuple[Message, Receive]:
    """The request with its body in hand: of a length that is known, however it was sent."""
    framing = (b"content-length", b"transfer-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name not in framing]
    if len(headers) < len(scope["headers"]):
        headers.append((b"content-length", str(len(body)).encode()))
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def once() -> Message:
        return first.pop() if first else await receive()

    return {**scope, "headers": headers}, once


# Room


class AdmissionQueue:
    """A limited number of requests at work, with bounded queues before them."""

    def __init__(self, workers: int, *, waiting: dict[RequestRank, int] = WAITING) -> None:
        self._most = {rank: workers + line for rank, line in waiting.items()}
        self._inside = 0

    @property
    def inside(self) -> int:
        """The number of requests at work and in line."""
        return self._inside

    @contextmanager
    def place(self, rank: RequestRank) -> Iterator[None]:
        """A place at work until the answer is sent; raises NotAdmitted if there is none for this rank."""
        if self._inside >= self._most[rank]:
            raise NotAdmitted
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
