"""A small load balancer for drills: it sends connections to the web processes that are ready by `/readyz`.

It asks each process every second, as HAProxy would. Two failed answers in a row take a process out, with whatever is
connected to it; one good answer brings it back. One that is taken out for a restart gets no new connections; the
next request on each that it has asks for the end of it. While no process is in, it answers 503 itself, and counts that.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import httpx

from console.local.processes import wait_until

ASKED_EVERY_S = 1.0
OUT_AFTER = 2
IDLE_S = 2.0
LASTING, LAST = b"Connection: keep-alive", b"Connection: close"
DRAINED_WITHIN_S = 20.0
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(eq=False)
class Connection:
    """A caller's connection and that to the process; `answered_at` is 0 while an answer is waited for."""

    writers: tuple[asyncio.StreamWriter, ...]
    answered_at: float = 0.0

    def close(self) -> None:
        for each in self.writers:
            each.close()


@dataclass
class Backend:
    """One web process; `codes` are the reasons of its `/readyz` since they were last cleared."""

    port: int
    failures: int = 0
    drains: bool = False
    codes: dict[str, str] = field(default_factory=dict)
    connections: set[Connection] = field(default_factory=set)

    @property
    def is_in(self) -> bool:
        return self.failures < OUT_AFTER and not self.drains


class Proxy:
    """Listens on `port`, in its own thread from `start` to `stop`."""

    def __init__(self, port: int, ports: Iterable[int]) -> None:
        self.port = port
        self.backends = {each: Backend(each) for each in ports}
        self.turned_away: list[float] = []
        self._turn = count()
        self._listens = threading.Event()
        self._ended = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._listen()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._listens.wait(timeout=10)

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def take_out(self, port: int) -> bool:
        """Give a process no new connections, and tell whether all that it had have ended soon."""
        self.backends[port].drains = True
        return wait_until(lambda: not self.backends[port].connections, within_s=DRAINED_WITHIN_S, every_s=0.05)

    def put_back(self, port: int) -> None:
        self.backends[port].failures, self.backends[port].drains = 0, False

    def send_all_to(self, port: int) -> None:
        """Give every new connection to this process, which may be one of another installation; it is not asked."""
        before, self.backends = self.backends, {**self.backends, port: Backend(port)}
        for each in before.values():
            each.drains = True

    async def _listen(self) -> None:
        await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._tasks.add(asyncio.create_task(self._drain()))
        self._tasks |= {asyncio.create_task(self._watch(each)) for each in self.backends.values()}
        self._listens.set()
        while not self._ended.is_set():
            await asyncio.sleep(0.2)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, backend: Backend) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{backend.port}", timeout=10) as client:
            while True:
                if await _is_ready(client, backend):
                    backend.failures = 0
                else:
                    backend.failures += 1
                    if not backend.is_in and not backend.drains:
                        for each in list(backend.connections):
                            each.close()
                await asyncio.sleep(ASKED_EVERY_S)

    async def _drain(self) -> None:
        while True:
            for backend in self.backends.values():
                for each in list(backend.connections) if backend.drains else ():
                    if each.answered_at and time.monotonic() - each.answered_at > IDLE_S:
                        each.close()
            await asyncio.sleep(0.02)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        backends = [each for each in self.backends.values() if each.is_in]
        try:
            if not backends:
                await reader.readuntil(b"\r\n\r\n")
                self.turned_away.append(time.time())
                writer.write(UNAVAILABLE)
                await writer.drain()
                return
            await _relay(backends[next(self._turn) % len(backends)], reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _is_ready(client: httpx.AsyncClient, backend: Backend) -> bool:
    try:
        answer = await client.get("/readyz")
        backend.codes |= {each["code"]: each["detail"] for each in answer.json()["reasons"]}
    except (httpx.HTTPError, ValueError, KeyError):
        return False
    return answer.status_code == 200


async def _relay(backend: Backend, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    answers, requests = await asyncio.open_connection("127.0.0.1", backend.port)
    connection = Connection((writer, requests))
    backend.connections.add(connection)
    try:
        await asyncio.gather(
            _pump(reader, requests, backend, connection, answers=False),
            _pump(answers, writer, backend, connection, answers=True),
        )
    finally:
        backend.connections.discard(connection)
        requests.close()


async def _pump(
    source: asyncio.StreamReader,
    target: asyncio.StreamWriter,
    backend: Backend,
    connection: Connection,
    *,
    answers: bool,
) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            connection.answered_at = time.monotonic() if answers else 0.0
            target.write(data.replace(LASTING, LAST, 1) if backend.drains and not answers else data)
            await target.drain()
    target.close()
