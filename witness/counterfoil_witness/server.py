"""The witness on HTTP: one path, one method (C2SP tlog-witness).

A request is at most `LARGEST` bytes, a silent connection is closed after `PATIENCE_S`, and at most `AT_ONCE` are
served at a time; more wait their turn in the kernel's queue.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog import notes, submission
from counterfoil_tlog.cosignature import cosign
from counterfoil_tlog.notes import Verifier
from counterfoil_tlog.refusals import Refused
from counterfoil_tlog.submission import SIZE_TYPE, ForkedLog, StaleSize
from counterfoil_witness.memory import WitnessState

LARGEST = 2**17
PATIENCE_S = 10.0
AT_ONCE = 32
_TEXT = "text/plain; charset=utf-8"


class WitnessService:
    """Answers submissions, with the logs that it accepts, its memory and its key."""

    def __init__(
        self, *, name: str, key: Ed25519PrivateKey, memory: WitnessState, logs: Callable[[], Sequence[Verifier]]
    ) -> None:
        self.name = name
        self.key = key
        self.memory = memory
        self.logs = logs

    def add_checkpoint(self, body: bytes) -> bytes:
        """The cosignature line for a submission, which is remembered first; refuses as `advance_head` does."""
        said = submission.verify_submission(body, self.logs())
        origin, note = said.head.origin, notes.write(said.note)
        try:
            seconds = self.memory.advance(
                origin, note, judged=lambda latest: submission.advance_head(said, latest), clock=_seconds
            )
        except ForkedLog:
            self.memory.keep_fork(origin, _seconds(), note)
            sys.stderr.write(f"witness: {origin} signed two heads of size {said.head.size}; both are kept.\n")
            raise
        line = cosign(said.note.text, name=self.name, key=self.key, seconds=seconds)
        return notes.write_signatures([line]).encode()


def _seconds() -> int:
    return int(time.time())


class WitnessHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "counterfoil-witness"
    sys_version = ""
    timeout = PATIENCE_S
    server: WitnessServer

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path != submission.PATH:
            self._answer(HTTPStatus.NOT_FOUND, b"There is nothing at this path.\n")
            return
        try:
            self._answer(HTTPStatus.OK, self.server.witness.add_checkpoint(body))
        except StaleSize as refused:
            self._answer(HTTPStatus.CONFLICT, b"%d\n" % refused.size, SIZE_TYPE)
        except Refused as refused:
            self._answer(HTTPStatus(refused.status), f"{refused.detail}\n".encode())
        except Exception as problem:  # noqa: BLE001
            # A full disk, a locked file: nothing was cosigned, and the log may ask again.
            sys.stderr.write(f"witness: {type(problem).__name__}: {problem}\n")
            self.close_connection = True
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"The witness could not remember this head.\n")

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._answer(HTTPStatus.LENGTH_REQUIRED, b"The request must say its length.\n")
            return None
        if int(length) > LARGEST:
            self.close_connection = True
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"A submission is not that large.\n")
            return None
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return None
        return body

    def _answer(self, status: HTTPStatus, content: bytes, kind: str = _TEXT) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close" if self.close_connection else "keep-alive")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the relevant facts are in the memory, and anybody can send requests."""


class WitnessServer(ThreadingHTTPServer):
    """Threads, but never more than `AT_ONCE`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, witness: WitnessService) -> None:
        self.witness = witness
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), WitnessHandler)

    def server_bind(self) -> None:
        """Bind like a plain TCP server, because the HTTP one would ask the name service for our name."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def process_request(self, request: Any, client_address: object) -> None:
        self._room.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: object) -> None:
        """Ignore a connection that broke off."""
