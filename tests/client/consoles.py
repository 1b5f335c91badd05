"""A small HTTP server that stands in for the console, so that the client library meets real sockets.

It answers what it was told to answer, in order, and keeps every request that it saw.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil.canonical import digest, encode_canonical
from counterfoil.execution.seen import HEADER
from counterfoil.proof import ExecutorKey, encode_base64url

PAYLOAD = {"order_id": "EX-1", "amount": 1250, "currency": "EUR"}
KEY = ExecutorKey(Ed25519PrivateKey.from_private_bytes(b"c" * 32))
"""What the stand-in signs grants with."""


BASE = "console.example.org/counterfoil/0190a"


def note(size: int, *, origin: str = BASE, root: bytes = b"\x01" * 32) -> str:
    """A signed checkpoint of a log with so many entries."""
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n\n\u2014 {origin} c2lnbmF0dXJl\n"


def sent(size: int, **more: Any) -> dict[str, str]:
    """The header with which an answer carries it."""
    return {HEADER: base64.b64encode(note(size, **more).encode()).decode()}


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """What to answer once; `silent` closes the connection after the request was read.

    `chunks` are sent as a stream instead of the body; after the last one the connection is held for
    `hold_s`, then it breaks off.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    chunks: Sequence[bytes] | None = None
    hold_s: float = 0.0


class StandIn:
    """The stand-in console: `plan(...)` what an address answers; the last answer stays."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ahead_s = 0.0
        self.seen: list[Seen] = []
        self.over = threading.Event()
        self._plans: dict[str, list[Answer | Callable[[Seen], Answer]]] = {}
        self._lock = threading.RLock()

    def plan(self, ending: str, *answers: Answer | Callable[[Seen], Answer]) -> None:
        self._plans[ending] = list(answers)

    def to(self, ending: str) -> list[Seen]:
        with self._lock:
            return [seen for seen in self.seen if seen.path.endswith(ending)]

    def answer(self, seen: Seen) -> Answer:
        if seen.path == "/.well-known/jwks.json":
            return Answer(body=JWKS)
        with self._lock:
            self.seen.append(seen)
            for ending, answers in self._plans.items():
                if seen.path.partition("?")[0].endswith(ending):
                    chosen = answers.pop(0) if len(answers) > 1 else answers[0]
                    return chosen(seen) if callable(chosen) else chosen
        return Answer(404, {"code": "NOT_FOUND", "title": "Not found"})


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed leaves a broken connection behind; that is not worth a word."""


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """A stand-in console on a free port of this machine."""
    server = _Server(("127.0.0.1", 0), BaseHTTPRequestHandler)
    console = StandIn(f"http://127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"console": console})
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield console
    finally:
        console.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


JWKS = {"keys": [{**KEY.public_jwk, "kid": KEY.thumbprint, "alg": "Ed25519", "use": "sig", "nbf": 0}]}


def claims_of(*, issuer: str, executor_id: str, thumbprint: str, payload: Any = None, **changes: Any) -> dict[str, Any]:
    """The claims of a grant that holds for this executor for two minutes."""
    now, data = int(time.time()), encode_canonical(PAYLOAD if payload is None else payload)
    claims = {
        "iss": issuer,
        "aud": executor_id,
        "sub": "act-1",
        "jti": "jti-1",
        **{"iat": now, "nbf": now, "exp": now + 120, "uses": 1, "epoch": 1, "revision": 1, "attempt": 1},
        **{"tenant": "t-1", "environment": "production", "limits": {}, "policies": {}, "idempotency": ""},
        "payload": {"hash": hashlib.sha256(data).hexdigest(), "length": len(data)},
        "tool": {"name": "refund", "version": "1.0.0", "contract": "22" * 32},
        "target": {"resource": "order/EX-1", "precondition": ""},
        "effect": {"class": "HIGH_RISK_EXTERNAL", "reversibility": "IRREVERSIBLE"},
        "principal": {"agent": "support", "version": "1", "run": "run-1"},
        "approval": None,
        "cnf": {"jkt": thumbprint},
    }
    return claims | changes


def granted(claims: dict[str, Any], *, key: ExecutorKey = KEY, **header: Any) -> str:
    """The token over these claims, signed by the stand-in unless somebody else does."""
    head = {"alg": "Ed25519", "kid": KEY.thumbprint, "typ": "counterfoil-grant+jwt"} | header
    signed = f"{encode_base64url(encode_canonical(head))}.{encode_base64url(encode_canonical(claims))}"
    return f"{signed}.{encode_base64url(key.private.sign(signed.encode('ascii')))}"


def started(**changes: Any) -> Answer:
    """The answer to a start, good for a minute."""
    body = {
        "attempt": "1",
        "payload": PAYLOAD,
        "payload_hash": digest(PAYLOAD),
        "idempotency_key": "key-1",
        "lease_expires_at": "2999-01-01T00:00:00Z",
        "trace": f"00-{'a' * 32}-{'b' * 16}-01",
    }
    return Answer(201, body | changes)


def refusal(status: int, code: str, **more: Any) -> Answer:
    """A problem, as RFC 9457 writes it."""
    body = {"status": status, "code": code, "title": code.title(), "detail": "Because."}
    return Answer(status, body | more, {"Content-Type": "application/problem+json"})


class _Handler(BaseHTTPRequestHandler):
    console: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(text) if text else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.console.answer(Seen(self.command, self.path, headers, body))
        if answer.silent:
            self.close_connection = True
        elif answer.chunks is not None:
            self._stream(answer.chunks, answer.hold_s)
        else:
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        data = json.dumps(answer.body).encode()
        at = f"{time.time() + self.console.ahead_s:.3f}"
        self.send_response_only(answer.status)
        defaults = {"Content-Type": "application/json", "Counterfoil-Time": at}
        for name, value in (defaults | answer.headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, chunks: Sequence[bytes], hold_s: float) -> None:
        self.close_connection = True
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(chunk)
            self.wfile.flush()
        self.console.over.wait(hold_s)
