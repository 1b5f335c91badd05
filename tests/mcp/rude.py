"""An MCP server over HTTP, written by hand, that ends a call in every way there is: `mode` says how."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [{"name": name, "description": f"{name}.", "inputSchema": SCHEMA} for name in ("keep_note", "read_note")]
OK = {"content": [{"type": "text", "text": "kept"}]}


class Rude:
    """What the server knows: its session, how the next call ends, and which calls it carried out."""

    def __init__(self) -> None:
        self.mode = ""
        self.session = uuid4().hex
        self.calls: list[dict[str, Any]] = []
        self.initialised = 0
        self.tools = [dict(tool) for tool in TOOLS]
        self.pages: list[dict[str, Any]] = []
        self.given: dict[str, Any] = OK
        self.address = ("127.0.0.1", 0)
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}/mcp"

    def forget(self) -> None:
        self.session = uuid4().hex

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = ThreadingHTTPServer(self.address, type("Bound", (Handler,), {"rude": self}))
        self._server.daemon_threads = True
        self.address = ("127.0.0.1", self._server.server_port)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}).start()

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class Handler(BaseHTTPRequestHandler):
    rude: Rude
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(405)

    def do_DELETE(self) -> None:
        self.answer(200)

    def do_POST(self) -> None:
        # One request to a connection, and `end_headers` says so: a client that had not heard of it could send the next
        # request into a connection that is just being closed.
        self.close_connection = True
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked, name = message.get("id"), message.get("method")
        if name == "initialize":
            self.rude.initialised += 1
            info = {"name": "rude", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            return self.result(asked, result, **{"Mcp-Session-Id": self.rude.session})
        if self.headers.get("Mcp-Session-Id") != self.rude.session:
            return self.forgotten(asked)
        if asked is None:
            return self.answer(202)
        if name == "tools/list":
            return self.listed(asked, (message.get("params") or {}).get("cursor"))
        if name != "tools/call":
            return self.answer(400, error(asked, "No such method.", -32601))
        self.rude.calls.append(message["params"])
        return getattr(self, f"end_{self.rude.mode or 'ok'}")(asked)

    def listed(self, asked: Any, cursor: str | None) -> None:
        """The list in one page, or page by page: the cursor is the number of the page."""
        if not self.rude.pages:
            return self.result(asked, {"tools": self.rude.tools})
        number = int(cursor or 0)
        if number >= len(self.rude.pages):
            return self.answer(200, error(asked, "No such page.", -32602))
        return self.result(asked, self.rude.pages[number])

    def forgotten(self, asked: Any) -> None:
        if self.rude.mode == "bad_session":
            return self.answer(400, error(None, "Bad Request: No valid session ID provided", -32000))
        return self.answer(404, error(asked, "Session not found", -32001))

    def end_headers(self) -> None:
        if self.close_connection:
            self.send_header("Connection", "close")
        super().end_headers()

    def answer(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def result(self, asked: Any, result: Any, **headers: str) -> None:
        body = {"jsonrpc": "2.0", "id": asked, "result": result}
        self.answer(200, json.dumps(body).encode(), **headers)

    def begin(self, kind: str, **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    # How a call ends.

    def end_ok(self, asked: Any) -> None:
        self.result(asked, self.rude.given)

    end_bad_session = end_ok

    def end_text_id(self, asked: Any) -> None:
        self.result(str(asked), OK)

    def end_float_id(self, asked: Any) -> None:
        self.result(float(asked), OK)

    def end_batch(self, asked: Any) -> None:
        self.answer(200, json.dumps([{"jsonrpc": "2.0", "id": asked, "result": OK}]).encode())

    def end_sse(self, asked: Any) -> None:
        self.begin("text/event-stream; charset=utf-8")
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        last = json.dumps({"jsonrpc": "2.0", "id": asked, "result": OK})
        self.wfile.write(
            f": hello\r\n\r\ndata: {json.dumps(note)}\r\n\r\nevent: message\r\ndata: {last}\r\n\r\n".encode()
        )

    def end_close(self, asked: Any) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def end_reset(self, asked: Any) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def end_half(self, asked: Any) -> None:
        self.begin("application/json", **{"Content-Length": "400"})
        self.wfile.write(b'{"jsonrpc": "2.0", "id": ')

    def end_half_chunk(self, asked: Any) -> None:
        self.begin("application/json", **{"Transfer-Encoding": "chunked"})
        self.wfile.write(b'5\r\n{"jso\r\n')

    def end_half_stream(self, asked: Any) -> None:
        self.begin("text/event-stream")
        self.wfile.write(b': hi\n\nevent: message\ndata: {"jsonrpc": "2.0", "id": ')

    def end_noisy_stream(self, asked: Any) -> None:
        self.begin("text/event-stream")
        self.wfile.write(b"event: message\ndata: no json\n\n")

    def end_no_json(self, asked: Any) -> None:
        self.answer(200, b"kept")

    def end_empty(self, asked: Any) -> None:
        self.answer(200)

    def end_html(self, asked: Any) -> None:
        self.answer(200, b"<html>Sign in</html>", "text/html")

    def end_accepted(self, asked: Any) -> None:
        self.answer(202)

    def end_another_id(self, asked: Any) -> None:
        self.result(99_999, OK)

    def end_true_id(self, asked: Any) -> None:
        self.result(True, OK)

    def end_null_id(self, asked: Any) -> None:
        self.result(None, OK)

    def end_error_null_id(self, asked: Any) -> None:
        self.answer(200, error(None, "Parse trouble", -32600))

    def end_elsewhere(self, asked: Any) -> None:
        self.answer(302, **{"Location": "http://127.0.0.2:9/mcp"})

    def end_busy(self, asked: Any) -> None:
        self.answer(429, b"{}", **{"Retry-After": "7"})

    def end_claimed(self, asked: Any) -> None:
        data = {"mark": "0" * 32, "code": "SESSION_EXPIRED", "text": "Nothing was sent.", "status": "failed"}
        self.answer(200, error(asked, "Nothing was sent.", -32603, data | {"phase": "before_send"}))

    def __getattr__(self, name: str) -> Any:
        status = name.removeprefix("end_status_")
        if not status.isdigit():
            raise AttributeError(name)
        return lambda asked: self.answer(int(status), b"no", "text/plain")


def error(asked: Any, text: str, code: int, data: Any = None) -> bytes:
    said = {"code": code, "message": text} | ({"data": data} if data else {})
    return json.dumps({"jsonrpc": "2.0", "id": asked, "error": said}).encode()


@contextmanager
def serving() -> Iterator[Rude]:
    """The server, on a port of its own."""
    rude = Rude()
    rude.start()
    try:
        yield rude
    finally:
        rude.stop()
