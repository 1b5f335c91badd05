"""Machines that run a program under supervisord: its documented answers, and what the program says of itself."""

from __future__ import annotations

import json
import threading
import time
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LONG_AGO_S = 86_400


@dataclass
class Machine:
    """One machine with its process manager; `release` is what the program `shop` says at /release.json."""

    url: str = ""
    is_away: bool = False
    is_deaf: bool = False  # the program itself does not answer
    is_healthy: bool = True
    release: dict[str, Any] = field(default_factory=lambda: {"artifact": "v1", "environment": "production"})
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self, program: str = "shop", state: str = "RUNNING", *, ago_s: int = 0) -> None:
        """Have a program in this state, started some seconds ago."""
        self.processes[program] = {"statename": state, "start": int(time.time()) - ago_s, "exitstatus": 0}

    def deploy(self, artifact: str = "v2", state: str = "RUNNING", **said: Any) -> None:
        """Start the program again with another artifact."""
        self.release |= {"artifact": artifact, **said}
        self.run(state=state)

    def process_info(self) -> list[dict[str, Any]]:
        """supervisor.getAllProcessInfo()."""
        now = int(time.time())
        return [{"name": name, "group": name, "now": now, **each} for name, each in self.processes.items()]


class _Handler(BaseHTTPRequestHandler):
    machine: Machine

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.machine.is_away:
            return self._answer(503, b"", "text/plain")
        text = xmlrpc.client.dumps((self.machine.process_info(),), methodresponse=True)
        self._answer(200, text.encode(), "text/xml")

    def do_GET(self) -> None:
        if self.machine.is_deaf:
            self.close_connection = True
        elif self.path == "/healthz":
            self._answer(200 if self.machine.is_healthy else 500, b"", "text/plain")
        else:
            self._answer(200, json.dumps(self.machine.release).encode(), "application/json")

    def _answer(self, status: int, data: bytes, kind: str) -> None:
        # Without a Date: the clock of a test may be ahead of ours, and an old answer settles nothing.
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running_machine() -> Iterator[Machine]:
    """A machine on which the program `shop` has run the artifact v1 for a day."""
    machine = Machine()
    machine.run(ago_s=LONG_AGO_S)
    handler = type("Handler", (_Handler,), {"machine": machine})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        machine.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield machine
        server.shutdown()
