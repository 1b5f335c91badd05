"""Pydantic AI: a session's tools as a toolset, deferred results, and the guard as output validator.

`Agent(toolsets=[GatedToolset(session)])` offers the session's tools; arguments go to the gate as the
model wrote them. With `defers=True` a call that waits for people is deferred: the run ends with
`DeferredToolRequests` (name it in `output_type`), and `results(session, requests)` asks the console
for what became of the calls, to go on with in the next run.

A call to a tool that the toolset does not have is answered by Pydantic AI itself and never reaches
the gate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from pydantic_ai import CallDeferred, DeferredToolRequests, DeferredToolResults, RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from counterfoil.adapters.offer import interrupt_value, parse_call, poll_action, propose_call, session_tools
from counterfoil.agent import AsyncSession
from counterfoil.canonical import parse_json
from counterfoil.telling import outcome_document

OutputT = TypeVar("OutputT")
_TEXT = "the text of the arguments, which is no JSON object"


class GatedToolset(AbstractToolset[Any]):
    """The tools of one session; each call waits `wait_s` at most for its outcome."""

    def __init__(self, session: AsyncSession, *, wait_s: float = 30.0, defers: bool = False) -> None:
        self._session = session
        self._wait_s = wait_s
        self._defers = defers

    @property
    def id(self) -> str:
        return f"counterfoil-{self._session.session_id}"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            one.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=one.name,
                    description=one.description,
                    parameters_json_schema=dict(one.arguments_schema),
                    strict=False,
                ),
                max_retries=0,
                args_validator=_AsWritten(),
            )
            for one in session_tools(self._session)
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> dict[str, Any]:
        arguments = tool_args.get(_TEXT, tool_args)
        place = (ctx.run_id, ctx.run_step, name, repr(arguments)) if ctx.run_id else ()
        call = parse_call(name, arguments, self._session.names.of(ctx.tool_call_id, *place))
        plan = propose_call(self._session, call, for_s=self._wait_s, for_people=not self._defers)
        outcome = await self._session.carry_out(plan)
        if self._defers and outcome.held:
            raise CallDeferred(metadata=interrupt_value(outcome, call, ctx.tool_call_id))
        return outcome_document(outcome, can_ask=True)


async def deferred_results(
    session: AsyncSession, requests: DeferredToolRequests, *, wait_s: float = 30.0
) -> DeferredToolResults:
    """The results of the deferred calls, after `wait_s` at most for each.

    A call that people have still not decided is reported to the model as open; calls that were deferred by other tools
    are left out.
    """
    found = DeferredToolResults()
    for part in requests.calls:
        action_id = requests.metadata.get(part.tool_call_id, {}).get("action_id")
        if action_id is not None:
            outcome = await session.carry_out(poll_action(session, action_id, for_s=wait_s))
            found.calls[part.tool_call_id] = outcome_document(outcome, can_ask=True)
    return found


def guard(session: AsyncSession) -> Callable[[RunContext[Any], OutputT], Awaitable[OutputT]]:
    """An output validator that lets a final text through as the guard allows it:
    `agent.output_validator(guard(session))`.
    """

    async def validate(context: RunContext[Any], output: object) -> Any:
        if not isinstance(output, str) or context.partial_output:
            return output
        return await session.guarded(output)

    return validate


class _AsWritten:
    """A toolset that accepts arguments as they come; the gate judges them."""

    def validate_json(
        self,
        input: str | bytes | bytearray,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        text = input if isinstance(input, str) else bytes(input).decode("utf-8", "replace")
        try:
            value = parse_json(text)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {_TEXT: text}

    def validate_python(
        self, input: Any, *, allow_partial: bool | Literal["off", "on", "trailing-strings"] = False, **kwargs: Any
    ) -> dict[str, Any]:
        return dict(input)
