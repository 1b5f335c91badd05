"""Agent API: open sessions, propose calls, query their outcomes.

An agent proposes; it never executes and never decides. A refused call is an answer (`accepted` is
false and `code` says why), not an exception. What may be told to a user is `Agent.report(...)` and
nothing else, or a message that `Session.guard(...)` allows.

`Agent` and `Session` block; `AsyncAgent` and `AsyncSession` have the same methods, awaited.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

import httpx

from counterfoil.answers import (
    SETTLED,
    AskCheck,
    CallResult,
    CallResults,
    CancelledAction,
    Context,
    Contract,
    Decision,
    GuardResult,
    OpenedSession,
    Outcome,
    Pin,
    Question,
    Receipt,
    ReceiptForm,
    RecordedAnswer,
    Report,
    SessionState,
    StartAtOnce,
    Status,
    Summary,
    Verification,
)
from counterfoil.canonical import NotCanonical, encode_canonical
from counterfoil.connection import Connection
from counterfoil.execution.claims import claim, verify
from counterfoil.execution.seen import SeenCheckpoints
from counterfoil.transport import reading
from counterfoil.transport.async_connection import AsyncConnection
from counterfoil.transport.request import Backoff, Pause, Plan, Request, Trace, new_trace, request_method
from counterfoil.transport.stream import AsyncStream, Stream

T = TypeVar("T")
SessionT = TypeVar("SessionT", bound="SessionRequests")

OnFailure = Literal["stop", "compensate"]
"""What a failed step does to its run: nothing but end it, or take what was done before it back."""

SESSION_OVER = frozenset({"PIN_EXPIRED", "SESSION_CLOSED"})
"""With these codes a call is refused because its session is over."""

_PATIENCE_S = 20
_current: ContextVar[Session | None] = ContextVar("counterfoil_session", default=None)
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,100}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ENDS_WAITING = SETTLED | {"REVIEW_REQUIRED"}


@dataclass(frozen=True)
class Call:
    """One tool call; `arguments` is an object, or the text of one as a model wrote it.

    `evidence` is what the agent says that the call rests on, each with a `statement`, a `link` or an
    `id`: whoever approves is shown it as the agent's unverified statement, and it decides nothing.
    """

    tool: str
    arguments: Mapping[str, Any] | str
    call_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    target_resource: str | None = None
    intended_outcome: Mapping[str, Any] | None = None
    depends_on: Sequence[str] = ()
    acknowledges: Sequence[str] = ()
    based_on: Sequence[Mapping[str, Any]] = ()
    evidence: Sequence[Mapping[str, str]] = ()
    dry_run: bool = False
    supersedes: str | None = None

    def body(self, *, goal: str | None, pin_hash: str | None) -> dict[str, Any]:
        """The call as the API accepts it; it names the goal in words or by the pin's hash."""
        optional = {
            "goal": goal,
            "pin_hash": None if goal else pin_hash,
            "target_resource": self.target_resource,
            "intended_outcome": self.intended_outcome,
            "depends_on": list(self.depends_on),
            "acknowledges": list(self.acknowledges),
            "based_on": list(self.based_on),
            "evidence": [dict(each) for each in self.evidence],
            "dry_run": self.dry_run,
            "supersedes": self.supersedes,
        }
        chosen = {name: value for name, value in optional.items() if value}
        # A name that is no Unicode is no tool's; as text it reaches the gate, which says so of this call alone.
        tool = self.tool.encode("utf-8", "replace").decode("utf-8")
        return {"call_id": self.call_id, "tool": tool, "arguments": _sendable(self.arguments), **chosen}


def _sendable(arguments: Mapping[str, Any] | str) -> Any:
    """Return arguments in the API's form: those without a canonical form as text, for the gate to answer this call."""
    try:
        encode_canonical(arguments)
    except NotCanonical:
        if isinstance(arguments, str):
            return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", arguments)
        return json.dumps(arguments, default=_plain)
    return arguments


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


