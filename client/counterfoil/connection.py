"""HTTP to the console: one key, one Idempotency-Key per write, problems as exceptions.

A write that got no answer may have been carried out. Sending it again is safe only with the
Idempotency-Key of the first try: the console then gives the first answer back. `write` does exactly
that, and nothing else retries.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from counterfoil.canonical import read
from counterfoil.problems import ConsoleFault, Problem, TooMany, Unreachable, problem
from counterfoil.trace import Trace

API = "/api/v1"
Headers = Mapping[str, str]
_CLOCK_TOLERANCE_S = 2.0


class Connection:
    """The console as one key sees it."""

    def __init__(self, *, url: str, key: str, timeout_s: float = 15.0, http: httpx.Client | None = None) -> None:
        self.url = url.rstrip("/")
        self._http = http or httpx.Client(timeout=timeout_s)
        self._timeout_s = timeout_s
        self._authorization = f"Bearer {key}"
        self._offset_s = 0.0

    def close(self) -> None:
        self._http.close()

    def address(self, path: str) -> str:
        """The full address of an API path."""
        return f"{self.url}{API}{path}"

    def now(self) -> float:
        """The console's idea of the time, as its answers show it: leases and proofs are judged by
        its clock.
        """
        return time.time() + self._offset_s

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, trace: Trace | None = None) -> Any:
        """The answer to a GET."""
        return self._send("GET", path, params=params, headers=_traced(trace))

    def keys(self) -> Any:
        """The keys that the console signs grants with (JWKS)."""
        try:
            response = self._http.get(f"{self.url}/.well-known/jwks.json", timeout=self._timeout_s)
            response.raise_for_status()
        except httpx.HTTPError as fault:
            raise Unreachable(f"the keys: {type(fault).__name__} {fault}".strip()) from fault
        return read(response.content)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        trace: Trace | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer to one POST, sent once."""
        sent = {
            "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
            **_traced(trace),
            **(headers or {}),
        }
        return self._send("POST", path, json=body, headers=sent, timeout=timeout_s or self._timeout_s)

    def write(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        give_up_after_s: float,
        trace: Trace | None = None,
        idempotency_key: str | None = None,
        headers: Callable[[], Headers] | None = None,
        stop: threading.Event | None = None,
    ) -> Any:
        """A POST that is sent again, as the same write, until it is answered or `give_up_after_s`
        have passed.

        `headers` is called for each try, for headers that are good once (a DPoP proof).
        """
        same = idempotency_key or str(uuid.uuid4())
        deadline = time.monotonic() + give_up_after_s
        pause = 0.2
        while True:
            try:
                extra = headers() if headers else None
                return self.post(path, body, trace=trace, idempotency_key=same, headers=extra)
            except (Unreachable, ConsoleFault, TooMany) as fault:
                wait = max(pause, _asked_to_wait(fault))
                if time.monotonic() + wait > deadline or (stop is not None and stop.is_set()):
                    raise
            _wait(wait, stop)
            pause = min(pause * 2, 10.0)

    def _send(self, method: str, path: str, **request: Any) -> Any:
        headers = {
            "Authorization": self._authorization,
            "Accept": "application/json",
            **request.pop("headers", {}),
        }
        try:
            response = self._http.request(method, self.address(path), headers=headers, **request)
        except httpx.TransportError as fault:
            raise Unreachable(f"{method} {path}: {type(fault).__name__} {fault}".strip()) from fault
        self._see_clock(response)
        if not response.is_success:
            raise problem(response)
        try:
            return read(response.content) if response.content else None
        except ValueError as fault:
            raise Unreachable(f"{method} {path}: the answer is not JSON ({fault})") from fault

    def _see_clock(self, response: httpx.Response) -> None:
        date = response.headers.get("Date")
        if not date:
            return
        try:
            offset = parsedate_to_datetime(date).timestamp() - time.time()
        except ValueError:
            return
        # Date has whole seconds; a smaller difference than this tolerance is noise, not a wrong
        # clock.
        self._offset_s = offset if abs(offset) > _CLOCK_TOLERANCE_S else 0.0


def _traced(trace: Trace | None) -> dict[str, str]:
    return {"traceparent": trace.traceparent} if trace else {}


def _asked_to_wait(fault: Exception) -> float:
    return (fault.retry_after_s or 0.0) if isinstance(fault, Problem) else 0.0


def _wait(seconds: float, stop: threading.Event | None) -> None:
    if stop is None:
        time.sleep(seconds)
    else:
        stop.wait(seconds)
