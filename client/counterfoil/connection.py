"""HTTP to the console: one key, one Idempotency-Key per write, problems as exceptions.

A write that got no answer may have been carried out. Sending it again is safe only with the
Idempotency-Key of the first try: the console then gives the first answer back. `send` and `write`
do exactly that, under the rules of `counterfoil.transport.request`; `get` and `post` try once.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import httpx

from counterfoil.canonical import parse_json
from counterfoil.execution.seen import SeenCheckpoints
from counterfoil.problems import Problem, Unreachable
from counterfoil.transport import request as request_transport
from counterfoil.transport.request import API, PASSING, Backoff, Pause, Plan, Request, Trace

T = TypeVar("T")
Headers = Mapping[str, str]
TIME = "Counterfoil-Time"
"""The header with the console's time as it answers, in seconds since 1970."""
SKEW_S = 2.0
"""Clocks that differ by more are named, in the log and where an order did not start."""


class Connection:
    """The console as one key sees it."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        timeout_s: float = 15.0,
        http: httpx.Client | None = None,
        backoff: Backoff | None = None,
        seen: SeenCheckpoints | None = None,
    ) -> None:
        self.seen = seen or SeenCheckpoints()
        self.url = url.rstrip("/")
        self.http = http or httpx.Client(timeout=timeout_s)
        self.authorization = f"Bearer {key}"
        self.backoff = backoff or Backoff()
        self._timeout_s = timeout_s
        self._offset_s = 0.0

    def close(self) -> None:
        self.http.close()

    def address(self, path: str) -> str:
        """The full address of an API path."""
        return f"{self.url}{API}{path}"

    def now(self) -> float:
        """The console's idea of the time, as its answers show it: leases and proofs are judged by
        its clock.
        """
        return time.time() + self._offset_s

    @property
    def clock_difference_s(self) -> float:
        """The seconds that the console's clock is ahead of this host's; 0 where the two agree within `SKEW_S`."""
        return self._offset_s

    def send(self, request: Request[T]) -> T:
        """Send a request, with as many tries as the back-off allows, and read its answer."""

        def once() -> Any:
            sent = request_transport.httpx_arguments(request, timeout_s=self._timeout_s)
            return self._send(request.method, request.path, **sent)

        return request.read(self._try_repeatedly(self.backoff, once))

    def carry_out(self, plan: Plan[T]) -> T:
        """The result of a plan."""
        resume: Callable[[], Request[Any] | Pause] = partial(next, plan)
        while True:
            try:
                step = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                resume = partial(plan.send, self._carry_out_step(step))
            except (Problem, Unreachable) as fault:
                resume = partial(plan.throw, fault)

    def _carry_out_step(self, step: Request[Any] | Pause) -> Any:
        if isinstance(step, Request):
            return self.send(step)
        time.sleep(step.seconds)
        return None

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, trace: Trace | None = None) -> Any:
        """The answer to one GET, sent once."""
        return self._send("GET", path, params=params, headers=_trace_header(trace))

    def keys(self) -> Any:
        """The keys that the console signs grants with (JWKS). They are public; ours has a router find the console."""
        headers = {"Authorization": self.authorization}
        try:
            response = self.http.get(f"{self.url}/.well-known/jwks.json", headers=headers, timeout=self._timeout_s)
            response.raise_for_status()
        except httpx.HTTPError as fault:
            raise Unreachable(f"the keys: {type(fault).__name__} {fault}".strip()) from fault
        return parse_json(response.content)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        trace: Trace | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
        params: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer to one POST, sent once."""
        sent = {
            "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
            **_trace_header(trace),
            **(headers or {}),
        }
        return self._send("POST", path, json=body, params=params, headers=sent, timeout=timeout_s or self._timeout_s)

    def write(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        give_up_after_s: float,
        trace: Trace | None = None,
        idempotency_key: str | None = None,
        headers: Callable[[], Headers] | None = None,
        params: Mapping[str, Any] | None = None,
        stop: threading.Event | None = None,
    ) -> Any:
        """A POST that is repeated as the same write until it is answered or `give_up_after_s` have passed; with an
        executor's report also after a 500.

        `headers` is called for each try, for headers that are good once (a DPoP proof).
        """
        same = idempotency_key or str(uuid.uuid4())
        backoff = Backoff(give_up_after_s=give_up_after_s, statuses=PASSING | {500})

        def once() -> Any:
            extra = headers() if headers else None
            return self.post(path, body, trace=trace, idempotency_key=same, headers=extra, params=params)

        return self._try_repeatedly(backoff, once, stop)

    def _try_repeatedly(self, backoff: Backoff, once: Callable[[], Any], stop: threading.Event | None = None) -> Any:
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return once()
            except (Problem, Unreachable) as fault:
                spent = time.monotonic() - began
                wait = backoff.pause(fault, tries=tries, spent_s=spent, chance=random.random())
                if wait is None or (stop is not None and stop.is_set()):
                    raise
            _wait(wait, stop)

    def _send(self, method: str, path: str, **request: Any) -> Any:
        headers = request_transport.request_headers(self.authorization, request.pop("headers", {}))
        try:
            response = self.http.request(method, self.address(path), headers=headers, **request)
        except httpx.TransportError as fault:
            raise request_transport.unreachable_error(method, path, fault) from fault
        self._see_clock(response)
        return request_transport.parse_response(method, path, response, self.seen)

    def _see_clock(self, response: httpx.Response) -> None:
        try:
            difference_s = float(response.headers[TIME]) - time.time()
        except (KeyError, ValueError):
            return
        # The way here took a moment, too; less than the tolerance is noise.
        self._offset_s = difference_s if abs(difference_s) > SKEW_S else 0.0


def _trace_header(trace: Trace | None) -> dict[str, str]:
    return {"traceparent": trace.traceparent} if trace else {}


def _wait(seconds: float, stop: threading.Event | None) -> None:
    if stop is None:
        time.sleep(seconds)
    else:
        stop.wait(seconds)
