"""The way of a held request: proposed, granted, forwarded once, reported.

1. Nothing is sent while no client asks for it: right before the start, somebody must still wait.
2. Each step is on disk before it is taken (`counterfoil.gateway.held`). A claim is repeated under its key; a request
   whose forwarding began is never sent again.
3. An answer that was lost is unknown. The console reads the host back; its verdict ends the request.
4. The stored bytes are hashed again, and compared with the payload that the console started, before they are sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import aiohttp
import httpx

from counterfoil.agent import SESSION_OVER
from counterfoil.answers import FINAL_REPORTS, CallResult, Status
from counterfoil.connection import Connection
from counterfoil.execution.seen import RecordBehind
from counterfoil.executor import Order
from counterfoil.gateway.held import ENDED, KEPT_S, HeldRequest, HeldRequests, HeldState
from counterfoil.gateway.reader import Reader
from counterfoil.gateway.sealing import SealedFile
from counterfoil.gateway.settings import HttpSettings
from counterfoil.gateway.upstream import HostClients, HostSilent
from counterfoil.gating.executing import HTTP_S, GatewayExecutor
from counterfoil.gating.files import write_private
from counterfoil.problems import NotFound, NotNow, Problem, Unreachable
from counterfoil.transport.reading import read_first_result, read_report, read_status
from counterfoil.work import Failure, NothingSent, Result, Work

log = logging.getLogger("counterfoil.gateway")

T = TypeVar("T")
_SESSION_S: Final = 28_800
_AGAIN: Final = "To go on knowing that an earlier step did not end well, send the same request again."
_CLAIM_S: Final = 2
_GRACE_S: Final = 10
_AT_ONCE: Final = 64


class ConsoleDesk:
    """The gateway's place at the console: a session for each agent, kept across restarts, and one executor. Blocks."""

    def __init__(self, settings: HttpSettings, tools: list[str], send: Callable[[Work], Result]) -> None:
        self._settings = settings
        self._folder = settings.front.folder
        self._agent = Connection(url=settings.console.url, key=settings.console.agent_key)
        self._http = httpx.Client(timeout=HTTP_S)
        self._lock = threading.Lock()
        self.executor = GatewayExecutor(
            settings.console,
            executor_id=settings.executor_id,
            key_file=self._folder / "executor.jwk",
            tools=tools,
            send=send,
            timeout_s=settings.front.send_s + _GRACE_S,
            http=self._http,
        )

    def close(self) -> None:
        """Close the connections; sessions stay open."""
        self.executor.stop()
        self._agent.close()
        self._http.close()

    def propose(self, held: HeldRequest) -> CallResult:
        """Propose a held request under its id; the same proposal again gets the first answer."""
        body = {"call_id": held.id, "tool": held.tool, "arguments": held.arguments}
        if held.acknowledges:
            body["acknowledges"] = list(held.acknowledges)
        session = held.session or self._session(held.agent, over="")
        result = self._call(session, body)
        while result.code in SESSION_OVER:
            over, session = session, self._session(held.agent, over=session["session_id"])
            if session == over:
                break
            result = self._call(session, body)
        return result

    def known_session(self, agent: str) -> dict[str, str]:
        """The agent's session as the folder has it; empty if there is none yet."""
        path = self._session_file(agent)
        known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return known

    def _session_file(self, agent: str) -> Path:
        return self._folder / f"session-{agent}.json"

    def _call(self, session: Mapping[str, str], body: Mapping[str, Any]) -> CallResult:
        calls = [{**body, "pin_hash": session["pin_hash"]}]
        path = f"/sessions/{session['session_id']}/calls"
        return read_first_result(self._agent.write(path, {"calls": calls}, give_up_after_s=10.0))

    def _session(self, agent: str, *, over: str) -> dict[str, str]:
        """The agent's session as the folder has it; another one where that is `over`."""
        with self._lock:
            known = self.known_session(agent)
            if known and known["session_id"] != over:
                return known
            told = self._settings.agents[agent]
            body = {"agent_id": told.agent_id or agent, "goal": told.goal, "ttl_seconds": _SESSION_S}
            opened = self._agent.write("/sessions", body, give_up_after_s=10.0)
            made = {"session_id": str(opened["session_id"]), "pin_hash": str(opened["pin"]["hash"])}
            write_private(self._session_file(agent), json.dumps(made).encode())
            return made

    def status(self, action_id: str) -> Status | None:
        """The status of an action; None if the console does not know it."""
        try:
            return read_status(self._agent.get(f"/actions/{action_id}"))
        except NotFound:
            return None

    def report_text(self, action_id: str) -> tuple[str, str]:
        """The code and the text of the present report on an action."""
        report = read_report(self._agent.get(f"/actions/{action_id}/report"))
        return report.code, report.text


