"""HTTP to the console for programs that await: the same requests, back-off and problems as
`counterfoil.connection`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import httpx

from counterfoil.execution.seen import SeenCheckpoints
from counterfoil.problems import Problem, Unreachable
from counterfoil.transport import request as request_transport
from counterfoil.transport.request import Backoff, Pause, Plan, Request

T = TypeVar("T")


class AsyncConnection:
    """The console for one key and one event loop."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        timeout_s: float = 15.0,
        http: httpx.AsyncClient | None = None,
        backoff: Backoff | None = None,
        seen: SeenCheckpoints | None = None,
    ) -> None:
        self.seen = seen or SeenCheckpoints()
        self.url = url.rstrip("/")
        self.http = http or httpx.AsyncClient(timeout=timeout_s)
        self.authorization = f"Bearer {key}"
        self.backoff = backoff or Backoff()
        self._timeout_s = timeout_s

    async def close(self) -> None:
        await self.http.aclose()

    def address(self, path: str) -> str:
        """The full address of an API path."""
        return f"{self.url}{request_transport.API}{path}"

    async def send(self, request: Request[T]) -> T:
        """Send a request, with as many tries as the back-off allows, and read its answer."""
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return request.read(await self._send(request))
            except (Problem, Unreachable) as fault:
                spent = time.monotonic() - began
                wait = self.backoff.pause(fault, tries=tries, spent_s=spent, chance=random.random())
                if wait is None:
                    raise
            await asyncio.sleep(wait)

    async def carry_out(self, plan: Plan[T]) -> T:
        """The result of a plan."""
        resume: Callable[[], Request[Any] | Pause] = partial(next, plan)
        while True:
            try:
                step = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                resume = partial(plan.send, await self._carry_out_step(step))
            except (Problem, Unreachable) as fault:
                resume = partial(plan.throw, fault)

    async def _carry_out_step(self, step: Request[Any] | Pause) -> Any:
        if isinstance(step, Request):
            return await self.send(step)
        await asyncio.sleep(step.seconds)
        return None

    async def _send(self, request: Request[Any]) -> Any:
        sent = request_transport.httpx_arguments(request, timeout_s=self._timeout_s)
        headers = request_transport.request_headers(self.authorization, sent.pop("headers"))
        try:
            response = await self.http.request(request.method, self.address(request.path), headers=headers, **sent)
        except httpx.TransportError as fault:
            raise request_transport.unreachable_error(request.method, request.path, fault) from fault
        return request_transport.parse_response(request.method, request.path, response, self.seen)
