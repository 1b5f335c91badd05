"""Somebody else's servers on this machine: one that takes posts over HTTP, one that takes mail over SMTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class Posts:
    """What a receiver got, and what it is to answer; `ok`, as a chat room says it, when nothing is said."""

    port: int = 0
    answers: list[int | tuple[int, str]] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services/T000/B000/room-secret"

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.received]


@contextmanager
def posts() -> Iterator[Posts]:
    """A receiver of posts."""
    kept = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            said = kept.answers.pop(0) if kept.answers else 200
            status, text = said if isinstance(said, tuple) else (said, "ok")
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{kept.port}/elsewhere")
            self.end_headers()
            if status != 204:
                self.wfile.write(text.encode())

        def do_GET(self) -> None:
            kept.fetched.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>elsewhere</html>")

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_port
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mails:
    """What a mail server took, and what it is to answer instead of taking it."""

    port: int = 0
    answers: list[str] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port}

    def to(self, address: str) -> list[Message]:
        return [mail for mail in self.taken if address in str(mail["To"])]


@contextmanager
def mails() -> Iterator[Mails]:
    """A mail server."""
    kept = Mails(port=_free_port())

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            if kept.answers:
                return kept.answers.pop(0)
            kept.taken.append(message_from_bytes(envelope.content, policy=default))
            return "250 taken"

    server = Controller(Handler(), hostname="127.0.0.1", port=kept.port)
    server.start()
    try:
        yield kept
    finally:
        server.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
