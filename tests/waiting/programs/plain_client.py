"""A program with the client library: it keeps the id of its action."""

from __future__ import annotations

from counterfoil.agent import Agent, Call
from tests.waiting.programs.client import PATIENCE, Folder, follow

folder = Folder()
told = folder.told
with Agent(url=told["url"], key=told["key"], agent_id=told["agent"], backoff=PATIENCE) as agent:
    action_id = folder.kept().get("action_id")
    if action_id is None:
        session = agent.open_session(goal="Remove what is out of date.", ttl_seconds=3600)
        result = session.call(Call(told["tool"], told["arguments"]))
        assert result.action_id, (result.code, result.message)
        action_id = folder.keep(action_id=result.action_id)["action_id"]
    follow(folder, agent, action_id)