class Carrier:
    """Carries held requests from state to state, on the event loop that made it."""

    def __init__(
        self, settings: HttpSettings, held: HeldRequests, readers: Mapping[str, Reader], hosts: HostClients
    ) -> None:
        self._settings = settings
        self._held = held
        self._readers = readers
        self._hosts = hosts
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gateway")
        self._pursued: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, list[Callable[[], bool]]] = {}
        tools = sorted({name for reader in readers.values() for name in reader.tools})
        self._desk = ConsoleDesk(settings, tools, self._forward)

    async def ready(self) -> None:
        """Register as the executor, and report what a crash left unreported."""
        await self.in_thread(self._desk.executor.register)
        for each in self._held.all():
            if each.state in (HeldState.ANSWERED, HeldState.UNKNOWN):
                await self.in_thread(self._report_again, each)

    async def close(self) -> None:
        """Wait until running requests have ended and are reported."""
        under_way = [task for task in self._pursued.values() if not task.done()]
        self._waiting.clear()
        if under_way:
            await asyncio.wait(under_way, timeout=self._settings.front.send_s + _GRACE_S)
        await self.in_thread(self._desk.close)
        self._threads.shutdown(wait=False)

    async def in_thread(self, work: Callable[..., T], *words: Any, **named: Any) -> T:
        """Run a blocking function beside the event loop."""
        return await self._loop.run_in_executor(self._threads, partial(work, *words, **named))

    def join(self, request_id: str, is_there: Callable[[], bool]) -> asyncio.Task[None]:
        """Wait for a request on behalf of a client; the task ends with the request, or when no client waits."""
        self._waiting.setdefault(request_id, []).append(is_there)
        task = self._pursued.get(request_id)
        if task is None or task.done():
            task = self._pursued[request_id] = asyncio.ensure_future(self._pursue(request_id))
            task.add_done_callback(lambda done: self._forget(request_id, done))
        return task

    def _forget(self, request_id: str, done: asyncio.Task[None]) -> None:
        if self._pursued.get(request_id) is done:
            del self._pursued[request_id]

    def session_of(self, agent: str) -> dict[str, str]:
        """The session in which an agent's request of now is proposed first; empty if there is none yet."""
        return self._desk.known_session(agent)

    def leave(self, request_id: str, is_there: Callable[[], bool]) -> None:
        """Note that a client no longer waits."""
        rest = [each for each in self._waiting.pop(request_id, []) if each is not is_there]
        if rest:
            self._waiting[request_id] = rest

    def _anybody_waits(self, request_id: str) -> bool:
        return any(is_there() for is_there in self._waiting.get(request_id, []))

    async def _pursue(self, request_id: str) -> None:
        pause = 0.5
        while self._anybody_waits(request_id):
            held = self._held.get(request_id)
            if held.state in ENDED:
                return
            try:
                if not await self._step(held):
                    await asyncio.sleep(1.0)
                pause = 0.5
            except (Problem, Unreachable, RecordBehind) as fault:
                log.warning("request %s waits %.1f s for the console: %s", request_id, pause, fault)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 10.0)
            except Exception:
                # A fault of ours ends no request: it is on disk, and is tried again while somebody waits.
                log.exception("request %s could not be carried on", request_id)
                await asyncio.sleep(5.0)

    async def _step(self, held: HeldRequest) -> bool:
        """Take one step; return False if nothing could be done yet."""
        if held.state is HeldState.RECEIVED:
            await self._propose(held)
        elif held.state in (HeldState.PROPOSED, HeldState.GRANTED):
            await self._claim_and_send(held)
        elif held.state is HeldState.UNKNOWN:
            return await self.settle(held)
        return True

    async def _propose(self, held: HeldRequest) -> None:
        result = await self.in_thread(self._desk.propose, held)
        if result.accepted and result.action_id:
            self._write(held, HeldState.PROPOSED, action_id=result.action_id, approval=dict(result.approval or {}))
            return
        failed = tuple(
            str(each["action_id"])
            for each in result.errors
            if each.get("path") == "/acknowledges" and "action_id" in each
        )
        again = f" {_AGAIN}" if failed else ""
        words = " ".join(filter(None, [result.message, result.hint]))
        self._write(held, HeldState.REFUSED, why=f"refused ({result.code}): {words}{again}", failed=failed)

    async def _claim_and_send(self, held: HeldRequest) -> None:
        if held.state is HeldState.PROPOSED:
            held = self._write(held, HeldState.GRANTED, claim_key=uuid4().hex)
        claim = self._desk.executor.claim_action
        order = await self.in_thread(claim, held.action_id, wait_s=_CLAIM_S, claim_key=held.claim_key)
        if order is None:
            await self._look_after(held)
        elif self._anybody_waits(held.id):
            # In a thread: whoever leaves now takes nothing back.
            await self.in_thread(self._execute, held, order)

    async def _look_after(self, held: HeldRequest) -> None:
        """Handle an order that cannot be claimed: it still waits, or it has ended without a start of ours that sent
        anything.
        """
        status = await self.in_thread(self._desk.status, held.action_id)
        if status is not None and status.state == "VALIDATED":
            self._write(held, HeldState.PROPOSED, claim_key="")
        elif status is not None and not status.settled:
            # A start whose answer was lost: nothing was sent from here, and the lease will say so.
            self._write(held, HeldState.UNKNOWN, why="it was started at the console and not sent; the lease runs out")
        else:
            self._write(held, HeldState.REFUSED, why=await self.in_thread(self._outcome, held, status))

    def _outcome(self, held: HeldRequest, status: Status | None) -> str:
        if status is None:
            return "the console no longer knows it"
        verdict = status.approval
        if verdict is None or verdict.waiting:
            return f"{self._desk.report_text(held.action_id)[1]} (action {held.action_id})"
        reason = f": {verdict.reason}" if verdict.reason else ""
        return f"{verdict.decision.replace('_', ' ').lower()} by a reviewer{reason} (action {held.action_id})"

    def _execute(self, held: HeldRequest, order: Order) -> None:
        result = self._desk.executor.run_order(order)
        if result is None:
            # Asked for anew: where the start came about and its answer was lost, nothing can be claimed any more.
            if self._held.get(held.id).state is HeldState.GRANTED:
                self._write(held, HeldState.PROPOSED, claim_key="")
            return
        after = self._held.get(held.id)
        if after.state is HeldState.GRANTED:
            # Started, and ended before a byte left: the lease, a payload that is not this request's, no credential.
            self._write(
                after, HeldState.REFUSED, why=f"nothing was sent: {_error_text(result)} (action {held.action_id})"
            )
        elif self._desk.executor.take_report(held.action_id) and after.state is HeldState.ANSWERED:
            self._write(after, HeldState.REPORTED)

    def _forward(self, work: Work) -> Result:
        """Send a request's stored bytes, as the executor's handler."""
        held = self._held.of_action(work.action_id)
        if held is None or held.state is not HeldState.GRANTED:
            raise NothingSent("NOT_HELD", "This gateway does not hold the request of this action.")
        body = self._held.body(held.id)
        wanted = work.payload.get("request")
        digest = wanted.get("sha256") if isinstance(wanted, Mapping) else None
        try:
            with body.open() as stored:
                found = hashlib.file_digest(stored, "sha256").hexdigest()
        except OSError as fault:
            raise NothingSent("BODY_UNREADABLE", f"The stored bytes cannot be read: {fault}.") from fault
        if digest != held.sha256 or found != digest:
            raise NothingSent("BODY_CHANGED", "The stored bytes are not those that were proposed.")
        if why := self._readers[held.host].stale(held):
            raise NothingSent("TARGET_CHANGED", why)
        with work.effect("request"):
            held = self._write(held, HeldState.FORWARDING, attempt=work.attempt)
            result = self._send(held, body, work)
        if result.status == "timeout":
            self._write(held, HeldState.UNKNOWN, result=asdict(result), why=_error_text(result))
        return result

    def _send(self, held: HeldRequest, body: SealedFile, work: Work) -> Result:
        """Send, and keep the answer; an uncertain ending is a time-out of unknown phase."""
        reader = self._readers[held.host]
        within_s = float(self._settings.front.send_s)
        headers = dict.fromkeys(held.shape.get("idempotency_headers", ()), work.idempotency_key)
        sending = self._hosts.send(held, body, within_s=within_s, headers=headers)
        try:
            answer = asyncio.run_coroutine_threadsafe(sending, self._loop).result(within_s + _GRACE_S)
        except NothingSent as refusal:
            self._write(held, HeldState.GRANTED)
            return Result("failed", error=Failure(refusal.code, refusal.message, "before_send"))
        except (TimeoutError, aiohttp.ClientError, HostSilent, OSError) as fault:
            text = f"No usable answer came from the host ({type(fault).__name__})."
            return Result("timeout", error=Failure("ANSWER_LOST", text, "unknown"))
        result = reader.judge(held, answer.status, answer.content_type, answer.body)
        if result.status != "timeout":
            self._held.keep_answer(held.id, answer.body)
            self._write(
                held,
                HeldState.ANSWERED,
                result=asdict(result),
                answer_status=answer.status,
                answer_type=answer.content_type,
            )
        return result

    def _report_again(self, held: HeldRequest) -> None:
        """Repeat the report of an attempt that a crash may have kept from the console."""
        if not held.attempt:
            return
        lost = Failure("ANSWER_LOST", "The gateway ended before an answer came.", "unknown")
        result = _read_result(held.result) if held.result else Result("timeout", error=lost)
        try:
            self._desk.executor.report(action_id=held.action_id, attempt=held.attempt, tool=held.tool, result=result)
        except NotNow as known:
            log.info("action %s has its report already: %s", held.action_id, known)
        except (Problem, Unreachable) as fault:
            log.warning("action %s could not be reported: %s", held.action_id, fault)
            return
        if held.state is HeldState.ANSWERED:
            self._write(held, HeldState.REPORTED)

    async def sweep(self) -> None:
        """End what the console has ended, and remove what ended a day ago or was erased at the console."""
        self._held.sweep(time.time())
        for each in self._held.all():
            try:
                if each.id not in self._pursued:
                    await self._end_unasked(each)
            except (Problem, Unreachable, RecordBehind) as fault:
                log.warning("request %s could not be compared with the console: %s", each.id, fault)

    async def _end_unasked(self, held: HeldRequest) -> None:
        """End or remove a request for which no client waits, if it is over."""
        if not held.action_id:
            if held.state is HeldState.RECEIVED and held.changed_at < time.time() - KEPT_S:
                why = "nothing was sent: its client did not come back within a day"
                self._write(held, HeldState.REFUSED, why=why, told=True)
            return
        try:
            status = await self.in_thread(self._desk.status, held.action_id)
        except Problem as problem:
            if problem.code != "ERASED":
                raise
            self._held.erase(held)
            return
        if held.state is HeldState.UNKNOWN:
            await self.settle(held)
        elif held.state in (HeldState.PROPOSED, HeldState.GRANTED) and (status is None or status.settled):
            self._write(held, HeldState.REFUSED, why=await self.in_thread(self._outcome, held, status))

    async def settle(self, held: HeldRequest) -> bool:
        """End an unknown request whose action the console has settled; False otherwise.

        A console that does not know the action (it went back to a backup) settles nothing: what was sent may have been
        carried out, and the same request stays blocked.
        """
        try:
            status = await self.in_thread(self._desk.status, held.action_id)
            if status is None:
                log.warning("action %s is not known to the console: its request stays unknown", held.action_id)
                return False
            if not status.settled:
                return False
            code, text = await self.in_thread(self._desk.report_text, held.action_id)
        except (Problem, Unreachable) as fault:
            log.warning("action %s could not be asked about: %s", held.action_id, fault)
            return False
        self._write(held, HeldState.SETTLED, why=f"{text} (action {held.action_id}, {code})")
        return True

    async def verdict(self, held: HeldRequest, *, within_s: float) -> str:
        """The console's report on an answered request, waited for briefly; empty while there is no verdict."""
        until = time.monotonic() + within_s
        while True:
            try:
                code, text = await self.in_thread(self._desk.report_text, held.action_id)
            except (Problem, Unreachable):
                return ""
            if code in FINAL_REPORTS:
                return text
            if time.monotonic() >= until:
                return ""
            await asyncio.sleep(0.3)

    def _write(self, held: HeldRequest, state: HeldState, **changes: Any) -> HeldRequest:
        return self._held.write(held, state, **changes)


def _read_result(raw: Mapping[str, Any]) -> Result:
    error = Failure(**raw["error"]) if raw.get("error") else None
    return Result(raw["status"], evidence=raw.get("evidence"), error=error, raw=raw.get("raw"))


def _error_text(result: Result) -> str:
    return result.error.message if result.error else ""