class CallNames:
    """The unique names of a session's calls, even if a framework or its model reuses ids.

    A call keeps the id that it came with, unless another call of the session had that id before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._known: dict[Hashable, str] = {}
        self._open: dict[Hashable, str] = {}

    def of(self, call_id: str | None, *identity: Hashable) -> str:
        """The name of the call that `identity` identifies; without one, of a call not named before."""
        with self._lock:
            if not identity:
                return self._new(call_id)
            key = (call_id, *identity)
            if key not in self._known:
                self._known[key] = self._new(call_id)
            return self._known[key]

    @staticmethod
    def lasting(call_id: str | None, *identity: Hashable) -> str:
        """The name of the call that `identity` identifies, the same in every process: for a framework that keeps its
        state beyond this one.
        """
        name = call_id if call_id and _NAME.fullmatch(call_id) else "call"
        return f"{name}-{hashlib.sha256(repr(identity).encode('utf-8', 'replace')).hexdigest()[:16]}"

    def reserve(self, call_id: str | None, tool: str, arguments: object) -> str:
        """Return the name under which a framework asks about a call before it makes it; the same until `take`."""
        with self._lock:
            key = (call_id, tool, repr(arguments))
            if key not in self._open:
                self._open[key] = self._new(call_id)
            return self._open[key]

    def take(self, call_id: str | None, tool: str, arguments: object) -> str:
        """The name of a call that is made now: the reserved one, once."""
        with self._lock:
            return self._open.pop((call_id, tool, repr(arguments)), None) or self._new(call_id)

    def _new(self, call_id: str | None) -> str:
        name = call_id if call_id and _NAME.fullmatch(call_id) else str(uuid.uuid4())
        again, number = name, 1
        while again in self._used:
            number += 1
            again = f"{name}.{number}"
        self._used.add(again)
        return again


@dataclass(frozen=True)
class Handshake:
    """The handshake of a session, and the end of its pin, so that another session can follow it."""

    body: Mapping[str, Any]
    until: float
    renew: bool

    def next_body(self, result: CallResult | Decision, *, session_id: str) -> dict[str, Any] | None:
        """The handshake of the session that continues this one after a call was refused because it is over; None if
        it may not be renewed.
        """
        if result.code not in SESSION_OVER:
            return None
        left = math.ceil(self.until - time.monotonic())
        quiet = any(each.get("code") == "SESSION_QUIET" for each in result.errors)
        if not (quiet and left > 0) and not self.renew:
            return None
        ttl = self.body["ttl_seconds"] if self.renew else left
        # The console knows its run; the words of the first handshake may name another one's session.
        kept = {name: value for name, value in self.body.items() if name != "workflow_run_id"}
        return {**kept, "continues": session_id, "ttl_seconds": ttl}


class ActionRequests:
    """The requests of an agent about its own actions."""

    @request_method
    def verify(self, /, system: str, effect: str, **claimed: Any) -> Request[Verification]:
        """Ask whether something done without the gate is safe to claim (`counterfoil.execution.claims.verify`)."""
        return verify(system, effect, **claimed)

    @request_method
    def claim(self, claim_id: str) -> Request[Verification]:
        """The present standing of a claim."""
        return claim(claim_id)

    @request_method
    def status(self, action_id: str, *, wait_s: int = 0) -> Request[Status]:
        """Return the status of an action; the console waits up to `wait_s` (at most 30) while people decide."""
        params = {"wait_s": wait_s} if wait_s else None
        return Request("GET", f"/actions/{action_id}", reading.read_status, params=params, patience_s=wait_s)

    @request_method
    def report(self, action_id: str) -> Request[Report]:
        """The present report on an action."""
        return Request("GET", f"/actions/{action_id}/report", reading.read_report)

    @request_method
    def cancel(self, action_id: str, *, reason: str = "") -> Request[CancelledAction]:
        """Withdraw an action that has not started."""
        body = {"reason": reason} if reason else {}
        return Request("POST", f"/actions/{action_id}/cancel", reading.read_cancelled, body)

    @request_method
    def answer(self, question: Question, text: str) -> Request[RecordedAnswer]:
        """Answer a person's question; the text is shown as the agent's own and approves nothing."""
        body = {"question_id": question.question_id, "text": text}
        return Request("POST", f"/actions/{question.action_id}/answers", reading.read_answered, body)

    @request_method
    def wait(self, action_id: str, *, for_s: float = 30.0, for_people: bool = True) -> Plan[Outcome]:
        """Wait until an action is settled or waits for a review, for at most `for_s` seconds; without `for_people` only
        until people have to decide. A wait that ends is not a denial: the outcome has the present state and can be
        requested again.
        """
        return (yield from _waiting(action_id, for_s, for_people))


class AgentRequests(ActionRequests, ABC, Generic[SessionT]):
    """The requests of both kinds of agent."""

    agent_id: str

    @request_method
    def open_session(
        self,
        /,
        *,
        goal: str,
        ttl_seconds: int,
        tools: Sequence[str] | None = None,
        run_id: str | None = None,
        on_failure: OnFailure | None = None,
        trace: Trace | None = None,
        renew: bool = False,
        continues: str | None = None,
        **options: Any,
    ) -> Request[SessionT]:
        """Pin a goal and learn which tools this session may call; `options` are the other fields of
        the handshake.

        Sessions with the same `run_id` are one run; without it the session is a run of its own.
        With `on_failure="compensate"` a step that fails takes the whole run back.

        The console ends a session that was quiet too long. The next call then opens another one that
        continues it, with the same goal, for what was left of `ttl_seconds`; `session_id`, `pin` and
        `contract` are those of the newest. With `renew` it also does so when `ttl_seconds` are over.

        `continues` is the id of an earlier session of this agent, of a process that has ended: this one is in
        its run, and a call that was made there is the same call here, under its id. The other takes no more calls.
        """
        trace = trace or new_trace()
        body = {"agent_id": self.agent_id, "goal": goal, "ttl_seconds": ttl_seconds, **options}
        if run_id is not None:
            body["workflow_run_id"] = run_id
        if continues is not None:
            body["continues"] = continues
        if on_failure is not None:
            body["on_failure"] = on_failure
        if tools is not None:
            body["tools"] = list(tools)

        def read(answer: Any) -> SessionT:
            session = self._session(goal, trace, reading.read_session(answer))
            session.agent_id = self.agent_id
            session.handshake = Handshake(body, until=time.monotonic() + ttl_seconds, renew=renew)
            return session

        return Request("POST", "/sessions", read, body, trace=trace)

    @request_method
    def run(self, run_id: str) -> Request[Mapping[str, Any]]:
        """One of this agent's runs: its steps, its reversals, and whether it is being rolled back."""
        return Request("GET", f"/runs/{run_id}", _as_it_is)

    @abstractmethod
    def _session(self, goal: str, trace: Trace, opened: OpenedSession) -> SessionT:
        """The session that was opened, of the agent's own kind."""


