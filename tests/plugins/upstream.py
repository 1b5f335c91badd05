"""An HTTP API that keeps documents: PUT writes one, DELETE deletes one, POST does either by the name of a tool.

upstream.py ROOT PORT
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(sys.argv[1])


class Documents(BaseHTTPRequestHandler):
    """Writes down each change that reaches it, with the action that the gate named."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"here")

    def do_PUT(self) -> None:
        told = self._note()
        (ROOT / self.path[1:]).write_text(told["text"])
        self._answer(b"written")

    def do_DELETE(self) -> None:
        self._note()
        (ROOT / self.path[1:]).unlink()
        self._answer(b"deleted")

    def do_POST(self) -> None:
        told = self._note()
        document = ROOT / told["path"]
        if self.path == "/documents-delete":
            document.unlink()
        else:
            document.write_text(told["text"])
        if told.get("text") == "Hang.":
            time.sleep(60)
        failed = told.get("text") == "Fail."
        self._answer(json.dumps({"said": "The disk is full." if failed else "done"}).encode(), 500 if failed else 200)

    def _note(self) -> dict[str, str]:
        told: dict[str, str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen = {"path": told.get("path", self.path[1:]), "action": self.headers["x-counterfoil-action"]}
        with (ROOT / ".calls").open("a") as log:
            log.write(json.dumps(seen) + "\n")
        return told

    def _answer(self, content: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if self.command == "POST" else "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: the test reads the file of calls."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Documents).serve_forever()
