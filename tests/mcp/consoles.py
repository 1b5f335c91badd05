"""A console that accepts what it is sent, hands each order out once, and says what a test wants to hear."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from counterfoil.canonical import digest
from counterfoil.proof import load_key
from tests.client.consoles import Answer, Seen, StandIn, claims_of, granted, refusal, stand_in, started


@dataclass
class Action:
    tool: str
    payload: dict[str, Any]
    held: bool = False
    state: str = "VALIDATED"
    starts: int = 0
    withdrawn: bool = False
    seen: list[dict[str, Any]] = field(default_factory=list)


class Console:
    """What the stand-in knows; `held` tools wait until `approve`, `refuse` makes the next call a refusal."""

    def __init__(self, server: StandIn, key_file: Any) -> None:
        self.server = server
        self.url = server.url
        self.key_file = key_file
        self.tools: list[dict[str, Any]] = []
        self.actions: dict[str, Action] = {}
        self.held: set[str] = set()
        self.secret: set[str] = set()
        self.refuse: dict[str, Any] | None = None
        self.calls: list[dict[str, Any]] = []
        self.surfaces: list[list[dict[str, str]]] = []
        self.verdict = "COMPLETED"
        self.starts_at_once = True
        self.ends_after_report = False
        self.lock = threading.Lock()
        server.plan("", self.answer)

    @property
    def one(self) -> Action:
        (only,) = self.actions.values()
        return only

    def approve(self) -> None:
        for action in self.actions.values():
            action.held = False

    def answer(self, seen: Seen) -> Answer:
        with self.lock:
            path = seen.path.partition("?")[0].removeprefix("/api/v1")
            parts = path.strip("/").split("/")
            if parts[0] == "actions":
                return self.of_action(seen, self.actions.get(parts[1]), parts[1], parts[2:])
            if path == "/executions/claim":
                return Answer(200, {"orders": self.claimed(seen.body)})
            if parts[-1] == "calls":
                results = [self.judged(call) for call in seen.body["calls"]]
                if self.starts_at_once and "start" in seen.body:
                    results[0] |= {"started": self.started_at_once(results[0], seen.body["start"])}
                return Answer(200, {"results": results, "nudge": None})
            if parts[-1] == "surface":
                self.surfaces.append(seen.body["withheld"])
            if parts[-1] == "guard":
                return Answer(200, {"items": [], "next": None, "receipt": self.receipt()})
            if path == "/sessions":
                return Answer(201, self.session())
            return Answer(200, {})

    def receipt(self) -> dict[str, Any]:
        lines = [
            {"action_id": action_id, "tool": action.tool, "target": "note/1", "outcome": self.verdict, "code": ""}
            | {"text": f"{self.verdict}: {action.tool}."}
            for action_id, action in self.actions.items()
        ]
        return {"lines": lines, "open": [], "text": "\n".join(line["text"] for line in lines)}

    def session(self) -> dict[str, Any]:
        names = [tool["name"] for tool in self.tools]
        pin = {"hash": "h" * 64, "expires_at": "2999-01-01T00:00:00Z"}
        return {"session_id": uuid4().hex, "contract": {"sub_tools_disclosed": names, "tools": self.tools}, "pin": pin}

    def judged(self, call: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(call)
        if self.refuse is not None:
            error = {"code": self.refuse["code"], "message": self.refuse["message"]}
            return {"call_id": call["call_id"], "accepted": False, "result": {"error": error}, **self.refuse}
        held = call["tool"] in self.held
        approval = {"required": held, "approval_id": "app-1" if held else None, "expires_at": None}
        answer = {"call_id": call["call_id"], "accepted": True, "approval": approval}
        if call.get("dry_run"):
            return answer | {"action_id": None, "state": None}
        action_id = str(uuid4())
        self.actions[action_id] = Action(call["tool"], dict(call["arguments"]), held)
        return answer | {"action_id": action_id, "state": "VALIDATED"}

    def started_at_once(self, result: dict[str, Any], start: dict[str, Any]) -> dict[str, Any] | None:
        orders = self.claimed({"actions": [result.get("action_id")], "limit": 1} | start)
        if not orders:
            return None
        action = self.actions[result["action_id"]]
        action.starts, action.state = 1, "EXECUTING"
        return orders[0] | started(payload=action.payload, payload_hash=digest(action.payload)).body

    def claimed(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        ready = [
            (action_id, action)
            for action_id, action in self.actions.items()
            if action_id in body["actions"] and not action.held and action.state == "VALIDATED"
        ]
        key = load_key(self.key_file)
        orders = []
        for action_id, action in ready[: body["limit"]]:
            claims = claims_of(
                issuer=self.url,
                executor_id=body["executor_id"],
                thumbprint=key.thumbprint,
                payload=action.payload,
                sub=action_id,
                jti=str(uuid4()),
                tool={"name": action.tool, "version": "1.0.0", "contract": "22" * 32},
            )
            orders.append(
                {
                    "action_id": action_id,
                    "tool": action.tool,
                    "version": "1.0.0",
                    "grant": granted(claims),
                    "grant_expires_at": "2999-01-01T00:00:00Z",
                }
            )
        return orders

    def of_action(self, seen: Seen, action: Action | None, action_id: str, rest: list[str]) -> Answer:
        if action is None:
            return refusal(404, "NOT_FOUND")
        if action_id in self.secret:
            return refusal(403, "NOT_ALLOWED")
        if rest == ["executions"]:
            if action.starts:
                return refusal(409, "GRANT_CONSUMED")
            action.starts, action.state = 1, "EXECUTING"
            return started(payload=action.payload, payload_hash=digest(action.payload))
        if rest[-1:] == ["observations"]:
            action.seen.append(seen.body)
            result = seen.body["result"]
            unsent = (result["error"] or {}).get("phase") == "before_send"
            action.state = "FAILED" if unsent else "UNKNOWN" if result["status"] == "timeout" else "RECONCILED_SUCCESS"
            told = {"report": self.report(action), "approval": None} if "report=true" in seen.path else {}
            return Answer(202, {"state": action.state} | told)
        if rest == ["cancel"]:
            if action.starts:
                return refusal(409, "ALREADY_STARTED")
            action.state, action.withdrawn = "FAILED", True
        if rest == ["report"]:
            report = self.report(action)
            if self.ends_after_report:
                action.state = "RECONCILED_SUCCESS"
            return Answer(200, report)
        return Answer(200, {"action_id": action_id, "state": action.state} | self.status(action))

    def status(self, action: Action) -> dict[str, Any]:
        times = {"proposed_at": "2026-07-28T10:00:00.000Z", "changed_at": "2026-07-28T10:00:01.000Z"}
        outcome = {"outcome": "CANCELLED" if action.withdrawn else "OPEN"}
        if not action.held:
            return times | outcome
        waits = {"approval_id": "app-1", "decision": "WAITING", "waiting": True, "decide_by": "2026-07-29T10:00:00Z"}
        return times | outcome | {"approval": waits}

    def report(self, action: Action) -> dict[str, Any]:
        code = {"RECONCILED_SUCCESS": self.verdict, "FAILED": "NOT_EXECUTED"}
        code |= dict.fromkeys(("EXECUTING", "UNKNOWN"), "ATTEMPTED_RESULT_UNKNOWN")
        said = code.get(action.state, "NOT_EXECUTED")
        told = {"code": said, "text": f"It is {said}.", "completed": said == "COMPLETED", "trust_level": 3}
        return {"state": action.state} | told


@contextmanager
def console(key_file: Any) -> Iterator[Console]:
    with stand_in() as server:
        yield Console(server, key_file)
