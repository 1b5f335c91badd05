"""The adapter for the Claude Agent SDK, with a transport that says what the client program would say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from counterfoil.agent import AsyncAgent
from counterfoil.coding_agents.hooks import HookSettings
from tests.client.consoles import stand_in
from tests.client.sessions import RUNNING, a_day, blocks, gate, held_until_asked, stands

sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed: `make test-adapters`")
if sdk:
    from counterfoil.adapters import claude_agent_sdk as adapter

GOOD = {"charge_id": "ch_1", "amount": 500}
REFUND = "mcp__counterfoil__issue_refund"


@pytest.fixture
def console():
    with stand_in() as server:
        a_day(server)
        server.plan("/calls", gate)
        server.plan("/guard", blocks)
        yield server


class ScriptedClient(sdk.Transport):
    """Asks the SDK what Claude Code asks: hooks, then the permission callback, then the MCP server."""

    def __init__(self, *calls: tuple[str, str, dict[str, Any]], says: str = "Done.") -> None:
        self._calls = calls
        self._says = says
        self._to_sdk: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._hooks: dict[str, Any] = {}
        self._script: asyncio.Task[None] | None = None
        self.heard: dict[str, dict[str, Any]] = {}

    async def connect(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass

    async def close(self) -> None:
        if self._script is not None:
            self._script.cancel()

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            self._hooks = message["request"]["hooks"] or {}
            done = {"commands": [], "hook_on_failure_supported": True, "hooks_applied": True}
            answer = {"subtype": "success", "request_id": message["request_id"], "response": done}
            await self._to_sdk.put({"type": "control_response", "response": answer})
        elif message["type"] == "control_response":
            answer = message["response"]
            self._answers[answer["request_id"]].set_result(answer)
        elif self._script is None:
            self._script = asyncio.ensure_future(self._run())

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._to_sdk.get()) is not None:
            yield message

    async def _run(self) -> None:
        for number, (name, call_id, arguments) in enumerate(self._calls):
            heard = self.heard[call_id] = {}
            for matcher in self._hooks.get("PreToolUse", []):
                given = {"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": arguments}
                given |= {"tool_use_id": call_id, "session_id": "s", "cwd": "/", "transcript_path": ""}
                about = {"callback_id": matcher["hookCallbackIds"][0], "input": given, "tool_use_id": call_id}
                found = await self._ask({"subtype": "hook_callback", **about})
                heard |= found.get("hookSpecificOutput", {})
            verdict = heard.get("permissionDecision")
            if verdict == "defer":
                deferred = {"id": call_id, "name": name, "input": arguments}
                return await self._end(deferred_tool_use=deferred)
            if verdict is None:
                asked = {"subtype": "can_use_tool", "tool_name": name, "input": arguments, "tool_use_id": call_id}
                heard |= await self._ask(asked)
            if verdict == "deny" or heard.get("behavior") == "deny" or not name.startswith("mcp__counterfoil__"):
                continue
            params = {"name": name.removeprefix("mcp__counterfoil__"), "arguments": arguments}
            params |= {"_meta": {"claudecode/toolUseId": call_id}}
            heard["result"] = await self._mcp({"id": number, "method": "tools/call", "params": params})
        await self._end()

    async def _mcp(self, message: dict[str, Any]) -> dict[str, Any]:
        if not message["id"]:
            about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            await self._mcp({"id": "hello", "method": "initialize", "params": about})
        asked = {"subtype": "mcp_message", "server_name": "counterfoil", "message": {"jsonrpc": "2.0", **message}}
        return (await self._ask(asked))["mcp_response"]["result"]

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        name = f"r{len(self._answers)}"
        answer = self._answers[name] = asyncio.get_running_loop().create_future()
        await self._to_sdk.put({"type": "control_request", "request_id": name, "request": request})
        found = await answer
        assert found["subtype"] == "success", found
        return found.get("response") or {}

    async def _end(self, **more: Any) -> None:
        result = {"type": "result", "subtype": "success", "is_error": False, "result": self._says, "session_id": "s"}
        await self._to_sdk.put({**result, "duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, **more})
        await self._to_sdk.put(None)


async def _last(client: ScriptedClient, options: Any) -> Any:
    async def prompt() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": "Refund charge 1."}}

    messages = [one async for one in sdk.query(prompt=prompt(), options=options, transport=client)]
    return messages[-1]


def _run(console, act):
    async def there():
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            return await act(await agent.open_session(goal="g", ttl_seconds=60))

    return asyncio.run(there())


def _options(session, *, wait_s=30.0, **more):
    server = adapter.tool_server(session, wait_s=wait_s)
    return sdk.ClaudeAgentOptions(mcp_servers={"counterfoil": server}, **more)


def _told(client, call_id):
    return json.loads(client.heard[call_id]["result"]["content"][0]["text"])


def test_calls_are_proposed_under_their_own_ids_and_answered_as_the_gate_says(console):
    client = ScriptedClient(
        (REFUND, "toolu_1", GOOD),
        (REFUND, "toolu_2", GOOD | {"amount": "5 EUR"}),
        ("mcp__counterfoil__wire_money", "toolu_3", {}),
        ("mcp__counterfoil__check_action", "toolu_4", {"action_id": "act-1"}),
    )
    _run(console, lambda session: _last(client, _options(session, hooks=adapter.hooks(session))))
    assert _told(client, "toolu_1")["completed"]
    assert (_told(client, "toolu_2")["code"], _told(client, "toolu_2")["suggestion"]) == ("SCHEMA_DRIFT", "amount")
    assert client.heard["toolu_2"]["result"]["isError"]
    assert _told(client, "toolu_3")["code"] == "PHANTOM_TOOL"
    assert _told(client, "toolu_4")["state"] == "RECONCILED_SUCCESS"
    assert [seen.body["calls"][0]["call_id"] for seen in console.to("/calls")] == ["toolu_1", "toolu_2", "toolu_3"]


@pytest.mark.parametrize("by", ["hooks", "permission"])
def test_a_tool_outside_the_session_is_denied_and_proposed_to_the_gate(console, by):
    client = ScriptedClient(("Bash", "toolu_1", {"command": "true"}), ("Read", "toolu_2", {"file_path": "/x"}))

    async def act(session):
        always = {"can_use_tool": adapter.permission(session, also=["Read"])}
        gated = {"hooks": adapter.hooks(session, also=["Read"])} if by == "hooks" else {}
        return await _last(client, _options(session, **always, **gated))

    _run(console, act)
    heard = client.heard["toolu_1"]
    reason = heard["permissionDecisionReason"] if by == "hooks" else heard["message"]
    assert heard.get("permissionDecision", heard.get("behavior")) == "deny"
    assert json.loads(reason)["message"] == "There is no tool Bash."
    assert client.heard["toolu_2"]["behavior"] == "allow"
    assert [seen.body["calls"][0]["tool"] for seen in console.to("/calls")] == ["Bash"]


def test_an_open_action_is_shown_as_open_and_one_that_is_unknown_stays_so(console):
    unknown = {
        "state": "REVIEW_REQUIRED",
        "code": "FINAL_STATE_UNKNOWN",
        "text": "What came of it is not known.",
        "completed": False,
    }
    console.plan("/actions/act-1", stands("EXECUTING"), stands("REVIEW_REQUIRED"))
    console.plan("/report", *(type(stands(""))(200, report) for report in (RUNNING, unknown)))
    client = ScriptedClient(
        (REFUND, "toolu_1", GOOD), ("mcp__counterfoil__check_action", "toolu_2", {"action_id": "act-1"})
    )
    _run(console, lambda session: _last(client, _options(session, wait_s=0, hooks=adapter.hooks(session))))
    assert "do not say that it is done" in _told(client, "toolu_1")["note"]
    assert "check_action" in _told(client, "toolu_1")["note"]
    assert not _told(client, "toolu_2")["completed"]
    assert _told(client, "toolu_2")["text"] == "What came of it is not known."


def test_a_call_that_waits_for_people_ends_the_run_and_resuming_it_only_asks_for_the_outcome(console):
    held_until_asked(console, 2)

    async def act(session):
        client = ScriptedClient((REFUND, "toolu_1", GOOD))
        options = _options(session, hooks=adapter.hooks(session, defers=True))
        return (
            client,
            [await _last(ScriptedClient((REFUND, "toolu_1", GOOD)), options) for _ in range(2)],
            (await _last(client, _options(session, hooks=adapter.hooks(session, defers=True)))),
        )

    client, waiting, last = _run(console, act)
    assert [one.deferred_tool_use.id for one in waiting] == ["toolu_1", "toolu_1"]
    assert last.deferred_tool_use is None
    assert _told(client, "toolu_1")["approval"]["decision"] == "APPROVED"
    assert _told(client, "toolu_1")["completed"]
    assert {seen.body["calls"][0]["call_id"] for seen in console.to("/calls")} == {"toolu_1"}


def test_a_result_is_sent_as_the_guard_allows_it(console):
    async def act(session):
        told = []
        for says in ("I have refunded you.", "How much was it?"):
            result = await _last(ScriptedClient(says=says), _options(session))
            told.append((await adapter.guard_result(session, result)).result)
        return told

    assert _run(console, act) == ["Nothing was paid back yet.", "How much was it?"]


def test_the_shell_tool_is_held_as_in_claude_code(console, tmp_path):
    keys = {"agent_id": "a", "agent_key": "k", "executor_id": "e", "executor_key": "k"}
    settings = HookSettings(client="claude-code", mode="enforce", url=console.url, hold_s=0, **keys)
    found = adapter.shell_hooks(settings, tmp_path)
    assert [(one.matcher, one.on_failure) for one in found["PreToolUse"]] == [("Bash", "block")]

    async def before(command):
        given = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
        given |= {"tool_use_id": "toolu_1", "session_id": "s", "cwd": str(tmp_path)}
        return await found["PreToolUse"][0].hooks[0](given, "toolu_1", {"signal": None})

    assert asyncio.run(before("ls")) == {}
    refused = asyncio.run(before("git push --force $REMOTE main"))["hookSpecificOutput"]
    assert refused["permissionDecision"] == "deny"
    assert "git" in refused["permissionDecisionReason"]
    assert console.to("/calls") == []


def test_a_console_that_is_away_stops_the_call(console):
    async def act(session):
        found = adapter.hooks(session)
        assert [one.on_failure for one in found["PreToolUse"]] == ["block"]
        console.plan("/calls", type(stands(""))(403, {"code": "FORBIDDEN", "title": "No"}))
        with pytest.raises(Exception, match="FORBIDDEN"):
            await found["PreToolUse"][0].hooks[0](
                {"tool_name": "Bash", "tool_input": {}, "hook_event_name": "PreToolUse"}, "toolu_1", {"signal": None}
            )

    _run(console, act)
