"""The same wait in LangGraph: a node that interrupts, a resume, and a node behind it, with its PostgreSQL checkpointer.

`durability="sync"` writes each step before the next begins. One process has one connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypedDict
from uuid import uuid4

from benchmarks.stand import Stand
from benchmarks.writers import Write


class State(TypedDict, total=False):
    payload: dict[str, str]
    verdict: str
    done: str


def prepare(stand: Stand) -> None:
    """Its tables, made by itself."""
    _saver().setup()


def ways(number: int) -> dict[str, Write]:
    """What one writer can do."""
    return {"trip": tripping()}


def tripping() -> Callable[[], None]:
    """One round trip: run to the interrupt, resume, run to the end."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    def ask(state: State) -> State:
        return {"verdict": interrupt(state["payload"])}

    def redeem(state: State) -> State:
        return {"done": state["verdict"]}

    drawn = StateGraph(State)
    drawn.add_node("ask", ask)
    drawn.add_node("redeem", redeem)
    drawn.add_edge(START, "ask")
    drawn.add_edge("ask", "redeem")
    drawn.add_edge("redeem", END)
    graph = drawn.compile(checkpointer=_saver())

    def trip() -> None:
        thread: Any = {"configurable": {"thread_id": uuid4().hex}}
        graph.invoke({"payload": {"path": "notes/a.md"}}, thread, durability="sync")
        if graph.invoke(Command(resume="approve"), thread, durability="sync")["done"] != "approve":
            raise SystemExit("benchmarks: LangGraph lost an answer")

    return trip


def _saver() -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import dict_row

    # As PostgresSaver.from_conn_string makes it.
    connection = Connection.connect(
        os.environ["WORKFLOWS_URL"], autocommit=True, prepare_threshold=0, row_factory=dict_row
    )
    return PostgresSaver(connection)
