"""Offer accepted calls as tasks (`io.modelcontextprotocol/tasks`, SEP-2663) to clients that declare the extension.

1. A task is an action: it has the action's id, and its times and its state are read from the console at each request.
   The gateway keeps nothing of its own about it, so a task is there after the gateway was restarted, and for as long as
   the console has the action (`ttlMs` null).
2. It is `working` until the report on the action is final: nothing is completed before it was read back.
3. Then it is `completed` with the answer that the call itself would have had. A call that was rejected, that nobody
   decided in time or that failed is completed too, with `isError`. `failed` is for errors of the protocol, which a call
   through the gateway never ends with. `cancelled` is what was withdrawn before it started.
4. While people decide, and where the caller may be one of them, it is `input_required` and names the console's page.
   A client's word that the page was opened decides nothing; it only ends the asking (`caller_decision`). So it is while
   the server asks something in the middle of a read (`questions`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from counterfoil.answers import FINAL_REPORTS, Status
from counterfoil.mcp.caller_decision import CallerDecision
from counterfoil.mcp.desk import ConsoleClient
from counterfoil.mcp.errands import PendingCall, PendingCalls
from counterfoil.problems import NotFound, Problem, Unreachable

log = logging.getLogger("counterfoil.mcp")

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 2_000

Context = ServerRequestContext[Any, Any]
Handler = Callable[[Context, Any], Awaitable[dict[str, Any]]]


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    task_id: str


class TaskUpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class CallTasks:
    """The tasks of this agent's calls."""

    def __init__(self, desk: ConsoleClient, errands: PendingCalls, decision: CallerDecision) -> None:
        self._desk = desk
        self._errands = errands
        self._decision = decision

    @property
    def methods(self) -> list[tuple[str, type[TaskParams], Handler]]:
        """The methods of the extension, each with its parameters and its handler."""
        return [
            ("tasks/get", TaskParams, self._get),
            ("tasks/update", TaskUpdateParams, self._update),
            ("tasks/cancel", TaskParams, self._cancel),
        ]

    async def create(self, errand: PendingCall) -> dict[str, Any] | None:
        """The result that hands out a call as a task; None if the console cannot be asked about it now."""
        try:
            status = await to_thread.run_sync(self._desk.state, errand.action_id)
        except (Problem, Unreachable) as fault:
            log.info("action %s is handed out as no task: %s", errand.action_id, fault)
            return None
        return _task(status, "working", errand.progress, resultType="task")

    async def _get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        errand, status = await self._find(ctx, params.task_id)
        if status.raw.get("outcome") == "CANCELLED":
            return _task(status, "cancelled", "It was withdrawn before it started.")
        if not errand.done.is_set():
            return self._open_task(ctx, errand, status)
        report = await _ask(self._desk.report, errand.action_id)
        if report.code not in FINAL_REPORTS:
            return _task(status, "working", report.text)
        result = await self._errands.told(errand, report, status)
        completed = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return _task(status, "completed", report.text, result=completed)

    def _open_task(self, ctx: Context, errand: PendingCall, status: Status) -> dict[str, Any]:
        """The task of a call that has no answer yet."""
        waits = status.approval if status.approval is not None and status.approval.waiting else None
        asked = self._decision.requests(ctx, errand, waits.approval_id if waits else None) or errand.asked_of(ctx)
        until = f" It is decided by {waits.decide_by} or not executed." if waits and waits.decide_by else ""
        if not asked:
            return _task(status, "working", errand.progress + until)
        requests = {key: each.model_dump(mode="json", by_alias=True, exclude_none=True) for key, each in asked.items()}
        return _task(status, "input_required", errand.progress + until, inputRequests=requests)

    async def _update(self, ctx: Context, params: TaskUpdateParams) -> dict[str, Any]:
        errand, _ = await self._find(ctx, params.task_id)
        self._decision.note(errand, params.input_responses)
        if errand.questions is not None:
            errand.questions.answer(params.input_responses)
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        errand, _ = await self._find(ctx, params.task_id)
        if not errand.done.is_set():
            await self._errands.cancel(errand)
        return {}

    async def _find(self, ctx: Context, task_id: str) -> tuple[PendingCall, Status]:
        """The call behind a task, taken up again if another run of the gateway proposed it, and its status."""
        require_tasks(ctx)
        routed = getattr(ctx.request, "headers", {}).get(MCP_NAME_HEADER)
        # FastMCP 4.1 sends none, though it must: nothing was routed by it then. Two that differ are refused.
        if routed is not None and decode_header_value(routed) != task_id:
            raise MCPError(types.HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the taskId parameter")
        status = await _ask(self._desk.state, task_id)
        return self._errands.take_up(status), status


def speaks_tasks(ctx: Context) -> bool:
    """Return whether the client declares the extension on this very request."""
    has = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and has is not None and EXTENSION in (has.extensions or {})


def require_tasks(ctx: Context) -> None:
    """Refuse a request about tasks of a client that does not declare the extension, as the extension says."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", data=ctx.method)
    if not speaks_tasks(ctx):
        data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data=data)


async def _ask(question: Callable[[str], Any], action_id: str) -> Any:
    """The console's answer; an unknown task and a console that is away are errors of the protocol."""
    try:
        return await to_thread.run_sync(question, action_id)
    except NotFound as fault:
        raise MCPError(types.INVALID_PARAMS, "This agent has no task with this id.") from fault
    except (Problem, Unreachable) as fault:
        raise MCPError(types.INTERNAL_ERROR, "The console cannot be asked about this task now.") from fault


def _task(status: Status, state: str, message: str, **more: Any) -> dict[str, Any]:
    return {
        "taskId": status.action_id,
        "status": state,
        "statusMessage": message,
        "createdAt": status.raw["proposed_at"],
        "lastUpdatedAt": status.raw["changed_at"],
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    } | more