class SessionRequests(ActionRequests):
    """The requests of both kinds of session; each call restates the goal or names the pin."""

    _connection: Connection | AsyncConnection

    def __init__(self, goal: str, trace: Trace, opened: OpenedSession) -> None:
        self.session_id: str = opened.session_id
        self.run_id: str = opened.run_id
        self.contract: Contract = opened.contract
        self.pin: Pin = opened.pin
        self.goal = goal
        self.trace = trace
        self.names = CallNames()
        self.agent_id = ""
        self.handshake: Handshake | None = None

    @request_method
    def call(self, call: Call, *, goal: str | None = None, start: StartAtOnce | None = None) -> Plan[CallResult]:
        """Propose one call; `goal` restates the goal in words, otherwise the pin's hash is sent.

        With `start`, its executor starts it in the same request where nothing holds it back (`Executor.propose`).
        """
        results = yield from self._calls([call], goal, start=start)
        return results[0]

    @request_method
    def calls(self, calls: Sequence[Call], *, goal: str | None = None) -> Plan[CallResults]:
        """Propose several calls at once; a refused one does not disturb the others."""
        return self._calls(calls, goal)

    @request_method
    def decide(self, call: Call, *, start: StartAtOnce, goal: str | None = None) -> Plan[Decision]:
        """Ask about one call of a gateway: it may run now, it may not, or it waits (`Executor.decide`)."""
        return self._decide(call, start, goal)

    @request_method
    def decide_again(self, request: Mapping[str, Any], *, start: StartAtOnce) -> Request[Decision]:
        """Ask about a call that waits: `request` is that of its first `Decision`, also of another session."""
        return self._decision(request, start)

    @request_method
    def attempt(
        self, call: Call, *, for_s: float = 30.0, for_people: bool = True, goal: str | None = None
    ) -> Plan[Outcome]:
        """Propose one call and wait as `wait` does; return its progress."""
        [result] = yield from self._calls([call], goal)
        return (yield from _follow_call(result, for_s, for_people))

    @request_method
    def attempts(
        self, calls: Sequence[Call], *, for_s: float = 30.0, for_people: bool = True, goal: str | None = None
    ) -> Plan[tuple[Outcome, ...]]:
        """Propose several calls at once and wait for them one after the other, `for_s` seconds at most
        in all.
        """
        results = yield from self._calls(calls, goal)
        until, outcomes = time.monotonic() + for_s, list[Outcome]()
        for result in results:
            outcomes.append((yield from _follow_call(result, until - time.monotonic(), for_people)))
        return tuple(outcomes)

    @request_method
    def ask_check(self, goal: str) -> Request[AskCheck]:
        """Compare `goal` with the pinned one; the answer has the reason if they differ."""
        return self._post("/ask-check", reading.read_ask_check, {"goal": goal})

    @request_method
    def matches(self, goal: str) -> Request[bool]:
        """Return whether `goal` is the pinned one."""
        return self._post("/ask-check", lambda answer: reading.read_ask_check(answer).match, {"goal": goal})

    @request_method
    def withheld(self, tools: Sequence[Mapping[str, str]]) -> Request[None]:
        """Report which of a server's tools a gateway withholds now, each with `tool`, `fate` and `why`."""
        return self._post("/surface", lambda _: None, {"withheld": [dict(each) for each in tools]})

    @request_method
    def report_model_usage(
        self,
        model: str,
        *,
        calls: int = 1,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        reference: str = "",
    ) -> Request[None]:
        """Report calls of a model for the costs; tokens that are not given are on record as not stated."""
        said = {"model": model, "calls": calls, "input_tokens": input_tokens, "output_tokens": output_tokens}
        body = {name: value for name, value in said.items() if value is not None}
        return self._post("/model-usage", lambda _: None, body | ({"reference": reference} if reference else {}))

    @request_method
    def state(self) -> Request[SessionState]:
        """The session with its counts, and the questions of people to the agent."""
        return Request("GET", self._path, reading.read_session_state, trace=self.trace)

    @request_method
    def context(self) -> Request[Context]:
        """The context for the model's next turn: verified facts only."""
        return Request("GET", f"{self._path}/context", reading.read_context, trace=self.trace)

    @request_method
    def summary(self) -> Request[Summary]:
        """The session in at most six lines, from the record."""
        return Request("GET", f"{self._path}/summary", reading.read_summary, trace=self.trace)

    @request_method
    def guard(
        self,
        message: str,
        *,
        claims: Sequence[Mapping[str, Any]] | None = None,
        language: str = "en",
        output_tags: Sequence[str] = (),
    ) -> Request[GuardResult]:
        """Check a message against the record: the answer has the sentences to replace, and the receipt.

        A message with one of `output_tags` that the session has not negotiated is refused.
        """
        return self._guard(message, claims, language, output_tags)

    @request_method
    def guarded(
        self,
        message: str,
        *,
        claims: Sequence[Mapping[str, Any]] | None = None,
        language: str = "en",
        receipt: ReceiptForm | None = "text",
        output_tags: Sequence[str] = (),
    ) -> Plan[str]:
        """Return the text for the user: the message as the guard releases it, followed by the receipt.

        The message may cite: `{{action:CALL_ID}}` becomes the line of that action, `{{CALL_ID.amount}}` a value.
        """
        found: GuardResult = yield self._guard(message, claims, language, output_tags)
        return found.sendable(message, form=receipt)

    @request_method
    def receipt(self, *, language: str = "en") -> Request[Receipt]:
        """The console's own lines on everything that this session changed."""
        return Request(
            "GET", f"{self._path}/guard", reading.receipt, params={"limit": 1, "language": language}, trace=self.trace
        )

    @request_method
    def end(self) -> Request[None]:
        """End the session at the console; its actions continue."""
        self.handshake = None
        return self._post("/close", lambda _: None, {})

    @property
    def seen(self) -> SeenCheckpoints:
        """The parts of the console's record that this connection has seen."""
        return self._connection.seen

    @property
    def _path(self) -> str:
        return f"/sessions/{self.session_id}"

    def _calls(self, calls: Sequence[Call], goal: str | None, *, start: StartAtOnce | None = None) -> Plan[CallResults]:
        """Propose calls; if the session is over, in its successor."""
        session_id, handshake = self.session_id, self.handshake
        results: CallResults = yield self._proposal(calls, goal, start)
        body = handshake.next_body(results[0], session_id=session_id) if results and handshake else None
        if handshake is None or body is None:
            return results
        if self.session_id == session_id:
            # Else another thread has opened it meanwhile.
            opened: OpenedSession = yield Request("POST", "/sessions", reading.read_session, body, trace=self.trace)
            self._follow(opened, body, handshake)
        again: CallResults = yield self._proposal(calls, goal, start)
        return again

    def _decide(self, call: Call, start: StartAtOnce, goal: str | None) -> Plan[Decision]:
        """Ask about a call; if the session is over, in its successor."""
        session_id, handshake = self.session_id, self.handshake
        found: Decision = yield self._decision(self._decide_body(call, start, goal), start)
        body = handshake.next_body(found, session_id=session_id) if handshake else None
        if handshake is None or body is None:
            return found
        if self.session_id == session_id:
            opened: OpenedSession = yield Request("POST", "/sessions", reading.read_session, body, trace=self.trace)
            self._follow(opened, body, handshake)
        again: Decision = yield self._decision(self._decide_body(call, start, goal), start)
        return again

    def _decide_body(self, call: Call, start: StartAtOnce, goal: str | None) -> dict[str, Any]:
        body = call.body(goal=goal, pin_hash=self.pin.hash)
        return {"session_id": self.session_id, "agent_id": self.agent_id, "call": body, "start": start.body()}

    def _decision(self, request: Mapping[str, Any], start: StartAtOnce) -> Request[Decision]:
        return Request(
            "POST",
            "/decide",
            partial(reading.read_decision, request),
            request,
            trace=self.trace.child(),
            headers_of_try=lambda: start.headers("/decide"),
        )

    def _follow(self, opened: OpenedSession, body: Mapping[str, Any], before: Handshake) -> None:
        self.session_id, self.contract, self.pin = opened.session_id, opened.contract, opened.pin
        self.handshake = Handshake(before.body, time.monotonic() + body["ttl_seconds"], before.renew)

    def _proposal(self, calls: Sequence[Call], goal: str | None, start: StartAtOnce | None) -> Request[CallResults]:
        path = f"{self._path}/calls"
        body: dict[str, Any] = {"calls": [call.body(goal=goal, pin_hash=self.pin.hash) for call in calls]}
        if start is None:
            return Request("POST", path, reading.read_call_results, body, trace=self.trace.child())
        body["start"] = start.body()
        return Request(
            "POST",
            path,
            reading.read_call_results,
            body,
            trace=self.trace.child(),
            headers_of_try=lambda: start.headers(path),
        )

    def _guard(
        self, message: str, claims: Sequence[Mapping[str, Any]] | None, language: str, output_tags: Sequence[str]
    ) -> Request[GuardResult]:
        stated: dict[str, Any] = {"claims": [dict(claim) for claim in claims]} if claims else {}
        if output_tags:
            stated["output_tags"] = list(output_tags)
        if language != "en":
            stated["language"] = language
        return self._post("/guard", reading.read_guard_result, {"message": message, **stated})

    def _post(self, rest: str, read: Any, body: Mapping[str, Any]) -> Request[Any]:
        return Request("POST", f"{self._path}{rest}", read, body, trace=self.trace)


