"""Requests answered by a WSGI application on threads of its own.

An answer crosses from its thread to the event loop once and whole; one that streams crosses with each part.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, cast

from a2wsgi.wsgi import build_environ
from django.db import close_old_connections

from console.edge.admission import Message, Send
from console.edge.waiting import StillWaiting, Wait

Environment = dict[str, Any]
log = logging.getLogger(__name__)


class WsgiThreads:
    """A WSGI application on a bounded number of threads, for requests whose body has arrived."""

    def __init__(self, application: Callable[[Environment, Any], Iterable[bytes]], *, threads: int) -> None:
        self._application = application
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="request")

    async def answer(self, scope: Message, body: bytes, send: Send, facts: Mapping[str, object]) -> Wait | None:
        """Send the answer; or return what the request waits for. `facts` go into its environment."""
        loop = asyncio.get_running_loop()

        def send_part(message: Message) -> None:
            asyncio.run_coroutine_threadsafe(cast(Coroutine[Any, Any, None], send(message)), loop).result()

        environment = dict(build_environ(scope, BytesIO(body))) | dict(facts)  # type: ignore[arg-type]  # a2wsgi's own scope
        respond = partial(contextvars.copy_context().run, self._respond, environment, send_part)
        found = await loop.run_in_executor(self._threads, respond)
        if isinstance(found, Wait):
            return found
        for message in found:
            await send(message)
        return None

    async def call(self, look: Callable[[], bool]) -> bool:
        """Look on one of the threads whether a request has an answer; if that fails, its view finds out why."""

        def look_and_close() -> bool:
            try:
                return look()
            except Exception:  # whatever it was, the view meets it again and answers
                log.exception("a request that waits is answered, since it could not be looked for")
                return True
            finally:
                close_old_connections()

        return await asyncio.get_running_loop().run_in_executor(self._threads, look_and_close)

    def _respond(self, environment: Environment, send_part: Callable[[Message], None]) -> list[Message] | Wait:
        """Return what is left to be sent: all of it, or the end of what was sent in parts; or what is waited for."""
        begun: list[Message] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            lines = [(name.strip().encode("latin1").lower(), value.strip().encode("latin1")) for name, value in headers]
            begun.append({"type": "http.response.start", "status": int(status.split(" ", 1)[0]), "headers": lines})

        response: Any = self._application(environment, start_response)
        try:
            if isinstance(response, StillWaiting):
                return response.wait
            if not response.streaming:
                return [*begun, {"type": "http.response.body", "body": b"".join(response)}]
            send_part(*begun)
            for part in response:
                send_part({"type": "http.response.body", "body": part, "more_body": True})
            return [{"type": "http.response.body", "body": b""}]
        finally:
            response.close()
