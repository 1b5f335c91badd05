"""Requests answered by a WSGI application on threads of its own.

An answer crosses from its thread to the event loop once and whole; one that streams crosses with each part.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, cast

from a2wsgi.wsgi import build_environ

from console.edge.admission import Message, Send

Environment = dict[str, Any]


class WsgiThreads:
    """A WSGI application on a bounded number of threads, for requests whose body has arrived."""

    def __init__(self, application: Callable[[Environment, Any], Iterable[bytes]], *, threads: int) -> None:
        self._application = application
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="request")

    async def answer(self, scope: Message, body: bytes, send: Send) -> None:
        loop = asyncio.get_running_loop()

        def send_part(message: Message) -> None:
            asyncio.run_coroutine_threadsafe(cast(Coroutine[Any, Any, None], send(message)), loop).result()

        environment = dict(build_environ(scope, BytesIO(body)))  # type: ignore[arg-type]
        respond = partial(contextvars.copy_context().run, self._respond, environment, send_part)
        for message in await loop.run_in_executor(self._threads, respond):
            await send(message)

    def _respond(self, environment: Environment, send_part: Callable[[Message], None]) -> list[Message]:
        """Return what is left to be sent: all of it, or the end of what was sent in parts."""
        begun: list[Message] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            lines = [(name.strip().encode("latin1").lower(), value.strip().encode("latin1")) for name, value in headers]
            begun.append({"type": "http.response.start", "status": int(status.split(" ", 1)[0]), "headers": lines})

        response: Any = self._application(environment, start_response)
        try:
            if not response.streaming:
                return [*begun, {"type": "http.response.body", "body": b"".join(response)}]
            send_part(*begun)
            for part in response:
                send_part({"type": "http.response.body", "body": part, "more_body": True})
            return [{"type": "http.response.body", "body": b""}]
        finally:
            response.close()
