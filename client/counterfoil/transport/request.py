"""Requests and plans as data, sent by a blocking or an async connection.

A `Request` says what is sent and how its answer is read. A plan is a generator of requests and
pauses that returns one result: "propose, then look until it is settled". Both are pure descriptions
without a socket in them, so that the blocking and the awaiting client share all of it, and differ
in how they send.

`@asked` turns a description into a method: on a `BlockingSender` it returns the answer, on an
`AsyncSender` a coroutine of it.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import httpx

from counterfoil.canonical import parse_json
from counterfoil.execution.seen import SeenCheckpoints
from counterfoil.problems import Problem, Unreachable, problem_from_response

_FORM = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$")


@dataclass(frozen=True)
class Trace:
    """A position in a W3C trace: the `traceparent` that ties a proposal, its execution and its effect together."""

    traceparent: str

    @property
    def trace_id(self) -> str:
        """The 32 hex digits that all spans of the trace share; empty when the header is not W3C."""
        match = _FORM.match(self.traceparent)
        return match.group(1) if match else ""

    def child(self) -> Trace:
        """A new span of the same trace."""
        if not self.trace_id:
            return new_trace()
        return Trace(f"00-{self.trace_id}-{secrets.token_hex(8)}-01")


def new_trace() -> Trace:
    """The first span of a new, sampled trace."""
    return Trace(f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01")


def read_trace(value: object) -> Trace:
    """Return the trace of a start answer, given as a `traceparent` or as an object with its id; otherwise
    a new trace.
    """
    if isinstance(value, dict):
        value = f"00-{value.get('trace_id')}-{secrets.token_hex(8)}-01"
    trace = Trace(value) if isinstance(value, str) else new_trace()
    return trace if trace.trace_id else new_trace()


T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request and how its answer is read; all its tries carry the same Idempotency-Key."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    trace: Trace | None = None
    patience_s: float = 0.0
    idempotency_key: str = field(default_factory=lambda: str(uuid.uuid4()))
    headers_of_try: Callable[[], Mapping[str, str]] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next try; those of `headers_of_try` (a DPoP proof) can be used once."""
        key = {} if self.method == "GET" else {"Idempotency-Key": self.idempotency_key}
        own = self.headers_of_try() if self.headers_of_try else {}
        return {**key, **({"traceparent": self.trace.traceparent} if self.trace else {}), **own}


@dataclass(frozen=True)
class Pause:
    """A step of a plan that waits."""

    seconds: float


Plan = Generator[Request[Any] | Pause, Any, T]
"""Requests and pauses, each request answered with what it reads, and one result."""


class BlockingSender(Protocol):
    """A sender whose requests are answered in place."""

    def send(self, request: Request[T]) -> T: ...

    def carry_out(self, plan: Plan[T]) -> T: ...


class AsyncSender(Protocol):
    """Something whose requests are awaited."""

    async def send(self, request: Request[T]) -> T: ...

    async def carry_out(self, plan: Plan[T]) -> T: ...


class request_method(Generic[S, P, T]):
    """A method that sends the request, or carries out the plan, which the decorated function describes."""

    @overload
    def __init__(self, build: Callable[Concatenate[S, P], Request[T]]) -> None: ...

    @overload
    def __init__(self, build: Callable[Concatenate[S, P], Plan[T]]) -> None: ...

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, at: None, kind: type) -> request_method[S, P, T]: ...

    @overload
    def __get__(self, at: BlockingSender, kind: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, at: AsyncSender, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, at: Any, kind: type) -> Any:
        if at is None:
            return self

        @wraps(self.build)
        def ask(*args: Any, **kwargs: Any) -> Any:
            described = self.build(at, *args, **kwargs)
            return at.send(described) if isinstance(described, Request) else at.carry_out(described)

        return ask


# Headers and response handling shared by both connections.


API = "/api/v1"


def request_headers(authorization: str, more: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request to the API."""
    return {"Authorization": authorization, "Accept": "application/json", **more}


def httpx_arguments(request: Request[Any], *, timeout_s: float) -> dict[str, Any]:
    """A request as httpx arguments; a request that the console may hold gets that much more time."""
    sent: dict[str, Any] = {"headers": request.headers, "timeout": timeout_s + request.patience_s}
    if request.body is not None:
        sent["json"] = request.body
    if request.params is not None:
        sent["params"] = request.params
    return sent


def parse_response(method: str, path: str, response: httpx.Response, seen: SeenCheckpoints) -> Any:
    """The JSON of a success; else the problem. Either carries the console's newest checkpoint, which `seen` stores."""
    seen.see(response.headers)
    if not response.is_success:
        raise problem_from_response(response)
    try:
        return parse_json(response.content) if response.content else None
    except ValueError as fault:
        raise Unreachable(f"{method} {path}: the answer is not JSON ({fault})") from fault


def unreachable_error(method: str, path: str, fault: Exception) -> Unreachable:
    """Return the error for a request without an answer."""
    return Unreachable(f"{method} {path}: {type(fault).__name__} {fault}".strip())


PASSING = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Backoff:
    """Retry delays and limits.

    1. A request is retried when no answer came, or 429, 502, 503 or 504. Any other refusal is an answer.
    2. The delay doubles up to `longest_s`, minus a random part, so that many clients do not return in step.
       `Retry-After` is the least delay.
    3. No try begins after `give_up_after_s`; the last fault is then raised.

    A request keeps its Idempotency-Key over all its tries.
    """

    give_up_after_s: float = 30.0
    first_s: float = 0.2
    longest_s: float = 10.0
    statuses: frozenset[int] = PASSING

    def pause(self, fault: Exception, *, tries: int, spent_s: float, chance: float) -> float | None:
        """Seconds until the next try after `tries` of them, or None if the fault is final. `chance` is random in [0,
        1).
        """
        if not self.may_pass(fault):
            return None
        full = min(self.first_s * 2.0 ** min(tries - 1, 30), self.longest_s)
        asked = (fault.retry_after_s or 0.0) if isinstance(fault, Problem) else 0.0
        wait = max(full * (1.0 - chance / 2.0), asked)
        return wait if spent_s + wait <= self.give_up_after_s else None

    def may_pass(self, fault: Exception) -> bool:
        """Return whether the same request may be answered later."""
        if isinstance(fault, Problem):
            return fault.status in self.statuses
        return isinstance(fault, Unreachable)
