"""The scripted agent's preparations in the shop, and how it sends one piece of work."""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from counterfoil.agent import Agent, Call, Session
from counterfoil.answers import CallResult
from counterfoil.canonical import digest
from example import faults
from example.faults import Fault
from example.shop import Shop

SESSION_S = 3600
_CUSTOMERS = ("ada@example.com", "bela@example.com", "chi@example.com", "dov@example.com")
_ARTICLES = ("LAMP-204", "CHAIR-17", "DESK-3", "SHELF-88")
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True)
class Order:
    """An order as it was read: the version is what an agent may rely on."""

    order_id: str
    amount: int
    currency: str
    version: int
    read_at: str


@dataclass(frozen=True)
class Sent:
    """One piece of work as sent, and the gate's answer."""

    case: str
    goal: str
    session_id: str
    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    target: str
    accepted: bool
    code: str | None
    action_id: str | None
    state: str | None
    approval_required: bool
    steps: tuple[str, ...] = ()  # the actions of the same run, this one last

    def public(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Stage:
    """The shop and the agent together; `approved` sends refunds through the tool that people approve.

    `sessions` are those that it opened, until somebody takes them out.
    """

    shop: Shop
    agent: Agent
    approved: bool = False
    sessions: dict[str, Session] = field(default_factory=dict)

    @property
    def refund_tool(self) -> str:
        """The refund tool of this stage."""
        return "issue_refund" if self.approved else "refund_small_amount"

    def order(self, *, fault: Fault | None = None, amount: int = 0, currency: str = "EUR") -> Order:
        """Create a paid order with its planned fault; a usual amount is the default."""
        order_id = "EX-" + "".join(secrets.choice(_LETTERS) for _ in range(8))
        low, high = (5100, 25000) if self.approved else (1200, 4900)
        amount, customer = amount or random.randrange(low, high, 50), random.choice(_CUSTOMERS)
        with self.shop.connect() as connection:
            connection.execute(
                "INSERT INTO shop.orders (id, tenant, customer, amount, currency, updated_by)"
                " VALUES (%s, 'north', %s, %s, %s, 'webshop')",
                [order_id, customer, amount, currency],
            )
            if fault:
                faults.ask_for(connection, order_id, fault)
        return Order(order_id, amount, currency, 1, datetime.now(UTC).isoformat())

    def document(self, *, fault: Fault | None = None) -> str:
        """Create a document in the folder with its planned fault; return its path."""
        path = f"drafts/note-{secrets.token_hex(4)}.md"
        file = self.shop.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Draft\n\nMade for the example at {datetime.now(UTC).isoformat()}.\n")
        if fault:
            with self.shop.connect() as connection:
                faults.ask_for(connection, path, fault)
        return path

    def fail_payload(self, payload: Mapping[str, Any]) -> None:
        """Let the executor present another payload than this one when it starts."""
        with self.shop.connect() as connection:
            faults.ask_for(connection, digest(dict(payload)), Fault.OTHER_PAYLOAD)

    def send(
        self,
        *,
        case: str,
        goal: str,
        tool: str,
        arguments: Mapping[str, Any],
        tools: Sequence[str] | None = None,
        restated: str | None = None,
        outcome: Sequence[str] = (),
        target: str = "",
    ) -> Sent:
        """Open a session for the goal and make one call; `restated` is the goal stated in the call."""
        session = self.agent.open_session(goal=goal, ttl_seconds=SESSION_S, tools=tools)
        self.sessions[session.session_id] = session
        intended = {"target_resource": target, "expected_predicates": list(outcome)}
        call = Call(
            tool=tool,
            arguments=arguments,
            target_resource=target or None,
            intended_outcome=intended if outcome else None,
        )
        return _sent(case, session, call, session.call(call, goal=restated or goal))

    def send_run(self, *, case: str, goal: str, calls: Sequence[Call]) -> Sent:
        """Make several calls at once in one run that is rolled back when one of them fails; the last one represents the
        whole.
        """
        session = self.agent.open_session(goal=goal, ttl_seconds=SESSION_S, on_failure="compensate")
        results = session.calls(calls, goal=goal)
        steps = tuple(each.action_id for each in results if each.action_id)
        return replace(_sent(case, session, calls[-1], results[-1]), steps=steps)


def _sent(case: str, session: Session, call: Call, result: CallResult) -> Sent:
    assert not isinstance(call.arguments, str)
    return Sent(
        case=case,
        goal=session.goal,
        session_id=session.session_id,
        call_id=result.call_id,
        tool=call.tool,
        arguments=call.arguments,
        target=call.target_resource or "",
        accepted=result.accepted,
        code=result.code,
        action_id=result.action_id,
        state=result.state,
        approval_required=bool(result.approval.get("required")),
    )


def refund_of(order: Order, *, amount: int | None = None) -> dict[str, Any]:
    """The arguments of a refund of the whole order, or of `amount`."""
    return {
        "order_id": order.order_id,
        "amount": amount or order.amount,
        "currency": order.currency,
        "reason": random.choice(("damaged", "late", "returned", "goodwill")),
    }


def reservation_of(order: Order) -> dict[str, Any]:
    """The arguments that keep a few pieces of some article back for an order."""
    return {"order_id": order.order_id, "sku": random.choice(_ARTICLES), "quantity": random.randint(1, 4)}


def document_of(path: str, text: str) -> dict[str, Any]:
    """The arguments that write `text` to `path`."""
    return {"path": path, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def money(amount: int, currency: str) -> str:
    """An amount in minor units as people write it."""
    return f"{amount // 100}.{amount % 100:02d} {currency}"
