"""A collector that speaks OTLP over HTTP: it decodes what it is sent with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What it was sent; it takes nothing while `answers` says otherwise, and says that it drops so many records."""

    address: str = ""
    answers: int = 200
    drops: int = 0
    messages: list[ExportTraceServiceRequest] = field(default_factory=list)
    logs: list[ExportLogsServiceRequest] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for message in self.messages
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def log_records(self) -> list[LogRecord]:
        return [
            record
            for message in self.logs
            for resource in message.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
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
            here.headers = {name.lower(): value for name, value in self.headers.items()}
            answer: Any = ExportTraceServiceResponse()
            if here.answers == 200 and self.path == "/v1/logs":
                here.logs.append(ExportLogsServiceRequest.FromString(body))
                dropped = ExportLogsPartialSuccess(rejected_log_records=here.drops)
                answer = ExportLogsServiceResponse(partial_success=dropped)
            elif here.answers == 200:
                here.messages.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(here.answers)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(answer.SerializeToString())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    here.address = f"http://127.0.0.1:{server.server_port}/v1/traces"
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
