"""A client with minimal cost, so that the machine is left to the measured side: bytes out, bytes in."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.figures import Rate, spent_ms

Ask = Callable[[], None]

# The server hangs up on whoever says nothing for five seconds.
IDLE_S = 2.0


class Wire:
    """One connection that is kept."""

    def __init__(self, port: int, **headers: str) -> None:
        self.port = port
        self.headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.used_at = -IDLE_S

    def post(self, path: str, body: Any) -> Any:
        """The answer's document."""
        return json.loads(self.ask("POST", path, json.dumps(body).encode()))

    def get(self, path: str) -> bytes:
        return self.ask("GET", path, b"")

    def ask(self, method: str, path: str, body: bytes) -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{self.headers}"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if time.monotonic() - self.used_at >= IDLE_S:
            self._connect()
        self.used_at = time.monotonic()
        self.socket.sendall(head.encode() + body)
        status, answer = self._answer()
        if status // 100 != 2:
            raise SystemExit(f"benchmarks: {method} {path} was answered {status}: {answer[:500]!r}")
        return answer

    def _connect(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _answer(self) -> tuple[int, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
        while len(body) < length:
            body += self._more()
        return int(lines[0].split()[1]), body

    def _more(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise SystemExit("benchmarks: the server hung up")
        return data


def rate(asks: list[Ask], seconds: float) -> float:
    """Return requests per second, with each caller sending the next request as soon as it is answered."""
    until = time.perf_counter() + seconds

    def count(ask: Ask) -> int:
        made = 0
        while time.perf_counter() < until:
            ask()
            made += 1
        return made

    before, began = spent_ms(), time.perf_counter()
    with ThreadPoolExecutor(len(asks)) as pool:
        # What one of them runs into ends the benchmark.
        made = sum(pool.map(count, asks))
    per_s = made / (time.perf_counter() - began)
    return Rate.of(per_s, spent_ms=spent_ms() - before, operations=made)
