"""OpenAI Agents SDK: a session's tools, and the guard for a run's final message.

`tools(session)` gives `FunctionTool`s for `Agent(tools=...)`. `run_config(session)` lets the gate answer
a call to a tool that is not there, instead of ending the run. With `interrupts=True` a call that waits
for people ends the run with an interruption; `state.approve(...)` then means no more than "look
again", for the console alone knows what people decided.
"""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    OutputGuardrail,
    RunConfig,
    RunContextWrapper,
    Tool,
    ToolErrorFormatterArgs,
)
from agents.tool_context import ToolContext

from counterfoil.adapters.offer import parse_arguments, parse_call, propose_call, session_tools
from counterfoil.agent import AsyncSession, Call
from counterfoil.answers import Tool as ContractTool
from counterfoil.telling import CHECK, LINES, outcome_text


def tools(session: AsyncSession, *, wait_s: float = 30.0, interrupts: bool = False) -> list[Tool]:
    """The tools of a session; each call waits `wait_s` at most for its outcome."""
    return [_tool(session, one, wait_s, interrupts and one not in (CHECK, LINES)) for one in session_tools(session)]


def run_config(session: AsyncSession, **options: Any) -> RunConfig:
    """A run's settings under which the gate answers calls to tools that are not there; `options` are the
    other settings. The SDK does not hand over such a call's arguments, so they are not on record.
    """

    async def formatter(asked: ToolErrorFormatterArgs[Any]) -> str | None:
        if asked.kind != "tool_not_found":
            return None
        call = parse_call(asked.tool_name, {}, session.names.of(asked.call_id))
        return outcome_text(await session.carry_out(propose_call(session, call, for_s=0.0)))

    return RunConfig(tool_not_found_behavior="return_error_to_model", tool_error_formatter=formatter, **options)


def output_guardrail(session: AsyncSession) -> OutputGuardrail[Any]:
    """A guardrail that stops a run whose final message may not be sent unchanged: `output_info` has the contradictions,
    the corrected message, and the receipt.
    """

    async def guard(context: RunContextWrapper[Any], agent: Agent[Any], output: object) -> GuardrailFunctionOutput:
        if not isinstance(output, str):
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
        found = await session.guard(output)
        codes = [violation.code for violation in found.violations]
        info = {"verdict": found.verdict, "violations": codes, "corrected": found.corrected}
        info |= {"receipt": found.receipt.text, "sendable": found.sendable(output)}
        return GuardrailFunctionOutput(output_info=info, tripwire_triggered=found.corrected is not None)

    return OutputGuardrail(guard, name="counterfoil")


def _tool(session: AsyncSession, tool: ContractTool, wait_s: float, interrupts: bool) -> FunctionTool:
    async def invoke(context: ToolContext[Any], text: str) -> str:
        arguments = parse_arguments(text)
        # Asked about before, the call is the one that people decide on; the SDK hands over no message to name it by.
        call = Call(tool.name, arguments, session.names.take(context.tool_call_id, tool.name, arguments))
        return outcome_text(await session.carry_out(propose_call(session, call, for_s=wait_s)), can_ask=True)

    async def waits_for_people(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        call = parse_call(tool.name, arguments, session.names.reserve(call_id, tool.name, arguments))
        outcome = await session.carry_out(propose_call(session, call, for_s=wait_s, for_people=False))
        return outcome.held

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=dict(tool.arguments_schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=waits_for_people if interrupts else False,
    )
