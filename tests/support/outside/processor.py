"""A small payment processor in the shape of Stripe's API, written for these tests: charges, refunds and their lists.

It answers in the documented forms: objects, lists with `has_more`, error objects, and the first answer again to a
repeated `Idempotency-Key`. A test then puts a refund in any state, documented or not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

TOKEN = "rk_test_reader"


@dataclass
class Processor:
    """Charges and refunds by their ids; `is_away` answers 503, `is_endless` has more pages than anybody walks."""

    url: str = ""
    charges: dict[str, dict[str, Any]] = field(default_factory=dict)
    refunds: dict[str, dict[str, Any]] = field(default_factory=dict)
    answered: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_away: bool = False
    is_endless: bool = False

    def charge(self, number: str, *, customer: str = "cus_1", amount: int = 4000, currency: str = "eur") -> None:
        self.charges[number] = {
            "id": number,
            "object": "charge",
            "amount": amount,
            "amount_refunded": 0,
            "currency": currency,
            "customer": customer,
            "created": int(time.time()),
            "captured": True,
            "refunded": False,
            "status": "succeeded",
            "metadata": {},
        }

    def refund(self, charge: str = "ch_1", *, amount: int = 4000, operation: str = "", key: str = "") -> dict[str, Any]:
        """Refund over HTTP, as a program would; the answer."""
        form = {"charge": charge, "amount": str(amount)} | ({"metadata[operation]": operation} if operation else {})
        headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {})
        answer = httpx.post(
            f"{self.url}/v1/refunds",
            content=urlencode(form),
            headers=headers | {"Content-Type": "application/x-www-form-urlencoded"},
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def last(self) -> dict[str, Any]:
        """The newest refund, to be put in another state."""
        return self.refunds[next(reversed(self.refunds))]

    def create(self, form: dict[str, str], key: str) -> dict[str, Any]:
        if key in self.answered:
            return self.answered[key]
        charge = self.charges[form["charge"]]
        amount = int(form["amount"])
        charge["amount_refunded"] += amount
        charge["refunded"] = charge["amount_refunded"] >= charge["amount"]
        number = f"re_{len(self.refunds) + 1}"
        operation = {"operation": form["metadata[operation]"]} if "metadata[operation]" in form else {}
        made = {
            "id": number,
            "object": "refund",
            "amount": amount,
            "charge": charge["id"],
            "currency": charge["currency"],
            "created": int(time.time()),
            "status": "succeeded",
            "metadata": operation,
        }
        self.refunds[number] = made
        if key:
            self.answered[key] = made
        return made

    def page(self, asked: dict[str, str]) -> dict[str, Any]:
        if self.is_endless:
            first = int(asked.get("starting_after", "re_100000").removeprefix("re_")) + 1
            data = [{"id": f"re_{first}", "object": "refund", "status": "succeeded", "metadata": {}}]
            return {"object": "list", "data": data, "has_more": True}
        found = [each for each in self.refunds.values() if asked.get("charge") in (None, each["charge"])]
        return {"object": "list", "data": found[::-1], "has_more": False}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"type": "invalid_request_error", "code": "resource_missing", "message": message}}


class _Handler(BaseHTTPRequestHandler):
    processor: Processor

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(place.query).items()}
        kind, _, number = place.path.removeprefix("/v1/").partition("/")
        if self.processor.is_away:
            self._answer(503, {"error": {"type": "api_error", "message": "We are having trouble."}})
        elif number:
            found = {"charges": self.processor.charges, "refunds": self.processor.refunds}[kind].get(number)
            self._answer(404, _error(f"No such object: {number}")) if found is None else self._answer(200, found)
        else:
            self._answer(200, self.processor.page(asked))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[-1] for name, values in parse_qs(body).items()}
        self._answer(200, self.processor.create(form, self.headers.get("Idempotency-Key", "")))

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        # Without a Date: the clock of a test may be ahead of ours, and an old answer settles nothing.
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Request-Id", "req_1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Processor]:
    """A processor on a port of its own, with a paid charge `ch_1` of 40.00 EUR by customer `cus_1`."""
    processor = Processor()
    handler = type("Handler", (_Handler,), {"processor": processor})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    processor.url = f"http://127.0.0.1:{server.server_address[1]}"
    processor.charge("ch_1")
    try:
        yield processor
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
