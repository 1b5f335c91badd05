"""One process, one port: pages and API on a bounded pool of threads, streams natively.

Django's synchronous views cost a hand-off per request under plain ASGI; a WSGI bridge with its own threads does not
pay it. A stream would hold one of those threads for minutes, so streams go to Django's asynchronous side. No thread is
taken before the whole body is here, and whether the process is alive and ready is answered without any of them.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import orjson
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import close_old_connections

from console.edge import admission
from console.edge.admission import Message, Receive, Send
from console.edge.waiting import WaitingRoom
from console.edge.wsgi_threads import WsgiThreads
from console.wsgi import application as pages

# isort: split
# What reads models is loaded when Django is set up, which the import above has done.
from console.telemetry import monitoring

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# One database connection each, so this stays below the size of the pool.
THREADS = 8
READY_WITHIN_S = 5.0
# However many balancers ask, the databases are asked once in this time.
READY_FOR_S = 1.0

_threads = WsgiThreads(pages, threads=THREADS)
_streams = get_asgi_application()
_bodies = admission.BodyReader()
_in_threads = admission.AdmissionQueue(THREADS)
_waiting = WaitingRoom(_threads.call)
# People's pages hold one each, an agent's session one; each costs a thread for a moment every second.
_in_streams = admission.AdmissionQueue(200, waiting=dict.fromkeys(admission.RequestRank, 0))
monitoring.process_gauges.in_flight |= {
    "request": lambda: _in_threads.inside,
    "stream": lambda: _in_streams.inside,
    "waiting": lambda: _waiting.inside,
}
monitoring.serve_figures()


class Readiness:
    """The answer of `/readyz`, found on its own thread: one check at a time, shared by all concurrent requests."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="readyz")
        self._look: asyncio.Future[dict[str, object]] | None = None
        self._stale_at = 0.0

    async def answer(self) -> tuple[int, bytes]:
        """Return (status, JSON), at most READY_FOR_S old; not ready if the check takes longer than READY_WITHIN_S."""
        now = asyncio.get_running_loop().time()
        if self._look is None or (self._look.done() and now >= self._stale_at):
            self._stale_at = now + READY_FOR_S
            self._look = asyncio.get_running_loop().run_in_executor(self._thread, _look)
        try:
            found = await asyncio.wait_for(asyncio.shield(self._look), READY_WITHIN_S)
        except TimeoutError:
            late = {"code": "LATE", "detail": f"The databases did not answer within {READY_WITHIN_S:.0f} s."}
            found = {"ready": False, "reasons": [late]}
        return (200 if found["ready"] else 503), orjson.dumps(found)


def _look() -> dict[str, object]:
    # Imported when Django is set up, which importing console.wsgi has done.
    from console.installation.routes import readiness

    try:
        return readiness().model_dump()
    finally:
        close_old_connections()


_readiness = Readiness()


async def application(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        raise ValueError(f"{scope['type']} is not served")
    elif scope["method"] not in ("GET", "HEAD"):
        await _admit(scope, receive, send)
    elif scope["path"] in admission.ALIVE:
        await admission.send_response(send, 200, b'{"status":"alive"}')
    elif scope["path"] in admission.READY:
        await admission.send_response(send, *await _readiness.answer())
    else:
        await _admit(scope, receive, send)


async def _admit(scope: Message, receive: Receive, send: Send) -> None:
    streams = admission.is_stream(scope["path"])
    rank, wait = admission.request_rank(scope["method"], scope["path"]), None
    try:
        body = await _bodies.read(scope, receive, within_s=settings.COUNTERFOIL_REQUEST_WITHIN_S)
        if streams:
            with _in_streams.place(rank):
                # Django's types of a scope and its messages are narrower than ours.
                await _streams(*admission.with_body(scope, receive, body), send)  # type: ignore[arg-type]
            return
        framed, _ = admission.with_body(scope, receive, body)
        while True:
            with _in_threads.place(rank):
                wait = await _threads.answer(framed, body, send, _waiting.facts(wait, size=len(body)))
            if wait is None:
                return
            await _waiting.stay(wait, receive)
    except admission.ClientDisconnected:
        return
    except admission.NotAdmitted as refusal:
        monitoring.requests_refused.labels(refusal.code).inc()
        await admission.send_refusal(refusal, scope, receive, send)
