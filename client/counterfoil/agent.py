"""The agent's side: open a session, make calls, ask what became of them.

An agent proposes; it never executes and never decides. A refused call is an answer (`accepted` is
false and `code` says why), not an exception. What may be told to a user is `Agent.report(...)` and
nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from counterfoil.connection import Connection
from counterfoil.trace import Trace, new_trace

_SEND_AGAIN_FOR_S = 30.0

OnFailure = Literal["stop", "compensate"]
"""What a failed step does to its run: nothing but end it, or take what was done before it back."""


@dataclass(frozen=True)
class Call:
    """One tool call; `arguments` is an object, or the text of one as a model wrote it."""

    tool: str
    arguments: Mapping[str, Any] | str
    call_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    target_resource: str | None = None
    intended_outcome: Mapping[str, Any] | None = None
    depends_on: Sequence[str] = ()
    acknowledges: Sequence[str] = ()
    based_on: Sequence[Mapping[str, Any]] = ()
    dry_run: bool = False
    supersedes: str | None = None

    def body(self, *, goal: str | None, pin_hash: str | None) -> dict[str, Any]:
        """The call as the API takes it; it names the goal in words or by the pin's hash."""
        optional = {
            "goal": goal,
            "pin_hash": None if goal else pin_hash,
            "target_resource": self.target_resource,
            "intended_outcome": self.intended_outcome,
            "depends_on": list(self.depends_on),
            "acknowledges": list(self.acknowledges),
            "based_on": list(self.based_on),
            "dry_run": self.dry_run,
            "supersedes": self.supersedes,
        }
        chosen = {name: value for name, value in optional.items() if value}
        return {"call_id": self.call_id, "tool": self.tool, "arguments": self.arguments, **chosen}


@dataclass(frozen=True)
class CallResult:
    """What the gate answered to one call."""

    call_id: str
    accepted: bool
    action_id: str | None
    state: str | None
    code: str | None
    message: str | None
    hint: str | None
    suggestion: Any
    approval: Mapping[str, Any]
    user_status: Mapping[str, Any]
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """The only text about an action that may be told to a user."""

    code: str
    text: str
    completed: bool
    trust_level: int | None


class Agent:
    """One registered agent, as its key lets it act."""

    def __init__(self, *, url: str, key: str, agent_id: str, http: httpx.Client | None = None) -> None:
        self.agent_id = agent_id
        self._connection = Connection(url=url, key=key, http=http)

    def close(self) -> None:
        self._connection.close()

    def open_session(
        self,
        *,
        goal: str,
        ttl_seconds: int,
        tools: Sequence[str] | None = None,
        run_id: str | None = None,
        on_failure: OnFailure | None = None,
        trace: Trace | None = None,
        **options: Any,
    ) -> Session:
        """Pin a goal and learn which tools this session may call; `options` are the other fields of
        the handshake.

        Sessions with the same `run_id` are one run; without it the session is a run of its own.
        With `on_failure="compensate"` a step that fails takes the whole run back.
        """
        trace = trace or new_trace()
        body = {"agent_id": self.agent_id, "goal": goal, "ttl_seconds": ttl_seconds, **options}
        if run_id is not None:
            body["workflow_run_id"] = run_id
        if on_failure is not None:
            body["on_failure"] = on_failure
        if tools is not None:
            body["tools"] = list(tools)
        answer = self._connection.write("/sessions", body, give_up_after_s=_SEND_AGAIN_FOR_S, trace=trace)
        return Session(connection=self._connection, goal=goal, trace=trace, answer=answer)

    def status(self, action_id: str) -> dict[str, Any]:
        """The state of one of this agent's actions."""
        answer: dict[str, Any] = self._connection.get(f"/actions/{action_id}")
        return answer

    def report(self, action_id: str) -> Report:
        """What may be said about an action now."""
        answer = self._connection.get(f"/actions/{action_id}/report")
        return Report(
            code=answer["code"],
            text=answer["text"],
            completed=answer["completed"],
            trust_level=answer.get("trust_level"),
        )

    def run(self, run_id: str) -> dict[str, Any]:
        """One of this agent's runs: its steps, what was reversed, and whether it is being taken back."""
        answer: dict[str, Any] = self._connection.get(f"/runs/{run_id}")
        return answer

    def cancel(self, action_id: str) -> dict[str, Any]:
        """Withdraw an action that has not started."""
        path = f"/actions/{action_id}/cancel"
        answer: dict[str, Any] = self._connection.write(path, {}, give_up_after_s=_SEND_AGAIN_FOR_S)
        return answer


class Session:
    """A session with its pinned goal; each call of it restates the goal or names the pin."""

    def __init__(self, *, connection: Connection, goal: str, trace: Trace, answer: Mapping[str, Any]) -> None:
        self.session_id: str = answer["session_id"]
        self.run_id: str = answer.get("workflow_run_id") or self.session_id
        self.contract: Mapping[str, Any] = answer.get("contract") or {}
        self.pin: Mapping[str, Any] = answer.get("pin") or {}
        self.goal = goal
        self.trace = trace
        self._connection = connection

    def call(self, call: Call, *, goal: str | None = None) -> CallResult:
        """Propose one call; `goal` restates the goal in words, else the pin's hash is sent."""
        return self.calls([call], goal=goal)[0]

    def calls(self, calls: Sequence[Call], *, goal: str | None = None) -> list[CallResult]:
        """Propose several calls at once; a refused one does not disturb the others."""
        bodies = [call.body(goal=goal, pin_hash=self.pin.get("hash")) for call in calls]
        answer = self._connection.write(
            f"{self._path}/calls",
            {"calls": bodies},
            give_up_after_s=_SEND_AGAIN_FOR_S,
            trace=self.trace.child(),
        )
        return [_result(item) for item in answer["results"]]

    def matches(self, goal: str) -> bool:
        """Whether `goal` still says what was pinned."""
        path = f"{self._path}/ask-check"
        answer = self._connection.write(path, {"goal": goal}, give_up_after_s=_SEND_AGAIN_FOR_S, trace=self.trace)
        return bool(answer["match"])

    def state(self) -> dict[str, Any]:
        """The session with its counts and flags."""
        answer: dict[str, Any] = self._connection.get(self._path)
        return answer

    def close(self) -> None:
        """End the session; its actions go on."""
        self._connection.write(f"{self._path}/close", {}, give_up_after_s=_SEND_AGAIN_FOR_S, trace=self.trace)

    @property
    def _path(self) -> str:
        return f"/sessions/{self.session_id}"


def _result(item: Mapping[str, Any]) -> CallResult:
    error = (item.get("result") or {}).get("error") or {}
    return CallResult(
        call_id=item["call_id"],
        accepted=bool(item["accepted"]),
        action_id=item.get("action_id"),
        state=item.get("state"),
        code=error.get("code"),
        message=error.get("message"),
        hint=item.get("hint"),
        suggestion=item.get("suggestion"),
        approval=item.get("approval") or {},
        user_status=item.get("user_status") or {},
        raw=item,
    )
