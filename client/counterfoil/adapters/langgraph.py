"""LangGraph and LangChain: a session's tools, a node that calls them, and a node that guards.

`tools(session)` gives `StructuredTool`s for `bind_tools` and for a `ToolNode`. `call_tools(session)`
is a node in the place of the `ToolNode`: it sends all calls of a turn to the gate at once, also those
that name no tool or did not parse, so that the gate answers them and the record has them.

A call is named by its message and its place in it, so that a graph that runs a node again asks about the same calls.
In a `ToolNode`, which shows a tool neither, it is named by the node's run, its id, tool and arguments. In a thread that
a checkpointer keeps, these names are the same in another process: one that opens a session that `continues` the first
goes on with the thread's calls.

With `interrupts=True` a call that waits for people ends the turn as a LangGraph `interrupt`; the graph
needs a checkpointer, and is resumed with `Command(resume=...)` when there is a reason to look again.
What it is resumed with decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.config import get_config
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
    """The tools of a session; those of an `AsyncSession` are for asynchronous graphs."""
    return [_tool(session, one, wait_s, interrupts) for one in session_tools(session)]


def call_tools(session: Session | AsyncSession, *, wait_s: float = 30.0, interrupts: bool = False) -> Node:
    """A node that answers every tool call of the last message, waiting `wait_s` at most in all."""
    if isinstance(session, Session):
        return lambda state: session.carry_out(_turn(session, state, wait_s, interrupts))

    async def node(state: State) -> Update:
        return await session.carry_out(_turn(session, state, wait_s, interrupts))

    return node


def guard(session: Session | AsyncSession) -> Node:
    """A node that replaces a last message by what may be sent: corrections, filled citations, and the receipt."""
    if isinstance(session, Session):
        return lambda state: session.carry_out(_guard_answer(session, state))

    async def node(state: State) -> Update:
        return await session.carry_out(_guard_answer(session, state))

    return node


def wants_tools(state: State) -> bool:
    """Return whether the last message calls tools, well or badly: for `add_conditional_edges`."""
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
            return session.carry_out(_carry_out_call(session, tool.name, arguments, call_id, wait_s, interrupts))

        return GatedStructuredTool(func=call, **described)

    async def acall(arguments: object, call_id: str | None) -> str:
        return await session.carry_out(_carry_out_call(session, tool.name, arguments, call_id, wait_s, interrupts))

    return GatedStructuredTool(coroutine=acall, **described)


def _carry_out_call(
    session: SessionRequests, tool: str, arguments: object, call_id: str | None, wait_s: float, interrupts: bool
) -> Plan[str]:
    run, thread = _node_run(), _configured_value("thread_id")
    if run and thread:
        name = session.names.lasting(call_id, thread, run, tool, repr(arguments))
    else:
        name = session.names.of(call_id, *((run, tool, repr(arguments)) if run else ()))
    call = parse_call(tool, arguments, name)
    outcome = yield from propose_call(session, call, for_s=wait_s, for_people=not interrupts)
    while interrupts and outcome.held and outcome.action_id:
        interrupt([interrupt_value(outcome, call, call_id)])
        outcome = yield from poll_action(session, outcome.action_id, for_s=wait_s, for_people=False)
    return outcome_text(outcome, can_ask=True)


def _turn(session: SessionRequests, state: State, wait_s: float, interrupts: bool) -> Plan[Update]:
    asked = _calls(session, state["messages"])
    outcomes: dict[int, Outcome] = {}
    for place, (_, call) in enumerate(asked):
        if call.tool in OWN:
            outcomes[place] = yield from propose_call(session, call, for_s=wait_s, for_people=not interrupts)
    batch = {place: call for place, (_, call) in enumerate(asked) if place not in outcomes}
    if batch:
        calls = list(batch.values())
        proposing = SessionRequests.attempts.build(session, calls, for_s=wait_s, for_people=not interrupts)
        found = yield from proposing
        outcomes |= zip(batch, found, strict=True)
    while interrupts and (held := [place for place in range(len(asked)) if outcomes[place].held]):
        waiting = [interrupt_value(outcomes[place], asked[place][1], asked[place][0]) for place in held]
        interrupt(waiting)
        for place, each in zip(held, waiting, strict=True):
            again = poll_action(session, each["action_id"], for_s=wait_s, for_people=False)
            outcomes[place] = yield from again
    return {"messages": [_message(given, call, outcomes[place]) for place, (given, call) in enumerate(asked)]}


def _calls(session: SessionRequests, messages: Sequence[AnyMessage]) -> list[tuple[str | None, Call]]:
    """The calls of the last message, each with the id that its answer carries."""
    last = messages[-1]
    if not isinstance(last, AIMessage):
        return []
    thread = _configured_value("thread_id")
    message = (thread, last.id, len(messages)) if last.id is not None else _node_run() or uuid4()
    name_of = session.names.lasting if thread and last.id is not None else session.names.of
    calls = []
    for place, one in enumerate([*last.tool_calls, *last.invalid_tool_calls]):
        name = name_of(one["id"], message, place, one["name"], repr(one["args"]))
        calls.append((one["id"], parse_call(one["name"] or "", one["args"], name)))
    return calls


def _node_run() -> str | None:
    """The name of the node's run, the same when a graph repeats it; None outside of a graph."""
    return _configured_value("checkpoint_ns")


def _configured_value(name: str) -> str | None:
    try:
        return get_config().get("configurable", {}).get(name) or None
    except RuntimeError:
        return None


def _message(given: str | None, call: Call, outcome: Outcome) -> ToolMessage:
    return ToolMessage(
        content=outcome_text(outcome, can_ask=True),
        name=call.tool,
        tool_call_id=given or call.call_id,
        status="error" if outcome.refused else "success",
    )


def _guard_answer(session: SessionRequests, state: State) -> Plan[Update]:
    last = state["messages"][-1]
    if not isinstance(last, AIMessage) or last.tool_calls or not last.text:
        return {"messages": []}
    sendable = yield from SessionRequests.guarded.build(session, last.text)
    return {"messages": [] if sendable == last.text else [AIMessage(sendable, id=last.id)]}
