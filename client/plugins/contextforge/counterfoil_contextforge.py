"""A plug-in of ContextForge: each tool call of the gateway is decided on by Counterfoil, run once and reported.

In the gateway's plug-in file its `kind` is `counterfoil_contextforge.CounterfoilPlugin`, with the hooks
`tool_pre_invoke` and `tool_post_invoke`, the mode `sequential` and `on_error: fail`; in a mode that may not block or
change, it refuses to load. `config` has `settings`, the file with the tables `console` and `deciding`, and `tools`,
which gives a tool of the gateway the name of its contract; a tool that is not named there keeps its own. The gateway
needs `PLUGINS_FAIL_ON_PLUGIN_ERROR=true`: else it goes on without a plug-in that did not load.

The gateway calls the first hook before it sends the call and the second one after an answer. Where no answer came,
there is no second one, and the outcome is UNKNOWN and read back.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from cpex.framework import (
    OnError,
    Plugin,
    PluginConfig,
    PluginContext,
    PluginMode,
    PluginViolation,
    ToolPostInvokePayload,
    ToolPostInvokeResult,
    ToolPreInvokePayload,
    ToolPreInvokeResult,
)

from counterfoil.gating.deciding import Decided, Decider
from counterfoil.gating.settings import BadSettings, read_document
from counterfoil.work import Failure, Result, Work

_STARTED: Final = "counterfoil_action"
# The gateway makes a plug-in for each of its contexts, and one of them may see the answer to what another one asked.
_running: Final[dict[str, tuple[Work, ExitStack]]] = {}


@lru_cache
def _decider(settings: str) -> Decider:
    return Decider.of(read_document(Path(settings)), os.environ)


class CounterfoilPlugin(Plugin):
    """Asks before a tool is invoked and reports the answer afterwards."""

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        if config.mode is not PluginMode.SEQUENTIAL or config.on_error is not OnError.FAIL:
            raise BadSettings("The mode is `sequential` and `on_error` is `fail`: else a call would pass undecided.")
        told = config.config or {}
        self._names: dict[str, str] = dict(told.get("tools") or {})
        self._decider = _decider(str(told.get("settings", "")))

    async def tool_pre_invoke(self, payload: ToolPreInvokePayload, context: PluginContext) -> ToolPreInvokeResult:
        """Let an allowed call pass with its stored payload, and block any other with the reason."""
        tool = self._names.get(payload.name, payload.name)
        decided = await to_thread.run_sync(self._decide, tool, payload.args or {}, _user_of(context))
        if decided.work is None:
            return ToolPreInvokeResult(continue_processing=False, violation=_violation(decided))
        held = ExitStack()
        held.enter_context(self._decider.hold_lease(decided.work))
        _running[decided.work.action_id] = decided.work, held
        context.state[_STARTED] = decided.work.action_id
        return ToolPreInvokeResult(
            modified_payload=payload.model_copy(update={"args": dict(decided.work.payload)}),
            metadata={"counterfoil_action": decided.work.action_id},
        )

    async def tool_post_invoke(self, payload: ToolPostInvokePayload, context: PluginContext) -> ToolPostInvokeResult:
        """Report the answer to an allowed call as evidence."""
        work, held = _running.pop(context.state.pop(_STARTED, ""), (None, None))
        if work is not None and held is not None:
            await to_thread.run_sync(held.close)
            await to_thread.run_sync(self._decider.tell_outcome, work, _outcome(payload.result))
        return ToolPostInvokeResult()

    def _decide(self, tool: str, arguments: dict[str, Any], user: str) -> Decided:
        return self._decider.decide(tool, arguments, caller=user)


def _user_of(context: PluginContext) -> str:
    user = context.global_context.user
    return user if isinstance(user, str) else json.dumps(user, sort_keys=True, default=str)


def _violation(decided: Decided) -> PluginViolation:
    found = decided.decision
    details = {} if found is None else {"decision": found.decision, "task_id": found.raw.get("task_id")}
    code = "UNDECIDED" if found is None else (found.code or found.decision.upper())
    return PluginViolation(reason="Counterfoil", description=decided.message, code=code, details=details)


def _outcome(said: Any) -> Result:
    """The tool's answer as evidence; an error, or what has no known form, leaves open what happened."""
    if isinstance(said, dict) and not said.get("isError", said.get("is_error")):
        return Result("success", raw=said)
    return Result("failed", error=Failure("TOOL_ERROR", "The answer is an error.", "unknown"), raw=said)