def current_session() -> Session | None:
    """The session whose `with` block this is."""
    return _current.get()


class Session(SessionRequests):
    """A session with its pinned goal. In its `with` block gated tools are proposed in it; leaving the block ends it."""

    _connection: Connection

    def __init__(self, connection: Connection, goal: str, trace: Trace, opened: OpenedSession) -> None:
        super().__init__(goal, trace, opened)
        self._connection = connection
        self._entered: list[Token[Session | None]] = []

    def send(self, request: Request[T]) -> T:
        return self._connection.send(request)

    def carry_out(self, plan: Plan[T]) -> T:
        return self._connection.carry_out(plan)

    def stream(self, *, last_event_id: str = "", **options: float) -> Stream:
        """Stream the session's events from now on, or from a position in the stream."""
        return Stream(self._connection, f"{self._path}/stream", last_event_id=last_event_id, **options)

    def close(self) -> None:
        """End the session; its actions continue."""
        self.end()

    def __enter__(self) -> Session:
        self._entered.append(_current.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        _current.reset(self._entered.pop())
        self.close()


class AsyncSession(SessionRequests):
    """The same session for a program that awaits."""

    _connection: AsyncConnection

    def __init__(self, connection: AsyncConnection, goal: str, trace: Trace, opened: OpenedSession) -> None:
        super().__init__(goal, trace, opened)
        self._connection = connection

    async def send(self, request: Request[T]) -> T:
        return await self._connection.send(request)

    async def carry_out(self, plan: Plan[T]) -> T:
        return await self._connection.carry_out(plan)

    def stream(self, *, last_event_id: str = "", **options: float) -> AsyncStream:
        """Stream the session's events from now on, or from a position in the stream."""
        return AsyncStream(self._connection, f"{self._path}/stream", last_event_id=last_event_id, **options)

    async def close(self) -> None:
        """End the session; its actions continue."""
        await self.end()

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


class Agent(AgentRequests[Session]):
    """One registered agent, as its key lets it act."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        agent_id: str,
        http: httpx.Client | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.agent_id = agent_id
        self._connection = Connection(url=url, key=key, http=http, backoff=backoff)

    def send(self, request: Request[T]) -> T:
        return self._connection.send(request)

    def carry_out(self, plan: Plan[T]) -> T:
        return self._connection.carry_out(plan)

    def close(self) -> None:
        """Close the connections; sessions stay open at the console."""
        self._connection.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _session(self, goal: str, trace: Trace, opened: OpenedSession) -> Session:
        return Session(self._connection, goal, trace, opened)


class AsyncAgent(AgentRequests[AsyncSession]):
    """The same agent for a program that awaits."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        agent_id: str,
        http: httpx.AsyncClient | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.agent_id = agent_id
        self._connection = AsyncConnection(url=url, key=key, http=http, backoff=backoff)

    async def send(self, request: Request[T]) -> T:
        return await self._connection.send(request)

    async def carry_out(self, plan: Plan[T]) -> T:
        return await self._connection.carry_out(plan)

    async def close(self) -> None:
        """Close the connections; sessions stay open at the console."""
        await self._connection.close()

    async def __aenter__(self) -> AsyncAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def _session(self, goal: str, trace: Trace, opened: OpenedSession) -> AsyncSession:
        return AsyncSession(self._connection, goal, trace, opened)


def _follow_call(result: CallResult, for_s: float, for_people: bool) -> Plan[Outcome]:
    # A refused call and a dry run leave no action to wait for.
    if result.action_id is None or not result.accepted:
        return Outcome(settled=True, action_id=result.action_id, state=result.state, call=result)
    return (yield from _waiting(result.action_id, for_s, for_people, result))


def _waiting(action_id: str, for_s: float, for_people: bool, call: CallResult | None = None) -> Plan[Outcome]:
    until, pause = time.monotonic() + for_s, 0.3
    path = f"/actions/{action_id}"
    while True:
        left = max(0.0, until - time.monotonic())
        patience = min(int(left), _PATIENCE_S) if for_people else 0
        params = {"wait_s": patience} if patience else None
        stands: Status = yield Request("GET", path, reading.read_status, params=params, patience_s=patience)
        left = until - time.monotonic()
        undecided = stands.approval is not None and stands.approval.waiting
        if stands.state in _ENDS_WAITING or left <= 0.0 or (undecided and not for_people):
            break
        yield Pause(min(pause, left))
        pause = min(pause * 1.5, 5.0)
    report: Report = yield Request("GET", f"{path}/report", reading.read_report)
    if report.state != stands.state:
        # It moved in between. A settled report beside an approval that still waits would hide the decision.
        stands = yield Request("GET", path, reading.read_status)
    return Outcome(
        settled=report.settled,
        action_id=action_id,
        state=report.state,
        call=call,
        report=report,
        approval=stands.approval,
    )


def _as_it_is(answer: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = answer
    return found
