"""FastMCP middleware: each tool call of a server is decided on by Counterfoil, run once and reported.

    server.add_middleware(CounterfoilMiddleware(Decider.of(settings, os.environ)))

A tool that is not registered at the console is refused, whatever its annotations say; `ungated` names the tools that
pass unasked. The tool gets the stored payload, which was approved. A call that waits is answered with an error that
names its task; the same call of the same client, made again, is the same decision.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from typing import Any

import mcp_types as mt
from anyio import CancelScope, to_thread
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult

from counterfoil.execution.lease import LeaseOver
from counterfoil.gating.deciding import Decided, Decider
from counterfoil.work import Failure, Result, Work, failed


class CounterfoilMiddleware(Middleware):
    """Asks before a tool runs and reports afterwards; add it last, so that nothing changes a call behind it."""

    def __init__(self, decider: Decider, *, ungated: Collection[str] = ()) -> None:
        self._decider = decider
        self._ungated = frozenset(ungated)

    async def on_call_tool(
        self,
        context: MiddlewareContext[mt.CallToolRequestParams],
        call_next: CallNext[mt.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Run a call that is allowed with its stored payload; answer any other with the reason."""
        call = context.message
        if call.name in self._ungated:
            return await call_next(context)
        decided = await to_thread.run_sync(self._decide, call.name, call.arguments or {}, _client_of(context))
        if decided.work is None:
            return _withheld_result(decided)
        allowed = call.model_copy(update={"arguments": dict(decided.work.payload)})
        return await self._run(decided.work, context.copy(message=allowed), call_next)

    def _decide(self, tool: str, arguments: dict[str, Any], client: str) -> Decided:
        return self._decider.decide(tool, arguments, caller=client)

    async def _run(
        self, work: Work, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]
    ) -> ToolResult:
        held = ExitStack()
        held.enter_context(self._decider.hold_lease(work))
        outcome = failed("INTERRUPTED", "The server was stopped while the tool ran.", phase="unknown")
        try:
            work.lease.require()
            result = await call_next(context)
            outcome = _outcome(result)
            return result
        except LeaseOver as over:
            outcome = failed("LEASE_OVER", str(over), phase="before_send")
            raise
        except Exception as fault:
            outcome = failed("TOOL_RAISED", f"{type(fault).__name__}: {fault}"[:500], phase="unknown")
            raise
        finally:
            # A client that cancels takes nothing back, and what is known is told all the same.
            with CancelScope(shield=True):
                await to_thread.run_sync(held.close)
                await to_thread.run_sync(self._decider.tell_outcome, work, outcome)


def _client_of(context: MiddlewareContext[Any]) -> str:
    """The client as its token names it; servers without tokens have one client."""
    token = get_access_token()
    return token.client_id if token is not None else ""


def _outcome(result: ToolResult) -> Result:
    """The tool's answer as evidence; an answer that is marked as an error leaves open what happened."""
    said = result.structured_content or [part.model_dump(mode="json") for part in result.content]
    if result.is_error:
        return Result("failed", error=Failure("TOOL_ERROR", "The answer is an error.", "unknown"), raw=said)
    return Result("success", raw=said)


def _withheld_result(decided: Decided) -> ToolResult:
    found = decided.decision
    known = (
        {} if found is None else {"decision": found.decision, "code": found.code, "task_id": found.raw.get("task_id")}
    )
    return ToolResult(content=decided.message, is_error=True, meta={"io.counterfoil/decision": known})
