"""A collector that speaks OTLP over HTTP: it decodes what it is sent with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What it was sent; it takes nothing while `answers` says otherwise."""

    address: str = ""
    answers: int = 200
    messages: list[ExportTraceServiceRequest] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for message in self.messages
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def collecting() -> Iterator[Collector]:
    """One that listens on loopback until the end of the block."""
    here = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if here.answers == 200:
                here.messages.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(here.answers)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    here.address = f"http://127.0.0.1:{server.server_port}/v1/traces"
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
