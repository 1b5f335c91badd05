"""Requests and plans as data, sent by a blocking or an async connection.

A `Request` says what is sent and how its answer is read. A plan is a generator of requests and
pauses that returns one result: "propose, then look until it is settled". Both are pure descriptions
without a socket in them, so that the blocking and the awaiting client share all of it, and differ
in how they send.

`@asked` turns a description into a method: on a `BlockingSender` it returns the answer, on an
`AsyncSender` a coroutine of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from counterfoil.transport.trace import Trace

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

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every try."""
        key = {} if self.method == "GET" else {"Idempotency-Key": self.idempotency_key}
        return {**key, **({"traceparent": self.trace.traceparent} if self.trace else {})}


@dataclass(frozen=True)
class Pause:
    """A step of a plan that waits."""

    seconds: float


Plan = Generator[Request[Any] | Pause, Any, T]
"""Requests and pauses, each request answered with what it reads, and one result."""


class BlockingSender(Protocol):
    """Something whose requests are answered in place."""

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
