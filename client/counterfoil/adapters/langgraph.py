"""LangGraph and LangChain: a session's tools, a node that calls them, and a node that guards.

`tools(session)` gives `StructuredTool`s for `bind_tools` and for a `ToolNode`. `call_tools(session)`
is a node in the place of the `ToolNode`: it sends all calls of a turn to the gate at once, also those
that name no tool or did not parse, so that the gate answers them and the record has them.

With `interrupts=True` a call that waits for people ends the turn as a LangGraph `interrupt`; the graph
needs a checkpointer, and is resumed with `Command(resume=...)` when there is a reason to look again.
What it is resumed with decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import interrupt

from counterfoil.adapters.offer import interrupt_value, parse_call, poll_action, propose_call, session_tools
from counterfoil.agent import AsyncSession, Call, Session, SessionRequests
from counterfoil.answers import Outcome, Tool
from counterfoil.telling import CHECK, LINES, outcome_text
from counterfoil.transport.request import Plan

OWN = frozenset({CHECK.name, LINES.name})
"""The tools that the library answers itself."""

State = Mapping[str, Any]
Update = dict[str, list[Any]]
Node = Callable[[State], Update] | Callable[[State], Coroutine[Any, Any, Update]]


class GatedStructuredTool(StructuredTool):
    """A tool whose arguments are not judged here but at the gate, as the model wrote them."""

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[str, ...], dict[str, Any]]:
        return (), {"arguments": tool_input, "call_id": tool_call_id}


def tools(
    session: Session | AsyncSession, *, wait_s: float = 30.0, interrupts: bool = False
) -> list[GatedStructuredTool]:
    """The tools of a session; those of an `AsyncSession` are for graphs that are awaited."""
    return [_tool(session, one, wait_s, interrupts) for one in session_tools(session)]


def call_tools(session: Session | AsyncSession, *, wait_s: float = 30.0, interrupts: bool = False) -> Node:
    """A node that answers every tool call of the last message, waiting `wait_s` at most in all."""
    if isinstance(session, Session):
        return lambda state: session.carry_out(_turn(session, state, wait_s, interrupts))

    async def node(state: State) -> Update:
        return await session.carry_out(_turn(session, state, wait_s, interrupts))

    return node


def guard(session: Session | AsyncSession) -> Node:
    """A node that puts what may go out in the place of a last message: with what the record contradicts replaced,
    citations filled in, and the receipt behind it.
    """
    if isinstance(session, Session):
        return lambda state: session.carry_out(_guarded(session, state))

    async def node(state: State) -> Update:
        return await session.carry_out(_guarded(session, state))

    return node


def wants_tools(state: State) -> bool:
    """Whether the last message calls tools, well or badly: for `add_conditional_edges`."""
    last = state["messages"][-1]
    return isinstance(last, AIMessage) and bool(last.tool_calls or last.invalid_tool_calls)


def _tool(session: Session | AsyncSession, tool: Tool, wait_s: float, interrupts: bool) -> GatedStructuredTool:
    described: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "args_schema": dict(tool.arguments_schema),
    }
    if isinstance(session, Session):

        def call(arguments: object, call_id: str | None) -> str:
            return session.carry_out(_answered(session, parse_call(tool.name, arguments, call_id), wait_s, interrupts))

        return GatedStructuredTool(func=call, **described)

    async def acall(arguments: object, call_id: str | None) -> str:
        return await session.carry_out(
            _answered(session, parse_call(tool.name, arguments, call_id), wait_s, interrupts)
        )

    return GatedStructuredTool(coroutine=acall, **described)


def _answered(session: SessionRequests, call: Call, wait_s: float, interrupts: bool) -> Plan[str]:
    outcome = yield from propose_call(session, call, for_s=wait_s, for_people=not interrupts)
    while interrupts and outcome.held and outcome.action_id:
        interrupt([interrupt_value(outcome, call)])
        outcome = yield from poll_action(session, outcome.action_id, for_s=wait_s, for_people=False)
    return outcome_text(outcome, can_ask=True)


def _turn(session: SessionRequests, state: State, wait_s: float, interrupts: bool) -> Plan[Update]:
    asked = _calls(state["messages"])
    outcomes: dict[str, Outcome] = {}
    for call in asked:
        if call.tool in OWN:
            outcomes[call.call_id] = yield from propose_call(session, call, for_s=wait_s, for_people=not interrupts)
    batch = [call for call in asked if call.tool not in OWN]
    if batch:
        proposing = SessionRequests.attempts.build(session, batch, for_s=wait_s, for_people=not interrupts)
        found = yield from proposing
        outcomes |= {call.call_id: outcome for call, outcome in zip(batch, found, strict=True)}
    while interrupts and (
        waiting := [interrupt_value(outcomes[one.call_id], one) for one in asked if outcomes[one.call_id].held]
    ):
        interrupt(waiting)
        for each in waiting:
            again = poll_action(session, each["action_id"], for_s=wait_s, for_people=False)
            outcomes[each["call_id"]] = yield from again
    answers = [_message(call, outcomes[call.call_id]) for call in asked]
    return {"messages": answers}


def _calls(messages: Sequence[AnyMessage]) -> list[Call]:
    last = messages[-1]
    if not isinstance(last, AIMessage):
        return []
    wanted = [*last.tool_calls, *last.invalid_tool_calls]
    return [parse_call(one["name"] or "", one["args"], one["id"]) for one in wanted]


def _message(call: Call, outcome: Outcome) -> ToolMessage:
    return ToolMessage(
        content=outcome_text(outcome, can_ask=True),
        name=call.tool,
        tool_call_id=call.call_id,
        status="error" if outcome.refused else "success",
    )


def _guarded(session: SessionRequests, state: State) -> Plan[Update]:
    last = state["messages"][-1]
    if not isinstance(last, AIMessage) or last.tool_calls or not last.text:
        return {"messages": []}
    sendable = yield from SessionRequests.guarded.build(session, last.text)
    return {"messages": [] if sendable == last.text else [AIMessage(sendable, id=last.id)]}
