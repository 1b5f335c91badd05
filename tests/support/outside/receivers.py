"""Somebody else's servers on this machine: receivers of posts and mail, and a push service of browsers."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
from aiosmtpd.controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


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

    with _served(Handler) as kept.port:
        yield kept


@dataclass
class Workspace:
    """Two methods of Slack's web API as its documentation gives their answers; `faults` come instead, one by one.

    A fault is a word, or after how many seconds to come back.
    """

    token: str
    channel: str
    port: int = 0
    faults: list[str | int] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/"

    def answer(self, method: str, authorization: str, asked: dict[str, Any]) -> dict[str, Any]:
        if authorization != f"Bearer {self.token}":
            return {"ok": False, "error": "invalid_auth"}
        if asked.get("channel") != self.channel:
            return {"ok": False, "error": "channel_not_found"}
        if method == "chat.update" and asked.get("ts") not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        stamp = asked["ts"] if method == "chat.update" else f"1503435956.{len(self.messages):06d}"
        self.messages[stamp] = asked["text"]
        return {"ok": True, "channel": self.channel, "ts": stamp}


@contextmanager
def workspace(token: str, channel: str) -> Iterator[Workspace]:
    """A chat workspace with one room."""
    kept = Workspace(token, channel)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            method = self.path.removeprefix("/api/")
            kept.calls.append((method, asked))
            fault = kept.faults.pop(0) if kept.faults else ""
            answer = kept.answer(method, self.headers["authorization"], asked) if fault == "" else {"ok": False}
            if fault != "":
                answer["error"] = "ratelimited" if isinstance(fault, int) else fault
            self.send_response(429 if isinstance(fault, int) else 200)
            if isinstance(fault, int):
                self.send_header("Retry-After", str(fault))
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args: Any) -> None:
            pass

    with _served(Handler) as kept.port:
        yield kept


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler], secured: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on this machine; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if secured is not None:
        server.socket = secured.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class PushService:
    """A push service over TLS that lets in whoever signs for it (RFC 8292); `answers` come instead, one by one."""

    key: str
    port: int = 0
    answers: list[int] = field(default_factory=list)
    taken: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def server(self) -> str:
        return f"localhost:{self.port}"

    def address(self, device: str) -> str:
        return f"https://{self.server}/push/{device}"

    def check(self, authorization: str) -> None:
        """By a library that is not ours: the key that browsers were told, this service, and no more than a day."""
        scheme, _, fields = authorization.partition(" ")
        given = dict(each.strip().split("=", 1) for each in fields.split(","))
        point = base64.urlsafe_b64decode(given["k"] + "=")
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        claims = jwt.decode(
            given["t"],
            key,
            algorithms=["ES256"],
            audience=f"https://{self.server}",
            options={"require": ["exp", "sub"]},
        )
        until = datetime.fromtimestamp(claims["exp"], UTC)
        if scheme != "vapid" or given["k"] != self.key or until > datetime.now(UTC) + timedelta(days=1):
            raise jwt.InvalidTokenError
        if not claims["sub"].startswith(("https:", "mailto:")):
            raise jwt.InvalidTokenError


@contextmanager
def push_service(key: str, certificate: Path) -> Iterator[PushService]:
    """A push service that browsers were told this key for; its certificate is written there."""
    kept = PushService(key)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status = kept.answers.pop(0) if kept.answers else 201
            try:
                kept.check(self.headers["authorization"])
            except (jwt.InvalidTokenError, KeyError, ValueError) as wrong:
                status = 403
                kept.refused.append(type(wrong).__name__)
            headers = {name.lower(): value for name, value in self.headers.items()}
            kept.taken.append((self.path.rpartition("/")[2], headers, body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(_certificate(certificate))
    with _served(Handler, secured) as kept.port:
        yield kept


def _certificate(file: Path) -> Path:
    """A key and a certificate for this machine, signed by itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(pem + made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return file


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
