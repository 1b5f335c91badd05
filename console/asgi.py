"""One process, one port: pages and API on a bounded pool of threads, streams natively.

Django's synchronous views cost a hand-off per request under plain ASGI; a WSGI bridge with its own threads does not
pay it. A stream would hold one of those threads for minutes, so streams go to Django's asynchronous side.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from a2wsgi import WSGIMiddleware
from django.core.asgi import get_asgi_application

from console.wsgi import application as pages

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# One database connection each, so this stays below the size of the pool.
THREADS = 8

_threads = WSGIMiddleware(pages, workers=THREADS)  # type: ignore[arg-type]
_streams = get_asgi_application()


def is_stream(path: str) -> bool:
    """Every stream's path ends in `/stream`, and nothing else's does."""
    return path.endswith("/stream")


async def application(scope: Message, receive: Receive, send: Send) -> None:
    chosen = _streams if is_stream(scope["path"]) else _threads
    await chosen(scope, receive, send)  # type: ignore[arg-type]
