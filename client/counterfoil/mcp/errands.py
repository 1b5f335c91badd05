"""Tracks accepted calls: each runs once, even if its caller has gone.

An errand ends by itself: its caller may have gone with a handle, and asks again. What has not started when its caller
cancels is taken back; what has started cannot be, so the cancellation goes on to the server and the outcome is left to
the console's own reading. A caller that is gone, or whose time is over, without a handle has taken nothing back: the
action stays as it is at the console, and is taken up again by whoever asks about it. A gateway that dies in between
leaves a lease, which runs out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, InputRequest

from counterfoil.answers import FINAL_REPORTS, Report, Status
from counterfoil.executor import Effect
from counterfoil.mcp import answers
from counterfoil.mcp.desk import ConsoleClient
from counterfoil.mcp.questions import Questions
from counterfoil.mcp.settings import GatewaySettings
from counterfoil.problems import NotFound, Problem, Unreachable
from counterfoil.work import Failure

log = logging.getLogger("counterfoil.mcp")

KEPT = 1_000
AT_ONCE = 64
_CLAIM_S = 8
_LOOK_S = 0.25


@dataclass
class PendingCall:
    """One accepted call; `answer` is there when `done` is."""

    action_id: str
    held: bool = False
    approval: dict[str, object] = field(default_factory=dict)
    started: bool = False
    sent_to_page: bool = False
    questions: Questions | None = None
    said: CallToolResult | None = None
    error: Failure | None = None
    listener: ProgressFnT | None = None
    answer: CallToolResult | None = None
    effect: CancelScope | None = None
    carrying: CancelScope = field(default_factory=CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)

    async def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Forward the server's progress to the waiting caller."""
        if self.listener is not None:
            await self.listener(progress, total, message)

    def asked_of(self, ctx: ServerRequestContext[Any, Any]) -> dict[str, InputRequest]:
        """The open questions of its server that this client answers."""
        return self.questions.open_for(ctx.session.client_capabilities) if self.questions is not None else {}

    @property
    def progress(self) -> str:
        """Its progress, in words for who waits."""
        if self.started:
            return "It has not ended yet."
        return "It waits for approval." if self.held else "It waits to be started."

    def handle(self) -> CallToolResult:
        """The answer to its caller before it is done."""
        if self.held and not self.started:
            return answers.pending_result(self.action_id, self.approval)
        return answers.running_result(self.action_id)


class PendingCalls:
    """The pending calls of this gateway; the newest are kept for later requests."""

    def __init__(self, desk: ConsoleClient, gateway: GatewaySettings) -> None:
        self._desk = desk
        self._gateway = gateway
        self.tasks: TaskGroup | None = None
        self._threads = CapacityLimiter(AT_ONCE)
        self._known: dict[str, PendingCall] = {}

    def begin(
        self, action_id: str, approval: dict[str, object] | None = None, effect: Effect | None = None
    ) -> PendingCall:
        """Start the errand of an action at its first request. `effect` is the part that has already started."""
        known = self._known.get(action_id)
        if known is not None:
            return known
        held = bool((approval or {}).get("required"))
        errand = self._known[action_id] = PendingCall(action_id, held=held, approval=approval or {})
        self._forget()
        assert self.tasks is not None
        self.tasks.start_soon(self._carry_out, errand, effect)
        return errand

    def take_up(self, status: Status) -> PendingCall:
        """The call behind an action, also one that an earlier run of this gateway proposed."""
        return self.begin(status.action_id, {"required": status.state == "VALIDATED"})

    def of(self, action_id: str) -> PendingCall | None:
        return self._known.get(action_id)

    async def ended(self) -> None:
        """Wait until no call is between start and report."""
        while any(each.started and not each.done.is_set() for each in self._known.values()):
            await anyio.sleep(_LOOK_S)

    async def cancel(self, errand: PendingCall) -> None:
        """Cancel it for its caller."""
        if errand.started:
            if errand.effect is not None:
                errand.effect.cancel()
            return
        try:
            await to_thread.run_sync(self._desk.withdraw, errand.action_id, limiter=self._threads)
        except (Problem, Unreachable) as fault:
            log.info("action %s could not be taken back: %s", errand.action_id, fault)

    def put_down(self, errand: PendingCall) -> None:
        """Pause the errand: nothing starts until it is requested again."""
        if self._known.get(errand.action_id) is errand and not errand.started:
            del self._known[errand.action_id]
            errand.carrying.cancel()

    async def _carry_out(self, errand: PendingCall, effect: Effect | None) -> None:
        with errand.carrying:
            await self._pursue(errand, effect)

    async def _pursue(self, errand: PendingCall, effect: Effect | None) -> None:
        pause = 0.5
        wait_s = 0
        if effect is not None:
            await to_thread.run_sync(effect, limiter=self._threads)
        while not errand.done.is_set():
            try:
                ran = effect is not None or await self._try_execution(errand, wait_s=wait_s)
                if ran or (await self._ask(errand)).state != "VALIDATED":
                    errand.answer = await self._await_verdict(errand)
                    errand.done.set()
                wait_s, pause = _CLAIM_S, 0.5
            except NotFound as fault:
                errand.answer = answers.withheld_result(fault.code, "This agent has no action with this id.")
                errand.done.set()
            except (Problem, Unreachable) as fault:
                log.warning("action %s waits %.1f s for the console: %s", errand.action_id, pause, fault)
                await anyio.sleep(pause)
                pause = min(pause * 2, 15.0)

    async def _try_execution(self, errand: PendingCall, *, wait_s: int) -> bool:
        """Claim and execute it if it becomes ready within this time; return whether it was started."""
        claim = partial(self._desk.executor.claim_action, errand.action_id, wait_s=wait_s)
        # A claim that nobody waits for any more lapses; an execution is never left alone.
        order = await to_thread.run_sync(claim, limiter=self._threads, abandon_on_cancel=True)
        if order is None:
            return False
        ran = await to_thread.run_sync(self._desk.executor.run_order, order, limiter=self._threads)
        return ran is not None

    async def _ask(self, errand: PendingCall) -> Status:
        return await to_thread.run_sync(self._desk.state, errand.action_id, limiter=self._threads)

    async def _await_verdict(self, errand: PendingCall) -> CallToolResult:
        """Return the answer, once there is a verdict or the time for one is over."""
        observed = self._desk.executor.take_report(errand.action_id)
        report = observed.report if observed else await self._report(errand.action_id)
        with anyio.move_on_after(self._gateway.settle_s):
            while report.code not in FINAL_REPORTS:
                await anyio.sleep(_LOOK_S)
                observed, report = None, await self._report(errand.action_id)
        return await self.told(errand, report, observed.status if observed else None)

    async def told(
        self, errand: PendingCall, report: Report | None = None, status: Status | None = None
    ) -> CallToolResult:
        """The answer of an errand with its present report."""
        report = report or await self._report(errand.action_id)
        if status is None or status.state != report.state:
            # What was asked for earlier may be of before the decision.
            status = await self._ask(errand)
        most = self._gateway.most_result_bytes
        return answers.final_result(status, report, errand.said, error=errand.error, most=most)

    async def _report(self, action_id: str) -> Report:
        return await to_thread.run_sync(self._desk.report, action_id, limiter=self._threads)

    def _forget(self) -> None:
        over = [action_id for action_id, each in self._known.items() if each.done.is_set()]
        for action_id in over[: max(0, len(self._known) - KEPT)]:
            del self._known[action_id]
