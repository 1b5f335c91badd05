"""A tenant whose refunds are made at a processor, and what it claims of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reviews import tasks
from tests.support.api_tenant import Clock, Workshop, result
from tests.support.outside.processor import Processor
from tests.web.claims.refund_situations import CLAIM


@dataclass
class Desk:
    """A tenant, the processor that it reads, and the clock of both."""

    shop: Workshop
    processor: Processor
    clock: Clock

    def verify(self, by: Any = None, **changes: Any) -> Any:
        """The answer to a claim of a refund by operation `op-1`, made at once and not yet read."""
        body = {
            "system": "payments",
            "effect": "refund",
            "operation": "op-1",
            "target": "charge/ch_1",
            "expected": CLAIM,
            "said_by": "agent support",
            "statement": "I refunded 40.00 EUR.",
            "wait_s": 0,
        } | changes
        return (by or self.shop.operator_key).post("/verify", {k: v for k, v in body.items() if v is not None})

    def claim(self, **changes: Any) -> str:
        answer = self.verify(**changes)
        assert answer.status_code == 200, answer.content
        return str(answer.json()["claim_id"])

    def read(self, claim_id: str, *, by: Any = None, **later: float) -> dict[str, Any]:
        """How a claim stands after the workers have made what is due, now or later."""
        self.clock.forward(**later)
        tasks.verify_due()
        answer = (by or self.shop.operator_key).get(f"/claims/{claim_id}")
        assert answer.status_code == 200, answer.content
        told: dict[str, Any] = answer.json()
        return told

    # The same through the gate

    def open_gate(self, **verification: Any) -> None:
        """Register the tool that refunds a charge, read back by this lookup, with its agent and its executor."""
        shop = self.shop
        agent = {"agent_id": "cashier", "version": "1", "tools": ["refund_charge"]}
        executor = {"executor_id": "runner", "public_jwk": shop.key.public_jwk, "tools": ["refund_charge"]}
        for caller, path, body in (
            (shop.operator_key, "/contracts", refund_contract(**verification)),
            (shop.operator_key, "/agents", agent),
            (shop.executor, "/executors", executor),
        ):
            answer = caller.post(path, body)
            assert answer.status_code == 201, answer.content

    def start(self, **claimed: Any) -> dict[str, Any]:
        """A refund that a reviewer has approved and the executor has started."""
        shop = self.shop
        body = {"agent_id": "cashier", "goal": "Refund what is owed.", "ttl_seconds": 3600}
        session = shop.agent.post("/sessions", body).json()
        call = {"call_id": "c1", "tool": "refund_charge", "arguments": {"charge": "ch_1"} | CLAIM | claimed}
        calls = {"calls": [call | {"pin_hash": session["pin"]["hash"]}]}
        [answer] = shop.agent.post(f"/sessions/{session['session_id']}/calls", calls).json()["results"]
        assert answer["state"] == "VALIDATED", answer
        voted = shop.vote(shop.approval_of(answer["action_id"]))
        assert voted.status_code == 201, voted.content
        [order] = shop.claim()
        started = shop.start(order)
        assert started.status_code == 201, started.content
        told: dict[str, Any] = started.json()
        return told

    def observe(self, started: dict[str, Any], **evidence: Any) -> None:
        """What the executor reports: that all went well."""
        answer = self.shop.observe(started, result=result(tool="refund_charge", evidence=evidence or None))
        assert answer.status_code == 202, answer.content

    def action(self, action_id: str, **later: float) -> dict[str, Any]:
        """How an action stands after the workers have made what is due, now or later."""
        self.clock.forward(**later)
        tasks.verify_due()
        told: dict[str, Any] = self.shop.operator_key.get(f"/actions/{action_id}").json()
        return told


def refund_contract(*, lookup: dict[str, Any], **verification: Any) -> dict[str, Any]:
    """A tool that refunds a charge."""
    return {
        "name": "refund_charge",
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Refund a charge. Use when: money is owed. NOT for: chargebacks.",
        "arguments_schema": {
            "type": "object",
            "required": ["charge", "amount", "currency", "customer"],
            "additionalProperties": False,
            "properties": {
                "charge": {"type": "string", "pattern": "^ch_[0-9]+$"},
                "amount": {"type": "integer", "minimum": 1},
                "currency": {"enum": ["EUR", "USD"]},
                "customer": {"type": "string", "pattern": "^cus_[0-9]+$"},
            },
        },
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "effect_domain": "FINANCIAL",
        "target_resource": "charge/{charge}",
        "operation_kind": "refund",
        "required_effects": ["refund"],
        "verification": {
            "pattern": "payments",
            "system": "payments",
            "lookup": {"effects": {"refund": {"kind": "refund", "target_field": "charge"} | lookup}},
            "predicates": ["sa.amount == sr.amount", "sa.currency == sr.currency", "sa.customer == sr.customer"],
            "settle_s": 5,
            **verification,
        },
        "claims": {"done": ["refunded"], "object": ["refund"]},
    }
