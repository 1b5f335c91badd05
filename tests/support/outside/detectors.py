"""A detector of reports as an operator would run one: an endpoint in the OpenAI style."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

KEY = "sk-detector"
_SENTENCE = re.compile(r"[^.!?]+[.!?]")


@dataclass
class Detector:
    """Where it listens, and what it was asked. It takes every sentence that is no question for a report."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, body: dict[str, Any]) -> bytes:
        """What it answers: the words of the sentences, in the place where a model puts its text."""
        self.asked.append(body)
        sentences = (each.strip() for each in _SENTENCE.findall(body["messages"][-1]["content"]))
        text = json.dumps({"reports": [each for each in sentences if not each.endswith("?")]})
        return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@contextmanager
def serving() -> Iterator[Detector]:
    """A detector that listens on this machine; without its key it answers 401."""
    detector = Detector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.headers.get("Authorization") == f"Bearer {KEY}"
            self.send_response(200 if is_known else 401)
            self.end_headers()
            self.wfile.write(detector.answer(json.loads(body)) if is_known else b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    detector.url = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield detector
    finally:
        server.shutdown()
        server.server_close()
