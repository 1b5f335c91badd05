"""An agent of the OpenAI Agents SDK whose interrupted run is stored, with the id of its session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import agents
from agents import Runner, RunState
from agents.testing import ScriptedModel, assistant_message, function_call

from counterfoil.adapters import openai_agents as adapter
from counterfoil.agent import Agent, AsyncAgent
from tests.waiting.programs.client import PATIENCE, Folder, follow

folder = Folder()
told = folder.told


async def main() -> dict[str, Any]:
    """The answer of the call, once people need not be waited for."""
    agents.set_tracing_disabled(True)
    async with AsyncAgent(url=told["url"], key=told["key"], agent_id=told["agent"], backoff=PATIENCE) as agent:
        kept = folder.kept()
        session = await agent.open_session(
            goal="Remove what is out of date.", ttl_seconds=3600, continues=kept.get("session_id")
        )
        kept = folder.keep(session_id=kept.get("session_id") or session.session_id)
        steps = [[assistant_message("It is settled.")]]
        if "state" not in kept:
            steps = [[function_call(told["tool"], told["arguments"], call_id=f"call_{told['name']}")], *steps]
        tools = adapter.tools(session, wait_s=5, interrupts=True)
        made = agents.Agent(name="clerk", model=ScriptedModel(steps), tools=tools)
        if "state" in kept:
            result = await Runner.run(made, await approved(made, kept["state"]))
        else:
            result = await Runner.run(made, "Please tidy up.")
            if result.interruptions:
                kept = folder.keep(state=result.to_state().to_json())
                result = await Runner.run(made, await approved(made, kept["state"]))
        outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
        answer: dict[str, Any] = json.loads(outputs[-1])
        return answer


async def approved(made: agents.Agent[Any], state: dict[str, Any]) -> RunState[Any, Any]:
    """The stored run with its interruptions approved: it means that the console is asked again."""
    run = await RunState.from_json(made, state)
    for each in run.get_interruptions():
        run.approve(each)
    return run


answer = asyncio.run(main())
if answer["accepted"]:
    with Agent(url=told["url"], key=told["key"], agent_id=told["agent"], backoff=PATIENCE) as agent:
        follow(folder, agent, answer["action_id"])
else:
    folder.heard("NONE", f"{answer['code']} {answer['message']}", done=False)
