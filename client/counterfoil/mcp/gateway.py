"""The MCP gateway's tool list and tool calls, gated by the console.

1. tools/list: the tools that are registered and unchanged, with their registered texts, and `counterfoil_status`.
2. tools/call: proposed as the agent; a refusal is a tool result. What is accepted is claimed and started as the
   executor, and the stored payload is sent to the server, never the caller's own copy (D9).
   One that cannot start yet is a task for clients that declare the extension (`tasks`), and a handle for all others.
3. Right before the effect the tool is looked at again; one that has changed since it was registered is not called.
4. Resources, prompts, completion and logging pass through. They are not gated: they do not change anything by
   themselves, and what they say is the server's word. The server's own instructions are not passed on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from anyio import from_thread, get_cancelled_exc_class, to_thread
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from counterfoil.agent import Call
from counterfoil.answers import CallResult
from counterfoil.executor import Effect
from counterfoil.mcp import answers
from counterfoil.mcp.answers import LINES_TOOL, OWN_TOOLS, STATUS_TOOL
from counterfoil.mcp.caller_decision import CallerDecision
from counterfoil.mcp.desk import ConsoleClient
from counterfoil.mcp.endings import EXPIRED
from counterfoil.mcp.errands import PendingCall, PendingCalls
from counterfoil.mcp.passing import ConnectedClients
from counterfoil.mcp.questions import Questions
from counterfoil.mcp.settings import Settings
from counterfoil.mcp.state import first_texts
from counterfoil.mcp.surface import OfferedTool, ToolDecision, ToolSurface, compare_tools, contract_name
from counterfoil.mcp.tasks import CallTasks, speaks_tasks
from counterfoil.mcp.upstream import Upstream
from counterfoil.problems import BodyRefused, Problem, Unreachable
from counterfoil.work import Failure, NothingSent, Result, Work

log = logging.getLogger("counterfoil.mcp")

GOAL = "io.counterfoil/goal"
DEPENDS_ON = "io.counterfoil/depends_on"
ACKNOWLEDGES = "io.counterfoil/acknowledges"
_PROGRESS_S = 5.0
_LEAST_HOLD_S = 5.0
_OF_LIMIT = 0.75
"""How much of the time after which a client gave up it is made to wait the next time."""
_UNREADABLE = Failure("UNREADABLE_ANSWER", "What the server answered is no tool result.", "unknown")
Context = ServerRequestContext[Any, Any]


class GatedTools:
    """Lists and calls tools by the rules; call `ready` first."""

    def __init__(self, settings: Settings, upstream: Upstream, clients: ConnectedClients) -> None:
        self._settings = settings
        self._upstream = upstream
        self._clients = clients
        self._hold_s = settings.gateway.hold_s
        self._desk = ConsoleClient(settings, forward=self._handle)
        self._errands = PendingCalls(self._desk, settings.gateway)
        self._decision = CallerDecision(settings.gateway.decide_at)
        self.tasks = CallTasks(self._desk, self._errands, self._decision)
        self._surface = ToolSurface({})
        self._surveyed: Mapping[str, Any] = {}
        self._listed_at = self._doubted_at = 0.0
        self._told: set[tuple[str, str]] = set()

    async def ready(self, tasks: TaskGroup) -> None:
        """Open the session and compare the server's tools with the registered ones."""
        self._errands.tasks = tasks
        await to_thread.run_sync(self._desk.open)
        await to_thread.run_sync(self._desk.enlist)
        await self.look()

    async def settle(self) -> None:
        """Wait until started calls have ended and are reported."""
        await self._errands.ended()

    def close(self) -> None:
        """Close the session."""
        self._desk.close()

    def doubt(self) -> None:
        """Mark the tools as changed by the server: until they are surveyed, none is called."""
        self._doubted_at = time.monotonic()

    async def look(self) -> None:
        """Survey the server's tools again, and report the withheld ones."""
        asked_at = time.monotonic()
        listing, known = await self._upstream.tools(), self._desk.known
        with first_texts(self._settings) as seen_first:
            self._surface = compare_tools(
                listing.tools, known, prefix=self._settings.prefix, unread=listing.unread, seen_first=seen_first
            )
        self._surveyed, self._listed_at = known, asked_at
        for one in self._surface.withheld:
            if one.why and (one.tool.name, one.why) not in self._told:
                self._told.add((one.tool.name, one.why))
                code = "TOOL_CHANGED" if one.fate is ToolDecision.CHANGED else "TOOL_UNREAD"
                log.error("%s: %s is withheld: %s", code, one.tool.name, one.why)
        await to_thread.run_sync(self._desk.withhold, self._surface.withheld)

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools in the order of their names, whatever the server's order is, so that lists can be compared."""
        offered = sorted(self._surface.offered, key=lambda one: one.tool.name)
        tools = [one.shown for one in offered if one.tool.name not in OWN_TOOLS]
        return types.ListToolsResult(tools=[*tools, answers.status_tool(), answers.lines_tool(), answers.verify_tool()])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        arguments = params.arguments or {}
        if params.request_state is not None:
            return await self._resume(ctx, params.request_state, params.input_responses or {})
        if params.name in OWN_TOOLS:
            return await self._call_own_tool(ctx, params.name, arguments)
        seen = self._surface.seen.get(params.name)
        if seen is not None and seen.fate is ToolDecision.CHANGED:
            message = f"This tool is withheld: {seen.why}. It must be registered again before it can be called."
            return answers.withheld_result("TOOL_CHANGED", message)
        try:
            result, effect = await to_thread.run_sync(partial(self._propose, params.name, arguments, params.meta))
        except BodyRefused as fault:
            return answers.withheld_result(fault.code, fault.detail or fault.title, fault.hint)
        except (Problem, Unreachable) as fault:
            log.warning("a call of %s could not be checked: %s", params.name, fault)
            return answers.withheld_result(
                "GATE_UNREACHABLE", "The call could not be checked, so it was not let through."
            )
        if not result.accepted or result.action_id is None:
            return answers.refusal_result(result, prefix=self._settings.prefix)
        errand = self._errands.begin(result.action_id, dict(result.approval), effect)
        self._let_ask(ctx, errand, seen, params.input_responses)
        try:
            return await self._answer(ctx, errand, starts=effect is not None)
        except get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                if errand.started or await self._clients.took_back(ctx):
                    await self._errands.cancel(errand)
                else:
                    self._errands.put_down(errand)
            raise

    def _let_ask(self, ctx: Context, errand: PendingCall, tool: OfferedTool | None, early: Any) -> None:
        """Let the server ask this caller in the middle of the call, if that is a read."""
        reads = tool is not None and tool.contract is not None and tool.contract.reads
        if reads and self._settings.gateway.questions and errand.questions is None:
            has, pages = ctx.session.client_capabilities, self._settings.console_hosts
            errand.questions = Questions(self._settings.server.name, has, console=pages, early=early)

    async def _call_own_tool(
        self, ctx: Context, name: str, arguments: dict[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        if name == STATUS_TOOL:
            return await self._status(ctx, arguments)
        return await (self._lines() if name == LINES_TOOL else self._verify(arguments))

    async def _verify(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Verify something that was done without this gateway."""
        not_verified = "Not verified, so it is not safe to claim: "
        if not isinstance(arguments.get("expected"), dict):
            message = f"{not_verified}`expected` is an object of fields and their values."
            return answers.withheld_result("ARGUMENT_HALLUCINATION", message)
        try:
            found = await to_thread.run_sync(self._desk.verify, arguments)
        except Problem as fault:
            return answers.withheld_result(fault.code, f"{not_verified}{fault.detail or fault.title}")
        except Unreachable:
            return answers.withheld_result("GATE_UNREACHABLE", f"{not_verified}the console did not answer.")
        return answers.verification_result(found)

    async def _answer(
        self, ctx: Context, errand: PendingCall, *, starts: bool
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        """The call's answer, or what its client can wait with: a task, the page of the request, a handle."""
        if not starts:
            if speaks_tasks(ctx):
                return await self.tasks.create(errand) or errand.handle()
            approval_id = errand.approval.get("approval_id")
            asked = self._decision.requests(ctx, errand, str(approval_id) if approval_id else None)
            if asked:
                return types.InputRequiredResult(input_requests=dict(asked), request_state=errand.action_id)
        return await self._continue(ctx, errand)

    async def _continue(
        self, ctx: Context, errand: PendingCall
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        """The call's answer once there is one, or else its server's questions, a task or a handle."""
        if (answered := await self._wait(ctx, errand)) is not None:
            return answered
        if (asked := errand.asked_of(ctx)) and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return types.InputRequiredResult(input_requests=asked, request_state=errand.action_id)
        return (await self.tasks.create(errand) if speaks_tasks(ctx) else None) or errand.handle()

    async def _resume(
        self, ctx: Context, action_id: str, responses: Mapping[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        """Continue a call whose caller was asked something; the id was sealed, so it is one that was given out here.

        A caller that did not open the page of a held call is not made to wait: others decide.
        """
        known = self._errands.of(action_id)
        if known is not None and known.questions is not None and known.started:
            known.questions.answer(responses)
        elif known is not None and any(getattr(one, "action", None) != "accept" for one in responses.values()):
            return known.answer or known.handle()
        return await self._status(ctx, {"action_id": action_id})

    async def _lines(self) -> types.CallToolResult:
        try:
            return answers.lines(await to_thread.run_sync(self._desk.receipt))
        except (Problem, Unreachable) as fault:
            log.info("the receipt could not be fetched: %s", fault)
            return answers.withheld_result("CONSOLE_AWAY", "The console cannot be reached; tell nothing as done.")

    def _propose(self, tool: str, arguments: dict[str, Any], meta: Any) -> tuple[CallResult, Effect | None]:
        said: Mapping[str, Any] = meta if isinstance(meta, dict) else {}
        goal = said.get(GOAL)
        call = Call(
            tool=contract_name(self._settings.prefix, tool),
            arguments=arguments,
            depends_on=_texts(said.get(DEPENDS_ON)),
            acknowledges=_texts(said.get(ACKNOWLEDGES)),
        )
        return self._desk.propose(call, goal=goal if isinstance(goal, str) else None)

    async def _status(
        self, ctx: Context, arguments: dict[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        action_id = arguments.get("action_id")
        if not isinstance(action_id, str) or set(arguments) != {"action_id"}:
            return answers.withheld_result("ARGUMENT_HALLUCINATION", "Send exactly one argument: action_id.")
        known = self._errands.of(action_id)
        try:
            if known is not None and known.done.is_set():
                # Asked anew: what became of it may have been found out since.
                return await self._errands.told(known)
            if known is None:
                known = self._errands.take_up(await to_thread.run_sync(self._desk.state, action_id))
        except (Problem, Unreachable) as fault:
            log.info("action %s could not be asked about: %s", action_id, fault)
            return answers.withheld_result(
                "NOT_FOUND", "This agent has no action with this id, or the console cannot be reached."
            )
        return await self._continue(ctx, known)

    async def _wait(self, ctx: Context, errand: PendingCall) -> types.CallToolResult | None:
        """Return its answer, or None when the caller's time is over or its server asks the caller something; the caller
        gets progress meanwhile. A caller that timed out is answered sooner from then on.

        A server that needs a capability which the client did not declare refuses the call by an error of the protocol.
        """
        errand.listener, since = ctx.session.report_progress, time.monotonic()
        try:
            with anyio.move_on_after(self._hold_s):
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(_reassure, ctx, errand)
                    waiting.start_soon(_pass_questions, ctx, errand, waiting.cancel_scope)
                    await errand.done.wait()
                    waiting.cancel_scope.cancel()
        except get_cancelled_exc_class():
            waited = time.monotonic() - since
            self._hold_s = min(self._hold_s, max(_LEAST_HOLD_S, _OF_LIMIT * waited))
            raise
        finally:
            errand.listener = None
        if errand.done.is_set() and errand.questions is not None and errand.questions.missing is not None:
            raise MCPError.from_error_data(errand.questions.missing)
        return errand.answer

    # The effect

    def _handle(self, work: Work) -> Result:
        """Forward the work as the executor's handler, from its thread."""
        return from_thread.run(self._forward, work)

    async def _forward(self, work: Work) -> Result:
        errand = self._errands.begin(work.action_id)
        try:
            result = await self._send_once(await self._verified_tool(work), work, errand)
        except NothingSent as refusal:
            result = Result("failed", error=Failure(refusal.code, refusal.message, "before_send"))
        unread = errand.said is None and result.status == "unreadable"
        errand.error = result.error or (_UNREADABLE if unread else None)
        return result

    async def _send_once(self, tool: OfferedTool, work: Work, errand: PendingCall) -> Result:
        with anyio.CancelScope() as scope, work.effect(tool.tool.name):
            errand.effect, errand.started = scope, True
            result = await self._call_upstream(tool, work, errand)
            if _met_no_session(result) and tool.contract is not None and tool.contract.reads:
                self.doubt()
                result = await self._call_upstream(await self._verified_tool(work), work, errand)
            return result
        return Result("timeout", error=Failure("CANCELLED", "The caller cancelled while the server worked.", "unknown"))

    async def _call_upstream(self, tool: OfferedTool, work: Work, errand: PendingCall) -> Result:
        limit_s = self._settings.gateway.timeout_s
        name, arguments = tool.tool.name, dict(work.payload)
        questions = errand.questions if tool.contract is not None and tool.contract.reads else None
        result, errand.said = await self._upstream.call(
            name, arguments, timeout_s=limit_s, progress=errand.tell, questions=questions
        )
        if questions is not None and questions.record:
            result = replace(result, raw={"answer": result.raw, "questions": questions.record})
        if _met_no_session(result):
            # What the server offers in its next session may be something else.
            self.doubt()
        return result

    async def _verified_tool(self, work: Work) -> OfferedTool:
        """Return the tool if it is the registered one as the server lists it now; else raise `NothingSent`."""
        stale = time.monotonic() - self._listed_at > self._settings.gateway.relist_s
        if stale or self._listed_at <= self._doubted_at or self._surveyed is not self._desk.known:
            try:
                await self.look()
            except (MCPError, ValidationError, RuntimeError) as fault:
                # A tool that cannot be looked at is not called.
                raise NothingSent("SERVER_GONE", f"The server's tools could not be listed: {fault}"[:300]) from fault
        seen = self._surface.under(work.tool)
        if seen is None or seen.fate is not ToolDecision.OFFERED or seen.contract is None:
            why = seen.why if seen is not None and seen.why else "the server does not offer it any more"
            name = seen.tool.name if seen is not None else work.tool.removeprefix(self._settings.prefix)
            raise NothingSent("TOOL_CHANGED", f"{name} was not called: {why}.")
        if seen.contract.version != work.version:
            raise NothingSent("CONTRACT_CHANGED", f"The order is for version {work.version} of its contract.")
        return seen


def _met_no_session(result: Result) -> bool:
    return result.error is not None and result.error.code == EXPIRED


async def _reassure(ctx: Context, errand: PendingCall) -> None:
    """Send progress to the waiting caller, if it asked for any."""
    times = 0
    while not errand.done.is_set():
        await anyio.sleep(_PROGRESS_S)
        times += 1
        if not errand.started:
            await ctx.session.report_progress(times, None, errand.progress)


async def _pass_questions(ctx: Context, errand: PendingCall, waiting: anyio.CancelScope) -> None:
    """Pass the server's questions to the waiting caller: an older client is asked, a newer one answered with them."""
    if errand.questions is None:
        return
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        await errand.questions.put(ctx)
        return
    await errand.questions.wait()
    if errand.asked_of(ctx):
        waiting.cancel()


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
