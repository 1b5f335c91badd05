"""Claude Agent SDK: a session's tools as an in-process MCP server, and hooks that keep everything else from running.

`tool_server(session)` is a server for `ClaudeAgentOptions(mcp_servers={"counterfoil": ...})`. `hooks(session)` lets the
session's own tools through to it and stops every other tool with the gate's answer, except those that `also` names;
permission rules and modes do not go before it, and a hook that fails stops the call. `permission(session)` says the
same as `can_use_tool`, which the SDK asks only where no rule has decided already.

With `defers=True` a call that waits for people ends the run: `ResultMessage.deferred_tool_use` names it. Resuming the
run asks the hook again with the same call; what the caller does meanwhile decides nothing.

`shell_hooks(settings, state)` does for the `Bash` tool of an SDK agent what `counterfoil-agents` does for Claude Code:
the SDK does not read that client's settings unless it is told to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from claude_agent_sdk import (
    CanUseTool,
    HookCallback,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    McpSdkServerConfig,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    ToolPermissionContext,
)
from claude_agent_sdk.types import HookEvent
from mcp.server import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from counterfoil.adapters.offer import parse_arguments, parse_call, propose_call, session_tools
from counterfoil.agent import AsyncSession
from counterfoil.coding_agents.hooks import Hook, HookSettings, answer_after, answer_before, read_call
from counterfoil.telling import CHECK, LINES, outcome_text

SERVER: Final = "counterfoil"
"""The name of the server; its tools are `mcp__counterfoil__NAME`."""

_OURS: Final = f"mcp__{SERVER}__"
_CALL_ID: Final = "claudecode/toolUseId"
_SPARE_S: Final = 30.0
_CLIENT: Final = "claude-code"


def tool_server(session: AsyncSession, *, wait_s: float = 30.0) -> McpSdkServerConfig:
    """Return an MCP server with the tools of a session; each call waits at most `wait_s` for its outcome, and arguments
    go to the gate as written.
    """
    listed = [
        Tool(name=one.name, description=one.description, input_schema=dict(one.arguments_schema))
        for one in session_tools(session)
    ]

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        told: Mapping[str, Any] = params.meta or {}
        arguments = parse_arguments(params.arguments)
        given = told.get(_CALL_ID)
        name = session.names.take(given if isinstance(given, str) else None, params.name, arguments)
        call = parse_call(params.name, arguments, name)
        outcome = await session.carry_out(propose_call(session, call, for_s=wait_s))
        text = TextContent(type="text", text=outcome_text(outcome, can_ask=True))
        return CallToolResult(content=[text], is_error=outcome.refused)

    server: Server[Any] = Server(SERVER, on_list_tools=list_tools, on_call_tool=call_tool)
    return McpSdkServerConfig(type="sdk", name=SERVER, instance=server)


def hooks(
    session: AsyncSession, *, also: Collection[str] = (), wait_s: float = 30.0, defers: bool = False
) -> dict[HookEvent, list[HookMatcher]]:
    """Return hooks for each tool: those of the session run, those of `also` are left to the client's rules, no other
    runs.
    """

    async def before(given: HookInput, call_id: str | None, context: HookContext) -> HookJSONOutput:
        asked: Mapping[str, Any] = given
        name, arguments = str(asked["tool_name"]), asked["tool_input"]
        if name in also:
            return {}
        if not name.startswith(_OURS):
            return _decision("deny", await _gate_answer(session, name, arguments, call_id))
        tool = name.removeprefix(_OURS)
        if defers and tool not in (CHECK.name, LINES.name):
            arguments = parse_arguments(arguments)
            call = parse_call(tool, arguments, session.names.reserve(call_id, tool, arguments))
            outcome = await session.carry_out(propose_call(session, call, for_s=wait_s, for_people=False))
            if outcome.held:
                return _decision("defer", "It waits for people at the console.")
        return _decision("allow", "The gate answers this call.")

    return {"PreToolUse": [HookMatcher(hooks=[before], timeout=wait_s + _SPARE_S, on_failure="block")]}


def permission(session: AsyncSession, *, also: Collection[str] = ()) -> CanUseTool:
    """Return a `can_use_tool` that allows only the session's tools and those of `also`."""

    async def ask(name: str, arguments: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        if name in also or name.startswith(_OURS):
            return PermissionResultAllow()
        return PermissionResultDeny(message=await _gate_answer(session, name, arguments, context.tool_use_id))

    return ask


def shell_hooks(settings: HookSettings, state: Path) -> dict[HookEvent, list[HookMatcher]]:
    """Before and after each command of the `Bash` tool: proposed, held, and reported as `counterfoil-agents` does."""
    before = _shell(settings, state, lambda hook, call: answer_before(_CLIENT, hook.before(call)))
    after = _shell(settings, state, lambda hook, call: answer_after(_CLIENT, hook.after(call)))
    limit = settings.hold_s + _SPARE_S
    return {
        "PreToolUse": [HookMatcher(matcher="Bash", hooks=[before], timeout=limit, on_failure="block")],
        "PostToolUse": [HookMatcher(matcher="Bash", hooks=[after], timeout=_SPARE_S)],
        "PostToolUseFailure": [HookMatcher(matcher="Bash", hooks=[after], timeout=_SPARE_S)],
    }


async def guard_result(session: AsyncSession, result: ResultMessage) -> ResultMessage:
    """A run's result with its final text replaced by what may be sent; messages streamed earlier are not held back."""
    if result.is_error or not result.result:
        return result
    return replace(result, result=await session.guarded(result.result))


async def _gate_answer(session: AsyncSession, name: str, arguments: object, call_id: str | None) -> str:
    call = parse_call(name, arguments, session.names.of(call_id))
    return outcome_text(await session.carry_out(propose_call(session, call, for_s=0.0)))


def _decision(decision: Any, reason: str) -> HookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    }


def _shell(settings: HookSettings, state: Path, answer: Callable[[Hook, Any], Any]) -> HookCallback:
    def run(given: Mapping[str, Any]) -> Any:
        call = read_call(_CLIENT, given)
        if call is None:
            return {}
        hook = Hook(settings, state)
        try:
            return answer(hook, call)
        finally:
            hook.close()

    async def callback(given: HookInput, call_id: str | None, context: HookContext) -> HookJSONOutput:
        answered: HookJSONOutput = await to_thread.run_sync(run, given)
        return answered

    return callback
