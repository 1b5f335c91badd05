"""A LangGraph agent with a checkpointer: it keeps its thread, and the id of its session."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from counterfoil.adapters import langgraph as adapter
from counterfoil.agent import Agent
from tests.waiting.programs.client import PATIENCE, Folder, follow, pause

folder = Folder()
told = folder.told
CALL = {"name": told["tool"], "args": told["arguments"], "id": "call-1", "type": "tool_call"}


def model(state: MessagesState) -> dict[str, Any]:
    answered = state["messages"][-1].type == "tool"
    return {"messages": [AIMessage("It is settled.") if answered else AIMessage("", tool_calls=[CALL])]}


with Agent(url=told["url"], key=told["key"], agent_id=told["agent"], backoff=PATIENCE) as agent:
    before = folder.kept().get("session_id")
    session = agent.open_session(goal="Remove what is out of date.", ttl_seconds=3600, continues=before)
    folder.keep(session_id=before or session.session_id)
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", adapter.call_tools(session, wait_s=5, interrupts=True))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", adapter.wants_tools, {True: "tools", False: END})
    builder.add_edge("tools", "model")
    store = sqlite3.connect(folder.path / "graph.sqlite", check_same_thread=False)
    graph = builder.compile(checkpointer=SqliteSaver(store))
    thread: Any = {"configurable": {"thread_id": told["name"]}}
    begun = bool(graph.get_state(thread).next)
    asked: Any = Command(resume=True) if begun else {"messages": [HumanMessage("Please tidy up.")]}
    while "__interrupt__" in (state := graph.invoke(asked, thread)):
        asked = Command(resume=True)
        pause()
    answer = json.loads(next(each.content for each in state["messages"] if each.type == "tool"))
    if answer["accepted"]:
        follow(folder, agent, answer["action_id"])
    else:
        folder.heard("NONE", f"{answer['code']} {answer['message']}", done=False)
