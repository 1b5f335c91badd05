"""Gated tools: calling the function proposes an action; an executor runs it.

```
@gated(version="1.0.0", side_effect_class="MEDIUM_RISK_WRITE", target_resource="order/{order_id}")
def cancel_order(order_id: str, reason: str = "") -> str: ...
```

1. Calling `cancel_order(...)` never runs the function. It proposes the call in the session whose
   `with` block this is, or that `cancel_order.on(session)` names, waits a bounded time, and returns
   the `Outcome`. Without a session it is refused here.
2. `cancel_order.contract()` is the contract document to register: what the decorator was given, and
   the schema of the signature.
3. `cancel_order.handler` is what an executor runs with the payload that was approved:
   `Executor(handlers=handlers(cancel_order), ...)`. A function whose first parameter is a `Work`
   gets it and begins its effects itself; any other runs as one effect.
4. A call holds every argument, defaults too, so that what people approve is all that there is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, get_type_hints, overload

from counterfoil.agent import AsyncSession, Call, Session, current_session
from counterfoil.answers import Outcome
from counterfoil.execution.signature import describe_function
from counterfoil.work import NothingSent, Result, Work

P = ParamSpec("P")
Awaited = Coroutine[Any, Any, Outcome]


class NoSession(Exception):
    """A gated tool was called outside of a session; nothing was proposed or run."""


class GatedTool(Generic[P]):
    """One function as a tool behind the gate."""

    def __init__(self, function: Callable[..., Any], fields: Mapping[str, Any], wait_s: float) -> None:
        self.name = str(fields.get("name") or getattr(function, "__name__", ""))
        self.wait_s = wait_s
        self._function = function
        self._fields = fields
        self._work = _work_parameter(function)
        found = describe_function(function, without=[self._work] if self._work else [])
        self.description = str(fields.get("description") or found.description)
        self.arguments_schema = found.arguments_schema
        own = inspect.signature(function)
        taken = [one for name, one in own.parameters.items() if name != self._work]
        self._signature = own.replace(parameters=taken)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        """Propose the call in the current session and wait for its outcome."""
        session = current_session()
        if session is None:
            raise NoSession(f"{self.name} is proposed inside `with agent.open_session(...)`, or with .on(session).")
        return self.on(session)(*args, **kwargs)

    @overload
    def on(self, session: Session, *, wait_s: float | None = None) -> Callable[P, Outcome]: ...

    @overload
    def on(
        self, session: AsyncSession, *, wait_s: float | None = None
    ) -> Callable[P, Coroutine[Any, Any, Outcome]]: ...

    def on(self, session: Session | AsyncSession, *, wait_s: float | None = None) -> Callable[P, Any]:
        """The tool in one session; in an awaiting one its calls are awaited."""
        for_s = self.wait_s if wait_s is None else wait_s

        def propose(*args: P.args, **kwargs: P.kwargs) -> Any:
            return session.attempt(self.call(*args, **kwargs), for_s=for_s)

        return propose

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Return the call in the form for proposing, for batches and dependencies."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return Call(self.name, dict(bound.arguments))

    def contract(self, **more: Any) -> dict[str, Any]:
        """The contract document of this tool; `more` adds or replaces fields of it."""
        document = {"schema_version": "1", "wrapper_version": "1", **self._fields, "name": self.name}
        taken = {"description": self.description, "arguments_schema": dict(self.arguments_schema)}
        return document | taken | more

    def handler(self, work: Work) -> Result:
        """Run the function with the payload that was approved: for executors."""
        try:
            bound = self._signature.bind(**work.payload)
        except TypeError as fault:
            raise NothingSent("ARGUMENTS_DIFFER", f"{self.name} does not take this payload: {fault}") from fault
        if self._work:
            return _result(self._function(work, **bound.arguments))
        with work.effect(self.name):
            return _result(self._function(**bound.arguments))


class _Decorate(Protocol):
    @overload
    def __call__(self, function: Callable[Concatenate[Work, P], Any], /) -> GatedTool[P]: ...

    @overload
    def __call__(self, function: Callable[P, Any], /) -> GatedTool[P]: ...


def gated(
    *, version: str, side_effect_class: str, target_resource: str, wait_s: float = 30.0, **fields: Any
) -> _Decorate:
    """Make a function a gated tool; `fields` are the other fields of its contract document, and
    `wait_s` is how long a call waits for its outcome.
    """
    known = {"version": version, "side_effect_class": side_effect_class, "target_resource": target_resource, **fields}

    def decorate(function: Callable[..., Any]) -> GatedTool[Any]:
        return GatedTool(function, known, wait_s)

    return decorate


def handlers(*tools: GatedTool[Any]) -> dict[str, Callable[[Work], Result]]:
    """Return the handlers of these tools, in an executor's form."""
    return {tool.name: tool.handler for tool in tools}


def _work_parameter(function: Callable[..., Any]) -> str | None:
    first = next(iter(inspect.signature(function).parameters), None)
    return first if first and get_type_hints(function).get(first) is Work else None


def _result(returned: Any) -> Result:
    if inspect.iscoroutine(returned):
        returned = asyncio.run(returned)
    if isinstance(returned, Result):
        return returned
    if isinstance(returned, str):
        return Result("success", evidence=returned)
    return Result("success", raw=returned)
