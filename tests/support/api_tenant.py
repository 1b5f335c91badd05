"""A tenant at work: its callers and every step of an order, over HTTP, on a folder of real documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.utils import timezone

from counterfoil.proof import ExecutorKey
from ledger.db import execute, tenancy
from reviews.verification.operations import verification
from tests.support.callers import Api, found, key_for, new_client, person_for

CONTRACTS = Path(__file__).parents[2] / "client" / "example" / "contracts"
PASSWORD = "correct horse battery"
TOOLS = ("delete_document", "write_document")
GOAL = "Remove the returns policy of 2019; nobody may rely on it."
DELETE = {"path": "policies/returns.md", "reason": "It is out of date."}


class Clock:
    """The product's clock, which a test can put forward; the database keeps its own time."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)
        self.stopped: datetime | None = None

    def now(self) -> datetime:
        return (self.stopped or datetime.now(UTC)) + self.ahead

    def stop(self) -> None:
        self.stopped = datetime.now(UTC)

    def forward(self, **amount: float) -> None:
        self.ahead += timedelta(**amount)


def new_key() -> ExecutorKey:
    return ExecutorKey(Ed25519PrivateKey.generate())


@dataclass
class Workshop:
    """One tenant's agent, executor and people."""

    slug: str
    tenant: UUID
    agent: Api
    operator_key: Api
    executor: Api
    auditor: Api
    reviewer: Api
    operator: Api
    key: ExecutorKey = field(default_factory=new_key)
    root: Path | None = None

    def with_clients_of_its_own(self) -> Workshop:
        """The same tenant and callers, to be used by a test that leaves these as they are."""
        callers = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: one.again() for name, one in callers.items() if isinstance(one, Api)})

    # Before

    def set_up(self, root: Path | None = None, *, executor_id: str = "runner") -> Workshop:
        """What an operator registers, and the executor its key."""
        self.root = root
        settings = {"root": str(root)} if root else {}
        self._made(
            self.operator_key.post("/systems", {"name": "documents", "pattern": "filesystems", "settings": settings})
        )
        for tool in TOOLS:
            self._made(self.operator_key.post("/contracts", contract(tool)))
        self._made(self.operator_key.post("/agents", {"agent_id": "librarian", "version": "1", "tools": list(TOOLS)}))
        self._made(self.register(executor_id=executor_id))
        return self

    def register(self, *, executor_id: str = "runner", key: ExecutorKey | None = None, by: Api | None = None) -> Any:
        body = {"executor_id": executor_id, "public_jwk": (key or self.key).public_jwk, "tools": list(TOOLS)}
        return (by or self.executor).post("/executors", body)

    def session(self, goal: str = GOAL, **options: Any) -> dict[str, Any]:
        body = {"agent_id": "librarian", "goal": goal, "ttl_seconds": 86_400} | options
        return self._made(self.agent.post("/sessions", body))

    def call(self, tool: str = "delete_document", arguments: Any = None, **changes: Any) -> dict[str, Any]:
        """The answer to one call, in a session of its own."""
        session = self.session()
        body = {
            "call_id": uuid4().hex,
            "tool": tool,
            "arguments": DELETE if arguments is None else arguments,
            "pin_hash": session["pin"]["hash"],
        }
        answer = self.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body | changes]})
        assert answer.status_code == 200, answer.content
        result: dict[str, Any] = answer.json()["results"][0]
        return result

    def propose(self, tool: str = "delete_document", **arguments: Any) -> str:
        """An action that the gate has validated."""
        given = DELETE if tool == "delete_document" else document("notes/today.md", "Quiet.")
        result = self.call(tool, given | arguments)
        assert result["state"] == "VALIDATED", result
        return str(result["action_id"])

    def approval_of(self, action_id: str) -> dict[str, Any]:
        inbox = self.reviewer.get("/approvals").json()["items"]
        ours = next(each for each in inbox if each["action_id"] == action_id)
        shown: dict[str, Any] = self.reviewer.get(f"/approvals/{ours['approval_id']}").json()
        return shown

    def vote(self, approval: dict[str, Any], by: Api | None = None, **changes: Any) -> Any:
        body = {
            "verdict": "approve",
            "payload_hash": approval["payload_hash"],
            "rendering_digest": approval["rendering_digest"],
            "without_reading": approval["target_unread"],
            "reason": "I have read it.",
            "password": PASSWORD,
        }
        sent = {name: value for name, value in (body | changes).items() if value is not None}
        return (by or self.reviewer).post(f"/approvals/{approval['approval_id']}/votes", sent)

    def approved(self, **arguments: Any) -> str:
        """An action that a reviewer has approved."""
        action_id = self.propose(**arguments)
        self._made(self.vote(self.approval_of(action_id)))
        return action_id

    # Execution

    def claim(self, *, by: Api | None = None, executor_id: str = "runner", **options: Any) -> list[dict[str, Any]]:
        answer = (by or self.executor).post("/executions/claim", {"executor_id": executor_id, "limit": 10} | options)
        assert answer.status_code == 200, answer.content
        orders: list[dict[str, Any]] = answer.json()["orders"]
        return orders

    def claimed(self, **arguments: Any) -> dict[str, Any]:
        """The order of an approved action."""
        action_id = self.approved(**arguments)
        return next(order for order in self.claim() if order["action_id"] == action_id)

    def run_out(self, *, seconds: int = 121) -> None:
        """So much time passes for every grant: it is judged by the clock of the database, which no test can move."""
        with tenancy(self.tenant):
            execute(
                "UPDATE approvals_grant SET minted_at = minted_at - make_interval(secs => $2),"
                " expires_at = expires_at - make_interval(secs => $2) WHERE tenant_id = $1",
                *(self.tenant, seconds),
            )

    def proof(self, action_id: str, grant: str, *, key: ExecutorKey | None = None, path: str = "") -> str:
        url = f"http://testserver/api/v1/actions/{action_id}/executions{path}"
        at = timezone.now().timestamp()
        return (key or self.key).proof(method="POST", url=url, token=grant, at=at)

    def start(self, order: dict[str, Any], *, by: Api | None = None, proof: str | None = None, **changes: Any) -> Any:
        body = {
            "grant": order["grant"],
            "executor_id": "runner",
            "wrapper_version": "1",
            "timeout_s": 20,
        } | changes
        told = proof if proof is not None else self.proof(order["action_id"], body["grant"])
        return (by or self.executor).post(f"/actions/{order['action_id']}/executions", body, DPoP=told)

    def started(self, **arguments: Any) -> dict[str, Any]:
        """What the start of an approved action hands out."""
        return self._made(self.start(self.claimed(**arguments)))

    def heartbeat(self, started: dict[str, Any], by: Api | None = None) -> Any:
        path = f"/actions/{started['action_id']}/executions/{started['attempt']}/heartbeat"
        return (by or self.executor).post(path, {"executor_id": "runner"})

    def observe(self, started: dict[str, Any], by: Api | None = None, **body: Any) -> Any:
        sent = body or {"result": result()}
        path = f"/actions/{started['action_id']}/executions/{started['attempt']}/observations"
        return (by or self.executor).post(path, sent)

    def read_back(self, action_id: str, clock: Clock) -> str | None:
        """One verification run, as the worker makes it."""
        return verification.verify_action(tenant_id=self.tenant, action_id=UUID(action_id), clock=clock.now)

    # After

    def state(self, action_id: str) -> str:
        return str(self.operator_key.get(f"/actions/{action_id}").json()["state"])

    def history(self, action_id: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.operator_key.get(f"/actions/{action_id}/history").json()["items"]
        return items

    def path(self, action_id: str) -> list[str]:
        """The states that an action went through, each once."""
        states = [event["state"] for event in self.history(action_id)]
        return [state for number, state in enumerate(states) if number == 0 or states[number - 1] != state]

    def report(self, action_id: str, by: Api | None = None) -> dict[str, Any]:
        told: dict[str, Any] = (by or self.agent).get(f"/actions/{action_id}/report").json()
        return told

    def case_of(self, action_id: str) -> dict[str, Any] | None:
        cases = self.operator.get("/reviews").json()["items"]
        ours = [each for each in cases if each["action_id"] == action_id]
        return ours[0] if ours else None

    def held(self, clock: Clock, **arguments: Any) -> dict[str, Any]:
        """The case of a deletion that was reported done and did not happen."""
        started = self.started(**arguments)
        self.observe(started)
        clock.forward(seconds=90)
        self.read_back(started["action_id"], clock)
        case = self.case_of(started["action_id"])
        assert case is not None, self.history(started["action_id"])
        return case

    def person(self, *roles: str, name: str = "") -> Api:
        return person_for(self.tenant, *roles, name=name)

    def _made(self, answer: Any) -> dict[str, Any]:
        assert answer.status_code == 201, answer.content
        made: dict[str, Any] = answer.json()
        return made


def workshop(slug: str) -> Workshop:
    """A founded tenant with one caller of each kind and nothing registered."""
    tenant = found(slug)
    keys = {kind: key_for(tenant, kind) for kind in ("agent", "oper", "exec", "audit")}
    return Workshop(
        slug=slug,
        tenant=tenant,
        agent=keys["agent"],
        operator_key=keys["oper"],
        executor=keys["exec"],
        auditor=keys["audit"],
        reviewer=person_for(tenant, "reviewer"),
        operator=person_for(tenant, "operator"),
    )


def contract(tool: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CONTRACTS / f"{tool}.json").read_text())
    return document


def document(path: str, text: str) -> dict[str, str]:
    """The arguments of write_document."""
    return {"path": path, "text": text, "sha256": sha256(text.encode()).hexdigest()}


def result(**changes: Any) -> dict[str, Any]:
    """What a tool answers when it says that all went well."""
    return {
        "tool": "delete_document",
        "status": "success",
        "evidence": {"deleted": True},
        "error": None,
        "timestamp": timezone.now().isoformat(),
        "side_effects": [],
    } | changes


def anonymous() -> Api:
    return Api(new_client(), {})
